"""Certified bounds on W_p between all pairs of datasets from their summaries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fedwad.errors import InputError
from fedwad.statistics.summaries import LabelledSummary, Summary, reduce_covariance
from fedwad.transport.many import pair_distances
from fedwad.transport.measures import Floats

_EPSILON = float(np.finfo(np.float64).eps)  # the spacing of floats at one


AnySummary = Summary | LabelledSummary


def lower_bounds(
    summaries: Sequence[AnySummary], p: float = 2.0, n_jobs: int = 1, most_work: float = 5e9
) -> Floats:
    """Certified lower bounds on W_p of all pairs, (N, N).

    For p >= 2: W_p >= W_2, and Gelbrich's bound W_2^2 >= |m - m'|^2 + Bures^2(Sigma, Sigma') needs
    only the mean and the covariance, both exact in a summary. With diagonals the same holds for
    each coordinate; with traces Bures >= |sqrt(tr Sigma) - sqrt(tr Sigma')|. A pair is bounded by
    what both sites told. For p < 2: W_p >= W_1 >= |m - m'|. With labels, a coupling of samples
    couples both features and classes, so the squares of the bound on features and of the exact
    distance between class tables add up. Rounding errors are subtracted.

    From `most_work` on, pairs times the cube of features, which takes some seconds, full
    covariances are compared along directions that all pairs share: along each direction q of an
    orthonormal basis W_2^2 is at least (q.m - q.m')^2 + (s - s')^2 with the standard deviations s,
    s' along q, and the squares add up. The directions are the principal axes of all data together.
    If these are the principal axes of both sites, the bound is Gelbrich's, otherwise a bit lower.
    """
    if len({isinstance(summary, LabelledSummary) for summary in summaries}) > 1:
        raise InputError(
            "Data with labels and data without cannot be compared; give both labels, or none.",
            "bad-labels",
        )
    plain = [s.merged if isinstance(s, LabelledSummary) else s for s in summaries]
    means = np.array([s.mean for s in plain])
    means -= means.mean(axis=0)
    errors = np.array([_rounding_of_points(s.means) for s in plain])
    bounds = _apart(means, errors)
    for told in range(3 if p >= 2 else 0):  # trace, diagonal, covariance
        some = [k for k, s in enumerate(plain) if s.within.ndim >= told]
        totals = [reduce_covariance(plain[k].total_covariance(), told) for k in some]
        if len(some) < 2:
            continue
        if told == 2 and len(some) * (len(some) - 1) / 2 * means.shape[1] ** 3 <= most_work:
            found = np.hypot(_apart(means[some], errors[some]), np.sqrt(_bures(totals)))
        else:
            found = _along_directions(means[some], totals, errors[some])
        among = np.ix_(some, some)
        bounds[among] = np.maximum(bounds[among], found)
    np.fill_diagonal(bounds, 0.0)
    tables = {i: s.table for i, s in enumerate(summaries) if isinstance(s, LabelledSummary)}
    pairs = [(i, j) for i in tables for j in range(i)]
    for (i, j), distance in pair_distances(tables, pairs, 2.0, n_jobs):
        between = distance - rounding_error(summaries[i]) - rounding_error(summaries[j])
        bounds[i, j] = bounds[j, i] = math.hypot(bounds[i, j], max(0.0, between))
    return np.asarray(bounds)


def column_bounds(means: Floats, stds: Floats, steps: Floats) -> Floats:
    """Certified lower bounds on W_2 of all pairs by their columns alone, (N, N).

    W_2^2 is at least the sum of W_2^2 of the columns. Of a feature that is 0 or s in all rows that
    is s |m - m'|, of others at least (m - m')^2 + (std - std')^2. Gelbrich's bound takes that for
    the first ones too, which is much less for rare values.

    Parameters
    ----------
    means, stds : arrays (N, d) of the features of N sites
    steps : s of each feature, (d,); zero for others
    """
    from scipy.spatial.distance import cdist

    on = steps > 0
    scaled, rounding = means[:, on] * steps[on], 32 * _EPSILON
    errors = rounding * np.abs(scaled).sum(axis=1)
    squares = np.maximum(cdist(scaled, scaled, "cityblock") - errors[:, None] - errors, 0.0)
    errors = rounding * np.linalg.norm(means, axis=1)
    errors += np.sqrt(rounding) * np.linalg.norm(stds, axis=1)  # an error of a variance, at most
    others = _apart(np.hstack([means[:, ~on], stds[:, ~on]]), errors)
    return np.asarray(np.sqrt(squares + others**2))


def _apart(vectors: Floats, errors: Floats) -> Floats:
    """Distances between all vectors, minus their errors."""
    from scipy.spatial.distance import cdist

    return np.asarray(np.maximum(cdist(vectors, vectors) - errors[:, None] - errors, 0.0))


def _along_directions(means: Floats, totals: Sequence[Floats], errors: Floats) -> Floats:
    """Bounds along the principal axes of all data, or along the features if only diagonals are
    known, or by traces."""
    known, d = np.array(totals), means.shape[1]
    # A product of d terms has d rounding errors; an error e of a variance changes its root by at
    # most sqrt(e).
    roundings, product_errors = 8.0 * _EPSILON, 0.0
    if known.ndim == 3:
        pooled = known.mean(axis=0)
        _, directions = np.linalg.eigh((pooled + pooled.T) / 2)
        known = np.array([np.einsum("di,di->i", directions, one @ directions) for one in totals])
        roundings *= d
        product_errors = d * known.max(axis=1)
    variances = np.maximum(known, 0.0) if known.ndim == 2 else d * known[:, None]
    errors = errors + np.sqrt(roundings * product_errors)
    errors = errors + roundings * np.sqrt(variances.sum(axis=1))
    return _apart(np.hstack([means, np.sqrt(variances)]), errors)


def _bures(totals: Sequence[Floats]) -> Floats:
    """Squared Bures distances tr S + tr T - 2 tr (S^1/2 T S^1/2)^1/2 of all pairs, rounded down.

    The last term is the nuclear norm of S^1/2 T^1/2. It increases with S and T, so adding the
    possible rounding error to every eigenvalue makes it too large, never too small.
    """
    d = len(totals[0])
    roots = np.empty((len(totals), d, d))
    for root, total in zip(roots, totals, strict=True):
        values, vectors = np.linalg.eigh((total + total.T) / 2)
        error = 4 * d * _EPSILON * float(np.abs(values).max())
        root[:] = (vectors * np.sqrt(np.maximum(values, 0.0) + error)) @ vectors.T
    traces = np.array([np.trace(total) for total in totals])
    squares = np.zeros((len(totals), len(totals)))
    for i in range(1, len(totals)):
        for start in range(0, i, 64):
            some = slice(start, min(i, start + 64))
            fidelity = np.linalg.svd(roots[i] @ roots[some], compute_uv=False).sum(axis=1)
            kept = (traces[i] + traces[some]) * (1 - 8 * d * _EPSILON)
            squares[i, some] = squares[some, i] = np.maximum(kept - 2 * fidelity, 0.0)
    return squares


def upper_bounds(
    summaries: Sequence[AnySummary],
    p: float = 2.0,
    n_jobs: int = 1,
    on_pair: Callable[[], None] | None = None,
) -> Floats:
    """Certified upper bounds on W_p of all pairs, (N, N), with a zero diagonal.

    A bound is the cost of coupling cell means optimally, and samples independently inside cells.

    For p = 2 that is the root of W_2^2(means, means') + tr C + tr C'. For other p the bound is
    W_p(data, means) + W_p(means, means') + W_p(means', data'). `on_pair` is called after each.
    """
    bounds = np.zeros((len(summaries), len(summaries)))
    cells = {index: summary.cells for index, summary in enumerate(summaries)}
    errors = [rounding_error(summary) for summary in summaries]
    within = [summary.within_std for summary in summaries]
    pairs = [(i, j) for i in cells for j in range(i + 1, len(summaries))]
    for (i, j), distance in pair_distances(cells, pairs, p, n_jobs):
        parts = distance + errors[i] + errors[j], within[i], within[j]
        bounds[i, j] = bounds[j, i] = math.hypot(*parts) if p == 2 else sum(parts)
        if on_pair is not None:
            on_pair()
    return bounds


def rounding_error(summary: AnySummary) -> float:
    """The largest error of a distance to the means of a summary due to rounding of means."""
    if isinstance(summary, Summary):
        return _rounding_of_points(summary.means)
    return summary.rounding_error + _rounding_of_points(summary.cells.points)


def _rounding_of_points(points: Floats) -> float:
    return 8 * _EPSILON * float(np.linalg.norm(np.abs(points).max(axis=0)))
