"""What a client remembers between the rounds of a run. It never leaves the client."""

from __future__ import annotations

import hashlib
import io
from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import FederationError
from fedwad.ot import Floats

__all__ = ["RunCache"]

_RUNS = 256


class RunCache:
    """The last potentials of each run, to start the next round's transport from, and a network's
    own layers.

    Old runs are forgotten. Nodes that start a process for each message keep layers in a folder of
    their own: without them a training could not go on, while potentials save time and change no
    number.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._potentials: OrderedDict[str, Floats] = OrderedDict()
        self._layers: OrderedDict[str, tuple[int, NDArray[np.float32]]] = OrderedDict()

    def recall(self, run: str) -> Floats | None:
        return self._potentials.get(run)

    def remember(self, run: str, potentials: Floats) -> None:
        self._potentials[run] = potentials
        self._potentials.move_to_end(run)
        while len(self._potentials) > _RUNS:
            self._potentials.popitem(last=False)

    def recall_layers(self, run: str, turn: int) -> NDArray[np.float32] | None:
        """The weights of this client's own layers after it has trained so often in this run, if
        that is where it is."""
        known, layers = self._layers.get(run, (0, None))
        if layers is None and self._folder is not None:
            try:
                with np.load(self._file(run), allow_pickle=False) as kept:
                    known, layers = int(kept["turn"]), kept["layers"]
            except (OSError, ValueError, KeyError):  # never written, or cut short
                return None
        return layers if known == turn else None

    def keep_layers(self, run: str, turn: int, layers: NDArray[np.float32]) -> None:
        self._layers[run] = (turn, layers)
        self._layers.move_to_end(run)
        while len(self._layers) > _RUNS:
            self._layers.popitem(last=False)
        if self._folder is not None:
            self._write(run, turn, layers)

    def _file(self, run: str) -> Path:
        return (
            Path(str(self._folder)) / f"{hashlib.sha256(run.encode('utf-8')).hexdigest()[:32]}.npz"
        )

    def _write(self, run: str, turn: int, layers: NDArray[np.float32]) -> None:
        """Readable by the owner alone; the oldest runs make room."""
        folder = Path(str(self._folder))
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            content = io.BytesIO()
            np.savez(content, turn=turn, layers=layers)
            temporary = self._file(run).with_suffix(".tmp")
            temporary.write_bytes(content.getvalue())
            temporary.replace(self._file(run))
            for old in sorted(folder.glob("*.npz"), key=lambda path: path.stat().st_mtime)[:-_RUNS]:
                old.unlink()
        except OSError:
            raise FederationError(
                "This client cannot write down its own layers; its operator has to make room."
            ) from None
