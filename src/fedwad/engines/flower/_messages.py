"""What travels: messages of fedwad in those of Flower, and the outcome of a run in its log."""

from __future__ import annotations

import base64
import json
import sys
import zlib
from itertools import count
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

from fedwad.errors import FederationError
from fedwad.federation import Failure, pack_failure

#: The only one of Flower's message types that nodes answer. The glossary's query is another thing.
MESSAGE_TYPE = "query"

_RECORD, _PAYLOAD = "fedwad", "payload"

#: Flower's `ErrorCode`s of a message that the SuperLink does not have any more, and of a node that
#: stopped sending heartbeats.
MESSAGE_UNAVAILABLE, NODE_UNAVAILABLE = 3, 5
# Our sentences for Flower's `ErrorCode`s; whoever shows one puts "Site 'paris': " before it.
# Flower's own reasons quote exceptions of the ClientApp, which can contain paths and data.
_ERRORS = {
    1: "its node could not load the app; check that fedwad is installed there",
    2: "its app failed; see the log of its node",
    MESSAGE_UNAVAILABLE: "the message was lost on the way",
    4: "the reply came too late and was dropped",  # REPLY_MESSAGE_UNAVAILABLE
    NODE_UNAVAILABLE: "its node stopped sending heartbeats; check that it is running",
    7: "its node does not accept the app as valid",  # INVALID_FAB
    8: "its app crashed; see the log of its node",
}


def wrap(payload: bytes) -> RecordDict:
    """The content of a Flower message that carries these bytes."""
    return RecordDict({_RECORD: ConfigRecord({_PAYLOAD: payload})})


def unwrap(message: Message) -> bytes | Failure:
    """The bytes in a Flower message, which comes from outside and may contain anything.

    Returns a Failure if the message is an error, or not one of fedwad.
    """
    if message.has_error():
        return Failure("silent", f"{_ERRORS.get(message.error.code, 'Flower reported an error')}.")
    try:
        payload = message.content.config_records[_RECORD][_PAYLOAD]
    except Exception:  # another record, another key, no content at all
        payload = None
    if type(payload) is bytes:
        return payload
    return Failure(
        "invalid_reply", "its reply is not a fedwad message; its node may run another app."
    )


def error_code(reply: Message) -> int | None:
    """Flower's code of the error that a reply is; None if it is none."""
    return reply.error.code if reply.has_error() else None


def failure_reply(message: Message, failure: Failure) -> Message:
    """The Flower reply to `message` that says why it cannot be answered."""
    return Message(wrap(pack_failure(failure)), reply_to=message)


class LogReport:
    """Reports the progress and the outcome of a run as marked lines of its log, standard output."""

    def __init__(self, marker: str) -> None:
        self._marker, self._numbers = marker, count()

    def progress(self, sentence: str) -> None:
        self._write("progress", next(self._numbers), " ".join(sentence.split()))

    def finish(self, outcome: dict[str, Any], size: int = 32_000) -> None:
        """Write the outcome in pieces of so many characters."""
        text = base64.b64encode(zlib.compress(json.dumps(outcome).encode())).decode()
        starts = range(0, len(text), size)
        for number, start in enumerate(starts):
            self._write("chunk", number, text[start : start + size])
        self._write("end", len(starts))

    def _write(self, kind: str, number: int, content: str = "") -> None:
        # In one call: Flower does not split the text of a call into lines.
        sys.stdout.write(f"{self._marker} {kind} {number} {content}".rstrip() + "\n")


class LogReader:
    """Collects an outcome from the lines of a log; lines of other code are ignored."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._chunks: dict[int, str] = {}
        self._latest_progress = -1
        self.outcome: dict[str, Any] | None = None

    def read(self, line: str) -> str | None:
        """Take in one line; returns its progress sentence if it carries a new one."""
        marker, kind, digits, content = [*line.strip().split(" ", 3), "", "", ""][:4]
        if marker != self._marker or not digits.isdecimal():
            return None
        number = int(digits)
        if kind == "progress" and number > self._latest_progress:
            self._latest_progress = number
            return content
        if kind == "chunk":
            self._chunks[number] = content
        elif kind == "end":
            try:
                text = "".join(self._chunks[k] for k in range(number))
                # zlib's checksum notices damage.
                self.outcome = dict(
                    json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
                )
            except (LookupError, TypeError, ValueError, zlib.error):
                raise FederationError(
                    "The result was damaged on its way through the log; run the job again.",
                    "bad-message",
                ) from None
        return None
