"""What every archive of a dataset can do, and the digits that come with scikit-learn."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Archive", "Digits"]


class Archive(Protocol):
    """Images and labels of one dataset, split by split; nothing is read before it is asked for."""

    @property
    def location(self) -> str:
        """Where the data come from, for messages."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are there, in their order; an unsplit dataset has the one split
        "all"."""

    def labels(self, split: str) -> NDArray[Any]:
        """The labels of all samples of a split, as integers."""

    def images(self, split: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The images of these samples of a split, (n, side, side) or (n, side, side, 3)."""


class Digits:
    """The 1797 digits of 8 x 8 pixels in 0..16 that come with scikit-learn."""

    location = "scikit-learn"
    splits = ("all",)

    def __init__(self) -> None:
        from sklearn.datasets import load_digits

        self._pixels, self._labels = load_digits(return_X_y=True)

    def labels(self, split: str) -> NDArray[Any]:  # noqa: ARG002
        return np.asarray(self._labels)

    def images(self, split: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:  # noqa: ARG002
        return np.asarray(self._pixels[rows].reshape(-1, 8, 8), dtype=np.uint8)
