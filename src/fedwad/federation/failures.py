"""Failures as they cross the wire, and the errors that they stand for."""

from __future__ import annotations

from dataclasses import dataclass

from fedwad._words import to_printable
from fedwad.errors import CertificateError, FederationError, FedwadError, InputError, PolicyError

__all__ = ["Failure", "error_of", "failure_of"]

#: Codes with an error of their own; all others stand for a FederationError.
_CODES: dict[str, type[FedwadError]] = {
    "input": InputError,
    "policy": PolicyError,
    "certificate": CertificateError,
}


@dataclass(frozen=True)
class Failure:
    """Why a client did not answer: a code, and one sentence without data.

    Codes are "input", "policy", "certificate" and "federation" for an error that the client raised,
    "silent" if no answer of the client came in time or its engine reported an error instead,
    "version" and "invalid_reply" for an answer that cannot be used, "invalid_request" for a request
    that is not a message of fedwad, "internal" for a fault inside the client, and "busy" for a
    client that has no time left.
    """

    code: str
    sentence: str


def failure_of(error: FedwadError) -> Failure:
    """The failure to send for this error."""
    codes = (code for code, kind in _CODES.items() if isinstance(error, kind))
    return Failure(next(codes, "federation"), str(error))


def error_of(failure: Failure, site: str = "") -> FedwadError:
    """The error that a failure stands for; its message begins with the name of the site, if given.

    The name and the sentence came from another machine, so control characters are removed.
    """
    where = f"Site '{site}': " if site else ""
    return _CODES.get(failure.code, FederationError)(to_printable(f"{where}{failure.sentence}"))
