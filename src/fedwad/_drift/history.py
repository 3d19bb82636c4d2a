"""A log of comparisons with references: one JSON line for each, appended in one piece."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fedwad._checks import check_path
from fedwad.errors import InputError

__all__ = ["History"]

#: One comparison, as `DriftResult.line` returns it, with the digest of its reference.
Entry = dict[str, Any]


class History:
    """The comparisons with one reference so far, in a file of JSON lines.

    A file may hold the comparisons with several references; those with each are numbered from 1. A
    line that was cut off by an interruption is skipped. It still counts as a comparison, so that no
    significance level is used twice. A file without any whole line is refused.
    """

    def __init__(self, path: str | Path, reference_digest: str) -> None:
        self._path, self._reference_digest = check_path(path, "history"), reference_digest
        self._n_damaged = 0  # after the last entry, whose number counts those before it
        self.entries = self._read()

    def _read(self) -> list[Entry]:
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(
                f"{self._path} cannot be read ({error.strerror}); choose another file."
            ) from None
        entries = []
        parsed = [_parse(line) for line in lines if line.strip()]
        for entry in parsed:
            if entry is None:
                self._n_damaged += 1
            elif entry["reference"] == self._reference_digest:
                entries.append(entry)
                self._n_damaged = 0
        if parsed and not any(parsed):
            raise InputError(f"{self._path} is not a history of comparisons; name another file.")
        return entries

    def comparison_number(self, data_digest: str) -> int:
        """Return the number of the comparison with these data, the next one for new data."""
        for entry in self.entries:
            if entry["data"] == data_digest:
                return int(entry["test"])
        return 1 + self._n_damaged + max((int(entry["test"]) for entry in self.entries), default=0)

    def append(self, entry: Entry) -> None:
        """Add a comparison, in a single write, unless there is one with the same data."""
        if any(earlier["data"] == entry["data"] for earlier in self.entries):
            return
        entry = {"reference": self._reference_digest, **entry}
        try:
            self._write(json.dumps(entry).encode("utf-8") + b"\n")
        except OSError as error:
            raise InputError(
                f"{self._path} cannot be written ({error.strerror}); choose another file."
            ) from None
        self.entries.append(entry)

    def _write(self, line: bytes) -> None:
        """Write once at the end of the file: readers see the whole line or none of it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":  # after a line that was cut off
                line = b"\n" + line
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _parse(line: bytes) -> Entry | None:
    """The comparison that the line describes, or None if the line is damaged."""
    try:
        entry = json.loads(line)
        is_complete = type(entry["reference"]) is str and type(entry["data"]) is str
        return entry if is_complete and type(entry["test"]) is int else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
