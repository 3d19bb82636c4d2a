"""Data to try things on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError

__all__ = ["load"]


def load(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Samples and labels of a well-known data set: "digits", 1797 images of 8 x 8 pixels in 0..16."""
    if name != "digits":
        raise InputError(f"There is no data set {name!r}; available is 'digits'.")
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return np.asarray(images, dtype=np.float64), np.asarray(labels, dtype=np.int64)
