"""Whether sites differ by more than chance, and which distances their clusters come from."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from fedwad.ot import Floats

__all__ = ["any_difference", "distances_for_clusters"]

_LEVEL = 0.05
_Z = NormalDist().inv_cdf(1 - _LEVEL / 2)


def any_difference(
    pvalue: Floats | None, population: Floats | None, interval: tuple[Floats, Floats] | None
) -> bool | None:
    """Return whether any two sites differ by more than chance, at 5% over all pairs.

    Adjusted p-values decide where there are some. Else some pair's interval must lie above zero
    after Bonferroni's correction for the number of pairs, with quantiles of Student's t, since
    sites measure their noise on a few splits only. None if nothing is known.
    """
    if pvalue is not None:
        return bool((pvalue <= _LEVEL).any())
    if population is None or interval is None:
        return None
    rows, cols = np.triu_indices(len(population), 1)
    square, low = population[rows, cols] ** 2, interval[0][rows, cols] ** 2
    if np.isnan(square).any():
        return None
    error = (square - low) / _Z
    wider = _student(1 - _LEVEL / 2 / max(1, len(rows)))
    return bool(((low > 0) & (square - wider * error > 0)).any())


def _student(level: float) -> float:
    """Return a quantile above one half of Student's t with four degrees of freedom."""
    root = math.sqrt(4 * level * (1 - level))
    return 2 * math.sqrt(math.cos(math.acos(root) / 3) / root - 1)


def distances_for_clusters(value: Floats, population: Floats | None) -> Floats:
    """Return distances between populations where all are known, else between samples."""
    return value if population is None or np.isnan(population).any() else population
