"""Differencing by the weights and by the sizes of supports on a line; see `_curve`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import accumulate

import numpy as np

from fedwad._audit._curve import Curve, random_direction
from fedwad._audit._session import AttackSession
from fedwad.ot import Floats, Measure

__all__ = ["difference_by_sizes", "difference_by_weights"]

_LINES, _QUERIES = 3, 200


def difference_by_weights(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Cells of the smallest allowed size, the first of up to twice that size.

    Every record is then the last of some cell.
    """
    min_size = max(1, session.policy.min_cell_size)
    count = session.count

    def queries() -> Iterable[list[int]]:
        for shift in range(min_size + 1):
            ends = [*range(min_size + shift, count - min_size + 1, min_size), count]
            max_support = session.policy.max_support
            if max_support is not None and len(ends) > max_support:
                ends = [*ends[: max_support - 1], count]
            yield np.diff([0, *ends]).tolist()

    return _attack(
        session, rng, lambda: ([Fraction(cell) for cell in cells] for cells in queries())
    )


def difference_by_sizes(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Equal weights, as a policy may require, in supports of many sizes S: cells end at k n / S."""
    largest = min(session.max_support, max(1, session.count // 2))
    sizes = range(largest, max(1, session.policy.min_support - 1) - 1, -1)
    return _attack(session, rng, lambda: ([Fraction(session.count, size)] * size for size in sizes))


def _attack(
    session: AttackSession,
    rng: np.random.Generator,
    queries: Callable[[], Iterable[list[Fraction]]],
) -> Floats:
    """Records from supports on a few lines; `queries()` gives the sizes of the cells of each."""
    mean, scale = session.estimate_moments()
    guesses: list[Floats] = []
    n_asked = 0
    for _ in range(_LINES):
        curve = Curve(session.count, session.features)
        direction = random_direction(session.features, rng)
        for cells in queries():
            if session.is_spent or n_asked >= _QUERIES:
                break
            weights = np.array([float(cell) for cell in cells])
            along = np.arange(len(cells)) - (len(cells) - 1) / 2
            support = mean + np.outer(along, direction) * float(scale.mean())
            means = session.cell_means(Measure(support, weights))
            n_asked += 1
            if means is not None:
                curve.add(list(accumulate(cells)), weights[:, None] * (means - mean))
            elif not session.answered:  # the kind or the weights are refused: so will be all others
                return session.no_guesses
        guesses += [mean + record for record in curve.records()]
    return np.array(guesses).reshape(-1, session.features)
