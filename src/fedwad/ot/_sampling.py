"""What chance alone gives, from summaries and the numbers that clients measured on splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwad.ot._calibration import Calibration
from fedwad.ot._classes import LabelledSummary
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._many import in_threads, pair_distances
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._population import Populations, Site, populations
from fedwad.ot._self_distance import self_distance
from fedwad.ot._solve import solve
from fedwad.ot._summary import Summary

__all__ = ["beyond_chance"]

_DRAWS = 8  # of the weights of cells
_MOST_SITES = 50  # for `_variances`, which solves a transport for each pair
_LARGEST_WORK = 2e8  # pairs times entries of a covariance; beyond, its diagonal is taken

AnySummary = Summary | LabelledSummary


def beyond_chance(
    estimates: Floats,
    summaries: Sequence[AnySummary],
    calibrations: Sequence[Calibration | None],
    n_jobs: int = 1,
) -> Populations | None:
    """Calibrated distances, noise and population distances of all pairs that are known well enough.

    Parameters
    ----------
    estimates : array (N, N)
        Distances that were estimated from summaries.
    summaries, calibrations : N of each
        A calibration is None where a site withheld it.
    n_jobs : number of threads; it changes no number

    Returns
    -------
    Populations of all N sites with nan for pairs whose calibrations are unknown, or None when all
    are.

    Examples
    --------
    >>> from fedwad.ot import Measure, calibrate, estimate, summarise
    >>> rng = np.random.default_rng(0)
    >>> data = [Measure(rng.normal(shift, 1, (200, 3))) for shift in (0, 2)]
    >>> a, b = map(summarise, data)
    >>> value = estimate(a, b).value * (1 - np.eye(2))
    >>> found = beyond_chance(value, [a, b], [calibrate(one) for one in data])
    >>> bool(found.lower[0, 1] < 2 * np.sqrt(3) < found.upper[0, 1])
    True
    """
    known = [
        index
        for index, (summary, calibration) in enumerate(zip(summaries, calibrations, strict=True))
        if calibration is not None and (isinstance(summary, LabelledSummary) or summary.p == 2)
    ]
    if len(known) < 2:
        return None
    sites = _sites([(summaries[index], calibrations[index]) for index in known], n_jobs)
    chosen = np.ix_(known, known)
    variance = _variances([summaries[index] for index in known])
    found = populations(np.square(estimates[chosen]), sites, variance)
    return found if len(known) == len(summaries) else _among_all(found, known, estimates)


def _features_of(summary: AnySummary) -> Summary:
    """The summary without classes."""
    return summary.merged if isinstance(summary, LabelledSummary) else summary


def _covariance_of(summary: Summary) -> Floats:
    """The covariance of all features, or their variances."""
    covariance = summary.total_covariance()
    if covariance.ndim == 0:
        return np.full(summary.dimension, float(covariance))
    return covariance


def _sites(known: Sequence[tuple[AnySummary, Calibration | None]], n_jobs: int) -> list[Site]:
    """Each site for `populations`, all with covariances of one shape."""
    plain = [_features_of(summary) for summary, _ in known]
    covariances = [_covariance_of(summary) for summary in plain]
    work = len(known) * (len(known) - 1) / 2 * known[0][0].dimension ** 2
    if work > _LARGEST_WORK or min(one.ndim for one in covariances) == 1:
        covariances = [np.diag(one) if one.ndim == 2 else one for one in covariances]
    noises = weight_noises([summary for summary, _ in known], n_jobs)
    own = in_threads(lambda site: self_distance(*site), known, n_jobs)
    return [
        Site(
            one.count,
            one.mean,
            covariance,
            calibration,
            noise,
            _stds_of(summary),
            curve,
        )
        for (summary, calibration), one, covariance, noise, curve in zip(
            known, plain, covariances, noises, own, strict=True
        )
        if calibration is not None
    ]


def _stds_of(summary: AnySummary) -> Floats | None:
    """Standard deviations of class statistics over rows; None without classes."""
    if not isinstance(summary, LabelledSummary):
        return None
    table = summary.table
    return np.asarray(np.sqrt(table.weights @ (table.points - table.mean) ** 2))


def _variances(summaries: Sequence[AnySummary]) -> Floats | None:
    """Variances of squared distances by the potentials of cells; None if there are many pairs."""
    count = len(summaries)
    if count > _MOST_SITES:
        return None
    found = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            found[i, j] = found[j, i] = _variance(summaries[i], summaries[j])
    return found


def _variance(a: AnySummary, b: AnySummary) -> float:
    """Variance of a squared distance over samples, by the delta method: its derivatives by the
    weights of the cells are Kantorovich potentials."""
    plan = solve(a.cells, b.cells)
    parts = []
    for summary, potentials in ((a, plan.f), (b, plan.g)):
        weights = summary.cells.weights
        gaps = potentials - weights @ potentials
        parts.append(float(weights @ gaps**2) / max(summary.count, 1))
    return sum(parts)


def weight_noise(summary: AnySummary) -> float:
    """Mean squared distance between the cells and themselves, with weights drawn twice at random.

    Weights are those of as many multinomial draws as the summary counts rows.

    Examples
    --------
    >>> from fedwad.ot import Measure, summarise
    >>> clusters = np.repeat([[0.0], [8.0]], 200, axis=0)
    >>> clusters += np.random.default_rng(0).normal(size=(400, 1))
    >>> 1.0 < weight_noise(summarise(Measure(clusters), cells=2)) < 4.0
    True
    """
    return weight_noises([summary])[0]


def weight_noises(summaries: Sequence[AnySummary], n_jobs: int = 1) -> list[float]:
    """`weight_noise` of each summary."""
    drawn: dict[int, Measure] = {}
    for index, summary in enumerate(summaries):
        cells = summary.cells
        if len(cells) < 2:
            continue
        rng = np.random.default_rng(0)
        shares = cells.weights / cells.weights.sum()
        for number in range(2 * _DRAWS):
            weights = rng.multinomial(summary.count, shares) / summary.count
            drawn[2 * _DRAWS * index + number] = _reweighted(cells, weights)
    pairs = [(number, number + 1) for number in drawn if number % 2 == 0]
    found = [0.0] * len(summaries)
    for (number, _), distance in pair_distances(drawn, pairs, n_jobs=n_jobs):
        found[number // (2 * _DRAWS)] += distance**2 / _DRAWS
    return found


def _reweighted(cells: Measure, weights: Floats) -> Measure:
    """Cells with other weights; those of weight zero are dropped."""
    if isinstance(cells, LabelledMeasure):
        return LabelledMeasure(cells.features, cells.codes, cells.table, weights)
    return Measure(cells.points, weights)


def _among_all(found: Populations, known: Sequence[int], estimates: Floats) -> Populations:
    """The results among all sites; a pair without calibrations has its estimate, and nan else."""

    def table(part: Floats, rest: Floats) -> Floats:
        whole = rest.copy()
        whole[np.ix_(known, known)] = part
        return whole

    unknown = np.where(np.eye(len(estimates), dtype=bool), 0.0, np.nan)
    names = ("noise", "population", "lower", "upper", "square", "std")
    return Populations(
        value=table(found.value, estimates),
        **{name: table(getattr(found, name), unknown) for name in names},
    )
