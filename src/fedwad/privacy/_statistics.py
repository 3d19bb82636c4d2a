"""Sums over records, and their sensitivity to one record.

All records lie in the unit ball: the caller has clipped them and divided by the clip norm.
Neighbouring data differ by the replacement of one record; the number of records is public.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedwad.ot import Floats
from fedwad.privacy._mechanism import SUM_UNIT

__all__ = [
    "CELL_SENSITIVITY",
    "MOMENT_SENSITIVITY",
    "cell_sums",
    "class_sums",
    "clip_to_unit_ball",
    "moment_sums",
    "multiply_rows",
    "unpack_moments",
]

#: Sensitivity of the moments. For unit vectors with u.v = s the square is 2 (1 - s) + 2 (1 - s^2),
#: largest at s = -1/2.
MOMENT_SENSITIVITY = math.sqrt(4.5)
#: Sensitivity of the sums of (x, 1) over cells: sqrt(2 + 2) if the record changes cells, |u - v| <=
#: 2 if it does not.
CELL_SENSITIVITY = 2.0
_BLOCK_ENTRIES = 1 << 22  # numbers that are computed at a time


def clip_to_unit_ball(points: Floats) -> Floats:
    """Points projected radially onto the unit ball; points that overflow go to its centre."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.sqrt(_row_sums(points**2))[:, None]
        inside = points / np.maximum(length, 1.0)
    return np.where(np.isfinite(inside), inside, 0.0)


def moment_sums(points: Floats) -> NDArray[np.int64]:
    """Sums of (x, x x^T) in multiples of SUM_UNIT, as one vector.

    The matrix is given by its upper triangle, with the factor sqrt(2) off the diagonal. So the norm
    of the triangle is the Frobenius norm of the matrix.
    """
    d = points.shape[1]
    rows, cols = np.triu_indices(d)
    factor = np.where(rows == cols, 1.0, math.sqrt(2.0))
    total = np.zeros(d + len(rows), dtype=np.int64)
    size = max(1, _BLOCK_ENTRIES // len(total))
    for start in range(0, len(points), size):
        block = points[start : start + size]
        total[:d] += _in_units(block).sum(axis=0)
        total[d:] += _in_units(block[:, rows] * block[:, cols] * factor).sum(axis=0)
    return total


def unpack_moments(vector: Floats, d: int) -> tuple[Floats, Floats]:
    """The parts x and x x^T of a vector as `moment_sums` returns it."""
    rows, cols = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[rows, cols] = vector[d:] / np.where(rows == cols, 1.0, math.sqrt(2.0))
    return vector[:d], np.asarray(matrix + np.triu(matrix, 1).T)


def cell_sums(points: Floats, centres: Floats) -> NDArray[np.int64]:
    """For each centre the sum of (x, 1) over the points that are nearest to it, (S, d + 1), in
    multiples of SUM_UNIT."""
    d = points.shape[1]
    total = np.zeros((len(centres), d + 1), dtype=np.int64)
    size = max(1, _BLOCK_ENTRIES // (len(centres) + d))
    for start in range(0, len(points), size):
        block = points[start : start + size]
        nearest = np.array([_row_sums((block - centre) ** 2) for centre in centres]).argmin(axis=0)
        np.add.at(total[:, :d], nearest, _in_units(block))
        np.add.at(total[:, d], nearest, round(1 / SUM_UNIT))
    return total


def class_sums(points: Floats, classes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """For each class the sum of (x, 1) over its points, (count, d + 1), in multiples of SUM_UNIT.

    Points of class -1 are left out. The sensitivity is that of cells, because a record is replaced
    together with its label.
    """
    d = points.shape[1]
    has_class = classes >= 0
    total = np.zeros((count, d + 1), dtype=np.int64)
    np.add.at(total[:, :d], classes[has_class], _in_units(points[has_class]))
    np.add.at(total[:, d], classes[has_class], round(1 / SUM_UNIT))
    return total


def multiply_rows(points: Floats, matrix: Floats) -> Floats:
    """points @ matrix, each row by itself.

    The last bits of a matrix product can depend on other rows. Here they do not, so replacing one
    record changes nothing that other records add.
    """
    product = np.zeros((len(points), matrix.shape[1]))
    for column, row in zip(points.T, matrix, strict=True):
        product += column[:, None] * row
    return product


def _row_sums(values: Floats) -> Floats:
    """The sum of each row, whose last bits do not depend on other rows."""
    total = np.zeros(len(values))
    for column in values.T:
        total += column
    return total


def _in_units(contributions: Floats) -> NDArray[np.int64]:
    """What records add to sums, rounded to multiples of SUM_UNIT."""
    return np.rint(contributions / SUM_UNIT).astype(np.int64)
