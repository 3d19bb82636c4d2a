"""How a server checks and measures what came back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fedwad.errors import InputError
from fedwad.federation.bundle import Bundle, BundleReply
from fedwad.federation.failures import Failure
from fedwad.federation.message import Request, check_words
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
    """Why `reply` cannot be the answer to `request`; None if it can.

    A reply can be wrong in itself, or answer another request.
    """
    try:
        if isinstance(reply, Failure):
            check_words(reply.code, reply.sentence)
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
    for asked, answer in zip(request.requests, reply.replies, strict=True):
        wrong = check_reply(asked, answer)
        if wrong is not None:
            raise InputError(wrong.sentence)
