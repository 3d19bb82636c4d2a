"""Sampling noise from releases: how far apart samples of one normal population are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwad.ot import Floats, Summary, synthetic_distances
from fedwad.privacy._denoise import DenoisedMoments

__all__ = ["sampling_noise"]

_PAIRS_FOR_FEW_DRAWS = 20  # with so many pairs, synthetic_distances draws twice


def sampling_noise(denoised: Sequence[DenoisedMoments], seed: int) -> Floats:
    """Distances that samples of these sizes have by chance alone, (N, N), zero on the diagonal.

    The rows behind a release cannot be split. Instead two synthetic samples of each site are drawn
    from the normal distribution with the denoised mean and covariance. Data near a surface of fewer
    dimensions have less noise. The noise of a pair is the geometric mean of the noise of both.
    """
    own_noise = []
    for one in denoised:
        mean, covariance = one.moments
        spread = float(np.sqrt(max(float(np.trace(covariance)), 0.0)))
        normal = Summary(np.ones(1), mean[None], covariance, one.count, spread, 2.0, one.count)
        distances = synthetic_distances(
            [normal, normal], [(0, 1)], 2.0, seed, total_pairs=_PAIRS_FOR_FEW_DRAWS
        )
        own_noise.append(distances[0, 1])
    roots = np.sqrt(own_noise)
    noise = np.outer(roots, roots)
    np.fill_diagonal(noise, 0.0)
    return np.asarray(noise)
