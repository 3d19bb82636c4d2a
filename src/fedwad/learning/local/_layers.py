"""Layers for images (n, side, side, channels), made so that many networks train fast in one stack.

A stack is many networks of the same shape that train at once, see `stacks`. Here a convolution is a
matrix product with all patches of an image. In a stack these products become one batched product.
PyTorch's own convolutions would become a grouped convolution instead: on an H200 a step of 800
networks took 5.8 times as long with it.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Image", "MaxPool", "Patches"]

_PATCH_SIDE = 5  # pixels


class Image(nn.Module):
    """Samples as rows of pixels, as `fedwad.datasets.load` gives them, reshaped to images."""

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
    """All patches; the gradient of a pixel is the sum over the patches that contain it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        places = x.shape[1] - _PATCH_SIDE + 1  # of a patch along one side of the image
        offsets = product(range(_PATCH_SIDE), repeat=2)
        shifted = [x[:, i : i + places, j : j + places] for i, j in offsets]
        return torch.cat(shifted, dim=3)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.side, ctx.channels = inputs[0].shape[1], inputs[0].shape[3]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        places = gradient.shape[1]
        total = gradient.new_zeros((gradient.shape[0], ctx.side, ctx.side, ctx.channels))
        for index, part in enumerate(torch.split(gradient, ctx.channels, dim=3)):
            i, j = divmod(index, _PATCH_SIDE)
            total[:, i : i + places, j : j + places] += part
        return total


class MaxPool(nn.Module):
    """The maximum of each 2x2 block: (n, s, s, c) to (n, s // 2, s // 2, c).

    If s is odd, the last row and the last column are left out.
    """

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[1] // 2
        blocks = x[:, : 2 * half, : 2 * half].reshape(-1, half, 2, half, 2, x.shape[3])
        largest: Tensor = _BlockMaximum.apply(blocks)  # type: ignore[no-untyped-call]
        return largest


class _BlockMaximum(torch.autograd.Function):
    """The maximum over axes 2 and 4; the gradient goes to every pixel that attains it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(blocks: Tensor) -> Tensor:
        return blocks.amax((2, 4), keepdim=True)[:, :, 0, :, 0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        blocks, largest = ctx.saved_tensors
        is_largest = blocks == largest[:, :, None, :, None]
        return torch.where(is_largest, gradient[:, :, None, :, None], 0.0)
