"""Distances of many pairs of measures, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from fedwad.transport.measures import Floats, Measure
from fedwad.transport.plans import plan_columns
from fedwad.transport.solving import solve

Pair = tuple[int, int]
S = TypeVar("S")
T = TypeVar("T")


def pair_distances(
    measures: Mapping[int, Measure],
    pairs: Sequence[Pair],
    p: float = 2.0,
    n_jobs: int = 1,
    on_columns: Callable[[Pair, Floats], None] | None = None,
) -> Iterator[tuple[Pair, float]]:
    """W_p of each pair, proven optimal as in `solve`, in the order of `pairs`.

    `on_columns` is called with the part of each feature in a pair's squared distance, for p = 2;
    it may be called from several threads.
    """

    def distance(pair: Pair) -> float:
        plan = solve(measures[pair[0]], measures[pair[1]], p)
        if on_columns is not None and p == 2:
            on_columns(pair, plan_columns(plan))
        return plan.distance

    yield from zip(pairs, in_threads(distance, pairs, n_jobs), strict=True)


def in_threads(
    work: Callable[[S], T], items: Sequence[S], n_jobs: int, most_at_once: int = 32
) -> Iterator[T]:
    """work(item) for each item, in order; waiting items are dropped when the caller stops."""
    if n_jobs <= 1 or len(items) <= 1:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    # A thread gets many items at once: handing over one takes a tenth of a millisecond.
    size = max(1, min(most_at_once, len(items) // (4 * n_jobs)))
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(n_jobs) as pool:
        done: Iterable[list[T]] = pool.map(lambda batch: [work(item) for item in batch], batches)
        try:
            for results in done:
                yield from results
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
