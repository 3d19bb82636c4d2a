"""Optimal transport between equally many points of equal weight: an assignment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._measure import Floats
from fedwad.ot._plan import Solution

__all__ = ["assignment"]

_COARSEST = 256  # rows that are solved without a start from a subsample
_ROWS = 256  # relaxed at a time


def assignment(cost: Floats, start: Floats | None = None) -> Solution:
    """Optimal assignment of rows to columns, each of mass 1/n, with potentials.

    SciPy's solver spends its time on long augmenting paths, many times longer when, say, the two clouds have
    different means. So it gets the cost reduced by potentials of a four times smaller problem, and
    that one by those of a smaller one still: the optimum stays the same, the paths get short. `start`, the
    column potentials of a similar problem, takes the place of the smaller ones.
    """
    n = len(cost)
    if start is not None:
        g = start.copy()
    elif n <= _COARSEST:
        return _solve(cost, np.zeros(n), np.zeros(n))
    else:
        sample = np.arange(n // 4) * 4
        coarse = assignment(np.ascontiguousarray(cost[np.ix_(sample, sample)]))
        g = (cost[sample] - coarse.f[:, None]).min(axis=0)
    f = (cost - g).min(axis=1)
    g += (cost - f[:, None] - g).min(axis=0)
    return _solve(cost, f, g)


def _solve(cost: Floats, f: Floats, g: Floats) -> Solution:
    """Assignment on the cost reduced by feasible potentials, which leaves small non-negative costs."""
    from scipy.optimize import linear_sum_assignment

    n = len(cost)
    reduced = cost - f[:, None]
    reduced -= g
    rows, cols = linear_sum_assignment(reduced)
    g = g + _column_potentials(reduced, cols)
    f = cost[rows, cols] - g[cols]
    return Solution(rows.astype(np.int64), cols.astype(np.int64), np.full(n, 1.0 / n), f, g)


def _column_potentials(cost: Floats, cols: NDArray[np.int64]) -> Floats:
    """Potentials of the columns, which SciPy keeps to itself.

    They are shortest-path lengths in the graph on columns whose edge k -> j costs c_ij - c_ik, where i is the row
    assigned to k; an optimal assignment has no negative cycle there. Bellman-Ford from a virtual
    source, relaxing only rows whose own column has improved.
    """
    n = len(cost)
    matched = cost[np.arange(n), cols]
    noise = 4 * np.finfo(np.float64).eps * float(cost.max(initial=0.0))
    row_of = np.empty(n, dtype=np.int64)
    row_of[cols] = np.arange(n)
    g = np.zeros(n)
    active = np.arange(n)
    for _ in range(n):  # a shortest path has at most n edges
        if not len(active):
            break
        improved = np.zeros(n, dtype=bool)
        for start in range(0, len(active), _ROWS):
            rows = active[start : start + _ROWS]
            candidate = (cost[rows] + (g[cols[rows]] - matched[rows])[:, None]).min(axis=0)
            better = candidate < g - noise
            g[better] = candidate[better]
            improved |= better
        active = row_of[improved]
    return g
