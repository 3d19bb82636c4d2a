"""Nearly optimal transport between synthetic samples of equal size, for estimates.

Estimates need no proof. An assignment that costs at most 0.8% more than the best one, and typically
0.05%, takes a tenth of the time of a proven one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._many import in_threads
from fedwad.ot._measure import Floats, Indices, Measure, max_abs
from fedwad.ot._plan_columns import pair_columns, plan_columns
from fedwad.ot._solve import solve

__all__ = ["near_squares"]

Pair = tuple[int, int]
Singles = NDArray[np.float32]

_TOLERANCE = 0.008  # of the cost
_UNITS = 2.0**26  # the largest cost
_COARSEST, _GROWTH, _SHRINK = 64, 4, 5.0
# Single precision resolves costs down to this part of the squared norms, and whole numbers these.
_RESOLVED, _FEWEST_UNITS = 1e-4, 1000
_MANY_PAIRS = 500  # no parts of features are reported from there on


def near_squares(
    measures: Mapping[int, Measure],
    pairs: Sequence[Pair],
    n_jobs: int = 1,
    on_columns: Callable[[Pair, Floats], None] | None = None,
    compiled: Callable[[Pair], bool] | None = None,
) -> Iterator[tuple[Pair, float]]:
    """Squared distance of each pair, in the order of `pairs`, at most 0.8% too large.

    Pairs of unequal size, and costs that single precision does not resolve, are solved exactly, and
    so are pairs that are not to be solved by compiled code. `on_columns` is called with the part of
    each feature in a pair's squared distance unless there are very many pairs; it may be called
    from several threads.
    """
    centre = np.mean([_features(measure).mean(axis=0) for measure in measures.values()], axis=0)
    length = max(_reach(measure, centre) for measure in measures.values()) or 1.0
    sides = {index: _Side.of(measure, centre, length) for index, measure in measures.items()}
    report = on_columns if len(pairs) < _MANY_PAIRS else None

    def square(pair: Pair) -> float:
        a, b = (sides[index] for index in pair)
        equal = a.uniform and b.uniform and len(a) == len(b) > 1
        found = _near(a, b, compiled is None or compiled(pair)) if equal else None
        if found is None:
            plan = solve(a.measure, b.measure)
            if report is not None:
                report(pair, plan_columns(plan))
            return plan.cost
        cols, cost = found
        if report is None:
            return cost * length**2
        columns = pair_columns(
            a.measure, b.measure, np.arange(len(a)), cols, np.full(len(a), 1 / len(a))
        )
        report(pair, columns)
        return float(columns.sum())

    yield from zip(pairs, in_threads(square, pairs, n_jobs), strict=True)


@dataclass(frozen=True, eq=False)
class _Side:
    """A sample in single precision about a common centre, with squared norms, in units of a common
    length."""

    measure: Measure
    uniform: bool
    near: Singles
    norms: Singles
    largest: float
    table: Floats | None
    codes: Indices

    @classmethod
    def of(cls, measure: Measure, centre: Floats, length: float) -> _Side:
        near = (_features(measure) - centre) / length
        norms = np.einsum("id,id->i", near, near)
        table, codes = None, np.zeros(0, dtype=np.int64)
        if isinstance(measure, LabelledMeasure):
            table, codes = measure.table / length, measure.codes
        return cls(
            measure,
            measure.is_uniform,
            near.astype(np.float32),
            norms.astype(np.float32),
            float(norms.max()),
            table,
            codes,
        )

    def __len__(self) -> int:
        return len(self.norms)


def _features(measure: Measure) -> Floats:
    return measure.features if isinstance(measure, LabelledMeasure) else measure.points


def _reach(measure: Measure, centre: Floats) -> float:
    """Largest distance of a coordinate from the centre, or of a class from another."""
    reach = max_abs(_features(measure), centre)
    if isinstance(measure, LabelledMeasure):
        reach = max(reach, float(np.ptp(measure.table, axis=0).max()))
    return reach


def _near(a: _Side, b: _Side, compiled: bool) -> tuple[Indices, float] | None:
    """The column of each row and the mean cost, or None if that is not resolved."""
    between = _between(a, b)
    found = _by_auctions(a, b, between) if compiled else _by_scipy(a, b, between)
    if found is None:
        return None
    scale = float(a.norms.mean() + b.norms.mean())
    return found if found[1] >= _RESOLVED * scale else None


def _by_auctions(a: _Side, b: _Side, between: Floats) -> tuple[Indices, float] | None:
    from fedwad.ot._bidding import whole_costs

    largest = (np.sqrt(a.largest) + np.sqrt(b.largest)) ** 2 + float(between.max())
    if largest == 0:
        return None
    unit = largest / _UNITS
    table = (between / unit).astype(np.float32)
    factor = np.float32(1 / unit)
    cost = whole_costs(a.near @ b.near.T, a.norms, b.norms, factor, table, a.codes, b.codes)
    cols, paid = _nearly_assigned(cost)
    return (cols, paid * unit) if paid >= _FEWEST_UNITS else None


def _by_scipy(a: _Side, b: _Side, between: Floats) -> tuple[Indices, float]:
    from scipy.optimize import linear_sum_assignment

    cost = (a.norms[:, None] + b.norms) - 2 * (a.near @ b.near.T)
    if len(a.codes):
        cost += between[a.codes][:, b.codes]
    cost -= cost.min(axis=1)[:, None]
    cost -= cost.min(axis=0)
    cols = np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)
    paid = float(((a.near - b.near[cols]) ** 2).sum(dtype=np.float64)) / len(a)
    if len(a.codes):
        paid += float(between[a.codes, b.codes[cols]].mean())
    return cols, paid


def _between(a: _Side, b: _Side) -> Floats:
    """Squared distances between rows of class tables; one zero without labels."""
    if a.table is None or b.table is None:
        return np.zeros((1, 1))
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(a.table, b.table, "sqeuclidean"))


def _nearly_assigned(cost: Any) -> tuple[Indices, float]:
    """The column of each row, and the mean cost; negative if that took too many steps.

    Potentials come from subsamples, each four times larger than the one before, and from auctions
    of falling tolerance.
    """
    from fedwad.ot._bidding import auctions

    n = len(cost)
    step = 1
    while n // step > _COARSEST:
        step *= _GROWTH
    part = np.ascontiguousarray(cost[::step, ::step])
    first = max(1.0, float((part.mean(axis=1) - part.min(axis=1)).mean()) / 4)
    g = np.zeros(len(part), dtype=np.int32)
    while True:
        cols, f = np.empty(len(part), dtype=np.int64), np.empty(len(part), dtype=np.int32)
        paid = float(auctions(part, g, cols, first, _SHRINK, _TOLERANCE, f))
        if step == 1 or paid < 0:
            return cols, paid
        finer = step // _GROWTH
        g = (cost[::step, ::finer] - f[:, None]).min(axis=0)
        first = max(1.0, _SHRINK * _TOLERANCE * paid)
        step = finer
        part = np.ascontiguousarray(cost[::step, ::step])
