"""What a site must remember, in one SQLite database: its ledger, its privacy budget, the replies
that it sent, and what it keeps of trainings.

`Ledger` keeps the database in memory and `FileLedger` in a file that survives restarts and that
several processes share. A lock is a transaction: what is recorded under it is on disk when it ends,
or nothing of it is and the lock raises, so that no reply leaves that is not recorded. A payment for
a private release is on disk at once, before noise is drawn.

Each entry ends with its seal, half of SHA-256 over the seal before it and its own fields, and holds
the totals up to it: queries of each kind, different replies, the budget spent. So opening reads the
last entry alone, and damage to an earlier one makes no total smaller. An entry that decides
something is checked against its seal when it is read, and `check_chain` checks all. A file beside
the database, its head (`LEDGER.head`), has the number and the seal of the last entry. A database
without that entry was cut, exchanged or restored from a copy; then nothing is answered until the
operator has put back the newest one. A seal is no signature: it finds accidents and careless edits,
not an operator who writes the whole file anew.
"""

from __future__ import annotations

import atexit
import errno
import json
import math
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any, Literal
from urllib.parse import quote
from weakref import finalize, ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedwad.errors import FederationError, FedwadError, InputError
from fedwad.messages.codec import leaves
from fedwad.messages.message import NON_QUERY_KINDS
from fedwad.site.policy import Policy

#: "answered"; "refused" if no reply left and the data were not read, "withheld" if they were;
#: "repeated" if the same request got the same reply as before; "spent" for the payment of a private
#: release, before its noise is drawn; "accepted" if the operator let a new version of the data be
#: asked about; "revoked" if the operator stopped all answers, "resumed" if they go on.
Outcome = Literal[
    "answered", "repeated", "refused", "withheld", "spent", "accepted", "revoked", "resumed"
]

_NOT_QUERIES = ("refused", "repeated", "accepted", "revoked", "resumed")
_FIRST_SEAL = "0" * 32  # what the first entry is chained to
_FORMAT = 1  # of the tables

#: For entries that no rule of a policy limits: how many may be written at once, and the seconds
#: until one more may.
_RATES: dict[str, tuple[int, float]] = {
    "unreadable": (10, 60.0),
    "refused": (100, 60.0),
    "repeated": (600, 10.0),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One request, or several that were counted together.

    Attributes
    ----------
    when : str
        Time in UTC. No limit depends on it: clocks jump.
    kind : str
        Kind of the request.
    outcome : str
        What became of it.
    bytes : int
        Size of the reply.
    min_cell_size : int
        Smallest number of samples that one number of the reply averages.
    digest, data, request : str
        SHA-256 of the reply, of the data, and of the request. The last is empty where the same
        request can have a different reply the next time.
    mu : float
        Privacy loss of a private release.
    reason : str
        Why no reply left.
    count : int
        How many requests of this kind and outcome the entry stands for.
    requester, purpose : str
        Who asked, and what for, as the engine knows it; empty for a request of the same process.
    values, content : int and str
        How many numbers and texts left, and in words which ones.
    """

    when: str
    kind: str
    outcome: Outcome
    bytes: int = 0
    min_cell_size: int = 0
    digest: str = ""
    data: str = ""
    mu: float = 0.0
    request: str = ""
    reason: str = ""
    count: int = 1
    requester: str = ""
    purpose: str = ""
    values: int = 0
    content: str = ""

    @property
    def is_query(self) -> bool:
        """Whether this counts as a query.

        A withheld reply counts, because its absence says something about the data. A repeated one
        does not. A private release counts once, by its entry "spent" and not by "answered".
        """
        if self.kind == "private" and self.outcome == "answered":
            return False
        return self.outcome not in _NOT_QUERIES and self.kind not in NON_QUERY_KINDS


_SQL_TYPES = {"int": "INTEGER", "float": "REAL"}
_NAMES = ("number", *(field.name for field in fields(Entry)), "totals", "seal")
_COLUMNS = ", ".join(f'"{name}"' for name in _NAMES)
_TABLES = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, "
    + ", ".join(
        f'"{field.name}" {_SQL_TYPES.get(str(field.type), "TEXT")} NOT NULL'
        for field in fields(Entry)
    )
    + ", totals TEXT NOT NULL, seal TEXT NOT NULL)",
    "CREATE INDEX sent ON entries (kind, digest) WHERE outcome = 'answered'",
    "CREATE INDEX executed ON entries (request)"
    " WHERE request <> '' AND outcome IN ('answered', 'withheld')",
    "CREATE TABLE replies (number INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL,"
    " is_release INTEGER NOT NULL, is_complete INTEGER NOT NULL, size INTEGER NOT NULL,"
    " content BLOB NOT NULL)",
    "CREATE INDEX sizes ON replies (is_release, number, size)",
    "CREATE TABLE layers (number INTEGER PRIMARY KEY, run TEXT UNIQUE NOT NULL,"
    " times_trained INTEGER NOT NULL, layers BLOB NOT NULL)",
    f"PRAGMA user_version = {_FORMAT}",
)


class Totals(msgspec.Struct, frozen=True):
    """What the entries of a ledger come to.

    Attributes
    ----------
    queries, distinct : dict of int
        Queries, and different replies that were sent, by kind.
    releases : int
        Private releases that were paid for.
    squared_mu : float
        The sum of their squared mu, whichever version of the data they were about.
    data_version : str
        Digest of the data that may be asked about: those that the operator accepted last, otherwise
        those of the first query; empty before either.
    revoked : bool
        Whether the operator stopped all answers.
    """

    queries: dict[str, int] = {}
    distinct: dict[str, int] = {}
    releases: int = 0
    squared_mu: float = 0.0
    data_version: str = ""
    revoked: bool = False


class Ledger:
    """A ledger in memory. Each reply is recorded before it leaves.

    The totals that a policy limits are those of the last entry, so no check reads all entries.
    """

    path: Path | None = None
    _seen = 0, _FIRST_SEAL  # number and seal of an entry that must be there

    def __init__(self) -> None:
        self._thread_lock = RLock()
        self._rate_limit = _RateLimit()
        self._is_locked, self._asked = False, ("", "")
        self._failure: FederationError | None = None
        self._open()

    def _open(self) -> None:
        self._connect(":memory:")
        for statement in _TABLES:
            self._db.execute(statement)

    def _connect(self, uri: str) -> None:
        self._db = sqlite3.connect(
            uri, uri=True, timeout=1.0, isolation_level=None, check_same_thread=False
        )
        self._process = os.getpid()
        finalize(self, _close, self._db, self._process)

    def copy(self) -> Ledger:
        """A ledger in memory with the same entries and stored replies."""
        copied = Ledger()
        with self._thread_lock, _readable():
            self._db.backup(copied._db)
        return copied

    def __len__(self) -> int:
        return self._last()[0]

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries, oldest first."""
        return tuple(Entry(*row[1:-2]) for row in self._rows())

    def rows(self) -> Iterator[dict[str, Any]]:
        """All entries, oldest first, as named values with number, totals and seal."""
        return (dict(zip(_NAMES, row, strict=True)) for row in self._rows())

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        with _readable():
            yield from self._db.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY number")  # noqa: S608

    def check_chain(self) -> None:
        """Raise FederationError unless the file and every entry are as they were written, up to
        the last one that was seen or that the head names."""
        with self._thread_lock, _readable():
            if self._db.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise _damaged("the file is not a sound database")
        seal = _FIRST_SEAL
        for number, row in enumerate(self._rows(), 1):
            if row[0] != number:
                raise _damaged(f"entry {number} is missing")
            if row[-1] != _seal(seal, row):
                raise _damaged(f"entry {number} is not as it was written")
            seal = row[-1]
        self._check_present(*self._seen)

    def _check_present(self, number: int, seal: str) -> None:
        """Raise FederationError unless the entry of this number has this seal."""
        found = self._row("SELECT seal FROM entries WHERE number = ?", number)
        if number and (found is None or found[0] != seal):
            raise _replaced()

    @property
    def totals(self) -> Totals:
        return self._last()[2]

    @property
    def queries(self) -> int:
        """Number of queries so far."""
        return sum(self.totals.queries.values())

    @property
    def spent(self) -> float:
        """The mu of all private releases together: the root of the sum of their squared mu.

        Infinite if a reply without noise left or was withheld.
        """
        totals = self.totals
        return math.inf if set(totals.queries) - {"private"} else math.sqrt(totals.squared_mu)

    def was_sent(self, kind: str, digest: str) -> bool:
        """Whether a reply of this kind and digest was sent."""
        return bool(self._find("kind = ? AND digest = ? AND outcome = 'answered'", kind, digest))

    def sent_digests(self, kind: str) -> set[str]:
        """The digests of all different replies of this kind that were sent."""
        query = "SELECT DISTINCT digest FROM entries WHERE kind = ? AND outcome = 'answered'"
        with self._thread_lock, _readable():
            return {digest for (digest,) in self._db.execute(query, (kind,))}

    def first_entry(self, request: str) -> Entry | None:
        """The entry of the first time that the request of this digest was answered or withheld."""
        return self._find(
            "request = ? AND request <> '' AND outcome IN ('answered', 'withheld')", request
        )

    def _last(self) -> tuple[int, str, Totals]:
        """Number, seal and totals of the last entry."""
        row = self._row("SELECT number, seal, totals FROM entries ORDER BY number DESC LIMIT 1")
        with _readable():
            totals = Totals() if row is None else msgspec.json.decode(row[2], type=Totals)
        return (0, _FIRST_SEAL, totals) if row is None else (*row[:2], totals)

    def _row(self, query: str, *values: Any) -> Any:
        """The first row that a query finds; None if it finds none."""
        with self._thread_lock, _readable():
            return self._db.execute(query, values).fetchone()

    def _find(self, condition: str, *values: str) -> Entry | None:
        """The first entry for which this holds, checked against its seal."""
        with _readable():
            query = f"SELECT {_COLUMNS} FROM entries WHERE {condition} ORDER BY number LIMIT 1"  # noqa: S608
            found = self._row(query, *values)
            return None if found is None else self._checked(found)

    def _checked(self, row: tuple[Any, ...]) -> Entry:
        """The entry in a row of the table; FederationError unless it fits its seal."""
        before = self._row("SELECT seal FROM entries WHERE number = ?", row[0] - 1)
        if (before is None and row[0] > 1) or row[-1] != _seal(
            before[0] if before else _FIRST_SEAL, row
        ):
            raise _damaged(f"entry {row[0]} is not as it was written")
        return Entry(*row[1:-2])

    # Transactions

    @contextmanager
    def lock(self, requester: str = "", purpose: str = "") -> Iterator[None]:
        """Hold the lock, so that nobody else writes between the check of a request and the record
        of its reply; entries under it are about a request of `requester` for `purpose`.

        What was written is on disk when this ends. If it could not be written, FederationError.
        """
        with self._thread_lock:
            self._begin()
            self._is_locked, self._asked = True, (_as_text(requester), _as_text(purpose))
            try:
                yield
            finally:
                self._is_locked = False
                try:
                    self._commit()
                finally:
                    self._failure = None

    def _begin(self) -> None:
        """Start a transaction as soon as no other process is in one."""
        while True:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                return
            except (sqlite3.Error, ValueError) as error:
                if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise _unwritable(error) from None

    def _commit(self) -> None:
        with self._rolled_back_on_failure():
            self._db.execute("COMMIT")

    @contextmanager
    def _rolled_back_on_failure(self) -> Iterator[None]:
        """Undo the transaction if the database cannot be written. The lock then ends with the
        error, whoever caught it before, since a reply may have lost its entry."""
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            self._failure = _unwritable(error)
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise self._failure from None

    def _write(self, statement: str, values: Sequence[Any] = ()) -> None:
        if not self._is_locked:
            raise FederationError("A ledger is written only while it is locked.", "not-locked")
        with self._rolled_back_on_failure():
            self._db.execute(statement, values)

    # Entries

    def record(self, kind: str, outcome: Outcome, *fields: Any, **named: Any) -> None:
        """Write an entry with these fields after the outcome. It is on disk when the lock ends, a
        payment when this returns.

        Refusals, repeats and replies that are not about the data are only counted beyond a rate;
        the next entry of the same requester has their number, or one of `close`.
        """
        when, (requester, purpose) = datetime.now(UTC).isoformat(timespec="seconds"), self._asked
        entry = Entry(when, _as_text(kind), outcome, *fields, **named)
        texts: dict[str, Any] = {"requester": requester, "purpose": purpose}
        texts |= {"reason": _as_text(entry.reason), "content": _as_text(entry.content)}
        listed = self._rate_limit.admit(replace(entry, mu=float(entry.mu), **texts))
        if listed is None:
            return
        self._append(listed)
        if outcome == "spent":
            self._commit()
            self._begin()

    def close(self) -> None:
        """Write how many requests were only counted, when a node stops; a killed one loses that."""
        counted, self._rate_limit.unlisted = self._rate_limit.unlisted, {}
        if counted:
            with self.lock():
                for entry in counted.values():
                    self._append(entry)

    def _append(self, listed: Entry) -> None:
        number, seal, totals = self._last()
        after = msgspec.json.encode(self._totals_after(totals, listed)).decode()
        row = (number + 1, *astuple(listed), after)
        places = ", ".join("?" * (len(row) + 1))
        self._write(
            f"INSERT INTO entries ({_COLUMNS}) VALUES ({places})",  # noqa: S608
            (*row, _seal(seal, (*row, ""))),
        )

    def _totals_after(self, totals: Totals, entry: Entry) -> Totals:
        kind, changes = entry.kind, dict[str, Any]()
        if entry.outcome == "answered" and not self.was_sent(kind, entry.digest):
            changes["distinct"] = {**totals.distinct, kind: totals.distinct.get(kind, 0) + 1}
        elif entry.outcome == "accepted":
            changes["data_version"] = entry.data
        elif entry.outcome == "spent":
            changes["releases"] = totals.releases + 1
            changes["squared_mu"] = totals.squared_mu + entry.mu**2
        elif entry.outcome in ("revoked", "resumed"):
            changes["revoked"] = entry.outcome == "revoked"
        if entry.is_query:
            count = totals.queries.get(kind, 0) + entry.count
            changes["queries"] = {**totals.queries, kind: count}
            changes["data_version"] = totals.data_version or entry.data
        return msgspec.structs.replace(totals, **changes)

    def revoke(self, reason: str = "") -> None:
        """Stop all answers, also those of a node that runs, until `resume`."""
        with self.lock():
            self.record("node", "revoked", reason=reason)

    def resume(self, reason: str = "") -> None:
        """Let requests be answered again after `revoke`."""
        with self.lock():
            self.record("node", "resumed", reason=reason)

    # Replies and trainings

    def stored_reply(self, key: str) -> bytes | None:
        """The reply that was stored under this key, if it is still there."""
        found = self._row("SELECT content FROM replies WHERE key = ? AND is_complete", key)
        return None if found is None else found[0]

    def reserve(self, key: str, size: int) -> None:
        """Reserve `size` bytes on disk for a private release, before it is paid for, so that no
        budget is spent on a release that cannot be stored.

        The log of the database then starts again, and what follows is written into the room that
        the reservation had in it. Other processes may write in between.
        """
        room = size + (1 << 16)  # the entries of a release touch fewer than 16 pages of 4096 bytes
        self._write(
            "INSERT OR REPLACE INTO replies (key, is_release, is_complete, size, content)"
            " VALUES (?, 1, 0, ?, zeroblob(?))",
            (key, room, room),
        )
        self._commit()
        with self._rolled_back_on_failure():
            self._db.execute("PRAGMA wal_checkpoint(RESTART)")
        self._begin()

    def store_reply(
        self, key: str, content: bytes, is_release: bool, most_bytes: int = 1 << 23
    ) -> None:
        """Store a reply, so that it can be sent again: a private release for good, at no cost, and
        of others the last ones, up to `most_bytes` in all."""
        if not is_release and len(content) > most_bytes:
            return
        self._write(
            "INSERT OR REPLACE INTO replies (key, is_release, is_complete, size, content)"
            " VALUES (?, ?, 1, ?, ?)",
            (key, is_release, len(content), content),
        )
        self._write(
            "DELETE FROM replies WHERE number IN (SELECT number FROM"
            " (SELECT number, sum(size) OVER (ORDER BY number DESC) AS total FROM replies"
            " WHERE is_release = 0) WHERE total > ?)",
            (most_bytes,),
        )

    def layers(self, run: str, times_trained: int) -> NDArray[np.float32] | None:
        """Personal-layer weights after `times_trained` training rounds of `run`; None if the client
        is at a different round."""
        query = "SELECT layers FROM layers WHERE run = ? AND times_trained = ?"
        found = self._row(query, run, times_trained)
        return None if found is None else np.frombuffer(found[0], dtype=np.float32)

    def keep_layers(
        self, run: str, times_trained: int, layers: NDArray[np.float32], most_runs: int = 256
    ) -> None:
        """Store the personal-layer weights of a run, and remove those of the oldest runs."""
        self._write(
            "INSERT OR REPLACE INTO layers (run, times_trained, layers) VALUES (?, ?, ?)",
            (run, times_trained, layers.tobytes()),
        )
        self._write(
            "DELETE FROM layers WHERE number <="
            " (SELECT number FROM layers ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (most_runs,),
        )


class FileLedger(Ledger):
    """A ledger in a file that several processes share and that counts across restarts.

    If the file cannot be written, nothing is answered. A write that failed is undone by the
    database, so that it costs no query and no budget.
    """

    path: Path

    def __init__(self, path: str | Path) -> None:
        path = Path(os.path.realpath(path))  # the same log and head by whatever link it is opened
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file for the ledger.", "is-a-folder")
        if not path.parent.is_dir():
            raise InputError(
                f"There is no folder {path.parent} for the ledger {path.name}; create it first.",
                "no-such-file",
            )
        state = _create_or_stat(path)
        # SQLite's log is named after the file (sqlite.org/howtocorrupt.html).
        if state.st_nlink > 1:
            raise InputError(
                f"The ledger {path.name} has more than one name (hard links), and each would have a"
                " log of its own; remove all but one.",
                "hard-link",
            )
        self.path, self._identity = path, (state.st_dev, state.st_ino)
        self._size = 0  # of the file, which never shrinks
        super().__init__()
        count, last = self._row("SELECT count(*), ifnull(max(number), 0) FROM entries")
        if count != last:
            raise _damaged("an entry is missing")
        atexit.register(_write_counts, ref(self))

    def _open(self) -> None:
        if not os.access(self.path, os.W_OK):  # which the database says only at the first write
            raise _unwritable(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        try:
            self._connect(f"file:{quote(str(self.path))}?mode=rw")
            (mode,) = self._db.execute("PRAGMA journal_mode = WAL").fetchone()
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA fullfsync = ON")
            if mode != "wal":
                raise FederationError(
                    "The site's ledger is on a drive without shared memory, such as a network"
                    " drive; put it on a disk of this machine.",
                    "network-drive",
                )
            if not _has_tables(self._db, self.path):
                self._create_tables()
            with self.lock():  # an unwritable or exchanged ledger fails now, not at the first reply
                pass
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _opening_error(error, self.path) from None

    def _create_tables(self) -> None:
        super()._begin()
        if not _has_tables(self._db, self.path):  # nor did another process make them meanwhile
            if _read_head(self.head_path)[0]:
                raise _replaced()
            for statement in _TABLES:
                self._db.execute(statement)
        self._db.execute("COMMIT")

    @property
    def head_path(self) -> Path:
        """The file with the number and the seal of the last entry."""
        return self.path.with_name(self.path.name + ".head")

    def _begin(self) -> None:
        if os.getpid() != self._process:  # a connection does not outlive a fork
            self._open()
        try:
            state = self.path.stat()
        except OSError:
            raise _replaced() from None
        if (state.st_dev, state.st_ino) != self._identity or state.st_size < self._size:
            raise _replaced()  # the file of this name is not the one that is open
        self._size = state.st_size
        super()._begin()
        try:
            with _readable():
                self._check_last()
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def _check_last(self) -> None:
        """FederationError unless the last entry is as it was written, and the entries that this
        object and the head have seen are there."""
        for number, seal in (self._seen, _read_head(self.head_path)):
            self._check_present(number, seal)
        row = self._row(f"SELECT {_COLUMNS} FROM entries ORDER BY number DESC LIMIT 1")  # noqa: S608
        if row is not None:
            self._checked(row)

    def _commit(self) -> None:
        last = self._last()[:2]
        super()._commit()
        with self._rolled_back_on_failure():
            # In place, without waiting for the disk: after a crash the head may be older than the
            # ledger, which is valid too.
            content = "{} {}".format(*last).ljust(63).encode() + b"\n"
            descriptor = os.open(self.head_path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, content)
            finally:
                os.close(descriptor)
        self._seen = last


def open_view(path: str | Path) -> Ledger:
    """A copy in memory of a ledger file as it is, only to be read; `check_chain` compares it with
    the head beside it."""
    path = Path(os.path.realpath(os.fspath(path)))
    if not path.is_file():
        raise InputError(f"There is no readable ledger at {path}; check the path.", "no-such-file")
    view, address, log = Ledger(), f"file:{quote(str(path))}?mode=ro", Path(f"{path}-wal")
    view._seen = _read_head(path.with_name(path.name + ".head"))  # first: the file may grow
    # In a folder in which no log can be made, a file without a log is read as it is.
    if not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size):
        address += "&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=1.0)) as db:
            if _has_tables(db, path):
                db.backup(view._db)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _opening_error(error, path) from None
    view._db.execute("PRAGMA query_only = ON")
    return view


def _as_text(words: str, most: int = 300) -> str:
    """The first characters of a text that may have come from outside, as the database can hold."""
    return words[:most].encode("utf-8", "replace").decode("utf-8")


def _seal(previous: str, row: Sequence[Any]) -> str:
    """The seal of a row, whose own last value, the seal, is left out."""
    text = json.dumps([previous, *row[:-1]], separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[: len(_FIRST_SEAL)]


def _close(db: sqlite3.Connection, process: int) -> None:
    if os.getpid() == process:  # not in a child that was forked with it
        db.close()


def _create_or_stat(path: Path) -> os.stat_result:
    """The state of the file, which is made for its owner alone if there is none and never was."""
    try:
        return path.stat()
    except FileNotFoundError:
        if _read_head(path.with_name(path.name + ".head"))[0]:
            raise _replaced() from None
    except OSError as error:
        raise _unwritable(error) from None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unwritable(error) from None
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _read_head(path: Path) -> tuple[int, str]:
    try:
        number, seal = path.read_bytes().decode("ascii").split()
        return int(number), seal
    except (OSError, ValueError):  # none, or damaged
        return 0, _FIRST_SEAL


def _has_tables(db: sqlite3.Connection, path: Path) -> bool:
    """Whether this database is a ledger; False if it is empty, InputError if it is another one."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version not in (0, _FORMAT) or (tables and not version):
        raise _not_a_ledger(path)
    return bool(tables)


def _code(error: Exception) -> int:
    """SQLite's primary code of an error; that of a damaged file for other errors."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


def _opening_error(error: Exception, path: Path) -> FedwadError:
    if _code(error) == sqlite3.SQLITE_CORRUPT:
        return _damaged("the file is not a sound database")
    if _code(error) == sqlite3.SQLITE_NOTADB:
        return _not_a_ledger(path)
    return _unwritable(error)


def _not_a_ledger(path: Path) -> InputError:
    return InputError(
        f"{path.name} is not a ledger that this version reads; give the .sqlite file that a site"
        " writes.",
        "wrong-format",
    )


def _unwritable(error: Exception) -> FederationError:
    cause = getattr(error, "strerror", None) or str(error) or "unknown reason"
    return FederationError(
        f"The site's ledger cannot be written ({cause}), so nothing was answered.", "cannot-write"
    )


def _replaced() -> FederationError:
    return FederationError(
        "The site's ledger was cut, exchanged or restored from a copy, so nothing is answered until"
        " its operator has put back the newest one.",
        "replaced-ledger",
    )


def _damaged(what: str) -> FederationError:
    return FederationError(
        f"The site's ledger is damaged ({what}), so nothing is answered until its operator has put"
        " back the newest sound one.",
        "damaged-ledger",
    )


@contextmanager
def _readable() -> Iterator[None]:
    """FederationError instead of an error of the database or of a value in it."""
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, LookupError) as error:
        raise _damaged(str(error) or "unknown reason") from None


def _write_counts(of: ref[Ledger]) -> None:
    """Close a ledger that is still there when its process ends."""
    ledger = of()
    if ledger is not None:
        with suppress(FedwadError):
            ledger.close()


class _RateLimit:
    """A limit on the rate of entries for refusals and repeats (a token bucket).

    Those beyond the rate are only counted, and the next entry of that kind, outcome and requester
    has their number. Of `most` requesters and more, those that follow are counted as one.
    """

    def __init__(self, most: int = 1000) -> None:
        self._tokens: dict[str, tuple[float, float]] = {}  # how many were left, and at what time
        self.unlisted: dict[tuple[str, ...], Entry] = {}  # whose `count` is in no entry yet
        self._most = most

    def admit(self, entry: Entry) -> Entry | None:
        """The entry to write, its `count` raised by those that were only counted before it; None if
        this one is only counted."""
        rule: str = entry.outcome
        if entry.kind == "unreadable":
            rule = "unreadable"
        elif entry.kind in NON_QUERY_KINDS and rule == "answered":
            rule = "repeated"
        if rule not in _RATES:
            return entry
        burst, pause = _RATES[rule]
        now = time.monotonic()
        left, since = self._tokens.get(rule, (float(burst), now))
        left = min(float(burst), left + (now - since) / pause)
        key = entry.kind, entry.outcome, entry.requester, entry.purpose
        if left < 1 and key not in self.unlisted and len(self.unlisted) >= self._most:
            entry = replace(entry, requester="", purpose="")
            key = entry.kind, entry.outcome, "", ""
        before = self.unlisted.pop(key, None)
        entry = entry if before is None else replace(entry, count=before.count + entry.count)
        if left < 1:
            self._tokens[rule] = left, now
            self.unlisted[key] = entry
            return None
        self._tokens[rule] = left - 1, now
        return entry


def describe_reply(reply: Any) -> tuple[int, str]:
    """How many numbers and texts a reply holds, and of each of its fields how many: single numbers
    by their value, arrays by their shape.

    >>> from fedwad.federation import Moments
    >>> import numpy as np
    >>> describe_reply(Moments(40, np.zeros(3), np.ones(3)))
    (7, 'count 40; mean 3 values; scale 3 values')
    """
    total, texts = 0, []
    for name in [field.name for field in fields(reply)]:
        value = getattr(reply, name)
        count = sum(one.size if isinstance(one, np.ndarray) else one != "" for one in leaves(value))
        total += count
        if count:
            is_single = isinstance(value, float | int | np.generic)
            texts.append(f"{name} {value:g}" if is_single else f"{name} {count:,} values")
    return total, "; ".join(texts)


def guarantee_warning(ledger: Ledger, policy: Policy) -> str:
    """A warning if the policy allows replies without noise after private releases; else empty."""
    count = ledger.totals.releases
    if not count or not set(policy.allow) - {"describe", "private"}:
        return ""
    releases = f"{count} private release{'s' if count > 1 else ''}"
    when = "ends with the first of those"
    if math.isinf(ledger.spent):
        when = "has ended, because replies without noise were sent too"
    return (
        f"The ledger holds {releases}, and this policy allows replies without noise:"
        f" the guarantee of differential privacy {when}."
    )
