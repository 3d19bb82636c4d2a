"""Points on the Wasserstein geodesic between two measures."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.ot._cost import ground_cost
from fedwad.ot._measure import Measure
from fedwad.ot._plan import Plan

__all__ = ["Interpolant", "interpolate", "reduce_support"]

Interpolant = Literal["barycentric", "exact"]

_BLOCK_ENTRIES = 1 << 22  # distances between atoms that are computed at a time


def interpolate(plan: Plan, t: float, kind: Interpolant = "barycentric") -> Measure:
    """Interpolating measure at time t, between plan.source (t = 0) and plan.target (t = 1).

    "exact" is the paper's equation (5), sum_ij P_ij dirac((1 - t) x_i + t y_j): one atom for each
    entry of the plan, at most n + m - 1. It lies on the geodesic.

    "barycentric" is McCann's interpolation with the barycentric map in place of the transport map,
    the paper's equation (9), on the side with fewer points. It lies near the geodesic, and on it
    if both sides have equally many points of equal weight (Theorem 1).

    Examples
    --------
    >>> from fedwad.ot import Measure, solve
    >>> plan = solve(Measure([[0.0], [2.0]]), Measure([[10.0]]))
    >>> interpolate(plan, 0.5, "exact").points.tolist(), interpolate(plan, 0.5).points.tolist()
    ([[5.0], [6.0]], [[5.5]])
    """
    if not 0 < t < 1:
        raise InputError(
            f"t is {t!r}; an interpolating measure needs a number strictly between 0 and 1."
        )
    if kind == "exact":
        points = (1 - t) * plan.source.points[plan.rows] + t * plan.target.points[plan.cols]
        return Measure(points, plan.mass)
    check_choice(kind, "interpolant", ("barycentric", "exact"))
    if len(plan.target) > len(plan.source):
        return interpolate(plan.reversed(), 1 - t)
    return Measure((1 - t) * plan.target_means() + t * plan.target.points, plan.target.weights)


def reduce_support(measure: Measure, size: int) -> Measure:
    """A measure on at most `size` atoms near `measure`, with the same mean.

    The heaviest atoms stay. Every other atom is merged into the nearest of these, which moves to
    the mean of its mass. Exact interpolants have few heavy atoms and many very light ones, so
    little mass moves.
    """
    if len(measure) <= size:
        return measure
    order = np.argsort(-measure.weights, kind="stable")
    heavy, others = order[:size], order[size:]
    points, weights = measure.points, measure.weights
    nearest = np.empty(len(others), dtype=np.int64)
    rows = max(1, _BLOCK_ENTRIES // size)
    for start in range(0, len(others), rows):
        block = others[start : start + rows]
        nearest[start : start + rows] = ground_cost(points[block], points[heavy]).argmin(axis=1)
    mass = weights[heavy].copy()
    np.add.at(mass, nearest, weights[others])
    displacement = np.zeros((size, measure.dimension))
    np.add.at(
        displacement, nearest, weights[others, None] * (points[others] - points[heavy][nearest])
    )
    return Measure(points[heavy] + displacement / mass[:, None], mass)
