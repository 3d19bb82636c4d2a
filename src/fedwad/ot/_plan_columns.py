"""The part of each feature in the cost of a transport plan."""

from __future__ import annotations

import numpy as np

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Indices, Measure
from fedwad.ot._plan import Plan

__all__ = ["class_columns", "pair_columns", "plan_columns", "point_columns"]

_COLUMNS = 10_000  # of class statistics, beyond which no pair of classes is written out
_ROWS = 1 << 14  # pairs at a time


def plan_columns(plan: Plan) -> Floats:
    """The part of each feature in the cost of a plan for p = 2, (d,); they sum to the cost.

    With labels, the part of a feature includes the parts of its class means and class spreads.

    Examples
    --------
    >>> from fedwad.ot import Measure, solve
    >>> plan_columns(solve(Measure([[0.0, 0.0], [1.0, 0.0]]), Measure([[0.0, 3.0], [1.0, 3.0]])))
    array([0., 9.])
    """
    return pair_columns(plan.source, plan.target, plan.rows, plan.cols, plan.mass)


def pair_columns(
    source: Measure, target: Measure, rows: Indices, cols: Indices, mass: Floats
) -> Floats:
    """`plan_columns` of a plan that is given by its entries: rows, columns and mass."""
    if isinstance(source, LabelledMeasure) and isinstance(target, LabelledMeasure):
        features = point_columns(source.features, target.features, rows, cols, mass)
        codes = source.codes[rows], target.codes[cols]
        return features + class_columns(source.table, target.table, *codes, mass, len(features))
    return point_columns(source.points, target.points, rows, cols, mass)


def point_columns(x: Floats, y: Floats, rows: Indices, cols: Indices, mass: Floats) -> Floats:
    """The parts of features in the cost of pairs of points."""
    total = np.zeros(x.shape[1])
    for start in range(0, len(mass), _ROWS):
        block = slice(start, start + _ROWS)
        total += mass[block] @ (x[rows[block]] - y[cols[block]]) ** 2
    return total


def class_columns(
    source: Floats, target: Floats, rows: Indices, cols: Indices, mass: Floats, d: int
) -> Floats:
    """The parts of class means and spreads, added up for each of the d features.

    `source` and `target` are tables of classes; `rows` and `cols` are the classes of pairs.
    """
    size = len(target)
    shares = np.bincount(rows * size + cols, mass)
    if source.shape[1] > _COLUMNS:
        squares = _squares_by_class(source, target, np.asarray(shares, np.float64))
    else:
        used = np.flatnonzero(shares)
        gaps = source[used // size] - target[used % size]
        squares = shares[used] @ gaps**2
    return np.asarray(squares[:d] + squares[d:].reshape(d, -1).sum(axis=1))


def _squares_by_class(one: Floats, two: Floats, shares: Floats) -> Floats:
    """The same without a row for each pair of classes, which roots of covariances make long.

    Squares are multiplied out, about the mean of all classes so that few digits are lost.
    """
    table = np.zeros((len(one), len(two)))
    table.flat[: len(shares)] = shares
    middle = (table.sum(axis=1) @ one + table.sum(axis=0) @ two) / (2 * table.sum())
    one, two = one - middle, two - middle
    squares = table.sum(axis=1) @ one**2 + table.sum(axis=0) @ two**2
    squares -= 2 * np.einsum("ck,ck->k", one, table @ two)
    return np.asarray(np.maximum(squares, 0.0))
