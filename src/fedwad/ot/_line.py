"""Optimal transport on a line: sort both sides and match quantiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._measure import Floats
from fedwad.ot._plan import Solution

__all__ = ["sorted_transport"]


def sorted_transport(
    x: Floats, y: Floats, a: Floats, b: Floats, p: float
) -> tuple[Solution, float]:
    """Exact plan and potentials for measures on the real line, in O(n log n).

    The second result is a length; potentials are in units of its p-th power. For a convex cost the
    monotone (north-west corner) plan is optimal. Its staircase of n + m - 1 entries is also a
    basis: along it, f and g follow from f_i + g_j = c_ij, and the Monge property of c makes them
    feasible everywhere.
    """
    x_order, y_order = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    x, y = x[x_order], y[y_order]
    n, m = len(x), len(y)
    x_ends, y_ends, total = _cumulative(a[x_order], b[y_order])

    # Each step of the staircase leaves one row, whose mass is used up, or one column.
    ends = np.concatenate([x_ends[:-1], y_ends[:-1]])
    order = np.argsort(ends, kind="stable")
    leaves_row = order < n - 1
    i = np.concatenate([[0], np.cumsum(leaves_row)])
    j = np.concatenate([[0], np.cumsum(~leaves_row)])
    bounds = np.concatenate([[0], ends[order], [x_ends[-1]]])
    mass = np.diff(bounds) / total

    moves = np.abs(x[i] - y[j])
    length = float(moves.max()) or 1.0
    costs = (moves / length) ** p
    rise = np.diff(costs)
    f = np.concatenate([[0.0], np.cumsum(rise[leaves_row])])
    g = costs[0] + np.concatenate([[0.0], np.cumsum(rise[~leaves_row])])

    f_out, g_out = np.empty(n), np.empty(m)
    f_out[x_order], g_out[y_order] = f, g
    i, j, mass = i[mass > 0], j[mass > 0], mass[mass > 0]
    return Solution(x_order[i], y_order[j], mass, f_out, g_out), length


def _cumulative(a: Floats, b: Floats) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Cumulative weights of both sides, and the number that stands for a mass of one in them."""
    n, m = len(a), len(b)
    if (a == a[0]).all() and (b == b[0]).all():  # integers, so that there is no rounding
        return np.arange(1, n + 1) * m, np.arange(1, m + 1) * n, float(n * m)
    a_ends, b_ends = np.cumsum(a), np.cumsum(b)
    # Ends that differ by rounding alone are made equal: the tiny mass between them could have far
    # to move.
    rounding_error = 16 * float(np.finfo(np.float64).eps) * math.sqrt(n + m)
    after = np.minimum(np.searchsorted(a_ends, b_ends), n - 1)
    for near in (after, np.maximum(after - 1, 0)):
        is_equal = np.abs(a_ends[near] - b_ends) <= rounding_error
        b_ends[is_equal] = a_ends[near[is_equal]]
    a_ends[-1] = b_ends[-1] = max(1.0, a_ends[-1], b_ends[-1])
    return a_ends, np.maximum.accumulate(b_ends), 1.0
