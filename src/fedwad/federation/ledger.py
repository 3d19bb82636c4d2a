"""The record of everything that was asked of a client, and of what left it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

__all__ = ["Entry", "Ledger", "Outcome"]

#: "refused" before the data were looked at, "withheld" after, or "answered".
Outcome = Literal["answered", "refused", "withheld"]


@dataclass(frozen=True)
class Entry:
    """One request: when, of which kind, what became of it, how large the reply was, and how many samples its
    smallest cell holds."""

    when: str
    kind: str
    outcome: Outcome
    bytes: int
    smallest: int


@dataclass
class Ledger:
    """Append-only list of the requests to one client, written before each reply leaves."""

    entries: list[Entry] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def looks(self) -> int:
        """How often the data were looked at; a withheld reply counts, since even its absence tells something."""
        return sum(entry.outcome != "refused" for entry in self.entries)

    def record(self, kind: str, outcome: Outcome, size: int = 0, smallest: int = 0) -> None:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self.entries.append(Entry(when, kind, outcome, size, smallest))
