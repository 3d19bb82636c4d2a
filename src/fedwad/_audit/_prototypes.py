"""Differencing of prototypes: the atoms of a class are means of cells, as in a summary."""

from __future__ import annotations

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad._audit._summaries import candidates
from fedwad.federation import Prototypes, PrototypesRequest
from fedwad.ot import Floats

__all__ = ["many_prototypes"]

_QUERIES = 60


def many_prototypes(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """Ask for prototypes with different sizes and seeds: two cells of a class that differ by one
    record reveal it."""
    max_atoms = max(1, min(session.max_support, session.count // 10))
    cells: dict[object, list[tuple[Floats, Floats]]] = {}
    for k in range(session.queries(_QUERIES)):
        reply = session.ask(PrototypesRequest(max(1, max_atoms - k // 20), "class", "free", k))
        if not isinstance(reply, Prototypes):
            if session.is_hopeless:
                break
            continue
        for code, name in enumerate(reply.names):
            own = reply.labels == code
            cells.setdefault(name, []).append((reply.weights[own], reply.points[own]))
    guesses = [_of_class(found, session.count) for found in cells.values()]
    return np.concatenate(guesses) if guesses else session.nothing


def _of_class(found: list[tuple[Floats, Floats]], count: int) -> Floats:
    """Candidates from the weights and means of one class, at most as many as it has records."""
    weights, points = (np.concatenate(parts) for parts in zip(*found, strict=True))
    records = round(float(found[0][0].sum()) * count)
    return candidates(np.rint(weights * count).astype(np.int64), points, records)
