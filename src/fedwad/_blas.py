"""BLAS on one thread, so that the last bits of results do not depend on the number of cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedSetting(Generic[T]):
    """A context manager for a setting of the whole process.

    The setting holds while any thread is inside a `with` block of it. The first block to open calls
    `change`, and the last to close calls `restore` with what `change` returned.
    """

    def __init__(self, change: Callable[[], T], restore: Callable[[T], None]) -> None:
        self._change, self._restore = change, restore
        self._lock, self._open_blocks = Lock(), 0
        self._changed: T

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._open_blocks == 0:
                self._changed = self._change()
            self._open_blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._open_blocks -= 1
                if self._open_blocks == 0:
                    self._restore(self._changed)


def _run_in_thread(work: Callable[[], T]) -> T:
    """Run a function in a thread of its own and return its result.

    threadpoolctl lets nobody lift a limit while the thread that set it lives.
    """
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


#: Runs each matrix product on one thread while any thread of this process is inside a block
#: `with single_threaded_blas():`. A product that is split over threads adds in another order.
#: Little time is lost, because clients and pairs have threads of their own. Products of other code
#: in this process are slower meanwhile.
single_threaded_blas = SharedSetting(
    change=lambda: _run_in_thread(lambda: _controller().limit(limits=1, user_api="blas")),
    restore=lambda limits: _run_in_thread(limits.restore_original_limits),
)
