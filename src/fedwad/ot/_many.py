"""Distances of many pairs of measures, in threads; small measures are prepared once and solved by
compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import TOLERANCE
from fedwad.ot._plan_columns import plan_columns
from fedwad.ot._solve import solve

__all__ = ["in_threads", "pair_distances"]

Pair = tuple[int, int]
S = TypeVar("S")
T = TypeVar("T")

# Fewer pairs, or pairs with more points, go to `solve`: loading compiled code takes as long as some
# hundred pairs, and large problems spend their time in the solvers anyway.
_WORTH_COMPILING, _LARGEST = 500, 256
_TINY = 1e-100  # coordinates below it have squares that vanish; `solve` rescales them
_AT_A_TIME = 32  # items that a thread gets at once


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

    def plain(pair: Pair) -> float:
        plan = solve(measures[pair[0]], measures[pair[1]], p)
        if on_columns is not None and p == 2:
            on_columns(pair, plan_columns(plan))
        return plan.distance

    fast = _compiled(measures, plain) if p == 2 and len(pairs) >= _WORTH_COMPILING else None
    yield from zip(pairs, in_threads(fast or plain, pairs, n_jobs), strict=True)


def in_threads(work: Callable[[S], T], items: Sequence[S], n_jobs: int) -> Iterator[T]:
    """work(item) for each item, in order; waiting items are dropped when the caller stops."""
    if n_jobs <= 1 or len(items) <= 1:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    # A thread gets many items at once: handing over one takes a tenth of a millisecond.
    size = max(1, min(_AT_A_TIME, len(items) // (4 * n_jobs)))
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(n_jobs) as pool:
        done: Iterable[list[T]] = pool.map(lambda batch: [work(item) for item in batch], batches)
        try:
            for results in done:
                yield from results
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@dataclass(frozen=True, eq=False)
class _Side:
    """Rows of points or of class statistics, the same minus a common centre, and their squared
    norms after that."""

    rows: Floats
    centred: Floats
    norms: Floats

    @classmethod
    def of(cls, rows: Floats, centre: Floats) -> _Side:
        rows = np.ascontiguousarray(rows).view()
        rows.flags.writeable = False  # compiled code is compiled again for other kinds of arrays
        centred = rows - centre
        return cls(rows, centred, np.einsum("id,id->i", centred, centred))


@dataclass(frozen=True, eq=False)
class _Prepared:
    """One measure as compiled code takes it; without labels, its table has one empty class."""

    weights: Floats
    uniform: bool
    features: _Side
    table: _Side
    codes: NDArray[np.int64]


def _compiled(
    measures: Mapping[int, Measure], fallback: Callable[[Pair], float]
) -> Callable[[Pair], float] | None:
    """A function that computes a pair's W_2 by compiled code; None if these measures do not suit
    it.

    `fallback` computes the pairs whose duality gap is too large.
    """
    parts = {index: _parts(measure) for index, measure in measures.items()}
    if not _can_be_compiled(list(parts.values())):
        return None
    from fedwad.ot._small.dense import prove

    centres = [
        np.mean([part[side].mean(axis=0) for part in parts.values()], axis=0) for side in (0, 1)
    ]
    prepared = {
        index: _Prepared(
            measures[index].weights,
            measures[index].is_uniform,
            _Side.of(x, centres[0]),
            _Side.of(table, centres[1]),
            np.array(codes, dtype=np.int64),
        )
        for index, (x, table, codes) in parts.items()
    }

    def distance(pair: Pair) -> float:
        a, b = prepared[pair[0]], prepared[pair[1]]
        uniform = a.uniform and b.uniform and len(a.weights) == len(b.weights)
        features, classes = _together(a.features, b.features), _together(a.table, b.table)
        cost, gap, error = prove(
            uniform, a.weights, b.weights, features, (*classes, a.codes, b.codes)
        )
        return math.sqrt(cost) if abs(gap) <= TOLERANCE and error <= TOLERANCE else fallback(pair)

    return distance


def _can_be_compiled(parts: Sequence[tuple[Floats, Floats, NDArray[np.int64]]]) -> bool:
    """Whether compiled code can take all these measures: equally many features (more than one),
    few points, and no coordinates whose squares vanish."""
    shapes = {(x.shape[1], table.shape[1]) for x, table, _ in parts}
    if len(shapes) > 1 or shapes == {(1, 0)} or max(len(x) for x, _, _ in parts) > _LARGEST:
        return False
    sizes = [max(np.abs(x).max(), np.abs(table).max(initial=0.0)) for x, table, _ in parts]
    return bool(min(sizes) >= _TINY)


def _parts(measure: Measure) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Features, table of classes, and the class of each point."""
    if isinstance(measure, LabelledMeasure):
        return measure.features, measure.table, measure.codes
    return measure.points, np.zeros((1, 0)), np.zeros(len(measure), dtype=np.int64)


def _together(a: _Side, b: _Side) -> tuple[Any, ...]:
    """What compiled code needs for the squared distances between rows of both sides."""
    return a.centred @ b.centred.T, a.rows, b.rows, a.norms, b.norms
