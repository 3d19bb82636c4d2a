"""What a client keeps between requests. None of it leaves the client by itself."""

from __future__ import annotations

import hashlib
import io
from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import FederationError
from fedwad.ot import Floats

__all__ = ["ReplyCache", "RunCache"]

_RUNS = 256
_START_BYTES = 1 << 25
_REPLY_BYTES = 1 << 23


class ReplyCache:
    """The last replies as they were sent, by the digest of the request; the oldest are removed."""

    def __init__(self, limit: int = _REPLY_BYTES) -> None:
        self._limit, self._size = limit, 0
        self._replies: OrderedDict[str, bytes] = OrderedDict()

    def get(self, question: str) -> bytes | None:
        """The reply to this question, if it is kept."""
        return self._replies.get(question)

    def put(self, question: str, reply: bytes) -> None:
        """Keep a reply, unless it is larger than the whole cache."""
        if len(reply) > self._limit:
            return
        self._size += len(reply) - len(self._replies.pop(question, b""))
        self._replies[question] = reply
        while self._size > self._limit:
            self._size -= len(self._replies.popitem(last=False)[1])


class RunCache:
    """The last transport and the personal layers of each run; the oldest runs are removed.

    The next round's transport starts from the last one, which saves time and changes no number.
    Personal layers are needed to go on with a training, so a client with a ledger in a file
    writes them to a folder beside it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._transports: OrderedDict[str, tuple[Floats, Floats]] = OrderedDict()
        self._layers: OrderedDict[str, tuple[int, NDArray[np.float32]]] = OrderedDict()

    def recall(self, run: str) -> tuple[Floats, Floats] | None:
        """What was kept of the last transport of this run, if it is known."""
        return self._transports.get(run)

    def remember(self, run: str, potentials: Floats, means: Floats) -> None:
        """Keep the potentials of the support and the means of its cells."""
        self._transports[run] = potentials, means
        self._transports.move_to_end(run)
        most = max(1, min(_RUNS, _START_BYTES // (potentials.nbytes + means.nbytes)))
        while len(self._transports) > most:
            self._transports.popitem(last=False)

    def recall_layers(self, run: str, times_trained: int) -> NDArray[np.float32] | None:
        """Personal-layer weights after `times_trained` training rounds of `run`; None if the client
        is at a different round."""
        known, layers = self._layers.get(run, (0, None))
        if layers is None and self._folder is not None:
            try:
                with np.load(self._file(run), allow_pickle=False) as kept:
                    known, layers = int(kept["times_trained"]), kept["layers"]
            except (OSError, ValueError, KeyError):  # never written, or cut short
                return None
        return layers if known == times_trained else None

    def keep_layers(self, run: str, times_trained: int, layers: NDArray[np.float32]) -> None:
        """Keep the personal-layer weights after `times_trained` training rounds of `run`."""
        self._layers[run] = (times_trained, layers)
        self._layers.move_to_end(run)
        while len(self._layers) > _RUNS:
            self._layers.popitem(last=False)
        if self._folder is not None:
            self._write(self._folder, run, times_trained, layers)

    def _file(self, run: str) -> Path:
        name = hashlib.sha256(run.encode("utf-8")).hexdigest()[:32]
        return Path(str(self._folder)) / f"{name}.npz"

    def _write(
        self, folder: Path, run: str, times_trained: int, layers: NDArray[np.float32]
    ) -> None:
        """Write a file that only its owner can read, and remove the files of the oldest runs."""
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            content = io.BytesIO()
            np.savez(content, times_trained=times_trained, layers=layers)
            temporary = self._file(run).with_suffix(".tmp")
            temporary.write_bytes(content.getvalue())
            temporary.replace(self._file(run))
            others = [path for path in folder.glob("*.npz") if path != self._file(run)]
            others.sort(key=lambda path: path.stat().st_mtime)  # a clock that jumped harms no run
            for old in others[: max(0, len(others) - _RUNS + 1)]:
                old.unlink()
        except OSError:
            raise FederationError(
                "This site cannot write its personal layers to disk; its operator has to make room."
            ) from None
