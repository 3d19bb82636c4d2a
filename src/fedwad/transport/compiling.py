"""Compilation by numba: a callback when it starts, and a way to compile everything beforehand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedwad.transport.measures import Measure

_callbacks: list[Callable[[], None]] = []


def announce_compiling(notice: Callable[[], None]) -> None:
    """Call `notice` once, when a function is compiled that is in no cache.

    A later call replaces the callback of an earlier one.
    """
    _callbacks[:] = [notice]


def compiling_began() -> None:
    """Call the callback, unless it has been called already."""
    while _callbacks:
        _callbacks.pop()()


def warm_up() -> tuple[str, ...]:
    """Compile all functions into numba's cache, which later processes load; return their names.

    numba keeps the cache in `NUMBA_CACHE_DIR` if that is set. Otherwise it is beside the package,
    or in a folder of the user if the package's folder is read-only.
    """
    from fedwad.transport import dense
    from fedwad.transport._small import levels, paths, small_support
    from fedwad.transport.nearly import near_squares

    rng = np.random.default_rng(0)
    dense.match(rng.random((40, 40)))
    list(near_squares({k: Measure(rng.random((90, 2))) for k in range(2)}, [(0, 1)]))
    cost, uniform, weighted = rng.random((400, 40)), np.full(40, 1 / 40), np.arange(1.0, 41.0) / 820
    for sinks in (uniform, weighted):
        solution = small_support(cost, np.full(400, 1 / 400), sinks)
        small_support(cost, np.full(400, 1 / 400), sinks, solution.g)
    members = [item for module in (dense, levels, paths) for item in vars(module).items()]
    entries = [
        name.strip("_")
        for name, value in members
        if getattr(value, "signatures", None) and "no_cpython_wrapper" not in value.targetoptions
    ]
    return tuple(sorted(entries))
