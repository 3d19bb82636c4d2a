"""FedWaD with exact interpolating measures by POT as it comes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from fedwad.ot import Floats

__all__ = ["pot_rounds"]


def pot_rounds(
    x: Floats, y: Floats, z: Floats, rounds: int, least: float = 0.0
) -> Iterator[tuple[int, int, float]]:
    """The number of each round, the points of its support, and the paper's estimate.

    POT stops at 100000 iterations and only warns. Samples and the first support have equal weights,
    and t = 0.5. Points whose mass is not above `least` are left out, and the others get their mass:
    the authors' code does so with 1e-5.
    """
    first, second = (np.full(len(side), 1 / len(side)) for side in (x, y))
    weights = np.full(len(z), 1 / len(z))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(1, rounds + 1):
            left = _middle(first, x, weights, z, least)
            right = _middle(second, y, weights, z, least)
            weights, z = _middle(*left, *right, least)
            costs = [
                float((found * cost).sum())
                for found, cost in (_plan(first, x, weights, z), _plan(second, y, weights, z))
            ]
            yield number, len(z), float(np.sqrt(costs).sum())


def _plan(a: Floats, x: Floats, b: Floats, y: Floats) -> tuple[Floats, Floats]:
    import ot

    cost = ot.dist(x, y)
    return ot.emd(a, b, cost), cost


def _middle(a: Floats, x: Floats, b: Floats, y: Floats, least: float) -> tuple[Floats, Floats]:
    """Weights and points of the exact interpolating measure half way."""
    found, _ = _plan(a, x, b, y)
    rows, columns = np.nonzero(found > least)
    mass = found[rows, columns]
    return mass / mass.sum(), (x[rows] + y[columns]) / 2
