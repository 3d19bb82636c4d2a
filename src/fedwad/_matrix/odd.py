"""Whether one site lies further from the others than they lie from each other.

Chance has two sources. Rows are samples, so squared distances have errors. Sites differ anyway, so
one of them is always the farthest. A site is the odd one out if its squared distance from the rest
exceeds what both sources would give to one more site of the same kind as the rest.

There are two tests: one of means and spreads (`odd_moments`), which are known precisely, and one of
the whole distances between populations, which follows.

If sites are drawn from one distribution with variance s^2 in k directions, a further site has
A / s^2 ~ F(k, k (n - 1)), where n sites estimate s^2 and A is its squared distance from their
centre. Half the mean squared distance between n sites is an estimate of s^2, and the eigenvalues of
their Gram matrix give an effective k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwad._matrix.odd_moments import moment_pvalues
from fedwad.ot import ColumnMoments, Floats

__all__ = ["mean_error", "odd_pvalues", "site_pvalues"]

# Parts of the level. They sum to less than one, because sites do not vary normally.
_OF_MOMENTS, _OF_DISTANCES = 0.6, 0.1
_SMALLEST = 1e-12  # p-values below are not distinguished


def mean_error(weights: Floats, error: Floats) -> float:
    """Standard error of a weighted sum over pairs.

    Half of the variance of a pair comes from either of its sites, so two pairs that share a site
    have correlation one half. That is the most for sites of equal size, where errors are linear.
    """
    both = (weights + weights.T) / 2 * error
    return float(np.sqrt((both.sum(axis=1) ** 2).sum() * 2))


@dataclass(frozen=True, eq=False)
class _Contrast:
    """One site against the rest: A, s^2, the weights of pairs in both, k and n of this module."""

    square: float
    spread: float
    square_weights: Floats
    spread_weights: Floats
    directions: float
    others: int

    def exceeds(self, level: float, error: Floats) -> bool:
        """Whether A exceeds both its sampling error and the F quantile for one more site.

        One standard error is added to s^2, in case the other sites seem equal only by chance.
        """
        from scipy.special import fdtri, ndtri

        freedom = self.directions * (self.others - 1)
        quantile = float(fdtri(self.directions, freedom, 1 - level))
        spread = self.spread + mean_error(self.spread_weights, error)
        chance = -float(ndtri(level)) * mean_error(self.square_weights, error)
        return self.square > max(quantile * spread, chance)


def odd_pvalues(
    square: Floats, error: Floats, moments: Sequence[ColumnMoments] | None = None
) -> Floats:
    """P-values of the hypothesis that a site is drawn from the same distribution of sites as the
    rest, adjusted for the number of sites.

    Parameters
    ----------
    square : array (N, N)
        Squared distances between populations, which may be negative by chance.
    error : array (N, N)
        Their standard deviations.
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
    """`odd_pvalues` without the adjustment; one for fewer than three sites."""
    count = len(square)
    if count < 3:
        return np.ones(count)
    found = np.array([_pvalue(_contrast_site(square, site), error) for site in range(count)])
    if moments is None:
        return found
    both = np.minimum(moment_pvalues(moments) / _OF_MOMENTS, found / _OF_DISTANCES)
    return np.asarray(np.clip(both, _SMALLEST, 1.0))


def _contrast_site(square: Floats, site: int) -> _Contrast:
    count = len(square)
    n = count - 1
    rest = np.arange(count) != site
    inside = np.outer(rest, rest) & ~np.eye(count, dtype=bool)
    spread_weights = inside / (n * (n - 1)) / 2  # s^2 is half of the mean over ordered pairs
    across = np.zeros((count, count))
    across[site, rest] = across[rest, site] = 0.5 / n
    square_weights = (across - (n - 1) / n * spread_weights) * n / (n + 1)
    spread = float((spread_weights * square).sum())
    return _Contrast(
        square=float((square_weights * square).sum()),
        spread=max(spread, 0.0),
        square_weights=square_weights,
        spread_weights=spread_weights,
        directions=_directions(square[np.ix_(rest, rest)]),
        others=n,
    )


def _directions(square: Floats) -> float:
    """Effective number of directions in which sites with these squared distances differ."""
    count = len(square)
    centring = np.eye(count) - 1 / count
    values = np.linalg.eigvalsh(-centring @ np.maximum(square, 0.0) @ centring / 2)
    values = np.maximum(values, 0.0)
    total = float((values**2).sum())
    return float(np.clip(values.sum() ** 2 / total, 1.0, count - 1)) if total > 0 else 1.0


def _pvalue(contrast: _Contrast, error: Floats) -> float:
    """The smallest level at which `contrast.exceeds`, by bisection."""
    low, high = math.log(_SMALLEST), math.log(0.5)
    if not contrast.exceeds(0.5, error):
        return 1.0
    if contrast.exceeds(_SMALLEST, error):
        return _SMALLEST
    for _ in range(40):
        middle = (low + high) / 2
        if contrast.exceeds(math.exp(middle), error):
            high = middle
        else:
            low = middle
    return math.exp(high)
