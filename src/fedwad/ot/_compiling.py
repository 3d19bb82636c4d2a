"""Compilation by numba: a callback when it starts, and all of it beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedwad.ot._measure import Measure

__all__ = ["announce_compiling", "compiling_began", "warm_up"]

_callbacks: list[Callable[[], None]] = []
_N_PAIRS = 1000  # enough for `pair_distances` to use compiled code


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

    numba keeps the cache beside the package, in a folder of the user where it may not write there,
    or in `NUMBA_CACHE_DIR`.
    """
    from fedwad.ot._many import pair_distances
    from fedwad.ot._matching import match
    from fedwad.ot._nearly import near_squares
    from fedwad.ot._small import small_support

    rng = np.random.default_rng(0)
    match(rng.random((40, 40)))
    list(pair_distances({k: Measure(rng.random((20, 2))) for k in range(2)}, [(0, 1)] * _N_PAIRS))
    list(near_squares({k: Measure(rng.random((90, 2))) for k in range(2)}, [(0, 1)]))
    cost, uniform, weighted = rng.random((400, 40)), np.full(40, 1 / 40), np.arange(1.0, 41.0) / 820
    for sinks in (uniform, weighted):
        found = small_support(cost, np.full(400, 1 / 400), sinks)
        small_support(cost, np.full(400, 1 / 400), sinks, found.g)
    return tuple(sorted(_compiled()))


def _compiled() -> list[str]:
    """Names of the functions that are compiled and that Python calls."""
    from fedwad.ot import _bidding, _matching
    from fedwad.ot._small import auction, cells, dense, levels, paths

    members: dict[str, Any] = {}
    for module in (_bidding, _matching, auction, cells, dense, levels, paths):
        members |= vars(module)
    return [name.strip("_") for name, one in members.items() if getattr(one, "signatures", None)]
