"""The part of each feature in the cost of a transport plan."""

from __future__ import annotations

import numpy as np

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats
from fedwad.ot._plan import Plan

__all__ = ["plan_columns"]

_ROWS = 1 << 14


def plan_columns(plan: Plan) -> Floats:
    """The part of each feature in the cost of a plan for p = 2, (d,); they sum to the cost.

    With classes, the part of a feature holds those of its class means and class spreads.

    Examples
    --------
    >>> from fedwad.ot import Measure, solve
    >>> plan_columns(solve(Measure([[0.0, 0.0], [1.0, 0.0]]), Measure([[0.0, 3.0], [1.0, 3.0]])))
    array([0., 9.])
    """
    source, target = plan.source, plan.target
    if isinstance(source, LabelledMeasure) and isinstance(target, LabelledMeasure):
        features = _squares(plan, source.features, target.features)
        return features + _class_columns(plan, source, target)
    return _squares(plan, source.points, target.points)


def _squares(plan: Plan, x: Floats, y: Floats) -> Floats:
    total = np.zeros(x.shape[1])
    for start in range(0, len(plan.mass), _ROWS):
        block = slice(start, start + _ROWS)
        total += plan.mass[block] @ (x[plan.rows[block]] - y[plan.cols[block]]) ** 2
    return total


def _class_columns(plan: Plan, source: LabelledMeasure, target: LabelledMeasure) -> Floats:
    """The parts of class means and spreads, added up for each of the d features."""
    d = source.features.shape[1]
    size = len(target.table)
    kinds = source.codes[plan.rows] * size + target.codes[plan.cols]
    mass = np.bincount(kinds, plan.mass)
    used = np.flatnonzero(mass)
    gaps = source.table[used // size] - target.table[used % size]
    squares = mass[used] @ gaps**2
    return np.asarray(squares[:d] + squares[d:].reshape(d, -1).sum(axis=1))
