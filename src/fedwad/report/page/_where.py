"""Where in the image sites differ: the contributions of columns that are pixels, as a picture."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.page._colour import N_SHADES
from fedwad.report.page._text import escape, tag

__all__ = [
    "Shape",
    "image",
    "pixel_shape",
    "strengths",
    "where_figure",
    "where_numbers",
    "where_sentence",
]

Shape = tuple[int, ...]

_MIN_PIXELS = 64  # columns from which they can be an image without being declared one
_MIN_CORRELATION = 0.5  # of the means of neighbours in an image
_PIXEL_NAME = re.compile(r"(column|pixel|px|pix|p|x|v)?[ _]?\d+([ _x,]+\d+)?", re.IGNORECASE)
_DIGITS = "0123456789abcdefghijklmnopqrstuv"  # one for each shade


def pixel_shape(
    names: Sequence[str], means: Floats, shape: Shape | None = None
) -> tuple[int, int] | None:
    """Rows and columns of the image whose pixels the columns are, or None.

    Without a declared shape, columns are pixels if nothing but numbers names them, if they fill a
    square, and if the means of neighbours in the square are similar, across and down.
    """
    count = len(names)
    if shape is not None:
        if math.prod(shape) != count or len(shape) not in (2, 3):
            raise InputError(
                f"shape is {shape} and there are {count} columns; give (rows, columns) of the"
                " images, or (rows, columns, channels)."
            )
        return int(shape[0]), int(shape[1])
    side = math.isqrt(count)
    if side * side != count or count < _MIN_PIXELS:
        return None
    if not all(_PIXEL_NAME.fullmatch(name) for name in names):
        return None
    image = means.reshape(side, side)
    return (side, side) if _is_smooth(image) and _is_smooth(image.T) else None


def _is_smooth(image: Floats) -> bool:
    """Whether neighbours in a row are correlated."""
    left, right = image[:, :-1].ravel(), image[:, 1:].ravel()
    left, right = left - left.mean(), right - right.mean()
    size = float(np.linalg.norm(left) * np.linalg.norm(right))
    return size > 0 and float(left @ right) > _MIN_CORRELATION * size


def _pixels(contributions: Floats, shape: tuple[int, int]) -> Floats:
    """The contribution of each pixel: that of its channels, added up. Negative ones count as 0."""
    return np.asarray(np.maximum(contributions, 0.0).reshape(*shape, -1).sum(axis=2))


def strengths(contributions: Floats, shape: tuple[int, int]) -> str:
    """A digit for each pixel, row by row: 0 for no contribution, v for the largest in the image."""
    pixels = _pixels(contributions, shape).ravel()
    largest = float(pixels.max())
    if not largest > 0:
        return _DIGITS[0] * len(pixels)
    steps = np.rint((N_SHADES - 1) * pixels / largest).astype(int)
    return "".join(_DIGITS[step] for step in steps)


def where_numbers(contributions: Floats, shape: tuple[int, int]) -> list[int]:
    """Four numbers: how many pixels hold half of the difference, then about the strongest pixel.

    These are its row and its column, counted from 1, and its percentage of the difference.
    """
    pixels = _pixels(contributions, shape)
    total = float(pixels.sum())
    if not total > 0:
        return [0, 0, 0, 0]
    ordered = np.sort(pixels.ravel())[::-1]
    half = int(np.searchsorted(np.cumsum(ordered), 0.5 * total)) + 1
    row, column = divmod(int(pixels.argmax()), shape[1])
    return [half, row + 1, column + 1, round(100 * float(ordered[0]) / total)]


def where_sentence(numbers: Sequence[int], pixels: int) -> str:
    """What the picture shows, in words."""
    half, row, column, percentage = numbers
    return (
        f"Half of the difference lies in {half} of {pixels} pixels. The strongest, in row {row} and"
        f" column {column} from the top left, has {f'{percentage}%' if percentage else 'below 1%'}."
    )


def _paths(digits: str, width: int) -> str:
    """One path for each digit of `strengths`; equal neighbours in a row become one bar."""
    paths: dict[str, list[str]] = {}
    for match in re.finditer(r"([1-9a-v])\1*", digits):
        start, end = match.span()
        while start < end:  # a run may go on in the next row
            row, column = divmod(start, width)
            stop = min(end, (row + 1) * width)
            paths.setdefault(match[1], []).append(f"M{column} {row}h{stop - start}v1H{column}z")
            start = stop
    # The first shade of the ramp is the strongest.
    shade = {digit: N_SHADES - 1 - step for step, digit in enumerate(_DIGITS)}
    return "".join(
        tag("path", d="".join(bars), class_=f"l{shade[digit]}")
        for digit, bars in sorted(paths.items())
    )


def image(contributions: Floats, shape: tuple[int, int], label: str, **attributes: object) -> str:
    """The picture; the pixel that contributes most has the strongest shade."""
    rows, columns = shape
    background = tag("rect", width=columns, height=rows, class_=f"l{N_SHADES - 1}")
    return tag(
        "svg",
        background,
        tag("g", _paths(strengths(contributions, shape), columns)),
        viewBox=f"0 0 {columns} {rows}",
        role="img",
        aria_label=label,
        shape_rendering="crispEdges",
        **attributes,
    )


def where_figure(contributions: Floats, shape: tuple[int, int], hidden: bool) -> str:
    """The picture of one pair, with its sentence."""
    sentence = where_sentence(where_numbers(contributions, shape), shape[0] * shape[1])
    return tag(
        "div",
        tag("h3", "Where in the image"),
        image(contributions, shape, sentence, id="where-image"),
        tag("p", escape(sentence), id="where-said"),
        class_="where",
        id="where",
        hidden="hidden" if hidden else None,
    )
