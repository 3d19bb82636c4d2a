"""The outcome of a run and sentences about its progress, as lines of its log.

Flower returns nothing from a run but its log, and other code writes to that log as well. Our lines
therefore start with a marker, and a checksum ends the outcome.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any

from fedwad.errors import FederationError

__all__ = ["LogReader", "encode_outcome", "encode_progress"]

_CHUNK = 32_000  # characters


def encode_outcome(marker: str, outcome: dict[str, Any]) -> Iterator[str]:
    """The lines that carry an outcome, without line ends."""
    packed = zlib.compress(json.dumps(outcome).encode())
    text = base64.b64encode(packed).decode()
    chunks = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    for number, chunk in enumerate(chunks):
        yield f"{marker} chunk {number} {chunk}"
    yield f"{marker} end {len(chunks)} {hashlib.sha256(packed).hexdigest()}"


def encode_progress(marker: str, number: int, sentence: str) -> str:
    """The line that carries the progress sentence with this number."""
    return f"{marker} progress {number} {' '.join(sentence.split())}"


class LogReader:
    """Collects an outcome from the lines of a log; lines of other code are ignored."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._chunks: dict[int, str] = {}
        self._latest_progress = -1
        self.outcome: dict[str, Any] | None = None

    def read(self, line: str) -> str | None:
        """Take in one line; returns its progress sentence if it carries a new one."""
        marker, _, rest = line.strip().partition(" ")
        if marker != self._marker:
            return None
        kind, _, rest = rest.partition(" ")
        digits, _, content = rest.partition(" ")
        if not digits.isdecimal():
            return None
        number = int(digits)
        if kind == "progress" and number > self._latest_progress:
            self._latest_progress = number
            return content
        if kind == "chunk":
            self._chunks[number] = content
        elif kind == "end":
            self.outcome = self._decode(number, content)
        return None

    def _decode(self, count: int, checksum: str) -> dict[str, Any]:
        try:
            text = "".join(self._chunks[number] for number in range(count))
            packed = base64.b64decode(text, validate=True)
            if hashlib.sha256(packed).hexdigest() != checksum:
                raise ValueError("checksum")
            outcome = json.loads(zlib.decompress(packed))
        except (KeyError, ValueError, zlib.error):
            raise FederationError(
                "The result was damaged on its way through the log; run the job again."
            ) from None
        if not isinstance(outcome, dict):
            raise FederationError(
                "The run did not return a result; check that its version of fedwad is this one."
            )
        return outcome
