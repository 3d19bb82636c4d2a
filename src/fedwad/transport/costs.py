"""The ground cost |x - y|^p, accurate entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedwad.transport.measures import Floats, Indices, LabelledMeasure, Measure, row_slices


def squared_distances(mu: Measure, nu: Measure) -> Floats:
    """All |x_i - y_j|^2, without materialising the class columns of labelled measures."""
    if not _has_classes(mu, nu):
        return _squares(mu.points, nu.points, mu.norms)
    (x, x_table, x_codes), (y, y_table, y_codes) = _split_classes(mu, nu)
    squares = _squares(x, y, mu.norms if isinstance(mu, LabelledMeasure) else None)
    table = ground_cost(x_table, y_table)
    for block in row_slices(len(x), len(y)):
        squares[block] += table[x_codes[block]][:, y_codes]
    return squares


def paired_squares(mu: Measure, nu: Measure, rows: Indices, cols: Indices) -> Floats:
    """|x_i - y_j|^2 for the pairs (i, j) of a plan, from differences."""
    if not _has_classes(mu, nu):
        return _paired_squares(mu.points, nu.points, rows, cols)
    (x, x_table, x_codes), (y, y_table, y_codes) = _split_classes(mu, nu)
    classes = x_codes[rows] * len(y_table) + y_codes[cols]
    pairs, pair_of = np.unique(classes, return_inverse=True)
    between = _paired_squares(x_table, y_table, *np.divmod(pairs, len(y_table)))
    return np.asarray(_paired_squares(x, y, rows, cols) + between[pair_of])


def _has_classes(mu: Measure, nu: Measure) -> bool:
    return isinstance(mu, LabelledMeasure) or isinstance(nu, LabelledMeasure)


def _split_classes(mu: Measure, nu: Measure) -> Iterator[tuple[Floats, Floats, Indices]]:
    """Features, class table, and the row of the table for each point, of both measures.

    A measure without labels gets a table with one row for each point.
    """
    d = next(m.features.shape[1] for m in (mu, nu) if isinstance(m, LabelledMeasure))
    for measure in (mu, nu):
        if isinstance(measure, LabelledMeasure):
            yield measure.features, measure.table, measure.codes
        else:
            features = np.ascontiguousarray(measure.points[:, :d])
            yield features, measure.points[:, d:], np.arange(len(measure))


def _paired_squares(x: Floats, y: Floats, rows: Indices, cols: Indices) -> Floats:
    squares = np.empty(len(rows))
    for block in row_slices(len(rows), x.shape[1], 1 << 14):  # the L1 cache
        difference = x.take(rows[block], axis=0)
        difference -= y.take(cols[block], axis=0)
        squares[block] = np.einsum("kd,kd->k", difference, difference)
    return squares


def ground_cost(x: Floats, y: Floats, p: float = 2.0) -> Floats:
    """Cost matrix C with C_ij = |x_i - y_j|^p (Euclidean norm), shape (n, m).

    The costs come from a matrix product in blocks of rows. Entries in which |x|^2 + |y|^2 - 2 x.y
    cancels are recomputed from the difference, so every entry has a relative error of about 1e-11,
    and equal points cost exactly zero.
    """
    return to_power(_squares(x, y), p)


def _squares(x: Floats, y: Floats, x_norms: Floats | None = None) -> Floats:
    """All |x_i - y_j|^2; a client's samples are used many times, so their norms may be given."""
    if x.shape[1] > 8:  # below, SciPy's plain loop is as fast as a matrix product, and exact
        return _squares_by_product(x, y, x_norms)
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(x, y, "sqeuclidean"))


def _squares_by_product(
    x: Floats, y: Floats, x_norms: Floats | None, cancelled: float = 1e-4
) -> Floats:
    """|x|^2 - 2 x.y + |y|^2, about the common mean unless the norms of x are given.

    One matrix product of (x, |x|^2, 1) and (-2 y, 1, |y|^2) has all three terms. It loses digits
    where the result is below the part `cancelled` of the terms; these entries are computed from
    differences.
    """
    d = x.shape[1]
    centre = np.zeros(d) if x_norms is not None else (x.mean(axis=0) + y.mean(axis=0)) / 2
    right = np.ones((len(y), d + 2))
    np.multiply(y - centre, -2, out=right[:, :d])
    y_norms = right[:, d + 1] = np.einsum("jd,jd->j", right[:, :d], right[:, :d]) / 4
    squares = np.empty((len(x), len(y)))
    slices = list(row_slices(len(x), max(len(y), d)))
    left = np.ones((min(slices[0].stop, len(x)), d + 2))
    for rows in slices:
        result = squares[rows]
        block = left[: len(result)]
        np.subtract(x[rows], centre, out=block[:, :d])
        block_norms = (
            np.einsum("id,id->i", block[:, :d], block[:, :d]) if x_norms is None else x_norms[rows]
        )
        block[:, d] = block_norms
        np.matmul(block, right.T, out=result)
        if result.min() >= cancelled * (block_norms.max() + y_norms.max()):
            continue
        i, j = np.nonzero(result < cancelled * (block_norms[:, None] + y_norms))
        result[i, j] = _paired_squares(x[rows], y, i, j)
    return squares


def to_power(squares: Floats, p: float) -> Floats:
    """|x - y|^p from |x - y|^2, in place."""
    if p == 2:
        return squares
    if p == 1:
        return np.sqrt(squares, out=squares)
    return np.power(squares, p / 2, out=squares)
