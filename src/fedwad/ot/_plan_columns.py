"""The part of each feature in the cost of a transport plan."""

from __future__ import annotations

import numpy as np

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Indices, Measure
from fedwad.ot._plan import Plan

__all__ = ["class_columns", "pair_columns", "plan_columns", "point_columns"]

_MAX_DIRECT = 10_000  # statistics of a class, up to which pairs of classes are subtracted
_BLOCK_ROWS = 1 << 14  # pairs of points that are subtracted at a time


def plan_columns(plan: Plan) -> Floats:
    """The part of each feature in the cost of a plan for p = 2, (d,); the parts sum to the cost.

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
    """The parts of features in the cost of a plan between points without labels."""
    total = np.zeros(x.shape[1])
    for start in range(0, len(mass), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        total += mass[block] @ (x[rows[block]] - y[cols[block]]) ** 2
    return total


def class_columns(
    source: Floats, target: Floats, rows: Indices, cols: Indices, mass: Floats, d: int
) -> Floats:
    """The parts of class means and spreads, added up for each of the d features.

    `source` and `target` are tables with the statistics of classes. `rows` and `cols` are the
    classes of the two points of each pair.
    """
    n_targets = len(target)
    class_mass = np.bincount(rows * n_targets + cols, mass)
    if source.shape[1] > _MAX_DIRECT:
        squares = _squares_by_class(source, target, np.asarray(class_mass, np.float64))
    else:
        pairs = np.flatnonzero(class_mass)
        gaps = source[pairs // n_targets] - target[pairs % n_targets]
        squares = class_mass[pairs] @ gaps**2
    return np.asarray(squares[:d] + squares[d:].reshape(d, -1).sum(axis=1))


def _squares_by_class(source: Floats, target: Floats, class_mass: Floats) -> Floats:
    """Squared differences of class statistics, summed over pairs of classes with their mass.

    Pairs are not subtracted one by one, since root covariances make rows long. Instead the squares
    are expanded, about the mean of all classes so that few digits are lost.
    """
    plan = np.zeros((len(source), len(target)))
    plan.flat[: len(class_mass)] = class_mass
    sent, received = plan.sum(axis=1), plan.sum(axis=0)
    centre = (sent @ source + received @ target) / (2 * plan.sum())
    source, target = source - centre, target - centre
    squares = sent @ source**2 + received @ target**2
    squares -= 2 * np.einsum("ck,ck->k", source, plan @ target)
    return np.asarray(np.maximum(squares, 0.0))
