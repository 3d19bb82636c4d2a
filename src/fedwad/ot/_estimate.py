"""The estimate and the certified bounds of a distance from two summaries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedwad.errors import InputError
from fedwad.ot._bounds import lower_bound, upper_bound
from fedwad.ot._classes import LabelledSummary
from fedwad.ot._measure import Floats
from fedwad.ot._summary import Summary
from fedwad.ot._synthetic import synthetic_distance

__all__ = ["Estimate", "are_identical", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """An estimated distance and the certified interval around it.

    `columns`, for p = 2, are the contributions of the features to the squared estimate. They are
    zero if both summaries are identical. For other p they are None.
    """

    value: float
    lower: float
    upper: float
    columns: Floats | None = field(default=None, compare=False)


def estimate(
    a: Summary | LabelledSummary,
    b: Summary | LabelledSummary,
    p: float = 2.0,
    seed: int = 0,
    total_pairs: int | None = None,
) -> Estimate:
    """Distance between two summarised samples: an estimate from synthetic samples, and certified
    bounds.

    Identical summaries (`are_identical`) come from the same data, or from data with the same
    counts, means and covariances. Their distance is estimated as the lower bound, without the
    sampling noise of synthetic samples. The more pairs a matrix has (`total_pairs`), the fewer
    synthetic samples are drawn for each.

    Examples
    --------
    >>> import numpy as np
    >>> from fedwad.ot import Measure, summarise
    >>> rng = np.random.default_rng(0)
    >>> a, b = (summarise(Measure(rng.normal(shift, 1, (500, 3)))) for shift in (0, 2))
    >>> e = estimate(a, b)
    >>> e.lower <= e.value <= e.upper
    True
    """
    if a.dimension != b.dimension:
        raise InputError(
            f"The summaries have {a.dimension} and {b.dimension} features;"
            " a distance needs the same features on both sides."
        )
    lower = lower_bound(a, b, p)  # first, since it refuses to compare labels with no labels
    upper = upper_bound(a, b, p)
    lower = min(lower, upper)
    columns: dict[tuple[int, int], Floats] = {}  # `synthetic_distance` adds the pair (0, 1)
    if are_identical(a, b):
        value = lower
        if p == 2:
            columns[0, 1] = np.zeros(a.dimension)
    else:
        value = synthetic_distance(a, b, p, seed, total_pairs, columns)
    return Estimate(min(max(value, lower), upper), lower, upper, columns.get((0, 1)))


def are_identical(a: Summary | LabelledSummary, b: Summary | LabelledSummary) -> bool:
    """Whether counts, weights, means and covariances of two summaries are equal in every bit."""
    return a.key == b.key
