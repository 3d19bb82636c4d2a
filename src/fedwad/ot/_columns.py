"""Means, spreads and noise of each feature at one site, with their standard errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwad.ot._blocks import Blocks
from fedwad.ot._calibration import Calibration, common_size
from fedwad.ot._classes import LabelledSummary
from fedwad.ot._measure import Floats
from fedwad.ot._summary import Summary, feature_variances

__all__ = ["ColumnMoments", "block_moments", "column_moments"]

_MAX_HEAVINESS = 25.0  # largest factor by which heavy tails increase squared standard errors
# Power of `heaviness`, which is a mean over features, some of which have heavier tails.
_HEAVINESS_POWER = 1.5


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Mean, spread and noise of each feature at one site.

    Attributes
    ----------
    count : float
        Number of rows, Kish's effective number when they are weighted.
    mean : array (d,)
    std : array (d,) or None
        Standard deviations (population form); None if only their mean square is known.
    mean_error, std_error : arrays (d,)
        Squared standard errors of both.
    noise : array (d,) or None
        Part of each feature in the squared distance of two samples of `count` rows from this
        population; None if the site did not measure it.
    exponent : float
        Power at which the noise falls with the number of rows.
    heaviness : float
        Squared errors of standard deviations, over those of normal distributions in each cell.
    """

    count: float
    mean: Floats
    std: Floats | None
    mean_error: Floats
    std_error: Floats
    noise: Floats | None = None
    exponent: float = 0.4
    heaviness: float = 1.0

    @property
    def typical_std_error(self) -> Floats:
        """`std_error` without the factor for heavy tails, which is one for all features."""
        return np.asarray(self.std_error / self.heaviness**_HEAVINESS_POWER)

    def noise_against(self, count: float) -> Floats | None:
        """The noise between a sample of this size and one of `count` rows."""
        if self.noise is None:
            return None
        size = common_size(self.count, np.array(count), self.exponent)
        return np.asarray(self.noise * (size / self.count) ** -self.exponent)


def column_moments(
    summary: Summary | LabelledSummary, calibration: Calibration | None = None
) -> ColumnMoments:
    """Moments of all features from a summary, and their noise from the site's calibration.

    The standard error of a standard deviation needs the fourth moment, which comes from the cells;
    heavier tails increase the errors that a site measures for its calibration.
    """
    plain = summary.merged if isinstance(summary, LabelledSummary) else summary
    count, mean = float(max(plain.count, 2)), plain.mean
    total = plain.total_covariance()
    has_variances = total.ndim > 0  # otherwise only their mean
    variances = np.maximum(feature_variances(total, len(mean)), 0.0)
    std_error = variances * np.maximum(_kurtosis(plain, variances) - 1, 0.0) / (4 * count)
    heaviness = 1.0 if calibration is None else _heaviness(calibration, std_error, count)
    noise = None
    if calibration is not None and calibration.features is not None:
        noise = calibration.noise_at(count) * calibration.features
    return ColumnMoments(
        count=count,
        mean=mean,
        std=np.sqrt(variances) if has_variances else None,
        mean_error=variances / (count - 1),
        std_error=heaviness**_HEAVINESS_POWER * std_error,
        noise=noise,
        exponent=0.4 if calibration is None else calibration.exponent,
        heaviness=heaviness,
    )


def block_moments(blocks: Blocks) -> ColumnMoments:
    """Moments of all features from the block means that a site sends for a permutation test."""
    rows = blocks.rows * 2 ** np.repeat(np.arange(len(blocks.counts)), blocks.counts)
    count = float(max(rows.sum(), 2))
    means = rows @ blocks.means / rows.sum()
    d = len(blocks.centre)
    variances = np.where(means[d : 2 * d] > 0, blocks.scale, 0.0) ** 2
    kurtosis = np.full(d, 3.0)
    if ("fourth", d) in blocks.segments:  # after three segments of d powers each
        kurtosis = np.maximum(means[3 * d : 4 * d], 1.0)
    return ColumnMoments(
        count=count,
        mean=blocks.centre,
        std=np.sqrt(variances),
        mean_error=variances / (count - 1),
        std_error=variances * (kurtosis - 1) / (4 * count),
    )


def _kurtosis(summary: Summary, variances: Floats) -> Floats:
    """Kurtosis of each feature if cells are normal distributions; 1 if it does not vary."""
    unit = np.where(variances > 0, variances, 1.0)  # fourth powers could overflow
    inside = feature_variances(summary.within, len(unit)) / unit
    offsets = (summary.means - summary.mean) ** 2 / unit
    fourth_moments = offsets**2 + 6 * offsets * inside + 3 * inside**2
    return np.where(variances > 0, summary.weights @ fourth_moments, 1.0)


def _heaviness(calibration: Calibration, std_error: Floats, count: float) -> float:
    """Squared errors of standard deviations that a site measured on splits of its rows, over those
    that its cells suggest; at least one."""
    expected = 2 * float(std_error.sum()) * count / calibration.size
    if not expected > 0:
        return 1.0
    return float(np.clip(calibration.scale_noise / expected, 1.0, _MAX_HEAVINESS))
