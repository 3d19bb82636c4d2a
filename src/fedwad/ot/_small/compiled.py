"""How functions are compiled.

`entry` is for functions that Python calls, `inner` for those that only compiled functions call:
code that converts arguments from Python took a third of the time to compile them.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core import event

from fedwad.ot._compiling import compiling_began

__all__ = ["MIN_SCAN", "entry", "entry_scan", "inner", "inner_fused", "inner_scan"]

MIN_SCAN = {"nnan", "nsz", "reassoc"}  # lets LLVM vectorise a minimum; costs are never NaN
_ENTRY: dict[str, Any] = {"nogil": True, "cache": True}
_INNER: dict[str, Any] = {**_ENTRY, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

entry = njit(**_ENTRY)
entry_scan = njit(**_ENTRY, fastmath=MIN_SCAN)
inner = njit(**_INNER)
inner_scan = njit(**_INNER, fastmath=MIN_SCAN)
inner_fused = njit(**_INNER, fastmath={"contract", "reassoc"})


class _Notice(event.Listener):
    """Says that compiling began; what a cache holds is not compiled."""

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - numba's interface
        compiling_began()

    def on_end(self, event: Any) -> None:
        """Nothing is said about the end."""


event.register("numba:compile", _Notice())
