"""A log of comparisons with one reference: one JSON line each, appended in one piece."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fedwad._checks import check_path
from fedwad.errors import InputError

__all__ = ["History"]

Line = dict[str, Any]


class History:
    """The comparisons with one reference so far, in a file of JSON lines.

    A file may hold the lines of several references; each counts its own. A line that was cut off
    by an interruption is skipped, and counts as a comparison, so that no level is spent twice.
    """

    def __init__(self, path: str | Path, reference: str) -> None:
        self._path, self._reference = check_path(path, "history"), reference
        self._n_damaged = 0
        self.lines = self._read()

    def _read(self) -> list[Line]:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(
                f"{self._path} cannot be read ({error.strerror}); choose another file."
            ) from None
        lines = []
        for piece in content.splitlines():
            line = _parse(piece)
            if line is None:
                self._n_damaged += bool(piece.strip())
            elif line["reference"] == self._reference:
                lines.append(line)
        if self._n_damaged and not lines and self._n_damaged == len(content.splitlines()):
            raise InputError(f"{self._path} is not a history of comparisons; name another file.")
        return lines

    def number_of(self, data: str) -> int:
        """Return the number of the comparison with these data, the next one for new data."""
        for line in self.lines:
            if line["data"] == data:
                return int(line["test"])
        return 1 + self._n_damaged + max((int(line["test"]) for line in self.lines), default=0)

    def append(self, line: Line) -> None:
        """Add a line, in a single write, unless the same data have one."""
        if any(known["data"] == line["data"] for known in self.lines):
            return
        line = {"reference": self._reference, **line}
        try:
            self._write(json.dumps(line).encode("utf-8") + b"\n")
        except OSError as error:
            raise InputError(
                f"{self._path} cannot be written ({error.strerror}); choose another file."
            ) from None
        self.lines.append(line)

    def _write(self, data: bytes) -> None:
        """One write at the end of the file: readers see the whole line or none of it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":  # after a line that was cut off
                data = b"\n" + data
            os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _parse(piece: bytes) -> Line | None:
    """The line, or None if it is damaged."""
    try:
        line = json.loads(piece)
        complete = type(line["reference"]) is str and type(line["data"]) is str
        return line if complete and type(line["test"]) is int else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
