"""FedWaD with exact interpolating measures, solved by POT with its default options."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from fedwad.ot import Floats

__all__ = ["pot_rounds"]


def pot_rounds(
    x: Floats, y: Floats, z: Floats, rounds: int, min_mass: float = 0.0
) -> Iterator[tuple[int, int, float]]:
    """FedWaD between samples x and y, from the support z: the number of each round, the number of
    points of its support, and the paper's estimate.

    POT stops at 100000 iterations and only warns. The points of x, y and z have equal weights, and
    t = 0.5. Points of an interpolating measure stay if their mass is above `min_mass`; the others
    leave their mass to them. The authors' code does so with 1e-5.
    """
    x_weights, y_weights, weights = (np.full(len(points), 1 / len(points)) for points in (x, y, z))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(1, rounds + 1):
            left = _midpoints(x_weights, x, weights, z, min_mass)
            right = _midpoints(y_weights, y, weights, z, min_mass)
            weights, z = _midpoints(*left, *right, min_mass)
            plans = _plan(x_weights, x, weights, z), _plan(y_weights, y, weights, z)
            squares = [float((plan * cost).sum()) for plan, cost in plans]
            yield number, len(z), float(np.sqrt(squares).sum())


def _plan(a: Floats, x: Floats, b: Floats, y: Floats) -> tuple[Floats, Floats]:
    """POT's plan between points x with weights a and points y with weights b, and the costs."""
    import ot

    cost = ot.dist(x, y)
    return ot.emd(a, b, cost), cost


def _midpoints(
    a: Floats, x: Floats, b: Floats, y: Floats, min_mass: float
) -> tuple[Floats, Floats]:
    """Weights and points of the exact interpolating measure at t = 0.5."""
    plan, _ = _plan(a, x, b, y)
    rows, columns = np.nonzero(plan > min_mass)
    mass = plan[rows, columns]
    return mass / mass.sum(), (x[rows] + y[columns]) / 2
