"""Several requests in one message, and the replies to them."""

from __future__ import annotations

from dataclasses import dataclass

from fedwad.federation.failures import Failure
from fedwad.federation.message import Reply, Request

__all__ = ["MAX_BUNDLE", "Bundle", "BundleReply"]

#: Largest number of requests in one bundle.
MAX_BUNDLE = 256


@dataclass(frozen=True, eq=False)
class Bundle:
    """Several requests in one message. Each is answered or refused, and recorded, by itself."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, eq=False)
class BundleReply:
    """One reply or failure per request of a Bundle, in the order of the requests."""

    replies: tuple[Reply | Failure, ...]
