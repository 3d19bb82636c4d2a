"""Arithmetic whose last bits do not depend on the number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

__all__ = ["steady"]

_lock = Lock()
_depth = 0
_limits: Any = None


@contextmanager
def steady() -> Iterator[None]:
    """Let matrix products run on one thread each, as long as any thread of this process is inside.

    A product split over threads sums in another order. Clients and pairs work in threads of their own, so little
    time is lost. Products of other code in this process are slowed down meanwhile.
    """
    global _depth, _limits
    with _lock:
        if _depth == 0:
            from threadpoolctl import threadpool_limits  # when first needed: importing fedwad stays light

            _limits = threadpool_limits(limits=1, user_api="blas")
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _limits.restore_original_limits()
                _limits = None
