"""Arithmetic whose last bits do not depend on the number of cores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

__all__ = ["steady"]

_lock = Lock()
_depth = 0
_limits: Any = None


@cache
def _controller(scipy_is_loaded: bool) -> Any:  # noqa: ARG001
    """What can limit threads; looking for it takes milliseconds, so once, and once more when SciPy's has come."""
    from threadpoolctl import ThreadpoolController  # when first needed: importing fedwad stays light

    return ThreadpoolController()


@contextmanager
def steady() -> Iterator[None]:
    """Let matrix products run on one thread each, as long as any thread of this process is inside.

    A product split over threads sums in another order. Clients and pairs work in threads of their own, so little
    time is lost. Products of other code in this process are slowed down meanwhile.
    """
    global _depth, _limits
    with _lock:
        if _depth == 0:
            _limits = _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _limits.restore_original_limits()
                _limits = None
