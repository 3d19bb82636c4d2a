"""The record of everything that left a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

__all__ = ["Entry", "Ledger"]


@dataclass(frozen=True)
class Entry:
    """One reply: when it left, to which kind of request, how large, and how many samples its smallest cell holds."""

    when: str
    kind: str
    bytes: int
    smallest: int


@dataclass
class Ledger:
    """Append-only list of the replies of one client, written before each of them leaves."""

    entries: list[Entry] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.entries)

    def record(self, kind: str, size: int, smallest: int) -> None:
        self.entries.append(Entry(datetime.now(UTC).isoformat(timespec="seconds"), kind, size, smallest))
