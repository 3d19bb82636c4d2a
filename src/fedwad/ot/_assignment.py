"""Optimal transport between equally many points of equal weight: an assignment."""

from __future__ import annotations

import numpy as np

from fedwad.ot._measure import Floats, Indices
from fedwad.ot._plan import Solution

__all__ = ["assignment"]

_COARSEST = 256  # rows up to which a problem is solved directly
_BLOCK_ROWS = 256  # rows that are relaxed at a time


def assignment(cost: Floats, start: Floats | None = None) -> Solution:
    """Optimal assignment of rows to columns, each of mass 1/n, with potentials.

    Long augmenting paths take most of the time. The cost is therefore first reduced by the
    potentials of a four times smaller problem, recursively: the optimum stays the same, and paths
    become short. If `start` is given, the column potentials of a similar problem, they are used
    instead of smaller problems.
    """
    n = len(cost)
    if start is not None:
        g = start
    elif n <= _COARSEST:
        g = np.zeros(n)
    else:
        sample = np.arange(n // 4) * 4
        coarse = assignment(np.ascontiguousarray(cost[np.ix_(sample, sample)]))
        g = (cost[sample] - coarse.f[:, None]).min(axis=0)
    reduced = cost - g
    f = reduced.min(axis=1)
    reduced -= f[:, None]
    least = reduced.min(axis=0)
    reduced -= least
    cols, u, v = _match(reduced)
    return Solution(np.arange(n), cols, np.full(n, 1.0 / n), f + u, g + least + v)


def _match(cost: Floats) -> tuple[Indices, Floats, Floats]:
    """The column of each row, and the potentials of rows and columns.

    SciPy solves problems that are too small to be worth loading compiled code.
    """
    if len(cost) > _COARSEST:
        from fedwad.ot._matching import match

        return match(cost)
    from scipy.optimize import linear_sum_assignment

    rows, cols = linear_sum_assignment(cost)
    v = _column_potentials(cost, cols)
    return cols.astype(np.int64), cost[rows, cols] - v[cols], v


def _column_potentials(cost: Floats, cols: Indices) -> Floats:
    """Potentials of the columns, which SciPy does not return.

    They are shortest-path lengths in the graph on columns whose edge k -> j costs c_ij - c_ik,
    where i is the row assigned to k; an optimal assignment has no negative cycle there.
    The method is Bellman-Ford from a virtual source. It relaxes only rows whose own column has
    improved.
    """
    n = len(cost)
    matched = cost[np.arange(n), cols]
    rounding_error = 4 * np.finfo(np.float64).eps * float(cost.max(initial=0.0))
    row_of = np.empty(n, dtype=np.int64)
    row_of[cols] = np.arange(n)
    g = np.zeros(n)
    active = np.arange(n)
    for _ in range(n):  # a shortest path has at most n edges
        if not len(active):
            break
        improved = np.zeros(n, dtype=bool)
        for start in range(0, len(active), _BLOCK_ROWS):
            rows = active[start : start + _BLOCK_ROWS]
            candidate = (cost[rows] + (g[cols[rows]] - matched[rows])[:, None]).min(axis=0)
            better = candidate < g - rounding_error
            g[better] = candidate[better]
            improved |= better
        active = row_of[improved]
    return g
