"""Arithmetic whose last bits do not depend on the number of cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, Thread
from typing import Any

__all__ = ["single_threaded_blas"]

_lock = Lock()
_depth = 0
_limits: Any = None


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Let matrix products run on one thread each, as long as any thread of this process is inside.

    A product split over threads sums in another order. Clients and pairs work in threads of their
    own, so little time is lost. Products of other code in this process are slowed down meanwhile.
    """
    global _depth
    with _lock:
        if _depth == 0:
            _in_a_thread(_limit)
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _in_a_thread(_lift)


def _limit() -> None:
    global _limits
    _limits = _controller().limit(limits=1, user_api="blas")


def _lift() -> None:
    _limits.restore_original_limits()


def _in_a_thread(work: Callable[[], None]) -> None:
    """threadpoolctl lets nobody lift a limit while the thread that set it lives, so a short-lived
    one sets it."""
    worker = Thread(target=work)
    worker.start()
    worker.join()


@cache
def _controller() -> Any:
    """What can limit threads, SciPy's own linear algebra included; looking for it takes
    milliseconds, so once."""
    import scipy.linalg  # noqa: F401 - when first needed: importing fedwad stays light
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
