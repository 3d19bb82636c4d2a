"""Whether one site lies further from the others than they lie from each other.

Chance has two sources. Rows are samples, so squared distances have errors. Sites differ anyway, so
one of them is always the farthest. A site is the odd one out if its squared distance from the
others exceeds what both sources would give to one more site of the same kind as the others.

There are two tests. One is of means and spreads, which are known precisely; see `odd_moments`. The
other is of the whole distances between populations; it is computed here.

Let n other sites be drawn from one normal distribution of sites with total variance s^2, which is
equal in k directions. Half their mean squared distance from each other estimates s^2. For a further
site of this distribution, let A be n / (n + 1) times its squared distance from their centre. Then
A / s^2, with the estimate for s^2, has the distribution F(k, k (n - 1)). The eigenvalues of the
Gram matrix of the n sites give an effective k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwad._matrix.odd_moments import moment_pvalues
from fedwad.ot import ColumnMoments, Floats

__all__ = ["mean_weights", "odd_pvalues", "site_pvalues", "weighted_sum_error"]

# Parts of the significance level that the two tests get. They sum to less than one, because the
# distribution of sites need not be normal.
_MOMENTS_PART, _DISTANCES_PART = 0.6, 0.1
_MIN_PVALUE = 1e-12  # smaller p-values are not distinguished


def mean_weights(count: int) -> Floats:
    """Return the weights (N, N) of the mean over all pairs of `count` sites."""
    return np.asarray((1 - np.eye(count)) / (count * (count - 1)))


def weighted_sum_error(weights: Floats, error: Floats) -> float:
    """Return the standard error of a sum over pairs, with weights (N, N) and errors (N, N).

    Half of the variance of a pair is assigned to each of its sites, so two pairs that share a site
    have correlation one half. Sites of equal size, with errors that are linear in their rows, have
    no larger correlation.
    """
    weighted = (weights + weights.T) / 2 * error
    return float(np.sqrt((weighted.sum(axis=1) ** 2).sum() * 2))


@dataclass(frozen=True, eq=False)
class _Contrast:
    """One site against the others.

    Attributes
    ----------
    square, variance : A and s^2 of this module
    square_weights, variance_weights : arrays (N, N); A and s^2 are sums over pairs of squared
        distances with these weights
    directions, others : k and n of this module
    """

    square: float
    variance: float
    square_weights: Floats
    variance_weights: Floats
    directions: float
    others: int

    def exceeds(self, alpha: float, error: Floats) -> bool:
        """Whether A exceeds both its sampling error and the F quantile for one more site.

        One standard error is added to s^2, in case the other sites seem equal only by chance.
        """
        from scipy.special import fdtri, ndtri

        degrees_of_freedom = self.directions * (self.others - 1)
        quantile = float(fdtri(self.directions, degrees_of_freedom, 1 - alpha))
        variance = self.variance + weighted_sum_error(self.variance_weights, error)
        sampling = -float(ndtri(alpha)) * weighted_sum_error(self.square_weights, error)
        return self.square > max(quantile * variance, sampling)


def odd_pvalues(
    square: Floats, error: Floats, moments: Sequence[ColumnMoments] | None = None
) -> Floats:
    """Return p-values of the hypothesis that a site is drawn from the same distribution of sites as
    the others, adjusted for the number of sites.

    Parameters
    ----------
    square : array (N, N)
        Squared distances between populations, which may be negative by chance.
    error : array (N, N)
        Standard errors of `square`.
    moments : N of ColumnMoments, optional
        Means and spreads of the sites; without them, distances alone are tested.

    Examples
    --------
    >>> points = np.array([0.0, 0.1, -0.1, 0.05, -0.05, 0.08, 3.0])
    >>> square = (points[:, None] - points) ** 2
    >>> odd_pvalues(square, np.full((7, 7), 1e-4)).round(2).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    """
    return np.asarray(np.minimum(site_pvalues(square, error, moments) * len(square), 1.0))


def site_pvalues(
    square: Floats, error: Floats, moments: Sequence[ColumnMoments] | None = None
) -> Floats:
    """Return p-values as `odd_pvalues`, not adjusted; ones if there are fewer than three sites."""
    count = len(square)
    if count < 3:
        return np.ones(count)
    by_distances = np.array([_pvalue(_contrast_site(square, site), error) for site in range(count)])
    if moments is None:
        return by_distances
    pvalues = np.minimum(moment_pvalues(moments) / _MOMENTS_PART, by_distances / _DISTANCES_PART)
    return np.asarray(np.clip(pvalues, _MIN_PVALUE, 1.0))


def _contrast_site(square: Floats, site: int) -> _Contrast:
    """Return the contrast of one site to the others, from squared distances of all pairs."""
    count = len(square)
    n = count - 1
    others = np.arange(count) != site
    inside = np.outer(others, others) & ~np.eye(count, dtype=bool)
    variance_weights = inside / (n * (n - 1)) / 2  # s^2 is half of the mean over ordered pairs
    across = np.zeros((count, count))
    across[site, others] = across[others, site] = 0.5 / n
    # The mean squared distance from the others, less their own from their centre.
    square_weights = (across - (n - 1) / n * variance_weights) * n / (n + 1)
    variance = float((variance_weights * square).sum())
    return _Contrast(
        square=float((square_weights * square).sum()),
        variance=max(variance, 0.0),
        square_weights=square_weights,
        variance_weights=variance_weights,
        directions=_directions(square[np.ix_(others, others)]),
        others=n,
    )


def _directions(square: Floats) -> float:
    """Return the effective number of directions in which sites with these squared distances differ:
    the participation ratio of the eigenvalues of their Gram matrix."""
    count = len(square)
    centring = np.eye(count) - 1 / count
    values = np.linalg.eigvalsh(-centring @ np.maximum(square, 0.0) @ centring / 2)
    values = np.maximum(values, 0.0)
    total = float((values**2).sum())
    return float(np.clip(values.sum() ** 2 / total, 1.0, count - 1)) if total > 0 else 1.0


def _pvalue(contrast: _Contrast, error: Floats) -> float:
    """Return the smallest alpha at which `contrast.exceeds`, by bisection of its logarithm."""
    low, high = math.log(_MIN_PVALUE), math.log(0.5)
    if not contrast.exceeds(0.5, error):
        return 1.0
    if contrast.exceeds(_MIN_PVALUE, error):
        return _MIN_PVALUE
    for _ in range(40):
        middle = (low + high) / 2
        if contrast.exceeds(math.exp(middle), error):
            high = middle
        else:
            low = middle
    return math.exp(high)
