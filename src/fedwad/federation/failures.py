"""Failures as they cross the wire, and the errors that they stand for."""

from __future__ import annotations

from dataclasses import dataclass

from fedwad._words import to_printable
from fedwad.errors import CertificateError, FederationError, FedwadError, InputError, PolicyError

__all__ = ["Failure", "error_of", "failure_of"]

_CODES: dict[str, type[FedwadError]] = {
    "input": InputError,
    "policy": PolicyError,
    "certificate": CertificateError,
}


@dataclass(frozen=True)
class Failure:
    """Why a client did not answer: a code, and one sentence without data.

    Codes are "input", "policy", "certificate" and "federation" for errors of the client, "silent"
    when nothing came in time, "version" and "invalid_reply" for answers that cannot be used,
    "invalid_request" for a request that is no message, "internal" for a fault inside the client,
    and "busy" for one that has no time left.
    """

    code: str
    sentence: str


def failure_of(error: FedwadError) -> Failure:
    """An error as it may cross the wire."""
    codes = (code for code, kind in _CODES.items() if isinstance(error, kind))
    return Failure(next(codes, "federation"), str(error))


def error_of(failure: Failure, site: str = "") -> FedwadError:
    """The error that a failure stands for, with the name of the site if it is known.

    Both came from another machine, so control characters are removed.
    """
    where = f"Site '{site}': " if site else ""
    return _CODES.get(failure.code, FederationError)(to_printable(f"{where}{failure.sentence}"))
