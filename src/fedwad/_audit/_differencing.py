"""Differencing by the weights and by the sizes of supports on a line; see `_curve`."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from fedwad._audit._curve import Curve, a_line
from fedwad._audit._session import AttackSession
from fedwad.ot import Floats, Measure

__all__ = ["by_sizes", "by_weights"]

_LINES, _QUERIES = 3, 200


def by_weights(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Cells of f samples each, the first of f, f + 1, ..., 2 f - 1: their ends pass through every
    record."""
    floor = max(1, session.policy.min_cell_size)
    count = session.count

    def queries() -> Iterable[list[int]]:
        for shift in range(floor + 1):
            ends = [*range(floor + shift, count - floor + 1, floor), count]
            most = session.policy.max_support
            if most is not None and len(ends) > most:
                ends = [*ends[: most - 1], count]
            yield np.diff([0, *ends]).tolist()

    return _attack(
        session, rng, lambda: ([Fraction(cell) for cell in cells] for cells in queries())
    )


def by_sizes(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Equal weights, as a policy may ask for, but supports of many sizes S: their cells end at k n
    / S."""
    most, least = (
        min(session.most, max(1, session.count // 2)),
        max(1, session.policy.min_support - 1),
    )
    sizes = range(most, least - 1, -1)
    return _attack(session, rng, lambda: ([Fraction(session.count, size)] * size for size in sizes))


def _attack(session: AttackSession, rng: np.random.Generator, queries: object) -> Floats:
    mean, scale = session.sketch()
    found: list[Floats] = []
    asked = 0
    for _ in range(_LINES):
        curve = Curve(session.count, session.features)
        direction = a_line(session.features, rng)
        for cells in queries():  # type: ignore[operator]
            if session.is_spent or asked >= _QUERIES:
                break
            weights = np.array([float(cell) for cell in cells])
            along = np.arange(len(cells)) - (len(cells) - 1) / 2
            seen = session.look(
                Measure(mean + np.outer(along, direction) * float(scale.mean()), weights)
            )
            asked += 1
            if seen is not None:
                curve.add(list(np.cumsum(cells)), weights[:, None] * (seen.means - mean))
            elif not session.answered:  # refused by its kind or its weights: another will be too
                return np.empty((0, session.features))
        found += [mean + record for record in curve.records()]
    return np.array(found).reshape(-1, session.features)
