"""Shared parts of figures: widths, markers, axes, points scaled to the page, and their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from markupsafe import Markup

from fedwad.compare.digits import Digits
from fedwad.report.page._text import drawing, escape, shorten, tag, text_width
from fedwad.transport import Floats

_WIDE, _NARROW = 520, 300  # pixels
FONT_SIZE = 12.5  # pixels
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


def draw_both_widths(draw: Callable[[int], Markup]) -> Markup:
    """The figure for a wide and for a narrow screen; the style sheet shows the one that fits."""
    return tag("div", draw(_WIDE), class_="wide") + tag("div", draw(_NARROW), class_="narrow")


def marker(cluster: int, **attributes: object) -> Markup:
    """The marker of a cluster, given by its index from 0: a shape around the origin."""
    return tag("path", d=_SHAPES[cluster % len(_SHAPES)], **attributes)


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
    """The numbers beside the ticks, with as many digits as tell them apart; doubles have 15."""
    significant = 2 if len(ticks) > 1 else 3
    digits = Digits.for_numbers([*ticks, ticks[-1] - ticks[0]], significant)
    while digits.decimals < 15 and len(set(digits.texts(ticks))) < len(ticks):
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

    def grid(self, top: float, bottom: float, max_ticks: int) -> Markup:
        """Vertical lines at round numbers, with the numbers above them."""
        ticks = round_ticks(self.low, self.high, max_ticks)
        lines = (
            tag("path", d=f"M{self.x(tick):.1f} {top:.0f}V{bottom:.0f}")
            + tag("text", escape(text), x=self.x(tick), y=top - 8, text_anchor="middle")
            for tick, text in zip(ticks, tick_texts(ticks), strict=True)
        )
        return tag("g", *lines, class_="axis")


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
        across, up = (high - low).tolist()
        inside = width - 2 * margin
        height = inside * up / across if across else 0.0
        height = min(max(height, min_aspect * width), max_aspect * width)
        pairs = ((inside, across), (height, up))
        scale = min((pixels / extent for pixels, extent in pairs if extent > 0), default=0.0)
        centre = [width / 2, margin + height / 2]
        dots = (points - (low + high) / 2) * [scale, -scale] + centre
        return cls(np.asarray(dots), width, height + 2 * margin + _SCALE_HEIGHT, margin, scale)

    @property
    def scale_bar(self) -> Markup:
        """A round distance as a line of its length; empty if all points are in one place."""
        if not self.scale:
            return Markup()
        length = round_ticks(0.0, 130 / self.scale, 3)[1]
        line = f"M{self.margin:.0f} {self.height - 14:.0f}v5h{length * self.scale:.1f}v-5"
        x, y = self.margin + length * self.scale + 8, self.height - 8
        return tag("g", tag("path", d=line), tag("text", f"{length:g}", x=x, y=y), class_="scale")

    def names(self, names: Sequence[str]) -> list[Markup]:
        """The shortened name beside each dot, empty where there is no room for it."""
        texts = [shorten(name, 22) for name in names]
        widths = [text_width(text, FONT_SIZE) for text in texts]
        area = float(self.width), self.height - _SCALE_HEIGHT
        return [
            Markup()
            if at is None
            else tag("text", escape(text), x=at.x, y=at.y, dy="0.35em", text_anchor=at.anchor)
            for text, at in zip(
                texts, place_labels(self.dots, widths, FONT_SIZE + 2, area), strict=True
            )
        ]


Anchor = Literal["start", "middle", "end"]
#: Steps right and down from a dot, in units of the gap, and which end of the name is there.
_DIRECTIONS: tuple[tuple[float, float, Anchor], ...] = (
    (1.0, 0.0, "start"),
    (-1.0, 0.0, "end"),
    (0.0, -1.0, "middle"),
    (0.0, 1.0, "middle"),
    (0.75, -0.75, "start"),
    (0.75, 0.75, "start"),
    (-0.75, -0.75, "end"),
    (-0.75, 0.75, "end"),
)


@dataclass(frozen=True)
class Label:
    """The position of a name: a point at half its height, and which part of the name is there.

    `box` has its left, top, right and bottom.
    """

    x: float
    y: float
    anchor: Anchor
    box: tuple[float, float, float, float]


def place_labels(
    dots: Floats,
    widths: Sequence[float],
    height: float,
    area: tuple[float, float],
    gap: float = 9.0,
    clearance: float = 6.0,
) -> list[Label | None]:
    """For each dot the first of eight positions whose box overlaps no dot and no earlier name.

    None if there is none. Names stay within `area`, its width and height, `gap` pixels from their
    dot and `clearance` from others. Dots with many neighbours come first, because they have few
    free positions.
    """
    labels: list[Label | None] = [None] * len(dots)
    taken = np.hstack([dots - clearance, dots + clearance])
    neighbours = ((abs(dots[:, None] - dots[None]) < 4 * height).all(axis=2)).sum(axis=1)
    for k in np.argsort(-neighbours, kind="stable").tolist():
        others = np.delete(taken, k, axis=0)
        for right, down, anchor in _DIRECTIONS:
            x = float(dots[k, 0]) + right * gap
            y = float(dots[k, 1]) + down * (gap + height / 2 if anchor == "middle" else gap)
            left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * widths[k]
            box = left, y - height / 2, left + widths[k], y + height / 2
            is_inside = min(box) >= 0 and box[2] <= area[0] and box[3] <= area[1]
            overlaps = (others[:, :2] < box[2:]).all(axis=1) & (others[:, 2:] > box[:2]).all(axis=1)
            if is_inside and not overlaps.any():
                labels[k] = Label(x, y, anchor, box)
                taken = np.vstack([taken, box])
                break
    return labels


# --- charts of numbers by round, or by any other count


_HEIGHT, _BOTTOM, _TOP, _RIGHT = 270.0, 40.0, 12.0, 16.0  # pixels: the figure, and its margins


@dataclass(frozen=True)
class Part:
    """What a chart shows; `kind` and `style` are classes of the style sheet.

    A "curve" is a line through `points` (round, number). A "level" is one number and a "band" an
    interval, at any round.
    """

    kind: Literal["curve", "level", "band"]
    label: str
    points: Sequence[tuple[float, float]]
    style: str = ""

    @classmethod
    def constant(cls, label: str, *numbers: float, style: str) -> Part:
        """The level of a number, or the band between two, which no round changes."""
        kind: Literal["level", "band"] = "level" if len(numbers) == 1 else "band"
        return cls(kind, label, [(math.nan, number) for number in numbers], style)


def chart(
    parts: Sequence[Part], caption: str, x_label: str = "round", *, from_zero: bool = False
) -> Markup:
    """The figure with its legend; with `from_zero` the vertical axis starts at zero."""
    items = [
        tag("li", tag("i", class_=f"{part.kind} {part.style}"), escape(part.label))
        for part in parts
    ]
    key = tag("ul", *items, class_="key") if len(items) > 1 else ""
    figure = draw_both_widths(lambda width: _draw(parts, caption, x_label, width, from_zero))
    return tag("figure", figure, key, tag("figcaption", escape(caption)), class_="chart")


def _draw(parts: Sequence[Part], caption: str, x_label: str, width: int, from_zero: bool) -> Markup:
    curves = [part for part in parts if part.kind == "curve"]
    numbers = [number for part in parts for _, number in part.points]
    rounds = [place for curve in curves for place, _ in curve.points]
    first, last = min(rounds), max(rounds)
    low, high = min(numbers), max(numbers)
    if from_zero:
        low = min(low, 0.0)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - (0 if from_zero and low == 0 else margin), high + margin
    ticks = round_ticks(low, high)
    texts = tick_texts(ticks)
    left = 16.0 + 7.2 * max(map(len, texts))
    right, foot = width - _RIGHT + 6, _HEIGHT - _BOTTOM

    def x(place: float) -> float:
        fraction = (place - first) / (last - first) if last > first else 0.5
        return left + (width - left - _RIGHT) * fraction

    def y(number: float) -> float:
        return foot - (foot - _TOP) * (number - low) / (high - low)

    def draw(part: Part) -> Markup:
        look = f"{part.kind} {part.style}"
        if part.kind == "band":
            top, bottom = y(part.points[1][1]), y(part.points[0][1])
            size = {"width": right - left, "height": max(bottom - top, 1.0)}
            return tag("rect", class_=look, x=left, y=top, **size)
        if part.kind == "level":
            return tag("path", d=f"M{left:.0f} {y(part.points[0][1]):.1f}H{right:.0f}", class_=look)
        places = [f"{x(place):.1f} {y(number):.1f}" for place, number in part.points]
        line = tag("path", d="M" + "L".join(places), class_=look)
        if len(places) > 40:  # dots would run into each other
            return line
        dots = "".join(f"M{place}h0" for place in places)
        return line + tag("path", d=dots, class_=f"dots {part.style}")

    grid = [
        tag("path", d=f"M{left:.0f} {y(tick):.1f}H{right:.0f}")
        + tag("text", escape(text), x=left - 8, y=y(tick), dy="0.35em", text_anchor="end")
        for tick, text in zip(ticks, texts, strict=True)
    ]
    grid += [
        tag("text", str(int(tick)), x=x(tick), y=foot + 20, text_anchor="middle")
        for tick in round_ticks(first, last, 8 if width > 400 else 5)
        if tick == int(tick)
    ]
    middle = (left + width - _RIGHT) / 2
    grid.append(tag("text", escape(x_label), x=middle, y=_HEIGHT - 4, text_anchor="middle"))
    ranges = "; ".join(
        f"{curve.label} from {curve.points[0][1]:.3g} to {curve.points[-1][1]:.3g}"
        for curve in curves
    )
    back_to_front = sorted(parts, key=lambda part: part.kind != "band")  # bands behind lines
    axes = tag("g", *grid, class_="axis")
    return drawing(width, _HEIGHT, f"{caption} {ranges}", axes, *map(draw, back_to_front))
