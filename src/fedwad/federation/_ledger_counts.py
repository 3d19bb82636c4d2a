"""Counts over the lines of a ledger, and a limit on the rate of lines for refusals and repeats."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from fedwad.federation._ledger_lines import Content, Entry, is_query

__all__ = ["LedgerCounts", "RateLimit"]

_EXECUTED = ("answered", "withheld")

#: For outcomes that no rule of a policy limits: how many lines may be written at once, and the
#: seconds until one more may.
_RATES: dict[str, tuple[int, float]] = {
    "unreadable": (10, 60.0),
    "refused": (100, 60.0),
    "repeated": (600, 10.0),
}


class LedgerCounts:
    """Counts over the lines of a ledger, brought up to date line by line.

    Attributes
    ----------
    queries : number of queries so far
    unreadable : number of lines that cannot be read
    private_releases : number of private releases that were paid for
    data_version : digest of the data that may be asked about: those that the operator accepted
        last, otherwise those of the first query; empty before either
    """

    def __init__(self) -> None:
        self.queries = 0
        self.unreadable = 0
        self.private_releases = 0
        self.data_version = ""
        self._lines = 0
        self._has_queries_without_noise = False
        self._sum_of_squared_mu = 0.0
        self._sent_digests: dict[str, set[str]] = {}
        self._first_lines: dict[str, Content] = {}
        self._queries_of: dict[str, int] = {}

    def _count_line(self, content: Content) -> None:
        kind, outcome = content["kind"], content["outcome"]
        count, data = content.get("count", 1), content.get("data", "")
        self._lines += 1
        if outcome == "answered":
            self.sent_digests(kind).add(content.get("digest", ""))
        elif outcome == "torn":
            self._count_unreadable(count)
        elif outcome == "accepted":
            self.data_version = data
        elif outcome == "spent":
            self.private_releases += 1
            self._sum_of_squared_mu += content.get("mu", 0.0) ** 2
        if is_query(kind, outcome):
            self.queries += count
            self._queries_of[kind] = self._queries_of.get(kind, 0) + count
            self._has_queries_without_noise |= kind != "private"
            self.data_version = self.data_version or data
        if outcome in _EXECUTED and content.get("request"):
            self._first_lines.setdefault(content["request"], content)

    def _count_unreadable(self, count: int) -> None:
        """Count unreadable lines as replies of every kind, since they may have been of any."""
        before, self.unreadable = self.unreadable, self.unreadable + count
        for digests in self._sent_digests.values():
            digests |= _placeholders(before, self.unreadable)

    def sent_digests(self, kind: str) -> set[str]:
        """Digests of the replies of this kind that were sent, and a placeholder for each unreadable
        line."""
        if kind not in self._sent_digests:
            self._sent_digests[kind] = _placeholders(0, self.unreadable)
        return self._sent_digests[kind]

    def queries_of(self, kind: str) -> int:
        """How many queries were of this kind; a line that cannot be read counts as one."""
        return self._queries_of.get(kind, 0) + self.unreadable

    def first_entry(self, request: str) -> Entry | None:
        """The entry of the first time that the request of this digest was answered or withheld."""
        content = self._first_lines.get(request)
        return None if content is None else Entry.of(content)

    @property
    def spent(self) -> float:
        """The mu of all private releases together: the root of the sum of their squared mu,
        whichever version of the data they were about.

        Infinite if a reply without noise left or was withheld, or if a line cannot be read, because
        it may have been for such a reply.
        """
        return math.inf if self._has_queries_without_noise else math.sqrt(self._sum_of_squared_mu)


def _placeholders(start: int, end: int) -> set[str]:
    return {f"unreadable {number}" for number in range(start, end)}


class RateLimit:
    """A limit on the rate of lines for refusals and repeats (a token bucket).

    Entries beyond the rate are only counted, and the next line of that kind and outcome has their
    number.
    """

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[float, float]] = {}  # how many were left, and at what time
        #: How many entries are in no line yet, by kind and outcome.
        self.unlisted: dict[tuple[str, str], int] = {}

    def admit(self, entry: Entry) -> Entry | None:
        """The entry to write, its `count` raised by the entries that were only counted before it;
        None if this one is only counted."""
        rule = "unreadable" if entry.kind == "unreadable" else entry.outcome
        if rule not in _RATES:
            return entry
        burst, pause = _RATES[rule]
        now = time.monotonic()
        left, since = self._tokens.get(rule, (float(burst), now))
        left = min(float(burst), left + (now - since) / pause)
        count = self.unlisted.pop((entry.kind, entry.outcome), 0) + entry.count
        if left < 1:
            self._tokens[rule] = left, now
            self.unlisted[entry.kind, entry.outcome] = count
            return None
        self._tokens[rule] = left - 1, now
        return replace(entry, count=count)
