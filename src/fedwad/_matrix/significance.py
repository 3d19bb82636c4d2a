"""Whether sites differ by more than chance, and which distances their clusters come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from fedwad._matrix.health import Health
from fedwad._matrix.odd import mean_weights, weighted_sum_error
from fedwad.ot import Floats

__all__ = ["any_difference", "distances_for_clusters", "find_small_sites"]

_ALPHA = 0.05
_MIN_ROWS = 20  # a site with fewer rows cannot measure its noise on halves of them
_BLOCK_ROWS = 10  # in the smallest blocks of a test
_ENOUGH_BLOCKS = 30  # 30 blocks at each of two sites have 1e17 permutations, enough for any matrix
_Z = NormalDist().inv_cdf(1 - _ALPHA / 2)  # half the width of a 95% interval in standard errors


def any_difference(
    pvalue: Floats | None,
    population: Floats | None,
    interval: tuple[Floats, Floats] | None,
    alpha: float = _ALPHA,
    health: Health | None = None,
) -> bool | None:
    """Return whether any two sites differ by more than chance, at level `alpha` over all pairs.

    If there are p-values, which are adjusted for the number of pairs, they decide, unless no pair
    could be tested. Else there are two one-sided tests with half of `alpha` each:

    - The squared distance of some pair is significantly above zero, after Bonferroni's correction
      for the number of pairs. Its standard error is the one that the 95% interval implies. Pairs
      with a site whose noise is unknown are left out; the result is None if no pair remains.
    - The mean squared distance over all pairs is significantly above zero. This test finds small
      differences between many sites. It needs `health`, which has the squared population distances,
      negative ones included, and their standard errors.

    Both tests use quantiles of Student's t with 4 degrees of freedom, because sites measure their
    noise on a few splits only.
    """
    if pvalue is not None and _any_tested(pvalue):
        return bool((pvalue <= alpha).any())
    if population is None or interval is None:
        return None
    rows, cols = np.triu_indices(len(population), 1)
    square, low = population[rows, cols] ** 2, interval[0][rows, cols] ** 2
    square, low = square[~np.isnan(square)], low[~np.isnan(square)]
    if not len(square):
        return None
    error = (square - low) / _Z
    quantile = _student_quantile(1 - alpha / 2 / len(square))
    if ((low > 0) & (square - quantile * error > 0)).any():
        return True
    return health is not None and _differ_on_average(population, interval[0], alpha / 2, health)


def _any_tested(pvalue: Floats) -> bool:
    return not np.isnan(pvalue[np.triu_indices(len(pvalue), 1)]).all()


def _differ_on_average(population: Floats, low: Floats, alpha: float, health: Health) -> bool:
    """Return whether the mean squared distance over all pairs is significantly above zero.

    The standard error of a pair is the larger of two: that of `health`, and the one that the 95%
    interval implies, because intervals also allow for skewness and for the error of the correction
    for sampling noise. Taking the larger one is a choice, which makes the test conservative.
    """
    weights = mean_weights(len(population))
    error = np.maximum(health.error, (population**2 - low**2) / _Z)
    value = float((weights * health.square).sum())
    return bool(value > _student_quantile(1 - alpha) * weighted_sum_error(weights, error))


def _student_quantile(probability: float) -> float:
    """Return the quantile of Student's t with 4 degrees of freedom; the probability is over 1/2."""
    root = math.sqrt(4 * probability * (1 - probability))
    return 2 * math.sqrt(math.cos(math.acos(root) / 3) / root - 1)


def distances_for_clusters(value: Floats, population: Floats | None) -> Floats:
    """Return the distances between populations if all are known, else those between samples."""
    return value if population is None or np.isnan(population).any() else population


def find_small_sites(rows: Sequence[int], tested: bool) -> list[int]:
    """Return the indices of sites that are too small for any difference to be found significant.

    They have fewer than 20 rows, too few to measure their noise on random halves. If pairs are
    `tested` by permutation, a site is also too small if it has so few blocks that even the smallest
    possible p-value, adjusted for the number of pairs, is above 5%. `rows` has the number of rows
    of each site.

    Examples
    --------
    >>> find_small_sites([60, 15, 25], tested=False), find_small_sites([60, 15, 25], tested=True)
    ([1], [0, 1, 2])
    """
    pairs = math.comb(len(rows), 2)
    blocks = [min(count // _BLOCK_ROWS, _ENOUGH_BLOCKS) for count in rows]
    small_sites = []
    for index, count in enumerate(rows):
        largest_other = max(blocks[:index] + blocks[index + 1 :], default=0)
        permutations = math.comb(blocks[index] + largest_other, largest_other)
        if count < _MIN_ROWS or (tested and pairs / permutations > _ALPHA):
            small_sites.append(index)
    return small_sites
