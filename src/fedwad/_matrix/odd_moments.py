"""Whether the means or the spreads of one site lie further from those of the others than expected.

A site is a point: the means of its features, or their standard deviations, which are its spreads.
Squared distances of such points are the parts of a squared Wasserstein distance that have the least
sampling noise. A site's squared distance from the centre of the n others, divided by its
expectation for one more site of the same kind, has about the distribution F(k, k (n - 1)), where k
is the effective number of directions in which sites vary. The expectation is the variance between
the others, in which sampling noise is replaced by that of a site with as many rows as this one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwad.ot import ColumnMoments, Floats

__all__ = ["moment_pvalues"]

_MAX_DIRECTIONS = 200.0
_ROUNDING = 1e-18  # squared relative differences up to this are rounding


def moment_pvalues(moments: Sequence[ColumnMoments]) -> Floats:
    """Return p-values of the hypothesis that a site is of the same kind as the others, for three or
    more sites.

    They are adjusted for two tests, of means and of spreads, but not for the number of sites.

    Examples
    --------
    >>> from fedwad.ot import Measure, column_moments, summarise
    >>> rng = np.random.default_rng(0)
    >>> sites = [rng.normal(k == 6, 1, (100, 3)) for k in range(7)]
    >>> found = moment_pvalues([column_moments(summarise(Measure(x))) for x in sites])
    >>> found[6] < 1e-4, found[:6].min() > 0.01
    (np.True_, np.True_)
    """
    rows = np.array([one.count for one in moments])
    means = np.array([one.mean for one in moments])
    pvalues = _pvalues(means, np.array([one.mean_error.sum() for one in moments]), rows)
    stds = [one.std for one in moments if one.std is not None]
    if len(stds) < len(moments):
        return pvalues
    std_errors = np.array([one.std_error.sum() for one in moments])
    pvalues = np.minimum(pvalues, _pvalues(np.array(stds), std_errors, rows))
    return np.asarray(np.minimum(2 * pvalues, 1.0))


def _pvalues(points: Floats, squared_errors: Floats, rows: Floats) -> Floats:
    """Return the p-value of each site.

    `points` (N, d) has one point for each site, `squared_errors` (N,) the squared standard errors
    of its coordinates, summed, and `rows` (N,) the number of rows of each site.
    """
    unit = float(np.abs(points).max())
    if not unit**2 > 0:  # zeros, or so small that squares underflow
        return np.ones(len(points))
    points = points / unit
    points = points - points.mean(axis=0)
    row_noise = np.maximum(squared_errors / unit**2, _ROUNDING) * rows  # noise of a single row
    return np.array([_pvalue(points, row_noise, rows, site) for site in range(len(points))])


def _pvalue(points: Floats, row_noise: Floats, rows: Floats, site: int) -> float:
    from scipy.special import fdtrc

    rest = np.arange(len(points)) != site
    n = len(points) - 1
    others = points[rest]
    centre = others.mean(axis=0)
    variance = float(((others - centre) ** 2).sum()) / (n - 1)
    other_noise = float((row_noise[rest] / rows[rest]).mean())
    # A small site may not show how heavy its tails are, so the others' row noise counts if larger.
    own_noise = max(float(row_noise[site]), float(row_noise[rest].mean())) / rows[site]
    expected = max(variance - other_noise, 0.0) + own_noise + max(variance, other_noise) / n
    ratio = float(((points[site] - centre) ** 2).sum()) / expected
    k = _directions(others - centre)
    return float(fdtrc(k, k * (n - 1), ratio))


def _directions(deviations: Floats) -> float:
    """Return the effective number of directions in which sites with these deviations vary.

    Few sites show few directions, so the participation ratio of their Gram matrix is too small. The
    ratio with an unbiased denominator (Bai and Saranadasa) varies much for few sites. A weighted
    geometric mean of both keeps the level of the test; with more sites it is closer to the first.
    """
    n = len(deviations)
    gram = deviations @ deviations.T / (n - 1)
    trace, squares = float(np.trace(gram)), float((gram**2).sum())
    if not squares > 0:
        return 1.0
    participation = trace**2 / squares
    if n < 3:
        return participation
    unbiased = (n - 1) ** 2 / ((n - 2) * (n + 1)) * (squares - trace**2 / (n - 1))
    corrected = trace**2 / max(unbiased, trace**2 / _MAX_DIRECTIONS)
    correction = np.clip(corrected / participation, 1.0, _MAX_DIRECTIONS)
    return float(participation * correction ** min(0.4, 2 / n))
