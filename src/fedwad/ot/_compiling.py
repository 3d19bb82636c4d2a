"""Whom to tell that functions are being compiled; numba itself is not needed for this."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["announce_compiling", "compiling_began"]

_waiting: list[Callable[[], None]] = []


def announce_compiling(notice: Callable[[], None]) -> None:
    """Call `notice` once, when a function is compiled that no cache holds. The last one counts."""
    _waiting[:] = [notice]


def compiling_began() -> None:
    """Give the notice, if one is waiting."""
    while _waiting:
        _waiting.pop()()
