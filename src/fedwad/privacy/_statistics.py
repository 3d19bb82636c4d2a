"""Sums over records, and their sensitivity to one record.

All records lie in the unit ball: the caller has clipped them and divided by the clip norm.
Neighbouring data differ by the replacement of one record; the number of records is public.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedwad.ot import Floats
from fedwad.privacy._mechanism import UNIT

__all__ = [
    "CELL_SENSITIVITY",
    "MOMENT_SENSITIVITY",
    "cell_sums",
    "class_sums",
    "clipped",
    "moment_sums",
    "transformed",
    "unpack_moments",
]

#: Sensitivity of the moments. For unit vectors with u.v = s the square is 2 (1 - s) + 2 (1 - s^2),
#: largest at s = -1/2.
MOMENT_SENSITIVITY = math.sqrt(4.5)
#: Sensitivity of the sums of (x, 1) over cells: sqrt(2 + 2) if the record changes cells, |u - v| <=
#: 2 if it does not.
CELL_SENSITIVITY = 2.0
_ENTRIES = 1 << 22


def clipped(points: Floats) -> Floats:
    """Points projected radially onto the unit ball; points that overflow go to its centre."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.sqrt(_row_sums(points**2))[:, None]
        inside = points / np.maximum(length, 1.0)
    return np.where(np.isfinite(inside), inside, 0.0)


def moment_sums(points: Floats) -> NDArray[np.int64]:
    """Sums of (x, x x^T) in UNITs, the matrix folded to its upper triangle with sqrt(2) off the
    diagonal.

    The norm of the folded vector is the matrix's Frobenius norm.
    """
    d = points.shape[1]
    rows, cols = np.triu_indices(d)
    factor = np.where(rows == cols, 1.0, math.sqrt(2.0))
    total = np.zeros(d + len(rows), dtype=np.int64)
    block = max(1, _ENTRIES // len(total))
    for start in range(0, len(points), block):
        some = points[start : start + block]
        total[:d] += _whole(some).sum(axis=0)
        total[d:] += _whole(some[:, rows] * some[:, cols] * factor).sum(axis=0)
    return total


def unpack_moments(vector: Floats, d: int) -> tuple[Floats, Floats]:
    """The vector x and the symmetric matrix from the vector of `moment_sums`."""
    rows, cols = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[rows, cols] = vector[d:] / np.where(rows == cols, 1.0, math.sqrt(2.0))
    return vector[:d], np.asarray(matrix + np.triu(matrix, 1).T)


def cell_sums(points: Floats, centres: Floats) -> NDArray[np.int64]:
    """For each centre the sum of (x, 1) in UNITs over the points that are nearest to it, (S, d +
    1)."""
    d = points.shape[1]
    total = np.zeros((len(centres), d + 1), dtype=np.int64)
    block = max(1, _ENTRIES // (len(centres) + d))
    for start in range(0, len(points), block):
        some = points[start : start + block]
        nearest = np.array([_row_sums((some - centre) ** 2) for centre in centres]).argmin(axis=0)
        np.add.at(total[:, :d], nearest, _whole(some))
        np.add.at(total[:, d], nearest, round(1 / UNIT))
    return total


def class_sums(points: Floats, classes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """For each class the sum of (x, 1) in UNITs over its points, (count, d + 1); class -1 is left
    out.

    The sensitivity is that of cells, because a record is replaced together with its label.
    """
    d = points.shape[1]
    known = classes >= 0
    total = np.zeros((count, d + 1), dtype=np.int64)
    np.add.at(total[:, :d], classes[known], _whole(points[known]))
    np.add.at(total[:, d], classes[known], round(1 / UNIT))
    return total


def transformed(points: Floats, matrix: Floats) -> Floats:
    """points @ matrix, each row by itself.

    The last bits of a matrix product can depend on other rows. Here they do not, so replacing one
    record changes no other contribution.
    """
    found = np.zeros((len(points), matrix.shape[1]))
    for column, row in zip(points.T, matrix, strict=True):
        found += column[:, None] * row
    return found


def _row_sums(values: Floats) -> Floats:
    found = np.zeros(len(values))
    for column in values.T:
        found += column
    return found


def _whole(contributions: Floats) -> NDArray[np.int64]:
    return np.rint(contributions / UNIT).astype(np.int64)
