"""State of a client between the rounds of a run. It stays with the client."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import FederationError
from fedwad.ot import Floats

__all__ = ["RunCache"]

_MAX_RUNS = 256
_MAX_TRANSPORT_BYTES = 1 << 25


class RunCache:
    """The last transport and the personal layers of each run; the oldest runs are removed.

    The next round's transport starts from the last one, which saves time and changes no number.
    Without its personal layers a client cannot go on with a training, so a client with a ledger in
    a file also writes them to a folder beside the ledger.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._transports: OrderedDict[str, tuple[Floats, Floats]] = OrderedDict()
        self._layers: OrderedDict[str, tuple[int, NDArray[np.float32]]] = OrderedDict()

    def transport(self, run: str) -> tuple[Floats, Floats] | None:
        """The arguments of the last `keep_transport` of this run; None if there are none."""
        return self._transports.get(run)

    def keep_transport(self, run: str, potentials: Floats, means: Floats) -> None:
        """Store the potentials of the support and the means of its cells."""
        self._transports[run] = potentials, means
        self._transports.move_to_end(run)
        size = potentials.nbytes + means.nbytes
        while len(self._transports) > max(1, min(_MAX_RUNS, _MAX_TRANSPORT_BYTES // size)):
            self._transports.popitem(last=False)

    def layers(self, run: str, times_trained: int) -> NDArray[np.float32] | None:
        """Personal-layer weights after `times_trained` training rounds of `run`; None if the client
        is at a different round."""
        trained, layers = self._layers.get(run, (0, None))
        if layers is None and self._folder is not None:
            try:
                content = io.BytesIO(self._file(run).read_bytes())
                with np.load(content, allow_pickle=False) as stored:
                    trained, layers = int(stored["times_trained"]), stored["layers"]
            except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
                # never written, or cut short
                return None
        return layers if trained == times_trained else None

    def keep_layers(self, run: str, times_trained: int, layers: NDArray[np.float32]) -> None:
        """Store the personal-layer weights after `times_trained` training rounds of `run`."""
        self._layers[run] = (times_trained, layers)
        self._layers.move_to_end(run)
        while len(self._layers) > _MAX_RUNS:
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
            others.sort(key=lambda path: path.stat().st_mtime)  # oldest first
            for old in others[: max(0, len(others) - _MAX_RUNS + 1)]:
                old.unlink()
        except OSError:
            raise FederationError(
                "This site cannot write its personal layers to disk; its operator has to make room."
            ) from None
