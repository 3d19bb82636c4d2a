"""Charts over rounds, or whatever else is counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedwad.report.page._digits import Digits
from fedwad.report.page._figures import both_widths, round_ticks
from fedwad.report.page._text import escape, tag

__all__ = ["Band", "Curve", "Level", "Mark", "Part", "chart"]


@dataclass(frozen=True)
class Curve:
    """A line through (round, number); the style is a class of the style sheet."""

    label: str
    points: Sequence[tuple[int, float]]
    style: str


@dataclass(frozen=True)
class Level:
    """A number that does not change over the rounds."""

    label: str
    height: float
    style: str


@dataclass(frozen=True)
class Band:
    """An interval that does not change over the rounds."""

    label: str
    low: float
    high: float
    style: str


@dataclass(frozen=True)
class Mark:
    """A place between two rounds."""

    place: float


Part = Curve | Level | Band | Mark

_HEIGHT, _BOTTOM, _TOP, _RIGHT = 270.0, 40.0, 12.0, 16.0


def chart(
    parts: Sequence[Part], caption: str, counted: str = "round", *, zero: bool = False
) -> str:
    """The figure with its key; the axis begins at zero on demand, and is logarithmic where the
    range asks for it."""
    named = [part for part in parts if not isinstance(part, Mark)]
    items = [
        tag(
            "li", tag("i", class_=f"{type(part).__name__.lower()} {part.style}"), escape(part.label)
        )
        for part in named
    ]
    key = tag("ul", *items, class_="key") if len(items) > 1 else ""
    figure = both_widths(lambda width: _draw(parts, caption, counted, width, zero))
    return tag("figure", figure, key, tag("figcaption", escape(caption)), class_="chart")


def _draw(parts: Sequence[Part], caption: str, counted: str, width: int, zero: bool) -> str:
    curves = [part for part in parts if isinstance(part, Curve)]
    numbers = [y for curve in curves for _, y in curve.points]
    numbers += [part.height for part in parts if isinstance(part, Level)]
    numbers += [end for part in parts if isinstance(part, Band) for end in (part.low, part.high)]
    rounds = [x for curve in curves for x, _ in curve.points]
    first, last = min(rounds), max(rounds)
    logarithmic = zero and min(numbers) > 0 and max(numbers) / min(numbers) > 30
    ticks, low, high = _scale(numbers, zero, logarithmic)
    digits = Digits.fitting([*ticks, ticks[-1] - ticks[0]], 2)
    texts = [f"{tick:g}" for tick in ticks] if logarithmic else digits.texts(ticks)
    left = 16.0 + 7.2 * max(map(len, texts))

    def across(number: float) -> float:
        return left + (width - left - _RIGHT) * (
            (number - first) / (last - first) if last > first else 0.5
        )

    def up(number: float) -> float:
        share = (
            math.log(number / low) / math.log(high / low)
            if logarithmic
            else (number - low) / (high - low)
        )
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * share

    axis = [
        tag("path", d=f"M{left:.0f} {up(tick):.1f}H{width - _RIGHT + 6:.0f}")
        + tag("text", escape(text), x=left - 8, y=up(tick), dy="0.35em", text_anchor="end")
        for tick, text in zip(ticks, texts, strict=True)
    ]
    steps = [
        tick for tick in round_ticks(first, last, 8 if width > 400 else 5) if tick == int(tick)
    ]
    axis += [
        tag("text", str(int(step)), x=across(step), y=_HEIGHT - _BOTTOM + 20, text_anchor="middle")
        for step in steps
    ]
    axis.append(
        tag(
            "text",
            escape(counted),
            x=(left + width - _RIGHT) / 2,
            y=_HEIGHT - 4,
            text_anchor="middle",
        )
    )
    drawn = []
    for part in sorted(parts, key=lambda part: not isinstance(part, Band)):
        if isinstance(part, Band):
            top, foot = up(part.high), up(part.low)
            box = {
                "x": left,
                "y": top,
                "width": width - left - _RIGHT + 6,
                "height": max(foot - top, 1.0),
            }
            drawn.append(tag("rect", class_=f"band {part.style}", **box))
        elif isinstance(part, Mark):
            drawn.append(
                tag(
                    "path",
                    d=f"M{across(part.place):.1f} {_TOP:.0f}V{_HEIGHT - _BOTTOM:.0f}",
                    class_="mark",
                )
            )
        elif isinstance(part, Level):
            line = f"M{left:.0f} {up(part.height):.1f}H{width - _RIGHT + 6:.0f}"
            drawn.append(tag("path", d=line, class_=f"level {part.style}"))
        else:
            path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in part.points)
            drawn.append(tag("path", d=f"M{path}", class_=f"curve {part.style}"))
            if len(part.points) <= 40:
                dots = "".join(f"M{across(x):.1f} {up(y):.1f}h0" for x, y in part.points)
                drawn.append(tag("path", d=dots, class_=f"dots {part.style}"))
    said = "; ".join(
        f"{curve.label} from {curve.points[0][1]:.3g} to {curve.points[-1][1]:.3g}"
        for curve in curves
    )
    return tag(
        "svg",
        tag("g", *axis, class_="axis"),
        *drawn,
        viewBox=f"0 0 {width} {_HEIGHT:.0f}",
        role="img",
        aria_label=f"{caption} {said}",
    )


def _scale(numbers: list[float], zero: bool, logarithmic: bool) -> tuple[list[float], float, float]:
    """Ticks, and the ends of the axis."""
    low, high = min(numbers), max(numbers)
    if logarithmic:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        every = max(1, round((last - first) / 5))
        return [10.0**k for k in range(first, last + 1, every)], 10.0**first, 10.0**last
    if zero:
        low = min(low, 0.0)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - (0 if zero and low == 0 else margin), high + margin
    ticks = round_ticks(low, high)
    return ticks, low, high
