"""A coreset from one summary of each site."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedwad._coreset.seeding import distilled, synthetic_union
from fedwad._coreset.task import Certified
from fedwad.ot import Masses, Measure, Summary, lower_bound, reduce_covariance, solve, upper_bound

__all__ = ["from_summaries"]


def from_summaries(
    summaries: Mapping[str, Summary], size: int, masses: Masses, seed: int
) -> tuple[Certified, float]:
    """Return atoms for the union of the sites with certified bounds, and an estimate.

    The atoms are the coreset of a synthetic union. The estimate is their distance to a second
    synthetic union, because they are closer to the first one than to the data. The summaries
    together are a summary of the union, and a coreset is a summary without spread, so Gelbrich's
    bound and the coupling of cells bound the distance from below and above.
    """
    best, sample = distilled(dict(summaries), size, masses, seed)
    another = synthetic_union(dict(summaries), len(sample), seed + 1)
    value = solve(another, best.measure).distance
    union, atoms = _pooled(list(summaries.values())), best.measure
    own = Summary(
        atoms.weights, atoms.points, np.zeros(union.covariance.shape), len(atoms), 0.0, 2.0, 1
    )
    lower, upper = lower_bound(union, own), upper_bound(union, own)
    certified = Certified(atoms.points, atoms.weights, min(lower, upper), upper, tuple(summaries))
    return certified, min(max(value, certified.lower), certified.upper)


def _pooled(summaries: list[Summary]) -> Summary:
    """Return a summary of the union of several sites."""
    counts = np.array([summary.count for summary in summaries], dtype=np.float64)
    shares = counts / counts.sum()
    weights = np.concatenate(
        [share * summary.weights for share, summary in zip(shares, summaries, strict=True)]
    )
    ndim = min(1, *(summary.within.ndim for summary in summaries))
    covariance = np.asarray(
        sum(
            share * reduce_covariance(summary.within, ndim)
            for share, summary in zip(shares, summaries, strict=True)
        )
    )
    within_std = math.sqrt(
        sum(
            float(share) * summary.within_std**2
            for share, summary in zip(shares, summaries, strict=True)
        )
    )
    means = np.concatenate([summary.means for summary in summaries])
    min_cell_size = min(summary.min_cell_size for summary in summaries)
    cells = Measure(means, weights)
    return Summary(
        cells.weights, cells.points, covariance, int(counts.sum()), within_std, 2.0, min_cell_size
    )
