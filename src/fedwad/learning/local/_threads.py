"""PyTorch on one thread."""

from __future__ import annotations

from fedwad._blas import SharedSetting

__all__ = ["single_threaded_torch"]


def _limit() -> int:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    return threads


def _lift(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


#: Let PyTorch work on one thread for each of ours, as long as any of ours is inside.
single_threaded_torch = SharedSetting(_limit, _lift)
