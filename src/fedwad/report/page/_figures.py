"""Shared parts of figures: two widths, markers, axes, and points scaled to the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedwad.ot import Floats
from fedwad.report.page._digits import Digits
from fedwad.report.page._text import escape, shorten, tag, text_width

__all__ = [
    "FONT_SIZE",
    "HorizontalAxis",
    "PointMap",
    "draw_both_widths",
    "label_column",
    "marker",
    "marker_path",
    "round_ticks",
    "scale_to_fit",
    "tick_texts",
]

_WIDE, _NARROW = 520, 300
FONT_SIZE = 12.5  # pixels
_MAX_DECIMALS = 15  # of a number beside a tick; doubles have no more digits
_SCALE_HEIGHT = 30.0  # pixels below a map, for its scale bar

# The markers of clusters of sites differ in shape and in colour. Six shapes and seven colours give
# 42 markers.
_SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "M-4.4 -4.4h8.8v8.8h-8.8z",
    "M0 -5.6L5.4 4H-5.4z",
    "M0 -6L6 0L0 6L-6 0z",
    "M-1.9 -5.4h3.8v3.5h3.5v3.8h-3.5v3.5h-3.8v-3.5h-3.5v-3.8h3.5z",
    "M0 5.6L5.4 -4H-5.4z",
)


def draw_both_widths(draw: Callable[[int], str]) -> str:
    """The figure for a wide and for a narrow screen; the style sheet shows the one that fits."""
    return tag("div", draw(_WIDE), class_="wide") + tag("div", draw(_NARROW), class_="narrow")


def marker_path(cluster: int) -> str:
    """The outline of the marker of a cluster, given by its index from 0."""
    return _SHAPES[cluster % len(_SHAPES)]


def marker(cluster: int, **attributes: object) -> str:
    """The marker of a cluster as an image within text."""
    path = tag("path", d=marker_path(cluster))
    return tag("svg", path, viewBox="-7 -7 14 14", **attributes)


def label_column(
    names: Sequence[str], width: int, gap: float, font_size: float = FONT_SIZE
) -> tuple[list[str], float]:
    """Names, shortened for a figure of this width, and the pixels that they and the gap take."""
    texts = [shorten(name, 22 if width > 400 else 15) for name in names]
    return texts, min(max(text_width(text, font_size) for text in texts) + gap, 0.45 * width)


def round_ticks(low: float, high: float, max_ticks: int = 6) -> list[float]:
    """At most about `max_ticks` round numbers from low to high.

    >>> round_ticks(0.0, 10.0)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / max(max_ticks - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(
        factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9)
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """The numbers beside the ticks, with as many digits as tell them apart."""
    significant = 2 if len(ticks) > 1 else 3
    digits = Digits.for_numbers([*ticks, ticks[-1] - ticks[0]], significant)
    while digits.decimals < _MAX_DECIMALS and len(set(digits.texts(ticks))) < len(ticks):
        digits = replace(digits, decimals=digits.decimals + 1)
    return digits.texts(ticks)


@dataclass(frozen=True)
class HorizontalAxis:
    """An axis of `length` pixels from `left`, which shows the numbers from `low` to `high`."""

    left: float
    length: float
    low: float
    high: float

    def x(self, number: float) -> float:
        """The x coordinate of a number; numbers beyond an end are drawn at that end."""
        fraction = (number - self.low) / ((self.high - self.low) or 1.0)
        return self.left + self.length * min(max(fraction, 0.0), 1.0)

    def grid(self, top: float, bottom: float, max_ticks: int) -> str:
        """Vertical lines at round numbers, with the numbers above them."""
        ticks = round_ticks(self.low, self.high, max_ticks)
        lines = (
            tag("path", d=f"M{self.x(tick):.1f} {top:.0f}V{bottom:.0f}")
            + tag("text", escape(text), x=self.x(tick), y=top - 8, text_anchor="middle")
            for tick, text in zip(ticks, tick_texts(ticks), strict=True)
        )
        return tag("g", *lines, class_="axis")


def scale_to_fit(
    extents: Floats, width: float, min_height: float, max_height: float
) -> tuple[float, float]:
    """Pixels for a unit of distance, and the height, of points drawn `width` pixels wide.

    `extents` are those of the points across and down. The scale is 0 if both are zero.
    """
    height = width * extents[1] / extents[0] if extents[0] else 0.0
    height = min(max(height, min_height), max_height)
    pairs = zip((width, height), extents, strict=True)
    scale = min((pixels / extent for pixels, extent in pairs if extent > 0), default=0.0)
    return float(scale), float(height)


@dataclass(frozen=True, eq=False)
class PointMap:
    """Points of the plane as pixels: `dots` (N, 2), with equal scales across and down."""

    dots: Floats
    width: int
    height: float
    margin: float
    scale: float

    @classmethod
    def of(
        cls, points: Floats, width: int, margin: float, min_aspect: float, max_aspect: float
    ) -> PointMap:
        """A map whose points take `min_aspect` to `max_aspect` times the width in height."""
        low, high = points.min(axis=0), points.max(axis=0)
        inside = width - 2 * margin
        scale, inside_height = scale_to_fit(
            high - low, inside, min_aspect * width, max_aspect * width
        )
        dots = (points - (low + high) / 2) * [scale, -scale] + [
            width / 2,
            margin + inside_height / 2,
        ]
        return cls(
            np.asarray(dots), width, inside_height + 2 * margin + _SCALE_HEIGHT, margin, scale
        )

    @property
    def label_area(self) -> tuple[float, float]:
        """Width and height of the part that may hold names."""
        return float(self.width), self.height - _SCALE_HEIGHT

    @property
    def scale_bar(self) -> str:
        """A round distance as a line of its length; empty if all points are in one place."""
        if not self.scale:
            return ""
        length = round_ticks(0.0, 130 / self.scale, 3)[1]
        line = f"M{self.margin:.0f} {self.height - 14:.0f}v5h{length * self.scale:.1f}v-5"
        x, y = self.margin + length * self.scale + 8, self.height - 8
        return tag("g", tag("path", d=line), tag("text", f"{length:g}", x=x, y=y), class_="scale")
