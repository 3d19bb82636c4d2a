"""A federation that records every answer, so that an interrupted run can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from fedwad._checks import check_path
from fedwad.errors import FederationError, FedwadError, InputError
from fedwad.federation.bundle import Bundle
from fedwad.federation.codec import Envelope, pack, unpack
from fedwad.federation.failures import Failure
from fedwad.federation.federation import Answer, Federation, NamedSites, Question
from fedwad.federation.message import without_run

__all__ = ["Journal"]

#: Question, answer by site, and length in the file.
_Kept = tuple[str, dict[str, Answer], int]

_START = b"fedwad journal 2\n"
_OLD_START = b"fedwad journal "


class Journal(NamedSites):
    """A wrapper of another federation that writes its answers to a file, round by round.

    An algorithm that starts again from the same seed asks the same requests again. Opened with
    `resume=True`, a journal replays the answers that it holds without asking anyone. No site is
    queried twice for one round, and the result is that of an undisturbed run.

    A request that differs from the recorded one is refused. For local clients changed data are
    refused too; for remote clients the recorded replies are used as they are. A site that failed is
    left out again in the rounds that went on without it, and is asked again in the last one.

    Parameters
    ----------
    federation : the clients
    path : the file; only its owner can read it, since it holds what sites sent
    resume : whether to go on with an existing journal; without it, an existing file is an error

    Examples
    --------
    >>> import fedwad, tempfile, pathlib
    >>> fed = fedwad.local({"paris": [[0.0], [1.0]], "oslo": [[2.0], [3.0]]})
    >>> with Journal(fed, pathlib.Path(tempfile.mkdtemp()) / "run.journal") as kept:
    ...     found = fedwad.distance(kept["paris"], kept["oslo"], method="fedwad", support=2)
    >>> found.lower <= 2.0 <= found.upper
    True
    """

    def __init__(self, federation: Federation, path: str | Path, resume: bool = False) -> None:
        self._federation = federation
        self.features = getattr(federation, "features", None)
        self.schema = getattr(federation, "schema", None)
        self.path = check_path(path, "path")
        self._kept = _read(self.path) if resume else []
        self.replayed = 0
        if not resume and self.path.exists():
            raise InputError(f"{self.path} exists; resume it, name another file, or remove it.")
        try:
            self._file = os.fdopen(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600), "r+b")
            self._file.seek(_length(self._kept))
            self._file.truncate()  # what a crash cut short is asked for again
            if not self._kept:
                self._file.seek(0)
                self._file.write(_START)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written ({error.strerror}); choose a different path."
            ) from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def names(self) -> tuple[str, ...]:
        return self._federation.names

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Replay the recorded answers to these requests; ask the other sites and record theirs."""
        fingerprint = getattr(self._federation, "fingerprint", lambda _: "")
        question = _digest(requests, {name: fingerprint(name) for name in requests})
        known = self._replay(question)
        missing = {name: request for name, request in requests.items() if name not in known}
        fresh = self._federation.ask(missing) if missing else {}
        self._write(question, fresh)
        answers = known | fresh
        return {name: answers[name] for name in requests if name in answers}

    def _replay(self, question: str) -> dict[str, Answer]:
        """The recorded answers to this question; InputError if a different one was recorded."""
        known: dict[str, Answer] = {}
        while self._kept and self._kept[0][0] == question:
            if _answered(known, self._kept[0][1]):
                break
            known |= self._kept.pop(0)[1]
        if not self._kept:  # the round in which the run ended
            known = {
                name: answer for name, answer in known.items() if not isinstance(answer, Failure)
            }
        if known:
            self.replayed += 1
        elif self._kept:
            raise InputError(
                f"{self.path} belongs to another run; give the same data, options and seed, or"
                " remove it."
            )
        return known

    def _write(self, question: str, answers: Mapping[str, Answer]) -> None:
        record = b"".join(_record(question, name, answer) for name, answer in answers.items())
        try:
            self._file.write(record)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise FederationError(
                f"The journal {self.path} cannot be written ({error.strerror})."
            ) from None


def _answered(known: Mapping[str, Answer], more: Mapping[str, Answer]) -> bool:
    """Whether these sites have replied already; then `more` belongs to a later round with the same
    requests."""
    return any(name in known and not isinstance(known[name], Failure) for name in more)


def _record(question: str, name: str, answer: Answer) -> bytes:
    """Length, SHA-256 and body of a record. The body is a line of JSON and the packed answer."""
    line = json.dumps({"question": question, "site": name}).encode("utf-8")
    body = line + b"\n" + pack(Envelope(answer))
    return len(body).to_bytes(8, "little") + hashlib.sha256(body).digest() + body


def _length(kept: list[_Kept]) -> int:
    return len(_START) + sum(size for _, _, size in kept)


def _read(path: Path) -> list[_Kept]:
    """The complete records of a journal."""
    try:
        data = path.read_bytes()
    except OSError:
        raise InputError(
            f"There is no journal at {path} to resume; start without resuming."
        ) from None
    if not data.startswith(_START):
        if _START.startswith(data):  # cut off in its first line
            return []
        if data.startswith(_OLD_START):
            raise InputError(f"{path} is a journal of a different version; start the run again.")
        raise InputError(f"{path} is not a journal of a run; name another file.")
    records = []
    offset = len(_START)
    while offset + 40 <= len(data):
        size = int.from_bytes(data[offset : offset + 8], "little")
        body = data[offset + 40 : offset + 40 + size]
        if len(body) != size or hashlib.sha256(body).digest() != data[offset + 8 : offset + 40]:
            break
        line, _, packed = body.partition(b"\n")
        try:
            head, answer = json.loads(line), unpack(packed).content
        except (FedwadError, ValueError):
            break
        records.append((head["question"], {head["site"]: answer}, 40 + size))
        offset += 40 + size
    return records


def _digest(requests: Mapping[str, Question], data: Mapping[str, str]) -> str:
    """SHA-256 of who is asked what about which data.

    The name of the run is left out, because it is drawn anew at each start.
    """
    sha = hashlib.sha256()
    for name in sorted(requests):
        sha.update(pack(Envelope(_without_runs(requests[name]), name)))
        sha.update(data[name].encode())
    return sha.hexdigest()[:32]


def _without_runs(request: Question) -> Question:
    if isinstance(request, Bundle):
        return Bundle(tuple(map(without_run, request.requests)))
    return without_run(request)
