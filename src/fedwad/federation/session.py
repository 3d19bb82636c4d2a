"""What a client remembers between the rounds of a run. It never leaves the client."""

from __future__ import annotations

from collections import OrderedDict

from fedwad.ot import Floats

__all__ = ["Session"]

_RUNS = 256


class Session:
    """The last potentials of each run, to start the next round's transport from; old runs are forgotten."""

    def __init__(self) -> None:
        self._potentials: OrderedDict[str, Floats] = OrderedDict()

    def recall(self, run: str) -> Floats | None:
        return self._potentials.get(run)

    def remember(self, run: str, potentials: Floats) -> None:
        self._potentials[run] = potentials
        self._potentials.move_to_end(run)
        while len(self._potentials) > _RUNS:
            self._potentials.popitem(last=False)
