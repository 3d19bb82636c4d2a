"""The record of everything that was asked of a client, and of what left it.

`Ledger` keeps it in memory and `FileLedger` in a file that survives restarts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock

from fedwad.errors import InputError
from fedwad.federation._ledger_counts import LedgerCounts, RateLimit
from fedwad.federation._ledger_lines import FIRST_SEAL, Entry, Outcome, read_lines, refuse_unchained

__all__ = ["Entry", "Ledger", "lock_all", "parse_entries", "read_ledger"]

_MAX_REASON_CHARS = 300  # a sentence can quote what arrived


class Ledger(LedgerCounts):
    """A ledger in memory. Each reply is recorded before it leaves.

    The counts that a policy limits, such as the number of queries, are kept up to date, so that no
    check reads the lines again.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        super().__init__()
        self._lock = RLock()
        self._rate_limit = RateLimit()
        self._entries: list[Entry] = []
        self._releases: dict[str, bytes] = {}
        for entry in entries:
            self._append(entry)

    def __len__(self) -> int:
        return self._lines

    @property
    def entries(self) -> Sequence[Entry]:
        """All lines, oldest first."""
        return tuple(self._entries)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock, so that nobody else writes between the check of a request and the record
        of its reply."""
        with self._lock:
            yield

    @property
    def lock_order(self) -> str:
        """The key by which several ledgers are sorted before they are locked. It is the same in
        every process that can open the ledger."""
        return f"memory {id(self)}"

    def stored_release(self, key: str) -> bytes | None:
        """The private release that was stored under this key, if there is one."""
        return self._releases.get(key)

    def reserve(self, key: str, size: int) -> None:
        """Reserve `size` bytes for a private release, before it is paid for.

        FederationError if there is no room, so that no budget is spent on a release that cannot be
        stored. In memory there is always room.
        """

    def store_release(self, key: str, content: bytes) -> None:
        """Store a private release, so that it can be sent again at no cost."""
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
        request: str = "",
        reason: str = "",
    ) -> None:
        """Write a line. A ledger in a file has it on disk when this returns.

        Refusals and repeats beyond a rate are only counted; the next line has their number.
        """
        when = datetime.now(UTC).isoformat(timespec="seconds")
        reason = reason[:_MAX_REASON_CHARS]
        entry = Entry(when, kind, outcome, size, min_cell_size, digest, data, mu, request, reason)
        if counted := self._rate_limit.admit(entry):
            self._append(counted)

    def accept_data(self, data: str) -> None:
        """Record that the data of this digest may be asked about from now on."""
        self.record("data", "accepted", data=data)

    def _append(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._count_line(entry.content)


@contextmanager
def lock_all(ledgers: Iterable[Ledger]) -> Iterator[None]:
    """Lock several ledgers, each once and always in one order, so that there is no deadlock."""
    distinct = {id(ledger): ledger for ledger in ledgers}.values()
    with ExitStack() as stack:
        for ledger in sorted(distinct, key=lambda ledger: ledger.lock_order):
            stack.enter_context(ledger.lock())
        yield


def parse_entries(text: bytes) -> list[Entry]:
    """The entries in the text of a whole ledger."""
    return [Entry.of(line.content) for line in read_lines(text, FIRST_SEAL)]


def read_ledger(path: str | Path) -> list[Entry]:
    """The entries of a ledger file, without writing to it."""
    try:
        text = Path(os.fspath(path)).read_bytes()
    except OSError:
        raise InputError(f"There is no readable ledger at {path}; check the path.") from None
    refuse_unchained(text, Path(path).name)
    entries = parse_entries(text)
    if entries and all(entry.outcome == "torn" for entry in entries):
        raise InputError(f"{path} is not a ledger; give the .jsonl file that a site writes.")
    return entries
