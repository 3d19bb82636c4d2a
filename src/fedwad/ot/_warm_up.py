"""Compile everything beforehand, so that the first distance does not wait for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwad.ot._measure import Measure

__all__ = ["warm_up"]

_PAIRS = 1000  # as many as are worth compiled code


def warm_up() -> tuple[str, ...]:
    """Compile all functions into numba's cache, and return their names.

    The next process loads them. numba keeps the cache beside the package, in a folder of the user
    where it may not write there, or in `NUMBA_CACHE_DIR`.
    """
    from fedwad.ot._many import pair_distances
    from fedwad.ot._matching import match
    from fedwad.ot._nearly import near_squares
    from fedwad.ot._small import small_support

    rng = np.random.default_rng(0)
    match(rng.random((40, 40)))
    list(pair_distances({k: Measure(rng.random((20, 2))) for k in range(2)}, [(0, 1)] * _PAIRS))
    list(near_squares({k: Measure(rng.random((90, 2))) for k in range(2)}, [(0, 1)]))
    cost, even, uneven = rng.random((400, 40)), np.full(40, 1 / 40), np.arange(1.0, 41.0) / 820
    for sinks in (even, uneven):
        found = small_support(cost, np.full(400, 1 / 400), sinks)
        small_support(cost, np.full(400, 1 / 400), sinks, found.g)
    return tuple(sorted(_compiled()))


def _compiled() -> list[str]:
    """Names of the functions that Python calls, which are compiled now."""
    from fedwad.ot import _bidding, _matching
    from fedwad.ot._small import auction, cells, dense, levels, paths

    found: dict[str, Any] = {}
    for module in (_bidding, _matching, auction, cells, dense, levels, paths):
        found |= vars(module)
    return [name.strip("_") for name, one in found.items() if getattr(one, "signatures", None)]
