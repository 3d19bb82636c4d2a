"""The ground cost |x - y|^p, accurate entry by entry."""

from __future__ import annotations

import numpy as np

from fedwad.ot._measure import Floats

__all__ = ["ground_cost", "pairwise_cost"]

# Up to this dimension the plain loop of SciPy is as fast as a matrix product, and exact.
_SMALL_DIMENSION = 8
# |x|^2 + |y|^2 - 2 x.y loses digits when the result is this much smaller than its terms.
_CANCELLATION = 1e-4
_BLOCK_ENTRIES = 1 << 20


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
    x, y = x - centre, y - centre
    x_norms, y_norms = np.einsum("id,id->i", x, x), np.einsum("jd,jd->j", y, y)
    squares = np.empty((len(x), len(y)))
    rows = max(1, _BLOCK_ENTRIES // len(y))
    for start in range(0, len(x), rows):
        block = slice(start, start + rows)
        norms = x_norms[block, None] + y_norms
        part = squares[block]
        np.matmul(x[block], y.T, out=part)
        part *= -2.0
        part += norms
        norms *= _CANCELLATION
        i, j = np.nonzero(part < norms)
        step = max(1, _BLOCK_ENTRIES // x.shape[1])
        for k in range(0, len(i), step):
            chosen = i[k : k + step], j[k : k + step]
            part[chosen] = pairwise_cost(x[block][chosen[0]], y[chosen[1]])
    return squares


def _power(squares: Floats, p: float) -> Floats:
    if p == 2:
        return squares
    if p == 1:
        return np.sqrt(squares, out=squares)
    return np.power(squares, p / 2, out=squares)
