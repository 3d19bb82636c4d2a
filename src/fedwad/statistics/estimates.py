"""Estimates and certified bounds of distances from summaries.

What chance alone gives follows from summaries and the numbers that clients measured on splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedwad.errors import InputError
from fedwad.statistics.bounds import AnySummary, lower_bounds, upper_bounds
from fedwad.statistics.calibration import Calibration, SampleDistances, sample_distances
from fedwad.statistics.summaries import LabelledSummary
from fedwad.statistics.synthetic import count_synthetic_transports, synthetic_distances
from fedwad.transport.measures import Floats
from fedwad.transport.solving import solve

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated distances between N samples and certified bounds, (N, N) arrays.

    `columns`, for p = 2, has for each pair the contributions of the features to the squared
    estimate. They are zero if both summaries are identical.
    """

    value: Floats
    lower: Floats
    upper: Floats
    columns: dict[Pair, Floats]


def estimate(
    summaries: Sequence[AnySummary],
    p: float = 2.0,
    seed: int = 0,
    n_jobs: int = 1,
    total_pairs: int | None = None,
    progress: Callable[[str, int], Callable[[], None]] = lambda _, __: lambda: None,
) -> Estimates:
    """Distances of all pairs of summarised samples: estimates from synthetic samples, which may lie
    outside of the certified bounds beside them.

    Summaries with the same key come from the same data, or from data with the same counts, means
    and covariances. Their distance is estimated as the lower bound, without the sampling noise of
    synthetic samples. Rounding depends on the order of summaries.

    Parameters
    ----------
    total_pairs : if there are other pairs besides these; the more there are, the fewer synthetic
        samples are drawn for each
    progress : called with the name of a stage and its number of steps; what it returns is called
        after each step

    Examples
    --------
    >>> import numpy as np
    >>> from fedwad.statistics import summarise
    >>> from fedwad.transport import Measure
    >>> rng = np.random.default_rng(0)
    >>> e = estimate([summarise(Measure(rng.normal(shift, 1, (500, 3)))) for shift in (0, 2)])
    >>> bool(e.lower[0, 1] <= e.value[0, 1] <= e.upper[0, 1])
    True
    """
    features = [summary.dimension for summary in summaries]
    if len(set(features)) > 1:
        raise InputError(
            f"The summaries have {', '.join(map(str, features))} features;"
            " a distance needs the same features on both sides.",
            "different-columns",
        )
    pairs = list(combinations(range(len(summaries)), 2))
    lower = lower_bounds(summaries, p, n_jobs)
    upper = upper_bounds(summaries, p, n_jobs, progress("bounding distances", len(pairs)))
    value = lower.copy()
    equal = [(i, j) for i, j in pairs if summaries[i].key == summaries[j].key]
    columns = {pair: np.zeros(features[0]) for pair in equal} if p == 2 else {}
    different = sorted(set(pairs) - set(equal))
    if different:
        counts = [summary.count for summary in summaries]
        steps = count_synthetic_transports(counts, different, seed, total_pairs)
        synthetic = synthetic_distances(
            summaries,
            different,
            p,
            seed,
            n_jobs,
            progress("estimating distances", steps),
            total_pairs,
            columns,
        )
        i, j = np.array(different).T
        value[i, j] = value[j, i] = synthetic[i, j]
    return Estimates(value, lower, upper, columns)


def beyond_chance(
    estimates: Floats, summaries: Sequence[AnySummary], calibrations: Sequence[Calibration | None]
) -> SampleDistances | None:
    """Calibrated distances, noise and errors of all pairs that are known well enough.

    Parameters
    ----------
    estimates : array (N, N)
        Distances that were estimated from summaries.
    summaries, calibrations : N of each
        A calibration is None where a site withheld it.

    Returns
    -------
    SampleDistances of all N sites with nan for pairs whose calibrations are unknown, or None when
    all are.

    Examples
    --------
    >>> from fedwad.statistics import calibrate, estimate, summarise
    >>> from fedwad.transport import Measure
    >>> rng = np.random.default_rng(0)
    >>> data = [Measure(rng.normal(shift, 1, (200, 3))) for shift in (0, 2)]
    >>> both = [summarise(one) for one in data]
    >>> found = beyond_chance(estimate(both).value, both, [calibrate(one) for one in data])
    >>> bool(found.noise[0, 1] < 1 < found.value[0, 1])
    True
    """
    known = [
        (index, summary, calibration)
        for index, (summary, calibration) in enumerate(zip(summaries, calibrations, strict=True))
        if calibration is not None and (isinstance(summary, LabelledSummary) or summary.p == 2)
    ]
    if len(known) < 2:
        return None
    indices = [index for index, _, _ in known]
    found = sample_distances(
        np.square(estimates[np.ix_(indices, indices)]),
        [calibration for _, _, calibration in known],
        [float(summary.count) for _, summary, _ in known],
        _variances([summary for _, summary, _ in known]),
    )
    if len(known) == len(summaries):
        return found
    # A pair without calibrations has its estimate, and nan else.
    tables = [estimates.copy()]
    tables += [np.where(np.eye(len(summaries), dtype=bool), 0.0, np.nan) for _ in range(2)]
    for table, part in zip(tables, (found.value, found.noise, found.error), strict=True):
        table[np.ix_(indices, indices)] = part
    return SampleDistances(*tables)


def _variances(summaries: Sequence[AnySummary], most_sites: int = 50) -> Floats | None:
    """Variances of squared distances over samples by the delta method: the derivatives by the
    weights of cells are Kantorovich potentials.

    None for more sites, since each pair takes a transport.
    """
    count = len(summaries)
    if count > most_sites:
        return None
    found = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            plan = solve(summaries[i].cells, summaries[j].cells)
            for summary, potentials in ((summaries[i], plan.f), (summaries[j], plan.g)):
                weights = summary.cells.weights
                gaps = potentials - weights @ potentials
                found[i, j] += float(weights @ gaps**2) / max(summary.count, 1)
            found[j, i] = found[i, j]
    return found
