"""Layers for images (n, side, side, channels), made of operations that are fast in stacks.

A convolution is a matrix product with all patches of an image, which stacks to one batched product.
Stacked convolutions of PyTorch become grouped ones: on an H200 a step of 800 networks took 5.8
times as long with them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Image", "MaxPool", "Patches"]

_SIDE = 5


class Image(nn.Module):
    """Rows of pixels, as `fedwad.datasets.load` gives them, to images."""

    def __init__(self, side: int, channels: int) -> None:
        super().__init__()
        self.side, self.channels = side, channels

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, self.side, self.side, self.channels)


class Patches(nn.Module):
    """All 5x5 patches: (n, s, s, c) to (n, s - 4, s - 4, 25 c)."""

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = _Patches.apply(x)  # type: ignore[no-untyped-call]
        return found


class _Patches(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        left = x.shape[1] - _SIDE + 1
        shifted = [x[:, i : i + left, j : j + left] for i in range(_SIDE) for j in range(_SIDE)]
        return torch.cat(shifted, dim=3)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.side, ctx.channels = inputs[0].shape[1], inputs[0].shape[3]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        left = gradient.shape[1]
        total = gradient.new_zeros((gradient.shape[0], ctx.side, ctx.side, ctx.channels))
        for index, part in enumerate(torch.split(gradient, ctx.channels, dim=3)):
            i, j = divmod(index, _SIDE)
            total[:, i : i + left, j : j + left] += part
        return total


class MaxPool(nn.Module):
    """The maximum of each 2x2 block: (n, s, s, c) to (n, s // 2, s // 2, c).

    An odd last row and column are left out.
    """

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[1] // 2
        blocks = x[:, : 2 * half, : 2 * half].reshape(-1, half, 2, half, 2, x.shape[3])
        found: Tensor = _Largest.apply(blocks)  # type: ignore[no-untyped-call]
        return found


class _Largest(torch.autograd.Function):
    """The maximum over axes 2 and 4; the gradient goes to every index that attains it."""

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
        found = blocks == largest[:, :, None, :, None]
        return torch.where(found, gradient[:, :, None, :, None], 0.0)
