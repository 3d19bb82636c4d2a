"""Layers for images (n, side, side, channels) that are fast in a stack of networks.

A stack is many networks of the same shape that train at once, see `stacks`. Here a convolution is a
matrix product with all patches of an image. In a stack these products become one batched product.
PyTorch's own convolutions would become a grouped convolution instead, with which a step of 800
networks took 5.8 times as long on an H200.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Image", "MaxPool", "Patches"]

_PATCH_SIDE = 5  # pixels


class Image(nn.Module):
    """Rows of pixels, as `fedwad.datasets.load` gives them, to images: (n, d) to (n, s, s, c)."""

    def __init__(self, side: int, channels: int) -> None:
        super().__init__()
        self.side, self.channels = side, channels

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, self.side, self.side, self.channels)


class Patches(nn.Module):
    """All 5x5 patches: (n, s, s, c) to (n, s - 4, s - 4, 25 c)."""

    def forward(self, x: Tensor) -> Tensor:
        patches: Tensor = _PatchesFunction.apply(x)  # type: ignore[no-untyped-call]
        return patches


class _PatchesFunction(torch.autograd.Function):
    """All patches. The gradient of a pixel is the sum of those of the patches that contain it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        out_side = x.shape[1] - _PATCH_SIDE + 1  # places of a patch along one side of the image
        offsets = product(range(_PATCH_SIDE), repeat=2)
        shifted = [x[:, i : i + out_side, j : j + out_side] for i, j in offsets]
        return torch.cat(shifted, dim=3)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.side, ctx.channels = inputs[0].shape[1], inputs[0].shape[3]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        out_side = gradient.shape[1]
        total = gradient.new_zeros((gradient.shape[0], ctx.side, ctx.side, ctx.channels))
        for index, part in enumerate(torch.split(gradient, ctx.channels, dim=3)):
            i, j = divmod(index, _PATCH_SIDE)
            total[:, i : i + out_side, j : j + out_side] += part
        return total


class MaxPool(nn.Module):
    """The maximum of each 2x2 window: (n, s, s, c) to (n, s // 2, s // 2, c).

    If s is odd, the last row and the last column are left out.
    """

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[1] // 2
        windows = x[:, : 2 * half, : 2 * half].reshape(-1, half, 2, half, 2, x.shape[3])
        largest: Tensor = _WindowMaximum.apply(windows)  # type: ignore[no-untyped-call]
        return largest


class _WindowMaximum(torch.autograd.Function):
    """The maximum over axes 2 and 4. The gradient goes to every pixel that attains it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(windows: Tensor) -> Tensor:
        return windows.amax((2, 4), keepdim=True)[:, :, 0, :, 0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        windows, largest = ctx.saved_tensors
        is_largest = windows == largest[:, :, None, :, None]
        return torch.where(is_largest, gradient[:, :, None, :, None], 0.0)
