"""From stored pixels to numbers: size and scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["resized", "table"]


def resized(images: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Square images of another side, by Pillow's bilinear filter on whole grey levels.

    This is what torchvision's `Resize` does to an image, and with it the code of the paper. Pixel k
    of n has its centre at (k + 1/2) / n. When images grow, a value is interpolated between the two
    nearest centres of the old image, at the edge it is the nearest one's; when they shrink, it is
    an average with triangular weights as wide as the ratio of the sides. Rows come first, then
    columns, each rounded to whole levels.
    """
    if images.shape[1] == side:
        return images
    from PIL import Image

    result = np.empty((len(images), side, side, *images.shape[3:]), dtype=np.uint8)
    for i, image in enumerate(images):
        result[i] = np.asarray(
            Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)
        )
    return result


def table(pixels: str, peak: int, mean: float, deviation: float) -> NDArray[np.float32]:
    """The value of each grey level 0..peak: as a part of the peak, or that less the mean, over the
    deviation."""
    levels = np.arange(peak + 1) / peak
    if pixels == "normalised":
        levels = (levels - mean) / deviation
    return levels.astype(np.float32)
