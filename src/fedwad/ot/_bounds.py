"""Certified bounds on W_p between two datasets from their summaries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fedwad.errors import InputError
from fedwad.ot._classes import LabelledSummary
from fedwad.ot._many import pair_distances
from fedwad.ot._measure import Floats
from fedwad.ot._solve import solve
from fedwad.ot._summary import Summary, reduce_covariance

__all__ = ["bures", "lower_bound", "lower_bounds", "rounding", "upper_bound", "upper_bounds"]

_EPSILON = float(np.finfo(np.float64).eps)  # the spacing of floats at one
# Up to this work each pair is bounded by itself, by number of axes of the covariances: pairs times
# features for diagonals, pairs times their cube for matrices.
_PAIRWISE_WORK = {1: 1e5, 2: 5e9}
_BLOCK_ENTRIES = 1 << 20  # numbers in the matrices of one step


AnySummary = Summary | LabelledSummary


def lower_bound(a: AnySummary, b: AnySummary, p: float = 2.0) -> float:
    """A certified lower bound on W_p.

    For p >= 2: W_p >= W_2, and Gelbrich's bound W_2^2 >= |m - m'|^2 + Bures^2(Sigma, Sigma') needs
    only the mean and the covariance, both exact in a summary. With diagonals the same holds for
    each coordinate; with traces Bures >= |sqrt(tr Sigma) - sqrt(tr Sigma')|. For p < 2:
    W_p >= W_1 >= |m - m'|. With labels, a coupling of samples couples both features and classes, so
    the squares of the bound on features and of the exact distance between class tables add up.
    Rounding errors are subtracted.
    """
    if isinstance(a, LabelledSummary) and isinstance(b, LabelledSummary):
        tables = solve(a.table, b.table).distance - rounding(a, b)
        return math.hypot(lower_bound(a.merged, b.merged), max(0.0, tables))
    if isinstance(a, LabelledSummary) or isinstance(b, LabelledSummary):
        raise InputError(
            "Data with labels and data without cannot be compared; give both labels, or none."
        )
    means = max(0.0, float(np.linalg.norm(a.mean - b.mean)) - rounding(a, b))
    return means if p < 2 else math.hypot(means, math.sqrt(_covariance_distance(a, b)))


def lower_bounds(summaries: Sequence[AnySummary], p: float = 2.0, n_jobs: int = 1) -> Floats:
    """Lower bounds for all pairs, (N, N).

    For many pairs or features they are computed along directions that all pairs share. Along each
    direction q of an orthonormal basis W_2^2 is at least (q.m - q.m')^2 + (s - s')^2 with the
    standard deviations s, s' along q, and the squares add up over the basis. The directions are the
    principal axes of all data together. If these are the principal axes of both sites, the bound is
    Gelbrich's; otherwise it is a little lower.
    """
    plain = [s.merged if isinstance(s, LabelledSummary) else s for s in summaries]
    pairs = [(i, j) for i in range(len(summaries)) for j in range(i)]
    bounds = _feature_bounds(plain, pairs, p)
    _add_tables(bounds, summaries, pairs, n_jobs)
    return bounds


def _add_tables(
    bounds: Floats, summaries: Sequence[AnySummary], pairs: Sequence[tuple[int, int]], n_jobs: int
) -> None:
    """Add the exact distances between class tables to the bounds of pairs with labels."""
    tables = {i: s.table for i, s in enumerate(summaries) if isinstance(s, LabelledSummary)}
    errors = {i: _rounding_error(summaries[i]) for i in tables}
    with_labels = [(i, j) for i, j in pairs if i in tables and j in tables]
    for (i, j), distance in pair_distances(tables, with_labels, 2.0, n_jobs):
        between = max(0.0, distance - errors[i] - errors[j])
        bounds[i, j] = bounds[j, i] = math.hypot(bounds[i, j], between)


def _feature_bounds(
    summaries: Sequence[Summary], pairs: Sequence[tuple[int, int]], p: float
) -> Floats:
    """Lower bounds without labels: pair by pair or, if that is much work, along directions."""
    dimension, least = summaries[0].dimension, min(s.within.ndim for s in summaries)
    work = len(pairs) * (dimension**3 if least == 2 else dimension)
    if p >= 2 and least > 0 and work > _PAIRWISE_WORK[least]:
        bounds = _along_shared_directions(summaries, least)
        np.fill_diagonal(bounds, 0.0)
        return bounds
    if len({s.within.ndim for s in summaries}) == 1:
        return _row_by_row(summaries, p)
    bounds = np.zeros((len(summaries), len(summaries)))
    for i, j in pairs:
        bounds[i, j] = bounds[j, i] = lower_bound(summaries[i], summaries[j], p)
    return bounds


def _row_by_row(summaries: Sequence[Summary], p: float) -> Floats:
    """`lower_bound` of all pairs of summaries with covariances of one type, a row at a time."""
    means = np.array([s.mean for s in summaries])
    errors = np.array([_rounding_of_points(s.means) for s in summaries])
    totals = np.array([s.total_covariance() for s in summaries])
    roots = np.array([_root(total) for total in totals]) if totals.ndim == 3 else None
    bounds = np.zeros((len(summaries), len(summaries)))
    for i in range(1, len(summaries)):
        shifts = np.linalg.norm(means[:i] - means[i], axis=1)
        row = np.maximum(shifts - errors[:i] - errors[i], 0.0)
        if p >= 2:
            squares = _covariance_distances(totals, roots, i, summaries[0].dimension)
            row = np.hypot(row, np.sqrt(squares))
        bounds[i, :i] = bounds[:i, i] = row
    return bounds


def _covariance_distances(totals: Floats, roots: Floats | None, i: int, dimension: int) -> Floats:
    """`_covariance_distance` of covariance i and all before it."""
    if roots is None:
        return _variance_distances(totals[:i], totals[i], dimension)
    traces = np.trace(totals[:i], axis1=1, axis2=2) + np.trace(totals[i])
    step = max(1, _BLOCK_ENTRIES // dimension**2)
    fidelity = np.concatenate(
        [
            np.linalg.svd(roots[i] @ roots[start : min(i, start + step)], compute_uv=False)
            for start in range(0, i, step)
        ]
    ).sum(axis=1)
    return np.asarray(np.maximum(traces * (1 - 8 * dimension * _EPSILON) - 2 * fidelity, 0.0))


def _along_shared_directions(summaries: Sequence[Summary], least: int) -> Floats:
    """Bounds along the principal axes of all data, or along the features if only diagonals are
    known."""
    from scipy.spatial.distance import cdist

    totals = [reduce_covariance(s.total_covariance(), least) for s in summaries]
    if least == 2:
        pooled: Floats = np.mean(totals, axis=0)
        _, directions = np.linalg.eigh((pooled + pooled.T) / 2)
        variances = np.array(
            [np.einsum("di,di->i", directions, total @ directions) for total in totals]
        )
        roundings = 8.0 * len(pooled)
    else:
        variances, roundings = np.array(totals), 8.0
    means = np.array([s.mean for s in summaries])
    vectors = np.hstack([means - means.mean(axis=0), np.sqrt(np.maximum(variances, 0.0))])
    # An error e of a variance changes its root by at most sqrt(e). A product of d terms has d
    # rounding errors.
    product_errors = variances.shape[1] * variances.max(axis=1) if least == 2 else 0.0
    errors = np.sqrt(roundings * _EPSILON * product_errors)
    errors = errors + roundings * _EPSILON * np.sqrt(variances.sum(axis=1))
    errors = errors + np.array([_rounding_of_points(s.means) for s in summaries])
    return np.asarray(np.maximum(cdist(vectors, vectors) - errors[:, None] - errors, 0.0))


def upper_bound(a: AnySummary, b: AnySummary, p: float = 2.0) -> float:
    """A certified upper bound on W_p: the cost of coupling cell means optimally, and samples
    independently inside cells.

    For p = 2 that is the root of W_2^2(means, means') + tr C + tr C'. For other p the bound is
    W_p(data, means) + W_p(means, means') + W_p(means', data').
    """
    between = solve(a.cells, b.cells, p).distance + rounding(a, b)
    return _upper(between, a.within_std, b.within_std, p)


def _upper(between: float, within_std: float, other: float, p: float) -> float:
    """The bound from the distance between cell means and the deviations within both sides."""
    return math.hypot(between, within_std, other) if p == 2 else within_std + between + other


def upper_bounds(
    summaries: Sequence[AnySummary],
    p: float = 2.0,
    n_jobs: int = 1,
    on_pair: Callable[[], None] | None = None,
) -> Floats:
    """Upper bounds for all pairs, (N, N), with a zero diagonal; `on_pair` is called after each."""
    bounds = np.zeros((len(summaries), len(summaries)))
    cells = {index: summary.cells for index, summary in enumerate(summaries)}
    errors = [_rounding_error(summary) for summary in summaries]
    within_stds = [summary.within_std for summary in summaries]
    pairs = [(i, j) for i in cells for j in range(i + 1, len(summaries))]
    for (i, j), distance in pair_distances(cells, pairs, p, n_jobs):
        between = distance + errors[i] + errors[j]
        bounds[i, j] = bounds[j, i] = _upper(between, within_stds[i], within_stds[j], p)
        if on_pair is not None:
            on_pair()
    return bounds


def rounding(a: AnySummary, b: AnySummary) -> float:
    """The largest error of a distance between the two summaries' means due to rounding of means."""
    return _rounding_error(a) + _rounding_error(b)


def _rounding_error(summary: AnySummary) -> float:
    if isinstance(summary, Summary):
        return _rounding_of_points(summary.means)
    return summary.rounding_error + _rounding_of_points(summary.cells.points)


def _rounding_of_points(points: Floats) -> float:
    return 8 * _EPSILON * float(np.linalg.norm(np.abs(points).max(axis=0)))


def _covariance_distance(a: Summary, b: Summary) -> float:
    """A lower bound on the squared Bures distance of the total covariances, from the parts of
    them that both summaries have."""
    first, second = a.total_covariance(), b.total_covariance()
    least = min(first.ndim, second.ndim)
    first, second = reduce_covariance(first, least), reduce_covariance(second, least)
    if first.ndim == 2:
        return bures(first, second)
    return float(_variance_distances(first[None], second, a.dimension)[0])


def _variance_distances(first: Floats, second: Floats, dimension: int) -> Floats:
    """Lower bounds on squared Bures distances from variances (k, d) and (d,), or their means."""
    scale = dimension if second.ndim == 0 else 1
    squares = scale * (np.sqrt(first) - np.sqrt(second)) ** 2
    # (sqrt u - sqrt v)^2 has an error of a few roundings of max(u, v).
    rounding_error = 8 * _EPSILON * scale * np.maximum(first, second)
    kept = np.maximum(squares - rounding_error, 0.0)
    return np.asarray(kept if second.ndim == 0 else kept.sum(axis=1))


def bures(first: Floats, second: Floats) -> float:
    """Squared Bures distance tr S + tr T - 2 tr (S^1/2 T S^1/2)^1/2 of two covariances, rounded
    down.

    The last term is the nuclear norm of S^1/2 T^1/2. It increases with S and T, so adding the
    possible rounding error to every eigenvalue makes it too large, never too small.
    """
    trace = float(np.trace(first) + np.trace(second))
    if trace == 0:
        return 0.0
    product = _root(first) @ _root(second)
    fidelity = float(np.linalg.svd(product, compute_uv=False).sum())
    return max(0.0, trace * (1 - 8 * len(first) * _EPSILON) - 2 * fidelity)


def _root(covariance: Floats) -> Floats:
    """The root of a covariance with the possible rounding error added to its eigenvalues."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    rounding_error = 4 * len(values) * _EPSILON * float(np.abs(values).max())
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0) + rounding_error)) @ vectors.T)
