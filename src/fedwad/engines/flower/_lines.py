"""A result on its way through a log: lines that begin with a mark, each a piece, and a checksum at
the end.

Flower brings nothing back from a run but its log, which others write to as well.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any

from fedwad.errors import FederationError

__all__ = ["Reader", "lines", "told"]

_PIECE = 32_000


def lines(mark: str, result: dict[str, Any]) -> Iterator[str]:
    """The lines that carry a result, without line ends."""
    packed = zlib.compress(json.dumps(result).encode())
    text = base64.b64encode(packed).decode()
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    for number, piece in enumerate(pieces):
        yield f"{mark} piece {number} {piece}"
    yield f"{mark} end {len(pieces)} {hashlib.sha256(packed).hexdigest()}"


def told(mark: str, number: int, sentence: str) -> str:
    """The line that carries the sentence with this number about the progress of a run."""
    return f"{mark} says {number} {' '.join(sentence.split())}"


class Reader:
    """Puts a result together from the lines of a log, in which other lines may stand between."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._pieces: dict[int, str] = {}
        self._told = -1
        self.result: dict[str, Any] | None = None

    def read(self, line: str) -> str | None:
        """Take in one line; the sentence, where it carries one that is new."""
        mark, _, rest = line.strip().partition(" ")
        if mark != self._mark:
            return None
        kind, _, rest = rest.partition(" ")
        digits, _, content = rest.partition(" ")
        if not digits.isdecimal():
            return None
        number = int(digits)
        if kind == "says" and number > self._told:
            self._told = number
            return content
        if kind == "piece":
            self._pieces[number] = content
        elif kind == "end":
            self.result = self._whole(number, content)
        return None

    def _whole(self, count: int, checksum: str) -> dict[str, Any]:
        try:
            packed = base64.b64decode(
                "".join(self._pieces[number] for number in range(count)), validate=True
            )
            if hashlib.sha256(packed).hexdigest() != checksum:
                raise ValueError("checksum")
            result = json.loads(zlib.decompress(packed))
        except (KeyError, ValueError, zlib.error):
            raise FederationError(
                "The result was damaged on its way through the log; run it again."
            ) from None
        if not isinstance(result, dict):
            raise FederationError(
                "The run sent something that is no result; its version may differ from this one."
            )
        return result
