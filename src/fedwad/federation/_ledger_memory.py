"""The record of everything that was asked of a client, and of what left it.

`Ledger` keeps it in memory and `FileLedger` in a file that survives restarts. Both answer in
constant time what a policy asks: how many queries there were, which replies left, what private
releases cost.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock

from fedwad.errors import InputError
from fedwad.federation._ledger_lines import (
    FIRST_SEAL,
    Content,
    Entry,
    Outcome,
    is_query,
    read_lines,
    refuse_unchained,
)

__all__ = ["Entry", "Ledger", "Outcome", "entries_of", "lock_all", "read_ledger"]

_EXECUTED = ("answered", "withheld")
_LONGEST_REASON = 300  # characters; a sentence can quote what arrived

#: A rate for each outcome that counts for no limit: how many lines may be written at once, and the
#: seconds until one more may.
_LISTED: dict[str, tuple[int, float]] = {
    "unreadable": (10, 60.0),
    "refused": (100, 60.0),
    "repeated": (600, 10.0),
}


class Tally:
    """What the lines of a ledger add up to, brought up to date line by line."""

    def __init__(self) -> None:
        self.lines = 0
        self.requests = 0
        self.queries = 0
        self.unreadable = 0
        self.releases = 0
        self.data = ""
        self._without_privacy = False
        self._squares = 0.0
        self._released: dict[str, set[str]] = {}
        self._known: dict[str, Content] = {}
        self._of_kind: dict[str, int] = {}

    def add(self, content: Content) -> None:
        """Count one line."""
        kind, outcome = content["kind"], content["outcome"]
        self.lines += 1
        self.requests += content.get("count", 1)
        if outcome == "answered":
            self.released_digests(kind).add(content.get("digest", ""))
        elif outcome == "torn":
            self._add_unreadable(content.get("count", 1))
        elif outcome == "accepted":
            self.data = content.get("data", "")
        elif outcome == "spent":
            self.releases += 1
            self._squares += content.get("mu", 0.0) ** 2
        if is_query(kind, outcome):
            self.queries += content.get("count", 1)
            self._of_kind[kind] = self._of_kind.get(kind, 0) + content.get("count", 1)
            self._without_privacy |= kind != "private"
            self.data = self.data or content.get("data", "")
        if outcome in _EXECUTED and content.get("request"):
            self._known.setdefault(content["request"], content)

    def _add_unreadable(self, count: int) -> None:
        """They may have been replies of any kind, so they count as replies of every kind."""
        before, self.unreadable = self.unreadable, self.unreadable + count
        for kind in self._released:
            self._released[kind] |= _placeholders(before, self.unreadable)

    def released_digests(self, kind: str) -> set[str]:
        """Digests of the replies of a kind that left, and a placeholder for each unreadable
        line."""
        if kind not in self._released:
            self._released[kind] = _placeholders(0, self.unreadable)
        return self._released[kind]

    def queries_of(self, kind: str) -> int:
        """How many queries were of this kind; a line that cannot be read may have been one."""
        return self._of_kind.get(kind, 0) + self.unreadable

    def known(self, request: str) -> Entry | None:
        """The first line of a request that was answered or withheld."""
        return Entry.of(self._known[request]) if request and request in self._known else None

    @property
    def spent(self) -> float:
        """Cost of all private releases together."""
        return math.inf if self._without_privacy else math.sqrt(self._squares)


def _placeholders(start: int, end: int) -> set[str]:
    return {f"unreadable {number}" for number in range(start, end)}


class Quota:
    """A limit on the lines for refusals and repeats: those beyond a rate are only counted, and the
    next line has their number."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}
        self._waiting: dict[tuple[str, str], int] = {}

    @property
    def waiting(self) -> int:
        """How many entries were counted and are in no line yet."""
        return sum(self._waiting.values())

    def listed(self, entry: Entry) -> Entry | None:
        """The entry to write, with those that were only counted before it; None to count this
        one."""
        rule = "unreadable" if entry.kind == "unreadable" else entry.outcome
        if rule not in _LISTED:
            return entry
        burst, pause = _LISTED[rule]
        now = time.monotonic()
        left, since = self._left.get(rule, (float(burst), now))
        left = min(float(burst), left + (now - since) / pause)
        waiting = self._waiting.pop((entry.kind, entry.outcome), 0) + entry.count
        if left < 1:
            self._left[rule] = left, now
            self._waiting[entry.kind, entry.outcome] = waiting
            return None
        self._left[rule] = left - 1, now
        return replace(entry, count=waiting)


class Ledger:
    """A ledger in memory: it is written before each reply leaves."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._lock = RLock()
        self._tally, self._quota = Tally(), Quota()
        self._entries: list[Entry] = []
        self._stored: dict[str, bytes] = {}
        for entry in entries:
            self._entries.append(entry)
            self._tally.add(entry.content)

    def __len__(self) -> int:
        return self._tally.lines

    @property
    def entries(self) -> Sequence[Entry]:
        """All lines, oldest first."""
        return tuple(self._entries)

    @property
    def requests(self) -> int:
        """How many requests came, those included that are counted and not listed yet."""
        return self._tally.requests + self._quota.waiting

    @property
    def queries(self) -> int:
        """How many replies a server could learn from, over the life of the data."""
        return self._tally.queries

    def queries_of(self, kind: str) -> int:
        """How many of the queries were of this kind, or may have been."""
        return self._tally.queries_of(kind)

    @property
    def unreadable(self) -> int:
        """How many lines cannot be read."""
        return self._tally.unreadable

    @property
    def private_releases(self) -> int:
        """How many private releases were paid for."""
        return self._tally.releases

    @property
    def data_version(self) -> str:
        """Digest of the data that may be asked about: those of the first query, or those accepted
        last. Empty before.
        """
        return self._tally.data

    def released_digests(self, kind: str) -> frozenset[str] | set[str]:
        """Digests of the replies of a kind that left.

        A line that cannot be read counts as a reply of every kind.
        """
        return self._tally.released_digests(kind)

    def known(self, request: str) -> Entry | None:
        """The line of the first time that this request was answered or withheld, if it was."""
        return self._tally.known(request)

    @property
    def spent(self) -> float:
        """Cost of all private releases together, mu^2 = sum of mu_i^2, whichever version of the
        data they were about.

        Infinite if any other reply about the data left, or if a line cannot be read, for it may
        have been one.
        """
        return self._tally.spent

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Held from asking the policy until the reply is recorded, so that nobody else counts or
        writes meanwhile."""
        with self._lock:
            yield

    @property
    def lock_order(self) -> str:
        """The key by which several ledgers are sorted before they are locked, the same in every
        process."""
        return f"memory {id(self)}"

    def stored_release(self, key: str) -> bytes | None:
        """The release that was stored under this name, if there is one."""
        return self._stored.get(key)

    def reserve(self, key: str, size: int) -> None:
        """Make room for a release of at most so many bytes, before it is paid for.

        FederationError if there is none: nobody who asks may spend a budget that gives no reply.
        """

    def store_release(self, key: str, content: bytes) -> None:
        """Store a private release, so that it can be sent again at no cost."""
        self._stored[key] = content

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
        """Write a line; it is safe when this returns.

        Refusals and repeats beyond a rate are counted, not listed.
        """
        when = datetime.now(UTC).isoformat(timespec="seconds")
        reason = reason[:_LONGEST_REASON]
        entry = Entry(when, kind, outcome, size, min_cell_size, digest, data, mu, request, reason)
        listed = self._quota.listed(entry)
        if listed is not None:
            self._append(listed)

    def accept_data(self, data: str) -> None:
        """Let the data of this digest be asked about from now on."""
        self.record("data", "accepted", data=data)

    def _append(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._tally.add(entry.content)


@contextmanager
def lock_all(ledgers: Iterable[Ledger]) -> Iterator[None]:
    """The locks of several ledgers, each taken once and all in one order, so that nobody waits for
    each other.
    """
    with ExitStack() as stack:
        for ledger in sorted(
            {id(one): one for one in ledgers}.values(), key=lambda one: one.lock_order
        ):
            stack.enter_context(ledger.lock())
        yield


def entries_of(text: bytes) -> list[Entry]:
    """The entries of the text of a ledger, chained from its first line."""
    return [Entry.of(line.content) for line in read_lines(text, FIRST_SEAL)]


def read_ledger(path: str | Path) -> list[Entry]:
    """The entries of a ledger file, without writing to it."""
    try:
        text = Path(os.fspath(path)).read_bytes()
    except OSError:
        raise InputError(f"There is no readable ledger at {path}; check the path.") from None
    refuse_unchained(text, Path(path).name)
    entries = entries_of(text)
    if entries and all(entry.outcome == "torn" for entry in entries):
        raise InputError(f"{path} is not a ledger; give the .jsonl file that a site writes.")
    return entries
