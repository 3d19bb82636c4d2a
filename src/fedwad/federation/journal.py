"""A federation that records every answer, so that an interrupted run can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fedwad._checks import check_path
from fedwad.errors import FederationError, FedwadError, InputError
from fedwad.federation.bundle import Bundle
from fedwad.federation.codec import Envelope, pack, unpack
from fedwad.federation.failures import Failure
from fedwad.federation.federation import Answer, Federation, NamedSites, Question
from fedwad.federation.message import without_run

__all__ = ["Journal"]

_START = b"fedwad journal 2\n"
_ANY_START = b"fedwad journal "  # of any version
_LENGTH_BYTES, _HASH_BYTES = 8, 32
_HEAD_BYTES = _LENGTH_BYTES + _HASH_BYTES


class _Record(NamedTuple):
    """The answer of one site, the digest of its round (`_digest`), and the size in the file."""

    round_digest: str
    site: str
    answer: Answer
    size: int


class Journal(NamedSites):
    """A wrapper of another federation that writes its answers to a file, round by round.

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

    Examples
    --------
    >>> import fedwad, tempfile, pathlib
    >>> fed = fedwad.local({"paris": [[0.0], [1.0]], "oslo": [[2.0], [3.0]]})
    >>> with Journal(fed, pathlib.Path(tempfile.mkdtemp()) / "run.journal") as journal:
    ...     r = fedwad.distance(journal["paris"], journal["oslo"], method="fedwad", support=2)
    >>> r.lower <= 2.0 <= r.upper
    True
    """

    def __init__(self, federation: Federation, path: str | Path, resume: bool = False) -> None:
        self._federation = federation
        self.features = getattr(federation, "features", None)
        self.schema = getattr(federation, "schema", None)
        self.in_process = bool(getattr(federation, "in_process", False))
        self.path = check_path(path, "path")
        self._records = _read(self.path) if resume else []
        #: Number of rounds that were answered from the file.
        self.replayed = 0
        if not resume and self.path.exists():
            raise InputError(f"{self.path} exists; resume it, name another file, or remove it.")
        try:
            self._file = os.fdopen(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600), "r+b")
            self._file.seek(len(_START) + sum(record.size for record in self._records))
            self._file.truncate()  # a record that a crash cut short is asked for again
            if not self._records:
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
        round_digest = _digest(requests, {name: fingerprint(name) for name in requests})
        recorded = self._replay(round_digest)
        missing = {name: request for name, request in requests.items() if name not in recorded}
        new = self._federation.ask(missing) if missing else {}
        self._write(round_digest, new)
        answers = recorded | new
        return {name: answers[name] for name in requests if name in answers}

    def _replay(self, round_digest: str) -> dict[str, Answer]:
        """The recorded answers of this round; InputError if a different round was recorded."""
        answers: dict[str, Answer] = {}
        while self._records and self._records[0].round_digest == round_digest:
            # A second reply of a site belongs to a later round with the same requests.
            if not isinstance(answers.get(self._records[0].site), Failure | None):
                break
            record = self._records.pop(0)
            answers[record.site] = record.answer
        if not self._records:  # the round in which the run ended: sites that failed are asked again
            answers = {
                name: answer for name, answer in answers.items() if not isinstance(answer, Failure)
            }
        if answers:
            self.replayed += 1
        elif self._records:
            raise InputError(
                f"{self.path} belongs to another run; give the same data, options and seed, or"
                " remove it."
            )
        return answers

    def _write(self, round_digest: str, answers: Mapping[str, Answer]) -> None:
        packed = [_pack_record(round_digest, name, answer) for name, answer in answers.items()]
        try:
            self._file.write(b"".join(packed))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise FederationError(
                f"The journal {self.path} cannot be written ({error.strerror})."
            ) from None


def _pack_record(round_digest: str, name: str, answer: Answer) -> bytes:
    """Length, SHA-256 and body of a record. The body is a line of JSON and the packed answer."""
    line = json.dumps({"question": round_digest, "site": name}).encode("utf-8")
    body = line + b"\n" + pack(Envelope(answer))
    return len(body).to_bytes(_LENGTH_BYTES, "little") + hashlib.sha256(body).digest() + body


def _read(path: Path) -> list[_Record]:
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
        if data.startswith(_ANY_START):
            raise InputError(f"{path} is a journal of a different version; start the run again.")
        raise InputError(f"{path} is not a journal of a run; name another file.")
    records = []
    offset = len(_START)
    while offset + _HEAD_BYTES <= len(data):
        start = offset + _HEAD_BYTES
        length = int.from_bytes(data[offset : offset + _LENGTH_BYTES], "little")
        body = data[start : start + length]
        sha = data[offset + _LENGTH_BYTES : start]
        if len(body) != length or hashlib.sha256(body).digest() != sha:
            break
        line, _, packed = body.partition(b"\n")
        try:
            head, answer = json.loads(line), unpack(packed).content
        except (FedwadError, ValueError):
            break
        records.append(_Record(head["question"], head["site"], answer, _HEAD_BYTES + length))
        offset = start + length
    return records


def _digest(requests: Mapping[str, Question], fingerprints: Mapping[str, str]) -> str:
    """SHA-256 of a round: its requests, the names of its sites and the fingerprints of their data.

    The name of the run is left out, because it is drawn anew at each start.
    """
    sha = hashlib.sha256()
    for name in sorted(requests):
        sha.update(pack(Envelope(_without_runs(requests[name]), name)))
        sha.update(fingerprints[name].encode())
    return sha.hexdigest()[:32]


def _without_runs(request: Question) -> Question:
    if isinstance(request, Bundle):
        return Bundle(tuple(map(without_run, request.requests)))
    return without_run(request)
