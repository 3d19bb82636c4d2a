"""How a server checks replies, and the size of messages."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fedwad.errors import InputError
from fedwad.federation.bundle import Bundle, BundleReply
from fedwad.federation.failures import Failure
from fedwad.federation.message import Request, check_strings
from fedwad.federation.requests import REPLIES

__all__ = ["check_reply", "payload_bytes"]


def payload_bytes(message: Any) -> int:
    """Number of bytes that a message carries: its arrays, eight for each number, one for each
    character."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if is_dataclass(message):
        return sum(payload_bytes(getattr(message, field.name)) for field in fields(message))
    if isinstance(message, tuple):
        return sum(map(payload_bytes, message))
    if isinstance(message, str):
        return len(message)
    return 0 if message is None else 8


def check_reply(request: Request | Bundle, reply: Any) -> Failure | None:
    """The failure to use instead of `reply` if it cannot answer `request`; None if it can."""
    try:
        if isinstance(reply, Failure):
            check_strings(reply.code, reply.sentence)
        elif isinstance(request, Bundle):
            _check_bundle(request, reply)
        elif type(reply) not in REPLIES:
            raise InputError(f"a {type(reply).__name__} is not a reply.")
        else:
            reply.check_values()
            if isinstance(reply, request.reply_type):
                request.check(reply)
    except InputError as error:
        return Failure("invalid_reply", f"its reply cannot be used: {error}")
    except Exception:  # fields that are missing or of a different type
        return Failure(
            "invalid_reply", f"its reply, a {type(reply).__name__}, has fields that cannot be read."
        )
    return None


def _check_bundle(request: Bundle, reply: Any) -> None:
    if not isinstance(reply, BundleReply) or len(reply.replies) != len(request.requests):
        raise InputError("it does not answer each request of the bundle.")
    for each, answer in zip(request.requests, reply.replies, strict=True):
        failure = check_reply(each, answer)
        if failure is not None:
            raise InputError(failure.sentence)
