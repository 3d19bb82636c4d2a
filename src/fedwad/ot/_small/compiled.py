"""How functions are compiled.

`entry` is for functions that Python calls, `inner` for those that only compiled functions call:
these need no code that converts arguments from Python, which takes a third of the time to compile.
Only entries are kept on disk; they contain the code of the functions they call. `_scan` is for
loops that take a minimum.

What compiles quickly: loops over elements of arrays that Python allocates. Expressions of whole
arrays, allocations and slices each bring in functions of numba that are compiled as well.
Plain loops need no rewriting of expressions, no counting of references and no check of divisors,
so these are switched off.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core import event

from fedwad.ot._compiling import compiling_began

__all__ = ["entry", "entry_scan", "inner", "inner_scan"]

_MIN_SCAN = {"nnan", "nsz", "reassoc"}  # lets LLVM vectorise a minimum; costs are never NaN
_LEAN: dict[str, Any] = {
    "nogil": True,
    "no_cfunc_wrapper": True,
    "no_rewrites": True,
    "error_model": "numpy",
    "_nrt": False,
}
_ENTRY: dict[str, Any] = {**_LEAN, "cache": True}
_INNER: dict[str, Any] = {**_LEAN, "no_cpython_wrapper": True}

entry = njit(**_ENTRY)
entry_scan = njit(**_ENTRY, fastmath=_MIN_SCAN)
inner = njit(**_INNER)
inner_scan = njit(**_INNER, fastmath=_MIN_SCAN)


class _Notice(event.Listener):
    """Calls `compiling_began` when numba compiles a function that is not in its cache."""

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - numba's interface
        compiling_began()

    def on_end(self, event: Any) -> None:
        """Required by numba's interface."""


event.register("numba:compile", _Notice())
