"""Compilation by numba: a callback when it starts, and a way to compile everything beforehand."""

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

    numba keeps the cache in `NUMBA_CACHE_DIR` if that is set. Otherwise it is beside the package,
    or in a folder of the user if the package's folder is read-only.
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
        solution = small_support(cost, np.full(400, 1 / 400), sinks)
        small_support(cost, np.full(400, 1 / 400), sinks, solution.g)
    return tuple(sorted(_compiled_names()))


def _compiled_names() -> list[str]:
    """Names of the compiled functions that Python calls."""
    from fedwad.ot import _bidding, _matching
    from fedwad.ot._small import auction, dense, levels, paths

    modules = (_bidding, _matching, auction, dense, levels, paths)
    members = (item for module in modules for item in vars(module).items())
    return [name.strip("_") for name, value in members if _is_compiled_entry(value)]


def _is_compiled_entry(value: Any) -> bool:
    """Whether `value` is a function that numba has compiled for calls from Python."""
    is_compiled = bool(getattr(value, "signatures", None))
    return is_compiled and "no_cpython_wrapper" not in value.targetoptions
