"""The record of everything that was asked of a client, and of what left it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import IO, Any, Literal, get_args

from fedwad._files import write_atomically
from fedwad.errors import FederationError, InputError
from fedwad.privacy import composed

__all__ = ["Entry", "FileLedger", "Ledger", "Outcome", "read_ledger"]

#: "refused" before the data were read, "withheld" after, or "answered"; "repeated" if the same
#: request got the same reply as before; "spent" if a private release was paid for, before its noise
#: is drawn; "torn" for a line cut by a crash.
Outcome = Literal["answered", "repeated", "refused", "withheld", "spent", "torn"]

_WORKED = ("answered", "withheld")
_LONGEST_REASON = 300  # characters; a sentence can quote what arrived


@dataclass(frozen=True)
class Entry:
    """One request: when, of which kind, what became of it, how large the reply was, how many
    samples its smallest cell holds, SHA-256 digests of the reply, of the data it was about and of
    the request, and why it was not answered."""

    when: str
    kind: str
    outcome: Outcome
    bytes: int = 0
    min_cell_size: int = 0
    digest: str = ""
    data: str = ""
    mu: float = 0.0  # what a private release cost
    question: str = ""  # empty if the same request can have another reply the next time
    reason: str = ""

    @property
    def is_query(self) -> bool:
        """Whether the server could learn something about the data from what became of this request.

        A withheld reply counts, since even its absence reveals something. A repeated one does not,
        since the server had it before.
        """
        if self.kind == "private" and self.outcome == "answered":
            # the line before it, "spent", was the query; a release that is sent again is none
            return False
        return self.outcome not in ("refused", "repeated") and self.kind != "describe"


_FIELDS = frozenset(part.name for part in fields(Entry))
_TORN = Entry("", "unreadable", "torn")


@dataclass
class Ledger:
    """Append-only list of the requests to one client, written before each reply leaves."""

    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._turn = RLock()
        self._releases: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def queries(self) -> int:
        """Number of queries over the life of the client."""
        return sum(entry.is_query for entry in self.entries)

    def released_digests(self, kind: str) -> set[str]:
        """Digests of the replies of a kind that left."""
        return {
            entry.digest
            for entry in self.entries
            if entry.kind == kind and entry.outcome == "answered"
        }

    def known(self, question: str) -> Entry | None:
        """The line of the first time that this request was executed, if it was."""
        worked = (
            entry
            for entry in self.entries
            if entry.question == question and entry.outcome in _WORKED
        )
        return next(worked, None) if question else None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the ledger from asking the policy to recording the answer: nobody else may write."""
        with self._turn:
            yield

    @property
    def spent(self) -> float:
        """Cost of all private releases together, mu^2 = sum of mu_i^2, whichever version of the
        data they were about.

        Infinite if anything else about the data left. A line that cannot be read counts as such.
        """
        if any(entry.is_query and entry.kind != "private" for entry in self.entries):
            return math.inf
        return composed(entry.mu for entry in self.entries)

    def kept(self, key: str) -> bytes | None:
        """The private release that was kept under this name, if there is one."""
        return self._releases.get(key)

    def keep(self, key: str, content: bytes) -> None:
        """Keep a private release, so that it can be sent again at no cost."""
        self._releases[key] = content

    def record(
        self,
        kind: str,
        outcome: Outcome,
        size: int = 0,
        min_cell_size: int = 0,
        digest: str = "",
        data: str = "",
        mu: float = 0.0,
        question: str = "",
        reason: str = "",
    ) -> None:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        reason = reason[:_LONGEST_REASON]
        self._append(
            Entry(when, kind, outcome, size, min_cell_size, digest, data, mu, question, reason)
        )

    def _append(self, entry: Entry) -> None:
        self.entries.append(entry)


class FileLedger(Ledger):
    """A ledger in a file of JSON lines that several processes may share and that counts across
    restarts.

    Each line reaches the disk before the reply leaves. A line that a crash cut short stays where it
    is and counts as a query; nothing is ever removed. If the ledger cannot be written, nothing is
    answered.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = Path(path)
        self._read_up_to = 0
        self._handle: IO[bytes] | None = None
        if self.path.is_dir():
            raise InputError(f"{self.path} is a folder; name a file for the ledger.")
        if not self.path.parent.is_dir():
            raise InputError(
                f"There is no folder {self.path.parent} for the ledger {self.path.name}; create it"
                " first."
            )
        with self.turn():  # fails now rather than at the first answer
            pass

    @contextmanager
    def turn(self) -> Iterator[None]:
        try:
            import fcntl
        except ImportError:  # Windows
            raise FederationError(
                "A ledger in a file needs the file locks of Linux or macOS."
            ) from None
        with self._turn:
            if self._handle is not None:  # the same thread is already inside
                yield
                return
            try:
                with self.path.open("ab") as handle:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                    self._handle = handle
                    self._catch_up()
                    yield
            except OSError as error:
                raise FederationError(
                    f"The site's ledger cannot be written ({error.strerror or 'unknown reason'}),"
                    " so nothing was answered."
                ) from None
            finally:
                self._handle = None

    def _catch_up(self) -> None:
        """Read what was written since, by this process or another."""
        with self.path.open("rb") as file:
            file.seek(self._read_up_to)
            text = file.read()
        if text and not text.endswith(
            b"\n"
        ):  # cut by a crash: end the line, so that the next one stands alone
            self._write(b"\n")
            text += b"\n"
        self.entries += _parsed(text)
        self._read_up_to += len(text)

    def _append(self, entry: Entry) -> None:
        line = json.dumps(asdict(entry)).encode("utf-8") + b"\n"
        self._write(line)
        self._read_up_to += len(line)
        super()._append(entry)

    @property
    def releases(self) -> Path:
        """The folder of private releases that were kept, beside the file."""
        return self.path.with_suffix(".releases")

    def kept(self, key: str) -> bytes | None:
        try:
            return (self.releases / key).read_bytes()
        except OSError:
            return None

    def keep(self, key: str, content: bytes) -> None:
        try:
            self.releases.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise FederationError(
                f"The folder of releases cannot be written ({error.strerror})."
            ) from None
        write_atomically(self.releases / key, content)

    def _write(self, data: bytes) -> None:
        if self._handle is None:
            raise FederationError("A ledger is written only during its turn.")
        self._handle.write(data)
        self._handle.flush()
        os.fsync(self._handle.fileno())


def _parsed(text: bytes) -> list[Entry]:
    return [_entry(line) for line in text.split(b"\n")[:-1] if line.strip()]


def _entry(line: bytes) -> Entry:
    """The entry in a line. Fields that a later version added are ignored."""
    try:
        content: dict[str, Any] = json.loads(line)
        entry = Entry(**{key: value for key, value in dict(content).items() if key in _FIELDS})
    except (ValueError, TypeError):
        return _TORN
    proper = (
        entry.outcome in get_args(Outcome)[:-1]
        and type(entry.bytes) is int
        and type(entry.question) is str
        and type(entry.reason) is str
        and type(entry.mu) in (float, int)
        and 0 <= entry.mu < math.inf
    )
    return entry if proper else _TORN


def read_ledger(path: str | Path) -> list[Entry]:
    """The entries of a ledger file, without writing to it."""
    try:
        text = Path(path).read_bytes()
    except OSError:
        raise InputError(f"There is no readable ledger at {path}; check the path.") from None
    entries = _parsed(text if text.endswith(b"\n") else text + b"\n")
    if entries and all(entry.outcome == "torn" for entry in entries):
        raise InputError(f"{path} is not a ledger; give the .jsonl file that a site writes.")
    return entries
