"""The part of a squared distance that means and standard deviations determine, and its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.ot._calibration import Calibration
from fedwad.ot._measure import Floats
from fedwad.ot._self_distance import SelfDistance

__all__ = ["MomentParts", "Site", "moment_parts"]

_MIN_RELIABILITY = 0.4  # smaller reliabilities are too inexact to divide by
_BLOCK_ENTRIES = 1 << 20  # numbers in the covariances that are held in memory at a time


@dataclass(frozen=True, eq=False)
class Site:
    """Moments and measured noise of a site, for estimates between populations.

    Attributes
    ----------
    count : float
        Number of rows, Kish's effective number when they are weighted.
    mean : array (d,)
    covariance : array (d, d), (d,)
        Covariance (population form). If there are variances alone, features count as uncorrelated.
    calibration : Calibration
    weight_noise : float
        Squared distance between cell means due to chance fluctuations of the cells' weights.
    class_stds : array (k,) or None
        Standard deviations of the class statistics: a dataset distance compares the mean and the
        spread of each row's class besides its features.
    self_distance : SelfDistance or None
        Squared distance between two synthetic samples of the site's summary; None where a server
        does not need it.
    """

    count: float
    mean: Floats
    covariance: Floats
    calibration: Calibration
    weight_noise: float = 0.0
    class_stds: Floats | None = None
    self_distance: SelfDistance | None = None

    @property
    def variances(self) -> Floats:
        return np.diag(self.covariance) if self.covariance.ndim == 2 else self.covariance


@dataclass(frozen=True, eq=False)
class MomentParts:
    """The parts of the squared distances, as (N, N) arrays for all pairs of N sites.

    Attributes
    ----------
    shift, mean_noise : squared distance of the means, and its expectation for one population
    scale, scale_noise : squared distance of the standard deviations, summed over features, and
        its expectation for one population
    variance, null_variance : variance of shift + scale, and the same for one population
    covariance : largest covariance between two sites, summed over features, that a coupling can
        have
    """

    shift: Floats
    mean_noise: Floats
    scale: Floats
    scale_noise: Floats
    variance: Floats
    null_variance: Floats
    covariance: Floats

    def amplification(self, noise2: Floats) -> Floats:
        """One over the reliability: the factor that undoes the attenuation by sampling noise.

        `noise2` has the squared noise levels of all pairs.
        """
        is_positive = self.covariance > 0
        reliability = 1 - noise2 / (2 * np.where(is_positive, self.covariance, 1.0))
        return np.where(is_positive, 1 / np.clip(reliability, _MIN_RELIABILITY, 1.0), 1.0)


def moment_parts(sites: Sequence[Site]) -> MomentParts:
    """Squared distances of means and standard deviations of all pairs of sites, and their noise."""
    counts = np.array([max(float(s.count), 2.0) for s in sites])
    means = np.array([s.mean for s in sites])
    stds = np.sqrt(np.maximum(np.array([s.variances for s in sites]), 0.0))
    totals = (stds**2).sum(axis=1)
    mean_covariances = np.array(
        [s.covariance / (n - 1) for s, n in zip(sites, counts, strict=True)]
    )
    count = len(sites)
    shift, scale, shift_variance, null_variance = (np.zeros((count, count)) for _ in range(4))
    step = max(1, _BLOCK_ENTRIES // mean_covariances[0].size)
    for i in range(count):
        for start in range(0, i, step):
            others = slice(start, min(i, start + step))
            gaps = means[i] - means[others]
            gap_covariances = mean_covariances[i] + mean_covariances[others]
            values = (
                (gaps**2).sum(axis=1),
                ((stds[i] - stds[others]) ** 2).sum(axis=1),
                2 * (gap_covariances**2).reshape(len(gaps), -1).sum(axis=1),
                _shift_variances(gaps, gap_covariances),
            )
            for table, row in zip(
                (shift, scale, null_variance, shift_variance), values, strict=True
            ):
                table[i, others] = table[others, i] = row
    mean_noise = totals / (counts - 1)
    scale_noise = _noise_at_sizes([s.calibration.scale_noise for s in sites], sites, counts)
    spread_noise = _noise_at_sizes([s.calibration.spread_noise for s in sites], sites, counts)
    excess = np.maximum(scale - scale_noise, 0.0)
    # The second term is the variance for one population. The first is added where the standard
    # deviations differ.
    scale_variance = 4 * excess * spread_noise + 2 * scale_noise * spread_noise
    return MomentParts(
        shift=shift,
        mean_noise=np.asarray(mean_noise[:, None] + mean_noise),
        scale=scale,
        scale_noise=scale_noise,
        variance=shift_variance + scale_variance,
        null_variance=null_variance + 2 * scale_noise * spread_noise,
        covariance=np.asarray(stds @ stds.T + _largest_class_covariance(sites)),
    )


def _largest_class_covariance(sites: Sequence[Site]) -> Floats:
    """Largest covariance of class statistics that a coupling can have; zero without classes."""
    stds = [s.class_stds for s in sites if s.class_stds is not None]
    if len(stds) < len(sites):
        return np.zeros((len(sites), len(sites)))
    return np.asarray(np.array(stds) @ np.array(stds).T)


def _shift_variances(gaps: Floats, covariances: Floats) -> Floats:
    """Variance of |gap|^2 for each gap between two means, given the covariance of the gap's noise.

    It is at least the variance for one population, where the gap is noise alone.
    """
    squared_noise = (covariances**2).reshape(len(gaps), -1).sum(axis=1)
    if covariances.ndim == 2:
        along_gap = (gaps**2 * covariances).sum(axis=1)
    else:
        along_gap = ((covariances @ gaps[:, :, None])[:, :, 0] * gaps).sum(axis=1)
    return np.asarray(np.maximum(4 * along_gap - 2 * squared_noise, 2 * squared_noise))


def _noise_at_sizes(noises: Sequence[float], sites: Sequence[Site], counts: Floats) -> Floats:
    """Noise between samples of the sizes of each pair, from what sites measured on splits.

    Noise falls as one over the number of rows, and either site of a pair adds half of it.
    """
    noise_of_one_row = np.array(
        [value * site.calibration.size / 2 for value, site in zip(noises, sites, strict=True)]
    )
    noise_of_site = noise_of_one_row / counts
    return np.asarray(noise_of_site[:, None] + noise_of_site)
