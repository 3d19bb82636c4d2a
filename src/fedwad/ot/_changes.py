"""Which features changed between two sites, and by how much: means, spreads and correlations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._columns import ColumnMoments
from fedwad.ot._measure import Floats

__all__ = [
    "Changes",
    "Correlation",
    "changed_correlations",
    "changes",
    "critical_score",
    "shrinkage_factors",
]

_SIGNIFICANCE_LEVEL = 0.05  # of all tests together
_MAX_SCORE = 38.0  # larger scores have p-values that vanish
_SHARPNESS = 4.0  # power of the ratio of critical score to score, in `shrinkage_factors`
_MAX_CORRELATION = 1 - 1e-6  # Fisher's transformation diverges at 1
_MEDIAN_SQUARE = 0.4549  # of a standard normal number
_MIN_PAIRS_FOR_MEDIAN = 3  # the median of fewer scores follows a single change


@dataclass(frozen=True, eq=False)
class Changes:
    """Changes of each feature in squared units, arrays (d,).

    Attributes
    ----------
    location, scale : squared difference of means and of standard deviations
    location_error, scale_error : expectations of both when nothing changed
    scale_typical : `scale_error` without the correction for heavy tails
    location_score, scale_score : standard normal scores of both; zero where unknown
    """

    location: Floats
    location_error: Floats
    location_score: Floats
    scale: Floats
    scale_error: Floats
    scale_typical: Floats
    scale_score: Floats


def changes(a: ColumnMoments, b: ColumnMoments) -> Changes:
    """Changes of means and standard deviations, with scores by Welch's test.

    Examples
    --------
    >>> from fedwad.ot import Measure, column_moments, summarise
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 400, 2))
    >>> y[:, 1] = 3 * y[:, 1] + 5
    >>> found = changes(*(column_moments(summarise(Measure(z))) for z in (x, y)))
    >>> found.location_score[1] > 10, found.scale_score[1] > 10, found.location_score[0] < 3
    (np.True_, np.True_, np.True_)
    """
    gap = a.mean - b.mean
    location_error = a.mean_error + b.mean_error
    freedom = _degrees_of_freedom(a.mean_error, b.mean_error, a.count, b.count)
    if a.std is None or b.std is None:
        scale = scale_error = scale_typical = scale_score = np.zeros_like(gap)
    else:
        scale = (a.std - b.std) ** 2
        scale_error = a.std_error + b.std_error
        scale_typical = a.typical_std_error + b.typical_std_error
        scale_score = _score(a.std - b.std, scale_error, freedom)
    return Changes(
        location=gap**2,
        location_error=location_error,
        location_score=_score(gap, location_error, freedom),
        scale=scale,
        scale_error=scale_error,
        scale_typical=scale_typical,
        scale_score=scale_score,
    )


def _degrees_of_freedom(first: Floats, second: Floats, count: float, other: float) -> Floats:
    """Welch and Satterthwaite's degrees of freedom."""
    total = (first + second) ** 2
    parts = first**2 / (count - 1) + second**2 / (other - 1)
    has_error = parts > 0
    return np.where(has_error, total / np.where(has_error, parts, 1.0), count + other - 2)


def _score(gap: Floats, error: Floats, freedom: Floats) -> Floats:
    """The standard normal score with the p-value of gap / sqrt(error) under Student's t.

    Without an error the score is the largest, or zero for no gap.
    """
    from scipy.special import ndtri, stdtr

    has_error = error > 0
    ratio = np.abs(gap) / np.sqrt(np.where(has_error, error, 1.0))
    tail = stdtr(freedom, -ratio)
    score = np.where(tail > 0, -ndtri(np.maximum(tail, 1e-300)), _MAX_SCORE)
    without_error = np.where(np.abs(gap) > 0, _MAX_SCORE, 0.0)
    return np.asarray(np.where(has_error, np.clip(score, 0.0, _MAX_SCORE), without_error))


def critical_score(scores: Floats, level: float = _SIGNIFICANCE_LEVEL) -> float:
    """The score above which a change is significant, by Holm's method for all scores together.

    Under the null hypothesis a score is the absolute value of a standard normal number.

    >>> [round(critical_score(np.array(x)), 3) for x in ([0.3, 1.0], [0.3, 1.9, 5.0])]
    [2.241, 2.241]
    """
    from scipy.special import ndtr, ndtri

    if not len(scores):
        return np.inf
    ordered = np.sort(2 * ndtr(-scores))
    remaining = len(scores) - np.arange(len(scores))  # hypotheses that are not rejected yet
    not_rejected = np.flatnonzero(ordered > level / remaining)
    return float(-ndtri(level / (remaining[not_rejected[0]] if len(not_rejected) else 1) / 2))


def shrinkage_factors(scores: Floats, critical: float) -> Floats:
    """Factors that shrink changes: 0 below the critical score, nearly 1 far above it."""
    above = scores > critical
    return np.asarray(
        np.where(above, 1 - (critical / np.where(above, scores, 1.0)) ** _SHARPNESS, 0.0)
    )


@dataclass(frozen=True)
class Correlation:
    """Two features, their correlation at both sites, and the score of its change.

    "Here" is the first site, "there" the second. `square` is what the change adds to the squared
    distance of two normal distributions.
    """

    first: int
    second: int
    here: float
    there: float
    score: float
    square: float


def changed_correlations(
    first: Floats,
    second: Floats,
    counts: tuple[float, float],
    groups: NDArray[np.int64],
    heaviness: float = 1.0,
    max_pairs: int = 5,
) -> tuple[Correlation, ...]:
    """The pairs of features whose correlation changed most, if more than chance explains.

    Scores are those of Fisher's transformation. Tails heavier than normal inflate them. Scores are
    therefore divided by the root of an inflation: `heaviness`, or the median of the squared scores
    over that of squared normal numbers, whichever is larger, and at least one. The median is left
    out if only one or two pairs are compared, since a single change would make it large.

    Parameters
    ----------
    first, second : covariances (d, d) at both sites
    counts : numbers of rows
    groups : integers (d,); pairs inside a group, such as levels of one category, are left out
    heaviness : squared errors of spreads, over those of normal distributions
    max_pairs : largest number of pairs in the result
    """
    rows, cols = np.triu_indices(len(first), 1)
    here, there = (_correlations(covariance)[rows, cols] for covariance in (first, second))
    is_tested = (groups[rows] != groups[cols]) & np.isfinite(here) & np.isfinite(there)
    rows, cols = rows[is_tested], cols[is_tested]
    if not len(rows) or min(counts) < 5:
        return ()
    error = np.sqrt(sum(1 / (count - 3) for count in counts))
    limit = _MAX_CORRELATION
    here, there = (np.clip(r[is_tested], -limit, limit) for r in (here, there))
    scores = np.abs(np.arctanh(here) - np.arctanh(there)) / error
    inflation = max(1.0, heaviness)
    if len(scores) >= _MIN_PAIRS_FOR_MEDIAN:
        inflation = max(inflation, float(np.median(scores**2)) / _MEDIAN_SQUARE)
    scores = np.minimum(scores / np.sqrt(inflation), _MAX_SCORE)
    critical = critical_score(scores)
    order = np.argsort(-scores, kind="stable")[:max_pairs]
    return tuple(
        Correlation(
            int(rows[k]),
            int(cols[k]),
            float(here[k]),
            float(there[k]),
            float(scores[k]),
            _joint_square(first, second, int(rows[k]), int(cols[k])),
        )
        for k in order
        if scores[k] > critical
    )


def _correlations(covariance: Floats) -> Floats:
    """Correlations, nan for features that do not vary."""
    std = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    std = np.where(std > 0, std, np.nan)
    return np.asarray(covariance / np.outer(std, std))


def _joint_square(first: Floats, second: Floats, i: int, j: int) -> float:
    """Squared Bures distance of features i and j together, minus those of each alone."""
    from fedwad.ot._bounds import bures

    both = np.ix_([i, j], [i, j])
    a, b = first[both], second[both]
    alone = float(((np.sqrt(np.diag(a)) - np.sqrt(np.diag(b))) ** 2).sum())
    return max(bures(a, b) - alone, 0.0)
