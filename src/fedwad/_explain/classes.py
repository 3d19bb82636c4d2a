"""Which classes contribute most to a distance between labelled data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.ot import Floats, LabelledSummary, Plan, solve
from fedwad.ot._summary import feature_variances

__all__ = ["ClassPart", "add_class_parts", "class_parts"]


@dataclass(frozen=True)
class ClassPart:
    """The part of one class of one site in a squared distance.

    Attributes
    ----------
    side : 0 for a class of the first site, 1 for one of the second
    number : index of the class in the site's summary; names of labels are not sent
    weight : its fraction of the rows
    share : its fraction of the squared distance; over the classes of one site they sum to one
    feature : the feature that contributes most to `share`
    """

    side: int
    number: int
    weight: float
    share: float
    feature: int


def class_parts(a: LabelledSummary, b: LabelledSummary, square: float) -> tuple[ClassPart, ...]:
    """Parts of all classes of both sites in a squared distance, the largest of each site first.

    Cells are coupled optimally, which gives each class the cost of moving its cells. The rest of
    `square` is divided in proportion to the variance of each class inside its cells.
    """
    plan = solve(a.cells, b.cells)
    remainder = max(square - plan.cost, 0.0)
    within_both = [_variances_within(summary) for summary in (a, b)]
    total_within = sum(float(within.sum()) for within in within_both) or 1.0
    found: list[ClassPart] = []
    for side, (summary, within) in enumerate(zip((a, b), within_both, strict=True)):
        between = _transport_costs(plan, side, len(summary.parts), a.dimension)
        # A class also gets its weight's fraction of the variance inside the other site's cells.
        other = float(within_both[1 - side].sum()) * summary.weights[:, None] / a.dimension
        parts = between + remainder * ((within + other) / total_within)
        found += _class_parts(side, summary.weights, parts)
    return tuple(found)


def _variances_within(summary: LabelledSummary) -> Floats:
    """Variance inside the cells of each class, by feature, (C, d)."""
    return np.array(
        [
            weight * feature_variances(part.within, part.dimension)
            for weight, part in zip(summary.weights, summary.parts, strict=True)
        ]
    )


def add_class_parts(squares: Floats, d: int) -> Floats:
    """The parts of d features, each with the parts of its class means and class spreads added.

    The last axis of `squares` has features, and for labelled data class means and class spreads.
    """
    if squares.shape[-1] == d:
        return squares
    spreads = squares[..., 2 * d :].reshape(*squares.shape[:-1], d, -1).sum(axis=-1)
    return np.asarray(squares[..., :d] + squares[..., d : 2 * d] + spreads)


def _transport_costs(plan: Plan, side: int, classes: int, d: int) -> Floats:
    """Cost of moving the cells of each class, by feature, (C, d).

    The cost of a feature includes the costs of its class means and class spreads.
    """
    x, y = plan.source.points[plan.rows], plan.target.points[plan.cols]
    squares = plan.mass[:, None] * (x - y) ** 2
    measure, indices = (plan.source, plan.rows) if side == 0 else (plan.target, plan.cols)
    codes = measure.codes[indices]  # type: ignore[attr-defined]
    costs = np.zeros((classes, d))
    np.add.at(costs, codes, add_class_parts(squares, d))
    return costs


def _class_parts(side: int, weights: Floats, parts: Floats) -> Sequence[ClassPart]:
    """A ClassPart for each class of a site, the largest first; `parts` is (C, d)."""
    totals = parts.sum(axis=1)
    total = float(totals.sum()) or 1.0
    return [
        ClassPart(
            side,
            int(code),
            float(weights[code]),
            float(totals[code]) / total,
            int(parts[code].argmax()),
        )
        for code in np.argsort(-totals, kind="stable")
    ]
