"""Arithmetic on one thread, whose last bits do not depend on the number of cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

__all__ = ["SharedSetting", "single_threaded_blas"]

T = TypeVar("T")


class SharedSetting(Generic[T]):
    """A setting of the whole process that holds while any thread is inside.

    The first thread to enter calls `change`, and the last to leave gives its result to `restore`.
    """

    def __init__(self, change: Callable[[], T], restore: Callable[[T], None]) -> None:
        self._change, self._restore = change, restore
        self._lock, self._inside = Lock(), 0
        self._before: T

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._before = self._change()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._restore(self._before)


def _run_in_thread(work: Callable[[], T]) -> T:
    """Run in a short-lived thread, because threadpoolctl lets nobody lift a limit while the thread
    that set it lives."""
    results: list[T] = []
    thread = Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


@cache
def _controller() -> Any:
    """The controller of all BLAS libraries, SciPy's included; finding them takes milliseconds."""
    import scipy.linalg  # noqa: F401 - when first needed: importing fedwad stays light
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


#: Runs matrix products on one thread each, as long as any thread of this process is inside. A
#: product split over threads sums in a different order. Clients and pairs work in threads of their
#: own, so little time is lost. Products of other code in this process are slowed down meanwhile.
single_threaded_blas = SharedSetting(
    change=lambda: _run_in_thread(lambda: _controller().limit(limits=1, user_api="blas")),
    restore=lambda limits: _run_in_thread(limits.restore_original_limits),
)
