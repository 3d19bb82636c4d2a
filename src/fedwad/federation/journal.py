"""A federation that writes down every answer, so that an interrupted run goes on where it was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from fedwad.errors import FederationError, FedwadError, InputError
from fedwad.federation.bundle import Bundle
from fedwad.federation.codec import Envelope, pack, unpack
from fedwad.federation.federation import Answer, Federation, Question, Site, site
from fedwad.federation.replies import Failure

__all__ = ["Journal"]

_START = b"fedwad journal 1\n"


class Journal:
    """Another federation whose answers go into a file, round by round.

    Algorithms ask the same questions again when they start from the same seed. Opened with
    `resume=True`, a journal gives the answers that it holds without asking anyone: clients are not
    looked at twice for one round, and the result is the one that an undisturbed run would have had.
    A question that differs from the one in the journal belongs to another run and is refused, and
    so is one about other data where clients are in this process; elsewhere a journal answers for
    the data as they were. A client that was lost stays lost in the rounds that went on without it,
    and is asked again in the last one.

    Parameters
    ----------
    federation : the clients
    path : the file; it is readable by its owner only, since it holds what clients sent
    resume : whether to go on with a journal that is there; without it, one that is there is an
        error

    Examples
    --------
    >>> import fedwad, tempfile, pathlib
    >>> fed = fedwad.local({"paris": [[0.0], [1.0]], "oslo": [[2.0], [3.0]]})
    >>> with Journal(fed, pathlib.Path(tempfile.mkdtemp()) / "run.journal") as kept:
    ...     fedwad.distance(kept["paris"], kept["oslo"], support=2).value
    2.0
    """

    def __init__(self, federation: Federation, path: str | Path, resume: bool = False) -> None:
        self._federation = federation
        self.path = Path(path)
        self._kept = _read(self.path) if resume else []
        self.replayed = 0
        if not resume and self.path.exists():
            raise InputError(
                f"{self.path} exists; resume it (--resume), name another file, or remove it."
            )
        try:
            self._file = os.fdopen(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600), "r+b")
            self._file.seek(_length(self._kept))
            self._file.truncate()  # what a crash cut short is asked again
            if not self._kept:
                self._file.seek(0)
                self._file.write(_START)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written ({error.strerror}); choose another place."
            ) from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def names(self) -> tuple[str, ...]:
        return self._federation.names

    @property
    def features(self) -> tuple[str, ...] | None:
        """Names of the features, where the federation knows them."""
        return getattr(self._federation, "features", None)

    def __getitem__(self, name: str) -> Site:
        return site(self, name)

    def __len__(self) -> int:
        return len(self.names)

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        fingerprint = getattr(self._federation, "fingerprint", lambda _: "")
        question = _digest(requests, {name: fingerprint(name) for name in requests})
        known: dict[str, Answer] = {}
        while (
            self._kept and self._kept[0][0] == question and not _answered(known, self._kept[0][1])
        ):
            known |= self._kept.pop(0)[1]
        if not self._kept:  # the round in which the run ended
            known = {
                name: answer for name, answer in known.items() if not isinstance(answer, Failure)
            }
        if known:
            self.replayed += 1
        elif self._kept:
            raise InputError(
                f"{self.path} belongs to another run; give the same data, options and seed, or remove it."
            )
        missing = {name: request for name, request in requests.items() if name not in known}
        fresh = self._federation.ask(missing) if missing else {}
        self._write(question, fresh)
        return {name: (known | fresh)[name] for name in requests if name in known or name in fresh}

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
    """Whether these clients have replied already: then more is about a later round that asked the
    same."""
    return any(name in known and not isinstance(known[name], Failure) for name in more)


def _record(question: str, name: str, answer: Answer) -> bytes:
    body = pack(Envelope(answer, question, name))
    return len(body).to_bytes(8, "little") + hashlib.sha256(body).digest() + body


def _length(kept: list[tuple[str, dict[str, Answer], int]]) -> int:
    return len(_START) + sum(size for _, _, size in kept)


def _read(path: Path) -> list[tuple[str, dict[str, Answer], int]]:
    """The complete records of a journal: question, answer by client, and length in the file."""
    try:
        data = path.read_bytes()
    except OSError:
        raise InputError(
            f"There is no journal at {path} to resume; start without resuming."
        ) from None
    if not data.startswith(_START):
        if _START.startswith(data):  # cut off at birth
            return []
        raise InputError(f"{path} is not a journal of a run; name another file.")
    records = []
    place = len(_START)
    while place + 40 <= len(data):
        size = int.from_bytes(data[place : place + 8], "little")
        body = data[place + 40 : place + 40 + size]
        if len(body) != size or hashlib.sha256(body).digest() != data[place + 8 : place + 40]:
            break
        try:
            letter = unpack(body)
        except FedwadError:
            break
        records.append((letter.request_id, {letter.features: letter.content}, 40 + size))
        place += 40 + size
    return records


def _digest(requests: Mapping[str, Question], data: Mapping[str, str]) -> str:
    """What is asked of whom and about which data, the name of the run left out: it is drawn anew at
    each start."""
    sha = hashlib.sha256()
    for name in sorted(requests):
        sha.update(pack(Envelope(_nameless(requests[name]), name)))
        sha.update(data[name].encode())
    return sha.hexdigest()[:32]


def _nameless(request: Any) -> Any:
    if isinstance(request, Bundle):
        return Bundle(tuple(_nameless(part) for part in request.requests))
    return (
        replace(request, run="")
        if any(field.name == "run" for field in fields(request))
        else request
    )
