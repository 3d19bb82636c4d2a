"""The ground cost |x - y|^p, accurate entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import Solution

__all__ = ["cost_matrix", "ground_cost", "plan_cost"]

# Up to this dimension the plain loop of SciPy is as fast as a matrix product, and exact.
_SMALL_DIMENSION = 8
# |x|^2 + |y|^2 - 2 x.y loses digits when the result is this much smaller than its terms.
_CANCELLATION = 1e-4
_BLOCK_ENTRIES = 1 << 20


def cost_matrix(mu: Measure, nu: Measure, p: float = 2.0) -> Floats:
    """Cost matrix between two measures; labelled ones are never written out with their class columns."""
    if not isinstance(mu, LabelledMeasure) and not isinstance(nu, LabelledMeasure):
        return ground_cost(mu.points, nu.points, p)
    split = next(m.features.shape[1] for m in (mu, nu) if isinstance(m, LabelledMeasure))
    (x, x_table, x_codes), (y, y_table, y_codes) = (_parts(measure, split) for measure in (mu, nu))
    squares = ground_cost(x, y)
    table = ground_cost(x_table, y_table)
    rows = max(1, _BLOCK_ENTRIES // len(y))
    for start in range(0, len(x), rows):
        block = slice(start, start + rows)
        squares[block] += table[x_codes[block]][:, y_codes]
    return _power(squares, p)


def _parts(measure: Measure, split: int) -> tuple[Floats, Floats, Any]:
    """Features, class table, and which row of the table each point has."""
    if isinstance(measure, LabelledMeasure):
        return measure.features, measure.table, measure.codes
    return np.ascontiguousarray(measure.points[:, :split]), measure.points[:, split:], slice(None)


def plan_cost(mu: Measure, nu: Measure, found: Solution, p: float) -> float:
    """Cost of a plan from the differences of the points it pairs, in blocks."""
    total = 0.0
    step = max(1, _BLOCK_ENTRIES // mu.dimension)
    for start in range(0, len(found.mass), step):
        block = slice(start, start + step)
        paired = pairwise_cost(mu.rows(found.rows[block]), nu.rows(found.cols[block]), p)
        total += float(found.mass[block] @ paired)
    return total


def ground_cost(x: Floats, y: Floats, p: float = 2.0) -> Floats:
    """Cost matrix C with C_ij = |x_i - y_j|^p (Euclidean norm), shape (n, m).

    By a matrix product in row blocks; entries in which |x|^2 + |y|^2 - 2 x.y would cancel
    are computed again from the difference, so that every entry is right to about 1e-11 relative
    and equal points cost exactly zero.
    """
    if x.shape[1] <= _SMALL_DIMENSION:
        from scipy.spatial.distance import cdist

        squares: Floats = cdist(x, y, "sqeuclidean")
    else:
        squares = _squares_by_product(x, y)
    return _power(squares, p)


def pairwise_cost(x: Floats, y: Floats, p: float = 2.0) -> Floats:
    """The costs |x_k - y_k|^p of matched rows, shape (n,)."""
    difference = x - y
    return _power(np.einsum("kd,kd->k", difference, difference), p)


def _squares_by_product(x: Floats, y: Floats) -> Floats:
    centre = (x.mean(axis=0) + y.mean(axis=0)) / 2
    y = y - centre
    y_norms = np.einsum("jd,jd->j", y, y)
    squares = np.empty((len(x), len(y)))
    rows = max(1, _BLOCK_ENTRIES // max(len(y), x.shape[1]))
    for start in range(0, len(x), rows):
        near = x[start : start + rows] - centre
        norms = np.einsum("id,id->i", near, near)[:, None] + y_norms
        part = squares[start : start + rows]
        np.matmul(near, y.T, out=part)
        part *= -2.0
        part += norms
        norms *= _CANCELLATION
        i, j = np.nonzero(part < norms)
        step = max(1, _BLOCK_ENTRIES // x.shape[1])
        for k in range(0, len(i), step):
            chosen = i[k : k + step], j[k : k + step]
            part[chosen] = pairwise_cost(near[chosen[0]], y[chosen[1]])
    return squares


def _power(squares: Floats, p: float) -> Floats:
    if p == 2:
        return squares
    if p == 1:
        return np.sqrt(squares, out=squares)
    return np.power(squares, p / 2, out=squares)
