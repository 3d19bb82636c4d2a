"""A callback for when numba starts to compile; this module works without numba."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["announce_compiling", "compiling_began"]

_waiting: list[Callable[[], None]] = []


def announce_compiling(notice: Callable[[], None]) -> None:
    """Call `notice` once, when a function is compiled that is in no cache.

    A later call replaces the callback of an earlier one.
    """
    _waiting[:] = [notice]


def compiling_began() -> None:
    """Call the callback, unless it has been called already."""
    while _waiting:
        _waiting.pop()()
