"""Distances of many pairs of measures, in threads; small measures are prepared once and solved by
compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import TOLERANCE
from fedwad.ot._plan_columns import plan_columns
from fedwad.ot._proven import Prepared, parts_of, prepare, prove
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
_WINDOW = 1 << 14  # pairs after which results are reported
_NUMBERS = 1 << 19  # of points of both sides in one call of compiled code


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

    if p == 2 and len(pairs) >= _WORTH_COMPILING and _can_be_compiled(list(measures.values())):
        yield from _proven(measures, pairs, n_jobs, plain)
    else:
        yield from zip(pairs, in_threads(plain, pairs, n_jobs), strict=True)


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


def _proven(
    measures: Mapping[int, Measure],
    pairs: Sequence[Pair],
    n_jobs: int,
    fallback: Callable[[Pair], float],
) -> Iterator[tuple[Pair, float]]:
    """W_2 of each pair by compiled code; `fallback` computes pairs whose duality gap is too
    large."""
    prepared = dict(zip(measures, prepare(list(measures.values())), strict=True))

    def distances(batch: Sequence[Pair]) -> list[float]:
        squares, gaps, errors = prove(prepared[batch[0][0]], [prepared[j] for _, j in batch])
        proven = (np.abs(gaps) <= TOLERANCE) & (errors <= TOLERANCE)
        return [
            math.sqrt(square) if known else fallback(pair)
            for pair, square, known in zip(batch, squares.tolist(), proven.tolist(), strict=True)
        ]

    for start in range(0, len(pairs), _WINDOW):
        some = pairs[start : start + _WINDOW]
        batches = list(_batches(some, prepared))
        found: dict[Pair, float] = {}
        for batch, values in zip(batches, in_threads(distances, batches, n_jobs), strict=True):
            found.update(zip(batch, values, strict=True))
        yield from ((pair, found[pair]) for pair in some)


def _batches(pairs: Sequence[Pair], prepared: Mapping[int, Prepared]) -> Iterator[list[Pair]]:
    """Pairs of one measure with others of one shape, which are solved in one call."""
    groups: dict[tuple[int, ...], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair[0], *prepared[pair[1]].shape), []).append(pair)
    for group in groups.values():
        size = max(1, _NUMBERS // sum(prepared[index].numbers for index in group[0]))
        yield from (group[k : k + size] for k in range(0, len(group), size))


def _can_be_compiled(measures: Sequence[Measure]) -> bool:
    """Whether compiled code can take all these measures: equally many features (more than one),
    few points, and no coordinates whose squares vanish."""
    parts = [parts_of(measure) for measure in measures]
    shapes = {(x.shape[1], table.shape[1]) for x, table, _ in parts}
    if len(shapes) > 1 or shapes == {(1, 0)} or max(len(x) for x, _, _ in parts) > _LARGEST:
        return False
    sizes = [max(np.abs(x).max(), np.abs(table).max(initial=0.0)) for x, table, _ in parts]
    return bool(min(sizes) >= _TINY)
