"""The interface of archives of images, and the digits that come with scikit-learn."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Archive", "Digits"]


class Archive(Protocol):
    """Images and labels of one dataset, read split by split when they are asked for."""

    @property
    def location(self) -> str:
        """Where the data come from, for errors."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that the archive has; a dataset without splits has only "all"."""

    def labels(self, split: str) -> NDArray[Any]:
        """The labels of all samples of a split, as integers."""

    def images(self, split: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The images in these rows of a split, (n, side, side) or (n, side, side, 3)."""


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
