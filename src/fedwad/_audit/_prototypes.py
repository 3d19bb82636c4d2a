"""Differencing of prototypes: the atoms of a class are means of cells, as in a summary."""

from __future__ import annotations

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad._audit._summaries import difference_cells
from fedwad.federation import Prototypes, PrototypesRequest
from fedwad.ot import Floats

__all__ = ["difference_prototypes"]

_QUERIES = 60


def difference_prototypes(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Records by which two cells of a class differ, from prototypes of many sizes and seeds."""
    max_atoms = max(1, min(session.max_support, session.count // 10))
    cells: dict[object, list[tuple[Floats, Floats]]] = {}  # weights and points, by class
    for k in range(session.queries(_QUERIES)):
        reply = session.ask(PrototypesRequest(max(1, max_atoms - k // 20), "class", "free", k))
        if not isinstance(reply, Prototypes):
            if session.should_stop:
                break
            continue
        for code, name in enumerate(reply.names):
            in_class = reply.labels == code
            cells.setdefault(name, []).append((reply.weights[in_class], reply.points[in_class]))
    guesses = [_difference_class(parts, session.count) for parts in cells.values()]
    return np.concatenate(guesses) if guesses else session.no_guesses


def _difference_class(replies: list[tuple[Floats, Floats]], count: int) -> Floats:
    """Candidates from the weights and points of one class, at most as many as it has records."""
    weights, points = (np.concatenate(arrays) for arrays in zip(*replies, strict=True))
    n_class = round(float(replies[0][0].sum()) * count)
    return difference_cells(np.rint(weights * count).astype(np.int64), points, n_class)
