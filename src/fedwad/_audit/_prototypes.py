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
    """Prototypes of other numbers and seeds: two cells of a class that differ by one record give
    that record away."""
    queries = (
        _QUERIES
        if session.policy.max_queries is None
        else min(_QUERIES, session.policy.max_queries)
    )
    most = max(1, min(session.most, session.count // 10))
    cells: dict[object, list[tuple[Floats, Floats]]] = {}
    for k in range(queries):
        reply = session.ask(PrototypesRequest(max(1, most - k // 20), "class", "free", k))
        if not isinstance(reply, Prototypes):
            if not session.answered or session.is_spent:
                break
            continue
        for code, name in enumerate(reply.names):
            own = reply.labels == code
            cells.setdefault(name, []).append((reply.weights[own], reply.points[own]))
    guesses = []
    for told in cells.values():
        counts = np.rint(np.concatenate([weights for weights, _ in told]) * session.count).astype(
            np.int64
        )
        # What a class can give is bounded by what it holds.
        held = round(float(told[0][0].sum()) * session.count)
        guesses.append(candidates(counts, np.concatenate([points for _, points in told]), held))
    return np.concatenate(guesses) if guesses else np.empty((0, session.features))
