"""From estimated distances between samples to distances between their populations.

W2^2 = |shift|^2 + V_a + V_b - 2 C, with the variances V_a and V_b and the largest covariance C that
a coupling can have. Sampling lowers C. Two samples of one population, at squared distance E, lose
E / 2 of C; each site measures E on its own rows. The loss scales with both spreads, so samples of
two populations of different spread lose the geometric mean of both losses, feature by feature. The
loss also scales with C: populations with F = C / sqrt(V_a V_b) < 1 lose about F times as much. To
undo this loss is Spearman's correction for attenuation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedwad.ot._calibration import Calibration
from fedwad.ot._measure import Floats
from fedwad.ot._moment_parts import Site, moment_parts
from fedwad.ot._self_distance import NullEstimate, SelfDistance

__all__ = ["Populations", "Site", "calibrated_squares", "noise_squares", "populations"]

_Z = 1.959964  # 97.5% quantile of the normal distribution
#: Part of the estimator's correction that counts as one standard deviation of its error.
_CALIBRATION_ERROR = 0.1
#: Part of a calibrated square that counts as one standard deviation of its error.
_RELATIVE_ERROR = 0.0075
_SIGNIFICANT = 2.5  # standard deviations; what transport adds counts only beyond them
# Near equality squares are skewed: the 97.5% quantile of chi-square lies 2.1 (50 degrees of
# freedom) to 2.8 (one) standard deviations above its mean.
_SKEWNESS = 0.7


@dataclass(frozen=True, eq=False)
class Populations:
    """Distances between populations, (N, N) arrays with zeros on the diagonal.

    Attributes
    ----------
    value : calibrated distance between the samples
    noise : distance that two samples of these sizes of one population have
    population : distance between the populations
    lower, upper : 95% interval of `population`
    square : squared distance before negative values are cut off
    std : standard deviation of `square`
    """

    value: Floats
    noise: Floats
    population: Floats
    lower: Floats
    upper: Floats
    square: Floats
    std: Floats


def calibrated_squares(
    squares: Floats,
    calibrations: Sequence[Calibration],
    counts: Sequence[float],
    self_distances: Sequence[SelfDistance | None] | None = None,
) -> Floats:
    """Estimated squared distances T without the error of the estimator, for all pairs, (N, N).

    E0 and T0 are the exact and the estimated squared distance of two samples of one population, and
    kappa = E0 / T0. Up to T0 an estimate is too high by its fraction 1 - kappa. Beyond T0 that
    error falls: value^2 = T - (1 - kappa) T0 exp(-(T - T0) / error_decay). T0 is extrapolated from
    few rows. Too low a T0 does more harm than too high a one, so a slightly higher T0 is taken in
    the exponent.
    """
    self_distances = self_distances or [None] * len(calibrations)
    curves = [NullEstimate(c, own) for c, own in zip(calibrations, self_distances, strict=True)]
    exact = noise_squares(calibrations, counts)
    estimated = _geometric_means(calibrations, counts, [curve.at for curve in curves])
    are_positive = (estimated > 0) & (squares > 0)
    kappa = np.where(are_positive, exact / np.where(are_positive, estimated, 1.0), 1.0)
    near = np.minimum(squares, _geometric_means(calibrations, counts, [c.at_most for c in curves]))
    roots = np.sqrt([c.error_decay for c in calibrations])
    # Estimates that are too low are corrected less the further they are, but stay in order.
    decay = np.maximum(np.outer(roots, roots), np.maximum(exact - estimated, 0.0))
    beyond = np.where(decay > 0, (squares - near) / np.where(decay > 0, decay, 1.0), 0.0)
    return np.asarray(np.maximum(squares - (1 - kappa) * near * np.exp(-beyond), 0.0))


def populations(
    squares: Floats, sites: Sequence[Site], variance: Floats | None = None
) -> Populations:
    """Distances between the populations of N sites from estimated squared distances (N, N).

    Parameters
    ----------
    squares : array (N, N)
        Squared distances that were estimated from summaries, before calibration.
    sites : N of Site
    variance : array (N, N), optional
        Variance of squared distances far from equality, by the potentials of a transport between
        cells. The variance due to means and spreads is used where it is larger.
    """
    calibrations, counts = [s.calibration for s in sites], [float(s.count) for s in sites]
    value2 = calibrated_squares(squares, calibrations, counts, [s.self_distance for s in sites])
    null = noise_squares(calibrations, counts)
    parts = moment_parts(sites)
    noise2 = np.maximum(null * _noise_overlap(calibrations) - parts.mean_noise, 0.0)
    rest = value2 - parts.shift - parts.scale - noise2 + parts.scale_noise
    error = _error_of_rest(squares, value2, null, calibrations, counts)
    # What remains besides means and spreads is shrunk by its error.
    weight = np.where(
        rest > 0,
        np.maximum(1 - (_SIGNIFICANT * error / np.where(rest > 0, rest, 1.0)) ** 2, 0.0),
        0.0,
    )
    gain = parts.amplification(noise2)
    moments = parts.shift - parts.mean_noise + parts.scale - parts.scale_noise
    total_variance = parts.variance
    if variance is not None:  # where the distance is more than means and spreads
        total_variance = np.maximum(total_variance, weight * variance)
    std = np.sqrt(total_variance + error**2)
    square = moments + weight * gain * rest
    varies = total_variance > 0
    null_part = np.where(varies, parts.null_variance / np.where(varies, total_variance, 1.0), 0.0)
    quantile = _Z + _SKEWNESS * null_part
    low = moments + np.maximum(rest - quantile * error, 0.0) - quantile * np.sqrt(total_variance)
    high = (
        np.maximum(moments, 0.0) + np.maximum(rest, 0.0) * (1 + 2 * weight * (gain - 1)) + _Z * std
    )
    high += _weight_noise_margin(sites, null, value2)
    low, high = np.minimum(low, square), np.maximum(high, square)
    off_diagonal = ~np.eye(len(sites), dtype=bool)

    def symmetric(x: Floats) -> Floats:
        return np.where(off_diagonal, (x + x.T) / 2, 0.0)

    def root(x: Floats) -> Floats:
        return np.asarray(np.sqrt(np.maximum(symmetric(x), 0.0)))

    return Populations(
        value=root(value2),
        noise=root(null),
        population=root(square),
        lower=root(low),
        upper=root(high),
        square=symmetric(square),
        std=symmetric(std),
    )


def noise_squares(calibrations: Sequence[Calibration], counts: Sequence[float]) -> Floats:
    """Squared distances of two samples of one population, at the sizes of each pair, (N, N)."""
    return _geometric_means(calibrations, counts, [c.noise_at for c in calibrations])


def _geometric_means(
    calibrations: Sequence[Calibration],
    counts: Sequence[float],
    curves: Sequence[Callable[[Floats], Floats]],
) -> Floats:
    """Geometric means of the curves of both sites, at the sizes of each pair."""
    table = _at_pair_sizes(calibrations, counts, curves)
    return np.asarray(np.sqrt(table * table.T))


def _at_pair_sizes(
    calibrations: Sequence[Calibration],
    counts: Sequence[float],
    curves: Sequence[Callable[[Floats], Floats]],
) -> Floats:
    """The curve of each site at the sizes of its pairs; row i has the values of site i."""
    sizes = np.array(counts, dtype=float)
    pairs = zip(calibrations, counts, curves, strict=True)
    return np.array([curve(c.common_size(n, sizes)) for c, n, curve in pairs])


def _weight_noise_margin(sites: Sequence[Site], null: Floats, value2: Floats) -> Floats:
    """What is added to the upper end of an interval, because noise of cell weights may average out.

    If cells are separate clusters, their weights fluctuate by chance and make self-distances large.
    Far from equality an optimal transport depends on weights linearly, so these fluctuations
    average out, and subtracting them subtracts too much. If cells are parts of one cluster, they
    do not average out. A summary does not say which is the case, so the interval covers both.
    """
    roots = np.sqrt([site.weight_noise for site in sites])
    near = np.where(value2 > 0, np.minimum(1.0, null / np.where(value2 > 0, value2, 1.0)), 1.0)
    return np.asarray(np.minimum(np.outer(roots, roots), null) * (1 - near))


def _noise_overlap(calibrations: Sequence[Calibration]) -> Floats:
    """Sum over features of the geometric mean of two sites' fractions of noise in that feature.

    It is 1 if the fractions of both sites are equal.
    """
    if any(c.features is None for c in calibrations):
        return np.ones((len(calibrations), len(calibrations)))
    roots = np.sqrt(np.array([c.features for c in calibrations]))
    return np.asarray(np.minimum(roots @ roots.T, 1.0))


def _error_of_rest(
    squares: Floats,
    value2: Floats,
    null: Floats,
    calibrations: Sequence[Calibration],
    counts: Sequence[float],
) -> Floats:
    """Standard deviation of what remains of squared distances besides means and spreads."""
    fluctuations = [partial(_fluctuation, c) for c in calibrations]
    sampling_error = _geometric_means(calibrations, counts, fluctuations)
    # Noise is a geometric mean of what two sites measured, whose errors are independent.
    errors = [partial(_relative_noise_error, c) for c in calibrations]
    relative = _at_pair_sizes(calibrations, counts, errors)
    noise_error = null * np.hypot(relative, relative.T) / 2
    estimator_error = _CALIBRATION_ERROR * np.abs(squares - value2) + _RELATIVE_ERROR * value2
    return np.asarray(np.sqrt(sampling_error**2 + noise_error**2 + estimator_error**2))


def _fluctuation(c: Calibration, n: Floats) -> Floats:
    """Standard deviation of the squared distance of two samples of n rows of one population."""
    return np.asarray(c.noise_std * (n / c.size) ** -max(c.exponent, 0.5))


def _relative_noise_error(c: Calibration, n: Floats) -> Floats:
    """Relative standard error of noise_at(n); the exponent's error adds to it away from `size`."""
    if not c.noise > 0:
        return np.zeros_like(n)
    doublings = np.abs(np.log2(n / c.size))
    relative = c.noise_std / c.noise / np.sqrt(max(c.splits, 1))
    return np.asarray(relative * np.hypot(1 + doublings, doublings))
