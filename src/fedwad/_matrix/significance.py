"""Whether sites differ by more than chance, and which distances their clusters come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from fedwad._matrix.health import Health
from fedwad._matrix.odd import mean_error
from fedwad.ot import Floats

__all__ = ["any_difference", "distances_for_clusters", "too_small"]

_LEVEL = 0.05
_FEWEST_ROWS = 20  # a site with fewer cannot measure its noise on halves
_BLOCK_ROWS = 10  # in the smallest blocks of a test
_MOST_BLOCKS = 30  # with 30 blocks each, two sites have 1e17 permutations, enough for all pairs
_Z = NormalDist().inv_cdf(1 - _LEVEL / 2)


def any_difference(
    pvalue: Floats | None,
    population: Floats | None,
    interval: tuple[Floats, Floats] | None,
    level: float = _LEVEL,
    health: Health | None = None,
) -> bool | None:
    """Return whether any two sites differ by more than chance, at 5% over all pairs.

    Adjusted p-values decide where there are some. Else the interval of some pair must lie above
    zero after Bonferroni's correction for the number of pairs, or, if `health` is known, the mean
    over all pairs must exceed its error, which finds small differences between many sites. Each of
    these two tests has half the level. Quantiles are those of Student's t, since sites measure
    their noise on a few splits only. Sites whose noise is unknown are left out; None if fewer than
    two remain.
    """
    if pvalue is not None:
        return bool((pvalue <= level).any())
    if population is None or interval is None:
        return None
    rows, cols = np.triu_indices(len(population), 1)
    square, low = population[rows, cols] ** 2, interval[0][rows, cols] ** 2
    square, low = square[~np.isnan(square)], low[~np.isnan(square)]
    if not len(square):
        return None
    error = (square - low) / _Z
    quantile = _student_quantile(1 - level / 2 / len(square))
    if ((low > 0) & (square - quantile * error > 0)).any():
        return True
    return health is not None and _differ_on_average(population, interval[0], level / 2, health)


def _differ_on_average(population: Floats, low: Floats, level: float, health: Health) -> bool:
    """Return whether the mean squared distance over all pairs exceeds its error.

    The error is at least the width of the intervals, which also allow for attenuation.
    """
    count = len(population)
    weights = (1 - np.eye(count)) / (count * (count - 1))
    error = np.maximum(health.error, (population**2 - low**2) / _Z)
    value = float((weights * health.square).sum())
    return bool(value > _student_quantile(1 - level) * mean_error(weights, error))


def _student_quantile(level: float) -> float:
    """Return a quantile above one half of Student's t with four degrees of freedom."""
    root = math.sqrt(4 * level * (1 - level))
    return 2 * math.sqrt(math.cos(math.acos(root) / 3) / root - 1)


def distances_for_clusters(value: Floats, population: Floats | None) -> Floats:
    """Return distances between populations where all are known, else between samples."""
    return value if population is None or np.isnan(population).any() else population


def too_small(rows: Sequence[int], tested: bool) -> list[int]:
    """Return the indices of sites that are too small to differ from any other by more than chance.

    They have fewer rows than splits need. With a permutation test, they have so few blocks that
    even the smallest possible p-value, adjusted for the number of pairs, is above the level.

    Examples
    --------
    >>> too_small([60, 15, 25], tested=False), too_small([60, 15, 25], tested=True)
    ([1], [0, 1, 2])
    """
    pairs = math.comb(len(rows), 2)
    blocks = [min(count // _BLOCK_ROWS, _MOST_BLOCKS) for count in rows]
    found = []
    for index, count in enumerate(rows):
        most = max(blocks[:index] + blocks[index + 1 :], default=0)
        permutations = math.comb(blocks[index] + most, most)
        if count < _FEWEST_ROWS or (tested and pairs / permutations > _LEVEL):
            found.append(index)
    return found
