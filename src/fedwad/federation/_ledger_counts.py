"""Counts over the lines of a ledger, and the rate at which refusals and repeats get lines."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from fedwad.federation._ledger_lines import Content, Entry, is_query

__all__ = ["LedgerCounts", "RateLimit"]

_EXECUTED = ("answered", "withheld")

#: For each outcome that counts for no limit: how many lines may be written at once, and the seconds
#: until one more may.
_RATES: dict[str, tuple[int, float]] = {
    "unreadable": (10, 60.0),
    "refused": (100, 60.0),
    "repeated": (600, 10.0),
}


class LedgerCounts:
    """What the lines of a ledger add up to, brought up to date line by line.

    Attributes
    ----------
    queries : how many replies a server could learn from, over the life of the data
    unreadable : how many lines cannot be read
    private_releases : how many private releases were paid for
    data_version : digest of the data that may be asked about: those of the first query, or those
        accepted last; empty before
    """

    def __init__(self) -> None:
        self.queries = 0
        self.unreadable = 0
        self.private_releases = 0
        self.data_version = ""
        self._lines = 0
        self._requests = 0
        self._without_privacy = False
        self._squares = 0.0
        self._released: dict[str, set[str]] = {}
        self._known: dict[str, Content] = {}
        self._queries_of: dict[str, int] = {}

    def _count_line(self, content: Content) -> None:
        kind, outcome = content["kind"], content["outcome"]
        count, data = content.get("count", 1), content.get("data", "")
        self._lines += 1
        self._requests += count
        if outcome == "answered":
            self.released_digests(kind).add(content.get("digest", ""))
        elif outcome == "torn":
            self._count_unreadable(count)
        elif outcome == "accepted":
            self.data_version = data
        elif outcome == "spent":
            self.private_releases += 1
            self._squares += content.get("mu", 0.0) ** 2
        if is_query(kind, outcome):
            self.queries += count
            self._queries_of[kind] = self._queries_of.get(kind, 0) + count
            self._without_privacy |= kind != "private"
            self.data_version = self.data_version or data
        if outcome in _EXECUTED and content.get("request"):
            self._known.setdefault(content["request"], content)

    def _count_unreadable(self, count: int) -> None:
        """They may have been replies of any kind, so they count as replies of every kind."""
        before, self.unreadable = self.unreadable, self.unreadable + count
        for digests in self._released.values():
            digests |= _placeholders(before, self.unreadable)

    def released_digests(self, kind: str) -> set[str]:
        """Digests of the replies of a kind that left, and a placeholder for each unreadable
        line."""
        if kind not in self._released:
            self._released[kind] = _placeholders(0, self.unreadable)
        return self._released[kind]

    def queries_of(self, kind: str) -> int:
        """How many queries were of this kind; a line that cannot be read may have been one."""
        return self._queries_of.get(kind, 0) + self.unreadable

    def known(self, request: str) -> Entry | None:
        """The line of the first time that this request was answered or withheld, if it was."""
        return Entry.of(self._known[request]) if request and request in self._known else None

    @property
    def spent(self) -> float:
        """Cost of all private releases together, mu^2 = sum of mu_i^2, whichever version of the
        data they were about.

        Infinite if any other reply about the data left, or if a line cannot be read, for it may
        have been one.
        """
        return math.inf if self._without_privacy else math.sqrt(self._squares)


def _placeholders(start: int, end: int) -> set[str]:
    return {f"unreadable {number}" for number in range(start, end)}


class RateLimit:
    """A limit on the lines for refusals and repeats (a token bucket).

    Entries beyond the rate are only counted, and the next line has their number.
    """

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[float, float]] = {}  # how many are left, and since when
        self._waiting: dict[tuple[str, str], int] = {}

    @property
    def waiting(self) -> int:
        """How many entries were counted and are in no line yet."""
        return sum(self._waiting.values())

    def admit(self, entry: Entry) -> Entry | None:
        """The entry to write, with the number of those that were only counted before it; None if
        this one is only counted."""
        rule = "unreadable" if entry.kind == "unreadable" else entry.outcome
        if rule not in _RATES:
            return entry
        burst, pause = _RATES[rule]
        now = time.monotonic()
        left, since = self._tokens.get(rule, (float(burst), now))
        left = min(float(burst), left + (now - since) / pause)
        count = self._waiting.pop((entry.kind, entry.outcome), 0) + entry.count
        if left < 1:
            self._tokens[rule] = left, now
            self._waiting[entry.kind, entry.outcome] = count
            return None
        self._tokens[rule] = left - 1, now
        return replace(entry, count=count)
