"""What a client measures on splits of its own rows: its sampling noise and the estimator's error.

Two disjoint halves of a sample are two independent samples of one population. Their exact distance
is pure sampling noise. The distance that a server would estimate from the summaries of both halves
shows how wrong that estimate is for populations that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._classes import ClassCovariance
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._splits import MIN_HALF, Split, Splits
from fedwad.ot._summary import CovarianceType

__all__ = ["Calibration", "calibrate", "common_size", "fit_error_decay", "power_law"]

#: Smallest and largest exponent of a power law of sampling noise.
EXPONENTS = (0.02, 1.1)
_DEFAULT_EXPONENT = 0.4  # for samples too small to measure it
_SUMMARISED = 4  # splits whose halves are summarised, at most
# Where estimates are too high by a factor, they fall more slowly with the number of rows than exact
# squares do: their exponent is that of the noise, divided by this power of the factor.
_SLOWER = 1.4
_ROUGH = 0.01  # standard error that even many splits leave
_Number = TypeVar("_Number", float, Floats)
# Decays, relative to what is estimated for one population: those that are tried, and a typical one
# with the standard deviation of its logarithm.
_DECAYS = np.geomspace(0.02, 10.0, 63)
_DECAY, _DECAY_SPREAD = 0.25, 0.8
_SCATTER = 0.05  # standard deviation of an estimate's error, relative to the same


@dataclass(frozen=True, eq=False)
class Calibration:
    """Squared distances between splits of one client's rows, averaged over splits.

    Attributes
    ----------
    size : float
        Rows in a half, Kish's effective number when they are weighted.
    noise, noise_quarter : float
        Exact squared distance between two halves, and between two quarters.
    noise_std : float
        Standard deviation of the former over splits.
    splits : int
        Number of splits into halves.
    drawn : int
        Points of a synthetic sample, at most as many as the client has rows.
    synthetic, synthetic_half : float
        What a server estimates from the summaries of two halves, with synthetic samples of `drawn`
        points and of half as many.
    error_decay : float
        By how much an estimated square must exceed that of one population for the estimator's error
        to fall to 1 / e, see `calibrated_squares`.
    scale_noise : float
        Squared distance between the standard deviations of two halves, summed over features.
    spread_noise : float
        Squared difference between the root total variances of two halves.
    features : array (d,) or None
        Share of each feature in `noise`, sum one; None when it is withheld.
    """

    size: float
    noise: float
    noise_quarter: float
    noise_std: float
    splits: int
    drawn: int
    synthetic: float
    synthetic_half: float
    error_decay: float
    scale_noise: float = 0.0
    spread_noise: float = 0.0
    features: Floats | None = None

    @property
    def exponent(self) -> float:
        """Exponent b of noise(n) = noise * (n / size)^-b."""
        return _exponent(self.noise, self.noise_quarter)

    def common_size(self, n: float, others: Floats) -> Floats:
        """`common_size` by the exponent of this population's noise."""
        return common_size(n, others, self.exponent)

    def noise_at(self, n: _Number) -> _Number:
        """Squared distance between two samples of n rows of this population."""
        return power_law(self.noise, self.noise_quarter, n / self.size)

    def synthetic_at(self, n: _Number) -> _Number:
        """What a server would estimate for two samples of n rows of this population."""
        return power_law(self.synthetic, self.synthetic_half, n / self.drawn)


def common_size(n: float, others: Floats, exponent: float) -> Floats:
    """The size at which two equal samples are as far apart by chance as samples of n and of others.

    It is the power mean of order -q of both sizes. If noise falls as fast as that of a mean
    (exponents from 1/2 on), both samples add to it and q = 1. In many dimensions the smaller
    sample makes nearly all of the noise, and q approaches 2.

    Examples
    --------
    >>> common_size(100, np.array([100.0, 300.0]), 0.5)
    array([100., 150.])
    """
    q = float(np.clip(2 - 2 * exponent, 1.0, 2.0))
    mean = ((n**-q + others**-q) / 2) ** (-1 / q)
    return np.where(others == n, others, mean)


def power_law(half: float, quarter: float, ratio: _Number) -> _Number:
    """The power law through `quarter` at ratio 1/2 and `half` at ratio 1, read at `ratio`."""
    power: _Number = ratio ** -_exponent(half, quarter)
    return half * power


def _exponent(half: float, quarter: float) -> float:
    if not (half > 0 and quarter > 0):
        return _DEFAULT_EXPONENT
    return float(np.clip(np.log2(quarter / half), *EXPONENTS))


def calibrate(
    measure: Measure,
    cells: int = 10,
    covariance_type: CovarianceType = "auto",
    min_cell_size: int = 10,
    features: bool = True,
    support: Floats | None = None,
    digest: str = "",
    codes: NDArray[np.int64] | None = None,
    class_covariance: ClassCovariance = "diag",
) -> Calibration:
    """Measure the sampling noise of a sample, and the server's error, on splits of its own rows.

    The splits depend on the data alone, so repeated requests get the same numbers. A half has at
    most MAX_HALF rows; the numbers for more rows are extrapolated. Below 2 MIN_HALF rows the
    error of the estimator is not measured: `synthetic` is then equal to `noise`, which
    leaves estimates as they are. Below four rows the exponent is a default. A single row has no
    noise that could be measured, and gets zero. With `support`, cells are those of transport to
    these points, which a server shares between sites, and not of k-means. `digest` is the SHA-256
    of data whose rows are sorted already, so that they are not hashed again. With `codes`, the
    class of each row, distances are those between labelled samples (`labelled`).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> c = calibrate(Measure(rng.normal(size=(400, 10))))
    >>> 4.5 < c.noise_at(400) < 6.5, 0.9 < c.synthetic_at(400) / c.noise_at(400) < 1.2
    (True, True)
    """
    count = len(measure)
    if count < 2:
        return Calibration(
            1.0, 0.0, 0.0, 0.0, 0, 1, 0.0, 0.0, 0.0, features=_even(measure, features)
        )
    splits = Splits.of(
        measure,
        cells,
        covariance_type,
        min_cell_size,
        support,
        digest,
        codes,
        class_covariance,
    )
    halves = splits.halves()
    squares = splits.columns([(split.rows, *split.halves) for split in halves])
    exact = np.array([square.sum() for square in squares])
    quarters = splits.squares([(one.rows, *pair) for one in halves for pair in one.quarters])
    quarter = float(np.mean(quarters)) if quarters else 0.0
    noise = float(exact.mean())
    scale_noise, spread_noise = splits.scale_differences()
    found = Calibration(
        size=splits.effective_size(halves),
        noise=noise,
        noise_quarter=quarter,
        noise_std=float(exact.std(ddof=1)) if len(exact) > 1 else noise,
        splits=len(exact),
        drawn=splits.size,
        synthetic=noise,
        synthetic_half=quarter,
        error_decay=noise,
        scale_noise=scale_noise,
        spread_noise=spread_noise,
        features=_feature_shares(squares) if features else None,
    )
    if splits.size < MIN_HALF or not noise > 0:
        return found
    return _with_estimates(splits, found, halves, exact)


def _even(measure: Measure, features: bool) -> Floats | None:
    """Equal shares for all features; None if shares are withheld."""
    return np.full(measure.dimension, 1 / measure.dimension) if features else None


def _feature_shares(squares: list[Floats]) -> Floats:
    """Share of each feature in squared distances by feature."""
    total = np.asarray(np.sum(squares, axis=0))
    whole = float(total.sum())
    return np.asarray(total / whole) if whole > 0 else np.full(len(total), 1 / len(total))


def _with_estimates(
    splits: Splits, found: Calibration, halves: Sequence[Split], exact: Floats
) -> Calibration:
    """The calibration with what a server estimates from summaries of two halves.

    Estimates are compared with the exact squares of the same halves, so that their common
    fluctuations cancel.
    """
    number = min(_SUMMARISED, len(halves))
    samples = splits.samples([(one.rows, half) for one in halves[:number] for half in one.halves])
    estimates = np.array(splits.estimates(samples, splits.size))
    if not ((estimates > 0) & (exact[:number] > 0)).all():
        return found
    error = _shrunk(np.log(estimates / exact[:number]))
    exponent = np.clip(found.exponent * np.exp(-_SLOWER * error), *EXPONENTS)
    found = replace(
        found,
        synthetic=float(found.noise * np.exp(error)),
        synthetic_half=float(found.noise * np.exp(error) * 2**exponent),
    )
    return _with_error_decay(splits, found, halves[0], samples[0].cell_means)


def _shrunk(values: Floats) -> float:
    """The mean of a few numbers, shrunk towards zero by its standard error."""
    mean, error2 = float(values.mean()), float(values.var(ddof=1)) / len(values) + _ROUGH**2
    return mean * mean**2 / (mean**2 + error2)


def _with_error_decay(
    splits: Splits, found: Calibration, split: Split, means: Floats
) -> Calibration:
    """The calibration with `error_decay` fitted to pairs of parts that differ on purpose."""
    shares, ratios = [], []
    null, kappa = found.synthetic, found.noise / found.synthetic
    pairs = splits.unequal_mixtures(split, means)
    size = len(pairs[0][0].rows) if pairs else 0
    samples = splits.samples([(split.rows, part) for pair in pairs for part in pair])
    estimates = splits.estimates(samples, size)
    squares = splits.squares([(split.rows, *pair) for pair in pairs])
    for estimate, exact in zip(estimates, squares, strict=True):
        null = found.synthetic_at(size)
        kappa = found.noise_at(size) / null
        if estimate > 0 and exact > 0:
            shares.append(min(1.0, null / estimate))
            ratios.append(exact / estimate)
    return replace(
        found, error_decay=null * fit_error_decay(kappa, np.array(shares), np.array(ratios))
    )


def fit_error_decay(kappa: float, shares: Floats, ratios: Floats) -> float:
    """The decay that fits the errors of estimates between unequal parts best, given a prior.

    Parameters
    ----------
    kappa : float
        Exact square of two samples of one population, relative to its estimate T0.
    shares, ratios : arrays
        T0 and the exact square of each pair of unequal halves, relative to its estimate.

    Returns
    -------
    The decay in units of T0.
    """
    fallen = np.exp((1 - 1 / shares) / _DECAYS[:, None])
    scores = ((1 - kappa) * fallen - (1 - ratios) / shares) / _SCATTER
    misfit = (scores**2).sum(axis=1) + (np.log(_DECAYS / _DECAY) / _DECAY_SPREAD) ** 2
    return float(_DECAYS[misfit.argmin()])
