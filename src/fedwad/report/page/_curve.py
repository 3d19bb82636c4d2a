"""Charts of numbers by round, or by any other count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from fedwad.report.page._figures import draw_both_widths, round_ticks, tick_texts
from fedwad.report.page._text import drawing, escape, tag

_HEIGHT, _BOTTOM, _TOP, _RIGHT = 270.0, 40.0, 12.0, 16.0  # pixels: the figure, and its margins


@dataclass(frozen=True)
class Part:
    """What a chart shows; `kind` and `style` are classes of the style sheet.

    A "curve" is a line through `points` (round, number). A "level" is one number and a "band" an
    interval, at any round. A "mark" is a vertical line at the round of its only point.
    """

    kind: Literal["curve", "level", "band", "mark"]
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
    """The figure with its legend.

    With `from_zero` the vertical axis starts at zero. It is logarithmic instead if all numbers are
    positive and the largest is more than 30 times the smallest.
    """
    items = [
        tag("li", tag("i", class_=f"{part.kind} {part.style}"), escape(part.label))
        for part in parts
        if part.kind != "mark"
    ]
    key = tag("ul", *items, class_="key") if len(items) > 1 else ""
    figure = draw_both_widths(lambda width: _draw(parts, caption, x_label, width, from_zero))
    return tag("figure", figure, key, tag("figcaption", escape(caption)), class_="chart")


def _draw(parts: Sequence[Part], caption: str, x_label: str, width: int, from_zero: bool) -> Markup:
    curves = [part for part in parts if part.kind == "curve"]
    numbers = [number for part in parts if part.kind != "mark" for _, number in part.points]
    rounds = [place for curve in curves for place, _ in curve.points]
    first, last = min(rounds), max(rounds)
    logarithmic = from_zero and min(numbers) > 0 and max(numbers) / min(numbers) > 30
    ticks, low, high = _scale(numbers, from_zero, logarithmic)
    texts = [f"{tick:g}" for tick in ticks] if logarithmic else tick_texts(ticks)
    left = 16.0 + 7.2 * max(map(len, texts))
    right, foot = width - _RIGHT + 6, _HEIGHT - _BOTTOM

    def x(place: float) -> float:
        fraction = (place - first) / (last - first) if last > first else 0.5
        return left + (width - left - _RIGHT) * fraction

    def y(number: float) -> float:
        if logarithmic:
            fraction = math.log(number / low) / math.log(high / low)
        else:
            fraction = (number - low) / (high - low)
        return foot - (foot - _TOP) * fraction

    def draw(part: Part) -> Markup:
        look = f"{part.kind} {part.style}"
        if part.kind == "band":
            top, bottom = y(part.points[1][1]), y(part.points[0][1])
            size = {"width": right - left, "height": max(bottom - top, 1.0)}
            return tag("rect", class_=look, x=left, y=top, **size)
        if part.kind == "level":
            return tag("path", d=f"M{left:.0f} {y(part.points[0][1]):.1f}H{right:.0f}", class_=look)
        if part.kind == "mark":
            return tag(
                "path", d=f"M{x(part.points[0][0]):.1f} {_TOP:.0f}V{foot:.0f}", class_="mark"
            )
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
    return round_ticks(low, high), low, high
