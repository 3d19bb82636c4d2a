"""A coreset from one summary of each site."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedwad._coreset.initial import distil_summaries, synthetic_union
from fedwad._coreset.task import CertifiedAtoms
from fedwad.ot import Masses, Measure, Summary, lower_bound, reduce_covariance, solve, upper_bound

__all__ = ["atoms_from_summaries"]


def atoms_from_summaries(
    summaries: Mapping[str, Summary], size: int, masses: Masses, seed: int
) -> tuple[CertifiedAtoms, float]:
    """Return atoms for the union of the sites with certified bounds, and an estimate of their W2.

    The atoms are the coreset of a synthetic union: a synthetic sample of the union of the sites.
    The estimate is their distance to a second synthetic union, because they are closer to the first
    one than to the data. The summaries together are a summary of the union, and a coreset is a
    summary without spread. So Gelbrich's bound and the coupling of cells bound the distance from
    below and above.
    """
    best, sample = distil_summaries(dict(summaries), size, masses, seed)
    second_sample = synthetic_union(dict(summaries), len(sample), seed + 1)
    value = solve(second_sample, best.measure).distance
    union, atoms = _pool_summaries(list(summaries.values())), best.measure
    coreset = Summary(
        atoms.weights,
        atoms.points,
        covariance=np.zeros(union.covariance.shape),
        count=len(atoms),
        within_std=0.0,
        p=2.0,
        min_cell_size=1,
    )
    lower, upper = lower_bound(union, coreset), upper_bound(union, coreset)
    lower = min(lower, upper)
    certified = CertifiedAtoms(atoms.points, atoms.weights, lower, upper, tuple(summaries))
    return certified, min(max(value, lower), upper)


def _pool_summaries(summaries: list[Summary]) -> Summary:
    """Return a summary of the union of several sites, with the diagonal covariance at most."""
    counts = np.array([summary.count for summary in summaries], dtype=np.float64)
    weighted = list(zip(counts / counts.sum(), summaries, strict=True))
    ndim = min(1, *(summary.within.ndim for summary in summaries))
    cells = Measure(
        np.concatenate([summary.means for summary in summaries]),
        np.concatenate([weight * summary.weights for weight, summary in weighted]),
    )
    return Summary(
        cells.weights,
        cells.points,
        covariance=np.asarray(
            sum(weight * reduce_covariance(summary.within, ndim) for weight, summary in weighted)
        ),
        count=int(counts.sum()),
        within_std=math.sqrt(
            sum(float(weight) * summary.within_std**2 for weight, summary in weighted)
        ),
        p=2.0,
        min_cell_size=min(summary.min_cell_size for summary in summaries),
    )
