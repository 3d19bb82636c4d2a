"""The ground cost |x - y|^p, accurate entry by entry."""

from __future__ import annotations

import numpy as np

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import Indices

__all__ = ["ground_cost", "paired_squares", "squared_distances", "to_power"]

# Up to this dimension SciPy's plain loop is as fast as a matrix product, and exact.
_SMALL_DIMENSION = 8
# |x|^2 + |y|^2 - 2 x.y loses digits when the result is this much smaller than its terms.
_CANCELLATION = 1e-4
_BLOCK_ENTRIES, _DIFFERENCES = 1 << 17, 1 << 14  # at a time; differences fit the nearest cache


def squared_distances(mu: Measure, nu: Measure) -> Floats:
    """All |x_i - y_j|^2, without materialising the class columns of labelled measures."""
    if not isinstance(mu, LabelledMeasure) and not isinstance(nu, LabelledMeasure):
        return _squares(mu.points, nu.points, mu.norms)
    split = next(m.features.shape[1] for m in (mu, nu) if isinstance(m, LabelledMeasure))
    (x, x_table, x_codes), (y, y_table, y_codes) = (_parts(measure, split) for measure in (mu, nu))
    squares = _squares(x, y, mu.norms if isinstance(mu, LabelledMeasure) else None)
    table = ground_cost(x_table, y_table)
    rows = max(1, _BLOCK_ENTRIES // len(y))
    for start in range(0, len(x), rows):
        block = slice(start, start + rows)
        squares[block] += table[x_codes[block]][:, y_codes]
    return squares


def _squares(x: Floats, y: Floats, norms: Floats | None) -> Floats:
    """`ground_cost(x, y)` with precomputed norms of x: a client's samples are used many times."""
    return (
        ground_cost(x, y)
        if norms is None or x.shape[1] <= _SMALL_DIMENSION
        else _squares_by_product(x, y, norms)
    )


def _parts(measure: Measure, split: int) -> tuple[Floats, Floats, Indices]:
    """Features, class table, and the row of the table for each point."""
    if isinstance(measure, LabelledMeasure):
        return measure.features, measure.table, measure.codes
    return (
        np.ascontiguousarray(measure.points[:, :split]),
        measure.points[:, split:],
        np.arange(len(measure)),
    )


def paired_squares(mu: Measure, nu: Measure, rows: Indices, cols: Indices) -> Floats:
    """|x_i - y_j|^2 for the pairs of a plan, from differences, in blocks."""
    if isinstance(mu, LabelledMeasure) or isinstance(nu, LabelledMeasure):
        split = next(m.features.shape[1] for m in (mu, nu) if isinstance(m, LabelledMeasure))
        (x, x_table, x_codes), (y, y_table, y_codes) = (
            _parts(measure, split) for measure in (mu, nu)
        )
        kinds, which = np.unique(x_codes[rows] * len(y_table) + y_codes[cols], return_inverse=True)
        between = _paired(x_table, y_table, *np.divmod(kinds, len(y_table)))
        return np.asarray(_paired(x, y, rows, cols) + between[which])
    return _paired(mu.points, nu.points, rows, cols)


def _paired(x: Floats, y: Floats, rows: Indices, cols: Indices) -> Floats:
    squares = np.empty(len(rows))
    step = max(1, _DIFFERENCES // x.shape[1])
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        difference = x.take(rows[block], axis=0)
        difference -= y.take(cols[block], axis=0)
        squares[block] = np.einsum("kd,kd->k", difference, difference)
    return squares


def ground_cost(x: Floats, y: Floats, p: float = 2.0) -> Floats:
    """Cost matrix C with C_ij = |x_i - y_j|^p (Euclidean norm), shape (n, m).

    A matrix product in row blocks. Entries in which |x|^2 + |y|^2 - 2 x.y cancels are recomputed
    from the difference, so every entry has a relative error of about 1e-11 and equal points cost
    exactly zero.
    """
    if x.shape[1] <= _SMALL_DIMENSION:
        from scipy.spatial.distance import cdist

        squares: Floats = cdist(x, y, "sqeuclidean")
    else:
        squares = _squares_by_product(x, y)
    return to_power(squares, p)


def _squares_by_product(x: Floats, y: Floats, x_norms: Floats | None = None) -> Floats:
    """|x|^2 - 2 x.y + |y|^2, about the common mean unless the norms of x are given.

    One matrix product of (x, |x|^2, 1) and (-2 y, 1, |y|^2) has all three terms.
    """
    d = x.shape[1]
    centre = np.zeros(d) if x_norms is not None else (x.mean(axis=0) + y.mean(axis=0)) / 2
    right = np.ones((len(y), d + 2))
    np.multiply(y - centre, -2, out=right[:, :d])
    y_norms = right[:, d + 1] = np.einsum("jd,jd->j", right[:, :d], right[:, :d]) / 4
    squares = np.empty((len(x), len(y)))
    rows = max(1, _BLOCK_ENTRIES // max(len(y), d))
    left = np.ones((min(rows, len(x)), d + 2))
    for start in range(0, len(x), rows):
        part = squares[start : start + rows]
        block = left[: len(part)]
        np.subtract(x[start : start + rows], centre, out=block[:, :d])
        own = (
            np.einsum("id,id->i", block[:, :d], block[:, :d])
            if x_norms is None
            else x_norms[start : start + rows]
        )
        block[:, d] = own
        np.matmul(block, right.T, out=part)
        if part.min() >= _CANCELLATION * (own.max() + y_norms.max()):
            continue
        i, j = np.nonzero(part < _CANCELLATION * (own[:, None] + y_norms))
        step = max(1, _BLOCK_ENTRIES // d)
        for k in range(0, len(i), step):
            chosen = i[k : k + step], j[k : k + step]
            difference = x[start + chosen[0]] - y[chosen[1]]
            part[chosen] = np.einsum("kd,kd->k", difference, difference)
    return squares


def to_power(squares: Floats, p: float) -> Floats:
    """|x - y|^p from |x - y|^2, in place."""
    if p == 2:
        return squares
    if p == 1:
        return np.sqrt(squares, out=squares)
    return np.power(squares, p / 2, out=squares)
