"""PyTorch on one thread."""

from __future__ import annotations

from fedwad._blas import SharedSetting

__all__ = ["single_threaded_torch"]


def _limit() -> int:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    return threads


def _restore(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


#: PyTorch uses no threads besides the calling one while any thread of this process is inside a
#: block `with single_threaded_torch():`.
single_threaded_torch = SharedSetting(_limit, _restore)
