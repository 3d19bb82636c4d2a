"""Decorators that compile functions with numba.

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

from numba import njit
from numba.core import event

from fedwad.ot._compiling import compiling_began

__all__ = ["compiled_entry", "compiled_entry_min", "compiled_inner", "compiled_inner_min"]

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
compiled_entry_min = njit(**_ENTRY, fastmath=_MIN_FLAGS)
compiled_inner = njit(**_INNER)
compiled_inner_min = njit(**_INNER, fastmath=_MIN_FLAGS)


class _CompileListener(event.Listener):
    """Calls `compiling_began` when numba compiles a function that is not in its cache."""

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - numba's interface
        compiling_began()

    def on_end(self, event: Any) -> None:
        """Required by numba's interface."""


event.register("numba:compile", _CompileListener())
