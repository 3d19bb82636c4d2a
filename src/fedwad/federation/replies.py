"""Answers as a server meets them: replies or failures, and how it makes sure that they are."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from fedwad.errors import CertificateError, FederationError, FedwadError, InputError, PolicyError
from fedwad.federation.bundle import Bundle
from fedwad.federation.message import Reply, Request, check_words
from fedwad.federation.requests import REPLIES

__all__ = ["BundleReply", "Failure", "check_reply", "error_of", "failure_of", "payload"]


@dataclass(frozen=True)
class Failure:
    """Why a client did not answer: a code, and one sentence that tells no data.

    Codes are "input", "policy" and "certificate" for what the client itself refused, "silent" when
    nothing came in time, "version" and "garbage" for answers that cannot be used, "internal" for a
    fault inside the client.
    """

    code: str
    sentence: str


@dataclass(frozen=True, eq=False)
class BundleReply:
    """The replies to a Bundle, in its order."""

    replies: tuple[Reply | Failure, ...]


_CODES: dict[str, type[FedwadError]] = {
    "input": InputError,
    "policy": PolicyError,
    "certificate": CertificateError,
}


def failure_of(error: FedwadError) -> Failure:
    """An error as it may cross the wire."""
    codes = [code for code, kind in _CODES.items() if isinstance(error, kind)]
    return Failure(codes[0] if codes else "federation", str(error))


def error_of(name: str, failure: Failure) -> FedwadError:
    """The error that a failure of client `name` stands for."""
    return _CODES.get(failure.code, FederationError)(f"Client '{name}': {failure.sentence}")


def payload(message: Any) -> int:
    """Number of bytes that a message carries: its arrays, eight for each number, one for each
    letter of a word."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if is_dataclass(message):
        return sum(payload(getattr(message, field.name)) for field in fields(message))
    if isinstance(message, tuple):
        return sum(map(payload, message))
    if isinstance(message, str):
        return len(message)
    return 0 if message is None else 8


def check_reply(request: Request | Bundle, reply: Any) -> Failure | None:
    """Why `reply` cannot be the answer to `request`: wrong in itself, or about something else. None
    if it can."""
    try:
        if isinstance(reply, Failure):
            check_words(reply.code, reply.sentence)
        elif isinstance(request, Bundle):
            _check_bundle(request, reply)
        elif type(reply) not in REPLIES:
            raise InputError(f"a {type(reply).__name__} is none.")
        else:
            reply.check_alone()
            if isinstance(reply, request.answer):
                request.check(reply)
    except InputError as error:
        return Failure("garbage", f"its reply cannot be used: {error}")
    except Exception:  # fields that are missing or of another type
        return Failure(
            "garbage", f"its reply, a {type(reply).__name__}, has fields that cannot be read."
        )
    return None


def _check_bundle(request: Bundle, reply: Any) -> None:
    if not isinstance(reply, BundleReply) or len(reply.replies) != len(request.requests):
        raise InputError("it does not answer each request of the bundle.")
    for asked, answer in zip(request.requests, reply.replies, strict=True):
        wrong = check_reply(asked, answer)
        if wrong is not None:
            raise InputError(wrong.sentence)
