"""Images of another size, and the numbers that grey levels become."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["grey_level_values", "resize"]


def resize(images: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Square images with another side, by Pillow's bilinear filter on integer grey levels.

    torchvision's `Resize`, which the code of the paper uses, does the same. Pixel k of n has its
    centre at (k + 1/2) / n. If images grow, a value is interpolated between the two nearest centres
    of the old image; at the edge it is that of the nearest one. If images shrink, a value is an
    average with triangular weights as wide as the ratio of the sides. Rows are resized first, then
    columns, and each result is rounded to integers.
    """
    if images.shape[1] == side:
        return images
    from PIL import Image

    result = np.empty((len(images), side, side, *images.shape[3:]), dtype=np.uint8)
    for i, image in enumerate(images):
        new = Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)
        result[i] = np.asarray(new)
    return result


def grey_level_values(form: str, peak: int, mean: float, std: float) -> NDArray[np.float32]:
    """The value of each grey level v in 0..peak.

    It is v / peak if the form is "unit", and (v / peak - mean) / std if it is "normalised".
    """
    values = np.arange(peak + 1) / peak
    if form == "normalised":
        values = (values - mean) / std
    return values.astype(np.float32)
