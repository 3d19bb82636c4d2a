"""A federation that records every answer, so that an interrupted run can be resumed."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from fedwad._checks import check_path
from fedwad.errors import FederationError, InputError
from fedwad.federation.federation import Answer, Federation, NamedSites, Question, known_of
from fedwad.messages.codec import Envelope, pack, unpack
from fedwad.messages.message import Bundle, Failure, without_run

_VERSION = 4  # of the table


class Journal(NamedSites):
    """A wrapper of another federation that writes its answers to a SQLite file, round by round.

    An algorithm that starts again from the same seed sends the same requests again. Opened with
    `resume=True`, a journal replays the answers that it holds without asking anyone. No site is
    queried twice for one round, and the result is that of an undisturbed run.

    A request that differs from the recorded one is refused. For sites in this process changed data
    are refused too; for remote sites the recorded replies are used as they are. A site that failed
    is left out again in the rounds that went on without it, and is asked again in the last one.

    Parameters
    ----------
    federation : the sites
    path : the file; only its owner can read it, since it holds what sites sent
    resume : whether to go on with an existing journal; without it, an existing file is an error
    named : the sites of which the run is. Of the others, a run that goes on knows those that the
        file has: sites may have come or gone meanwhile. All sites when left out

    Examples
    --------
    >>> import fedwad, tempfile, pathlib
    >>> fed = fedwad.local({"paris": [[0.0], [1.0]], "oslo": [[2.0], [3.0]]})
    >>> with Journal(fed, pathlib.Path(tempfile.mkdtemp()) / "run.journal") as journal:
    ...     r = fedwad.distance(journal["paris"], journal["oslo"], method="fedwad", support=2)
    >>> r.lower <= 2.0 <= r.upper
    True
    """

    def __init__(
        self,
        federation: Federation,
        path: str | Path,
        resume: bool = False,
        named: Sequence[str] = (),
    ) -> None:
        self._federation = federation
        vars(self).update(known_of(federation))
        self.path = check_path(path, "path")
        #: Number of rounds that were answered from the file.
        self.replayed = 0
        self._asked = Counter[str]()  # how often this run asked the same
        self._db = _open(self.path, resume)
        try:
            #: Answers that were not replayed yet, by round and site.
            self._recorded: dict[str, dict[str, Answer]] = {}
            for key, site, answer in _read(self._db):  # of a site that failed, the last one
                self._recorded.setdefault(key, {})[site] = answer
        except (sqlite3.Error, TypeError, ValueError, FederationError):
            self.close()
            raise InputError(
                f"The journal {self.path} is damaged; start the run again without it.",
                "damaged-content",
            ) from None
        self._names = tuple(federation.names)
        if named and self._recorded:
            known = {name for answers in self._recorded.values() for name in answers}
            self._names = (*named, *sorted(known - set(named)))

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Replay the recorded answers to these requests; ask the other sites and record theirs."""
        # A round is known by its requests, without the name of the run, which is drawn anew at each
        # start, the names of its sites and the fingerprints of their data.
        fingerprint, sha = getattr(self._federation, "fingerprint", lambda _: ""), hashlib.sha256()
        for name, request in sorted(requests.items()):
            if isinstance(request, Bundle):
                request = Bundle(tuple(map(without_run, request.requests)))
            else:
                request = without_run(request)
            sha.update(pack(Envelope(request, name)) + fingerprint(name).encode())
        digest = sha.hexdigest()[:32]
        self._asked[digest] += 1
        key = f"{digest} {self._asked[digest]}"
        if self._recorded and key not in self._recorded:
            raise InputError(
                f"{self.path} belongs to another run; give the same data, options and seed, or"
                " remove it.",
                "other-run",
            )
        recorded = self._recorded.pop(key, {})
        if not self._recorded:  # the run ended in this round: sites that failed are asked again
            recorded = {name: one for name, one in recorded.items() if not isinstance(one, Failure)}
        self.replayed += bool(recorded)
        missing = {name: request for name, request in requests.items() if name not in recorded}
        new = self._federation.ask(missing) if missing else {}
        self._write(key, new)
        answers = recorded | new
        return {name: answers[name] for name in requests if name in answers}

    def _write(self, key: str, answers: Mapping[str, Answer]) -> None:
        packed = [(name, pack(Envelope(answer))) for name, answer in answers.items()]
        rows = [(key, name, hashlib.sha256(one).digest(), one) for name, one in packed]
        try:
            with self._db:  # a transaction
                self._db.executemany("INSERT INTO records VALUES (NULL, ?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise FederationError(
                f"The journal {self.path} cannot be written ({error}).", "cannot-write"
            ) from None


def _open(path: Path, resume: bool) -> sqlite3.Connection:
    """The database of a new journal, or that of an earlier run."""
    if resume and not path.is_file():
        raise InputError(
            f"There is no journal at {path} to resume; start without resuming.", "no-such-file"
        )
    with ExitStack() as stack:
        try:
            if not resume:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            db = stack.enter_context(closing(sqlite3.connect(path, check_same_thread=False)))
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            with db:  # table and version together, or neither
                db.execute("BEGIN IMMEDIATE")
                (version,) = db.execute("PRAGMA user_version").fetchone()
                (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
                if not tables:  # new, or stopped before its first round
                    db.execute(
                        "CREATE TABLE records (number INTEGER PRIMARY KEY, key TEXT NOT"
                        " NULL, site TEXT NOT NULL, sha256 BLOB NOT NULL, answer BLOB NOT NULL)"
                    )
                    db.execute(f"PRAGMA user_version = {_VERSION}")
                elif version != _VERSION:
                    raise sqlite3.DatabaseError
        except FileExistsError:
            raise InputError(
                f"{path} exists; resume it, name another file, or remove it.", "file-exists"
            ) from None
        except OSError as error:
            raise InputError(
                f"{path} cannot be written ({error.strerror}); choose a different path.",
                "cannot-write",
            ) from None
        except sqlite3.OperationalError as error:
            raise FederationError(
                f"The journal {path} cannot be opened ({error}); is another run using it?",
                "cannot-write",
            ) from None
        except sqlite3.DatabaseError:
            raise InputError(
                f"{path} is not a journal of a run; name another file.", "wrong-format"
            ) from None
        stack.pop_all()
    return db


def _read(db: sqlite3.Connection) -> Iterator[tuple[str, str, Answer]]:
    """Round, site and answer of each record up to the first that is damaged; it and those after it
    are asked for again."""
    rows = db.execute("SELECT * FROM records ORDER BY number").fetchall()
    for number, key, site, sha, packed in rows:
        if hashlib.sha256(packed).digest() != sha:
            with db:
                db.execute("DELETE FROM records WHERE number >= ?", (number,))
            return
        yield key, site, unpack(packed).content
