"""Distances of many pairs of measures, in threads; small measures are solved by compiled code.

Compiled code solves one measure against several others in one call, and proves each plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Indices, Measure
from fedwad.ot._plan import TOLERANCE
from fedwad.ot._plan_columns import plan_columns
from fedwad.ot._solve import solve

__all__ = ["in_threads", "pair_distances"]

Pair = tuple[int, int]
S = TypeVar("S")
T = TypeVar("T")

# Fewer pairs, or pairs with more points, go to `solve`: loading compiled code takes as long as some
# hundred pairs, and large problems spend their time in the solvers anyway.
_WORTH_COMPILING, _MAX_POINTS = 500, 256
_TINY = 1e-100  # coordinates below it have squares that vanish; `solve` rescales them
_CANCELLATION = 1e-4  # as in `_cost`: below it, squares are taken from differences
_ITEMS_PER_TASK = 32  # that a thread gets at once
_PAIRS_PER_REPORT = 1 << 14  # pairs after which results are reported
_BATCH_ENTRIES = 1 << 19  # numbers in the points of one call of compiled code


def pair_distances(
    measures: Mapping[int, Measure],
    pairs: Sequence[Pair],
    p: float = 2.0,
    n_jobs: int = 1,
    on_columns: Callable[[Pair, Floats], None] | None = None,
) -> Iterator[tuple[Pair, float]]:
    """W_p of each pair, proven optimal as in `solve`, in the order of `pairs`.

    `on_columns` is called with the part of each feature in a pair's squared distance, for p = 2
    and pairs that `solve` solves; it may be called from several threads.
    """

    def distance(pair: Pair) -> float:
        plan = solve(measures[pair[0]], measures[pair[1]], p)
        if on_columns is not None and p == 2:
            on_columns(pair, plan_columns(plan))
        return plan.distance

    if p == 2 and len(pairs) >= _WORTH_COMPILING and _can_be_compiled(list(measures.values())):
        yield from _compiled_distances(measures, pairs, n_jobs, distance)
    else:
        yield from zip(pairs, in_threads(distance, pairs, n_jobs), strict=True)


def in_threads(work: Callable[[S], T], items: Sequence[S], n_jobs: int) -> Iterator[T]:
    """work(item) for each item, in order; waiting items are dropped when the caller stops."""
    if n_jobs <= 1 or len(items) <= 1:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    # A thread gets many items at once: handing over one takes a tenth of a millisecond.
    size = max(1, min(_ITEMS_PER_TASK, len(items) // (4 * n_jobs)))
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(n_jobs) as pool:
        done: Iterable[list[T]] = pool.map(lambda batch: [work(item) for item in batch], batches)
        try:
            for results in done:
                yield from results
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _compiled_distances(
    measures: Mapping[int, Measure],
    pairs: Sequence[Pair],
    n_jobs: int,
    fallback: Callable[[Pair], float],
) -> Iterator[tuple[Pair, float]]:
    """W_2 of each pair by compiled code; `fallback` computes pairs whose proof fails."""
    centred = dict(zip(measures, _centre(list(measures.values())), strict=True))

    def distances(batch: Sequence[Pair]) -> list[float]:
        squares, gaps, errors = solve_batch(centred[batch[0][0]], [centred[j] for _, j in batch])
        proven = (np.abs(gaps) <= TOLERANCE) & (errors <= TOLERANCE)
        return [
            math.sqrt(square) if known else fallback(pair)
            for pair, square, known in zip(batch, squares.tolist(), proven.tolist(), strict=True)
        ]

    for start in range(0, len(pairs), _PAIRS_PER_REPORT):
        some = pairs[start : start + _PAIRS_PER_REPORT]
        batches = list(_batches(some, centred))
        found: dict[Pair, float] = {}
        for batch, values in zip(batches, in_threads(distances, batches, n_jobs), strict=True):
            found.update(zip(batch, values, strict=True))
        yield from ((pair, found[pair]) for pair in some)


def _batches(pairs: Sequence[Pair], centred: Mapping[int, _CentredMeasure]) -> Iterator[list[Pair]]:
    """Pairs of one measure with others of one shape, which are solved in one call."""
    groups: dict[tuple[int, ...], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair[0], *centred[pair[1]].shape), []).append(pair)
    for group in groups.values():
        size = max(1, _BATCH_ENTRIES // sum(centred[index].entries for index in group[0]))
        yield from (group[k : k + size] for k in range(0, len(group), size))


def _can_be_compiled(measures: Sequence[Measure]) -> bool:
    """Whether compiled code can take all these measures: equally many features (more than one),
    few points, and in each a coordinate whose square does not vanish."""
    parts = [_split_classes(measure) for measure in measures]
    shapes = {(x.shape[1], table.shape[1]) for x, table, _ in parts}
    if len(shapes) > 1 or shapes == {(1, 0)} or max(len(x) for x, _, _ in parts) > _MAX_POINTS:
        return False
    sizes = [max(np.abs(x).max(), np.abs(table).max(initial=0.0)) for x, table, _ in parts]
    return bool(min(sizes) >= _TINY)


@dataclass(frozen=True, eq=False)
class _CentredRows:
    """Rows of points or of class statistics, the same minus a common centre, and the squared norms
    of the latter."""

    rows: Floats
    centred: Floats
    norms: Floats

    @classmethod
    def of(cls, rows: Floats, centre: Floats) -> _CentredRows:
        centred = rows - centre
        return cls(rows, centred, np.einsum("id,id->i", centred, centred))


@dataclass(frozen=True, eq=False)
class _CentredMeasure:
    """One measure as `solve_batch` takes it; without labels, its table has one empty class."""

    weights: Floats
    features: _CentredRows
    table: _CentredRows
    codes: Indices

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of points and of classes."""
        return len(self.weights), len(self.table.rows)

    @property
    def entries(self) -> int:
        """Numbers in all points with their class statistics."""
        return len(self.weights) * int(self.features.rows.shape[1] + self.table.rows.shape[1])


def _centre(measures: Sequence[Measure]) -> list[_CentredMeasure]:
    """The measures about a common centre."""
    parts = [_split_classes(measure) for measure in measures]
    centres = [np.mean([part[side].mean(axis=0) for part in parts], axis=0) for side in (0, 1)]
    return [
        _CentredMeasure(
            measure.weights,
            _CentredRows.of(x, centres[0]),
            _CentredRows.of(table, centres[1]),
            codes,
        )
        for measure, (x, table, codes) in zip(measures, parts, strict=True)
    ]


def _split_classes(measure: Measure) -> tuple[Floats, Floats, Indices]:
    """Features, table of classes, and the class of each point."""
    if isinstance(measure, LabelledMeasure):
        return measure.features, measure.table, measure.codes
    return measure.points, np.zeros((1, 0)), np.zeros(len(measure), dtype=np.int64)


def solve_batch(
    a: _CentredMeasure, others: Sequence[_CentredMeasure]
) -> tuple[Floats, Floats, Floats]:
    """Costs, relative duality gaps and marginal errors of optimal plans for the cost |x - y|^2.

    The others have equally many points and classes. The result of a pair depends on its two
    measures and the common centre, not on the other measures.
    """
    from fedwad.ot._small.dense import optimal_flows

    points = [b.features for b in others]
    costs = _squares(a.features, points)
    if a.table.rows.shape[1]:
        between = _squares(a.table, [b.table for b in others])
        for k, b in enumerate(others):
            costs[k] += between[k][a.codes][:, b.codes]
    flows, g, errors = optimal_flows(costs, a.weights, np.array([b.weights for b in others]))
    which, i, j = np.nonzero(flows)
    mass = flows[which, i, j]
    exact = _paired_squares(a.features.rows[i], np.array([b.rows for b in points])[which, j])
    if a.table.rows.shape[1]:
        codes = np.array([b.codes for b in others])[which, j]
        tables = np.array([b.table.rows for b in others])
        exact += _paired_squares(a.table.rows[a.codes[i]], tables[which, codes])
    f = (costs - g[:, None, :]).min(axis=2)
    primal: Floats = np.bincount(which, mass * exact, len(others)).astype(np.float64)
    slack = np.bincount(which, mass * (exact - f[which, i] - g[which, j]), len(others))
    return primal, np.where(primal > 0, slack / np.where(primal > 0, primal, 1.0), 0.0), errors


def _squares(x: _CentredRows, others: Sequence[_CentredRows]) -> Floats:
    """All |x_i - y_j|^2 from products and squared norms about the centre, (k, n, m)."""
    products = np.empty((len(others), len(x.rows), len(others[0].rows)))
    for product, y in zip(products, others, strict=True):
        np.matmul(x.centred, y.centred.T, out=product)
    norms = x.norms[:, None] + np.array([y.norms for y in others])[:, None, :]
    squares = np.asarray(norms - 2.0 * products)
    near = squares < _CANCELLATION * norms
    if near.any():
        which, i, j = np.nonzero(near)
        squares[near] = _paired_squares(x.rows[i], np.array([y.rows for y in others])[which, j])
    return squares


def _paired_squares(x: Floats, y: Floats) -> Floats:
    """|x_e - y_e|^2 from differences."""
    x = x - y
    return np.asarray(np.einsum("ed,ed->e", x, x))
