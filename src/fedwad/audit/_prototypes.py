"""Differencing of prototypes: the atoms of a class are means of cells, as in a summary."""

from __future__ import annotations

import numpy as np

from fedwad.audit._door import Door
from fedwad.audit._summaries import candidates
from fedwad.federation import Prototypes, PrototypesRequest
from fedwad.ot import Floats

__all__ = ["many_prototypes"]

_LOOKS = 60


def many_prototypes(door: Door, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """Prototypes of other numbers and seeds: two cells of a class that differ by one record give that record away."""
    looks = _LOOKS if door.policy.answers is None else min(_LOOKS, door.policy.answers)
    most = max(1, min(door.most, door.count // 10))
    cells: dict[object, list[tuple[Floats, Floats]]] = {}
    for k in range(looks):
        reply = door.ask(PrototypesRequest(max(1, most - k // 20), "class", "free", k))
        if not isinstance(reply, Prototypes):
            if not door.answered or door.is_spent:
                break
            continue
        for code, name in enumerate(reply.names):
            own = reply.labels == code
            cells.setdefault(name, []).append((reply.weights[own], reply.points[own]))
    guesses = []
    for told in cells.values():
        counts = np.rint(np.concatenate([weights for weights, _ in told]) * door.count).astype(np.int64)
        # What a class can give is bounded by what it holds.
        held = round(float(told[0][0].sum()) * door.count)
        guesses.append(candidates(counts, np.concatenate([points for _, points in told]), held))
    return np.concatenate(guesses) if guesses else np.empty((0, door.features))
