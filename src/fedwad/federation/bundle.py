"""Questions as a client meets them: one or a bundle, of a known kind, cleaned of everything that is
not plain."""

from __future__ import annotations

from dataclasses import dataclass

from fedwad.errors import FederationError, FedwadError, InputError
from fedwad.federation.message import Request
from fedwad.federation.requests import KINDS

__all__ = ["Bundle", "kind_of", "validate"]


@dataclass(frozen=True, eq=False)
class Bundle:
    """Several requests in one message; each is answered, or refused, and recorded by itself."""

    requests: tuple[Request, ...]


def kind_of(request: object) -> str:
    """The kind of a request; FederationError for anything that is none."""
    kind = KINDS.get(type(request))
    if kind is None:
        raise FederationError(f"A message of type {type(request).__name__} is not a request.")
    return kind


def validate(request: Request) -> Request:
    """A copy of the request made of plain values; InputError unless each makes sense by itself,
    whatever the data."""
    try:
        return type(request).validate(request)
    except FedwadError:
        raise
    except Exception:  # attributes that are missing, or no arrays at all
        raise InputError(
            f"A request of kind '{kind_of(request)}' has fields that cannot be read."
        ) from None
