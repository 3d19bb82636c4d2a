"""Charts of numbers by round, or by any other count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedwad.report.page._figures import draw_both_widths, round_ticks, tick_texts
from fedwad.report.page._text import escape, tag

__all__ = ["Band", "Curve", "Level", "Mark", "Part", "chart"]

_HEIGHT, _BOTTOM, _TOP, _RIGHT = 270.0, 40.0, 12.0, 16.0  # pixels: the figure, and its margins
_MAX_DOTS = 40  # a longer curve is drawn without dots


@dataclass(frozen=True)
class _Axes:
    """The scales of a chart, in pixels: rounds across and numbers up.

    Rounds go from `first` to `last`, numbers from `low` to `high`.
    """

    width: int
    left: float
    first: float
    last: float
    low: float
    high: float
    logarithmic: bool

    @property
    def right(self) -> float:
        return self.width - _RIGHT + 6

    def x(self, number: float) -> float:
        """The x coordinate of a round."""
        extent = self.last - self.first
        fraction = (number - self.first) / extent if extent > 0 else 0.5
        return self.left + (self.width - self.left - _RIGHT) * fraction

    def y(self, number: float) -> float:
        """The y coordinate of a number."""
        if self.logarithmic:
            fraction = math.log(number / self.low) / math.log(self.high / self.low)
        else:
            fraction = (number - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * fraction

    def at(self, point: tuple[float, float]) -> str:
        """The coordinates of (round, number) in a path."""
        return f"{self.x(point[0]):.1f} {self.y(point[1]):.1f}"


@dataclass(frozen=True)
class Curve:
    """A line through points (round, number); `style` is a class of the style sheet."""

    label: str
    points: Sequence[tuple[int, float]]
    style: str
    zorder: ClassVar[int] = 1

    @property
    def numbers(self) -> list[float]:
        return [number for _, number in self.points]

    def draw(self, axes: _Axes) -> str:
        positions = [axes.at(point) for point in self.points]
        line = tag("path", d="M" + "L".join(positions), class_=f"curve {self.style}")
        if len(positions) > _MAX_DOTS:
            return line
        dots = "".join(f"M{place}h0" for place in positions)
        return line + tag("path", d=dots, class_=f"dots {self.style}")


@dataclass(frozen=True)
class Level:
    """A horizontal line: a number that does not change over the rounds."""

    label: str
    height: float
    style: str
    zorder: ClassVar[int] = 1

    @property
    def numbers(self) -> list[float]:
        return [self.height]

    def draw(self, axes: _Axes) -> str:
        line = f"M{axes.left:.0f} {axes.y(self.height):.1f}H{axes.right:.0f}"
        return tag("path", d=line, class_=f"level {self.style}")


@dataclass(frozen=True)
class Band:
    """A horizontal band: an interval that does not change over the rounds."""

    label: str
    low: float
    high: float
    style: str
    zorder: ClassVar[int] = 0  # behind the lines

    @property
    def numbers(self) -> list[float]:
        return [self.low, self.high]

    def draw(self, axes: _Axes) -> str:
        top, foot = axes.y(self.high), axes.y(self.low)
        return tag(
            "rect",
            class_=f"band {self.style}",
            x=axes.left,
            y=top,
            width=axes.right - axes.left,
            height=max(foot - top, 1.0),
        )


@dataclass(frozen=True)
class Mark:
    """A vertical line between two rounds."""

    place: float
    numbers: ClassVar[list[float]] = []
    zorder: ClassVar[int] = 1

    def draw(self, axes: _Axes) -> str:
        line = f"M{axes.x(self.place):.1f} {_TOP:.0f}V{_HEIGHT - _BOTTOM:.0f}"
        return tag("path", d=line, class_="mark")


Part = Curve | Level | Band | Mark


def chart(
    parts: Sequence[Part], caption: str, x_label: str = "round", *, from_zero: bool = False
) -> str:
    """The figure with its legend.

    With `from_zero` the vertical axis starts at zero. It is logarithmic instead if all numbers are
    positive and the largest is more than 30 times the smallest.
    """
    items = [
        tag(
            "li", tag("i", class_=f"{type(part).__name__.lower()} {part.style}"), escape(part.label)
        )
        for part in parts
        if not isinstance(part, Mark)
    ]
    key = tag("ul", *items, class_="key") if len(items) > 1 else ""
    figure = draw_both_widths(lambda width: _draw(parts, caption, x_label, width, from_zero))
    return tag("figure", figure, key, tag("figcaption", escape(caption)), class_="chart")


def _draw(parts: Sequence[Part], caption: str, x_label: str, width: int, from_zero: bool) -> str:
    curves = [part for part in parts if isinstance(part, Curve)]
    axes, ticks, texts = _axes(parts, curves, width, from_zero)
    ranges = "; ".join(
        f"{curve.label} from {curve.points[0][1]:.3g} to {curve.points[-1][1]:.3g}"
        for curve in curves
    )
    return tag(
        "svg",
        tag("g", *_grid(axes, ticks, texts), *_x_axis(axes, x_label), class_="axis"),
        *(part.draw(axes) for part in sorted(parts, key=lambda part: part.zorder)),
        viewBox=f"0 0 {width} {_HEIGHT:.0f}",
        role="img",
        aria_label=f"{caption} {ranges}",
    )


def _axes(
    parts: Sequence[Part], curves: Sequence[Curve], width: int, from_zero: bool
) -> tuple[_Axes, list[float], list[str]]:
    """The scales for all parts, and the ticks of the vertical axis with their texts."""
    numbers = [number for part in parts for number in part.numbers]
    rounds = [x for curve in curves for x, _ in curve.points]
    logarithmic = from_zero and min(numbers) > 0 and max(numbers) / min(numbers) > 30
    ticks, low, high = _scale(numbers, from_zero, logarithmic)
    texts = [f"{tick:g}" for tick in ticks] if logarithmic else tick_texts(ticks)
    left = 16.0 + 7.2 * max(map(len, texts))
    return _Axes(width, left, min(rounds), max(rounds), low, high, logarithmic), ticks, texts


def _grid(axes: _Axes, ticks: Sequence[float], texts: Sequence[str]) -> list[str]:
    """Horizontal lines with their numbers."""
    return [
        tag("path", d=f"M{axes.left:.0f} {axes.y(tick):.1f}H{axes.right:.0f}")
        + tag("text", escape(text), x=axes.left - 8, y=axes.y(tick), dy="0.35em", text_anchor="end")
        for tick, text in zip(ticks, texts, strict=True)
    ]


def _x_axis(axes: _Axes, x_label: str) -> list[str]:
    """Integers along the horizontal axis, and its name."""
    ticks = round_ticks(axes.first, axes.last, 8 if axes.width > 400 else 5)
    foot = _HEIGHT - _BOTTOM + 20
    marks = [
        tag("text", str(int(tick)), x=axes.x(tick), y=foot, text_anchor="middle")
        for tick in ticks
        if tick == int(tick)
    ]
    middle = (axes.left + axes.width - _RIGHT) / 2
    return [*marks, tag("text", escape(x_label), x=middle, y=_HEIGHT - 4, text_anchor="middle")]


def _scale(
    numbers: list[float], from_zero: bool, logarithmic: bool
) -> tuple[list[float], float, float]:
    """Ticks, and both ends of the axis."""
    low, high = min(numbers), max(numbers)
    if logarithmic:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        every = max(1, round((last - first) / 5))
        return [10.0**k for k in range(first, last + 1, every)], 10.0**first, 10.0**last
    if from_zero:
        low = min(low, 0.0)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - (0 if from_zero and low == 0 else margin), high + margin
    ticks = round_ticks(low, high)
    return ticks, low, high
