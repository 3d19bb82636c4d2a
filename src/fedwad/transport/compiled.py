"""Decorators that compile functions with numba, and loops that compiled functions share.

`compiled_entry` is for functions that Python calls, `compiled_inner` for functions that only
compiled functions call. An inner function needs no code that converts arguments from Python, which
takes a third of the time to compile. Only entries are cached on disk; they contain the code of the
functions they call. The variants that end in `_min` are for loops that take a minimum.

Loops over elements of arrays that Python allocates compile quickly. Expressions of whole arrays,
allocations and slices each bring in functions of numba that are compiled as well. Plain loops need
no rewriting of expressions, no counting of references and no check of divisors, so these are
switched off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.core import event

from fedwad.transport.compiling import compiling_began

# Flags of LLVM with which it vectorises a minimum; they assume that no cost is NaN.
_MIN_FLAGS = {"nnan", "nsz", "reassoc"}
_LEAN: dict[str, Any] = {
    "nogil": True,
    "no_cfunc_wrapper": True,
    "no_rewrites": True,
    "error_model": "numpy",
    "_nrt": False,
}
_ENTRY: dict[str, Any] = {**_LEAN, "cache": True}
_INNER: dict[str, Any] = {**_LEAN, "no_cpython_wrapper": True}

compiled_entry = njit(**_ENTRY)
compiled_inner = njit(**_INNER)
compiled_inner_min = njit(**_INNER, fastmath=_MIN_FLAGS)


class _CompileListener(event.Listener):
    """Calls `compiling_began` when numba compiles a function that is not in its cache."""

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - numba's interface
        compiling_began()

    def on_end(self, event: Any) -> None:
        """Required by numba's interface."""


event.register("numba:compile", _CompileListener())


@compiled_inner
def least(values):
    """The minimum, as the least of four running minima, which compile to vector instructions."""
    a = b = c = d = np.inf
    whole = len(values) - len(values) % 4
    for k in range(0, whole, 4):
        a, b = min(a, values[k]), min(b, values[k + 1])
        c, d = min(c, values[k + 2]), min(d, values[k + 3])
    for k in range(whole, len(values)):
        a = min(a, values[k])
    return min(min(a, b), min(c, d))


@compiled_inner
def first_at(values, value):
    """The first index with this value; it must occur."""
    k = 0
    while values[k] != value:
        k += 1
    return k
