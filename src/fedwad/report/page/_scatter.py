"""Points as dots on two axes, for coresets that are not images."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedwad._coreset.result import CoresetResult
from fedwad._words import pluralize
from fedwad.ot import Floats
from fedwad.report.flat import feature_names, flattened
from fedwad.report.page._figures import both_widths, round_ticks
from fedwad.report.page._pairs import table
from fedwad.report.page._text import escape, shortened, tag

__all__ = ["COLOURS", "points_table", "scatter"]

COLOURS = ("var(--ours)", "var(--paper-line)", "var(--soft)", "var(--ink)")
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 30.0, 46.0
_MOST_POINTS, _MOST_FEATURES, _MOST_CHARACTERS = 50, 30, 24


def scatter(coresets: Mapping[str, CoresetResult]) -> str:
    """All points on the same two axes with equal scales; heavier points are larger."""
    flat, axes = flattened(coresets)
    features = next(iter(coresets.values())).points.shape[1]
    where = (
        f"in the two principal directions of their {features} features"
        if features > 2
        else "as they are"
    )
    caption = f"The points {where}. Both axes have the same scale, in the units of the data."
    drawn = both_widths(lambda width: _draw(coresets, flat, axes, width, caption))
    dot = "border-radius:50%;width:.7em;height:.7em"
    items = [
        tag("li", tag("i", style=f"background:{COLOURS[k % len(COLOURS)]};{dot}"), escape(name))
        for k, name in enumerate(coresets)
    ]
    key = tag("ul", *items, class_="key") if len(items) > 1 else ""
    return tag("figure", drawn, key, tag("figcaption", escape(caption)), style="max-width:44rem")


def _draw(
    coresets: Mapping[str, CoresetResult],
    flat: Mapping[str, Floats],
    axes: tuple[str, str],
    width: int,
    caption: str,
) -> str:
    places = np.concatenate(list(flat.values()))
    low, high = places.min(axis=0), places.max(axis=0)
    extents = high - low
    plot_width = width - _LEFT - _RIGHT
    plot_height = min(
        max(plot_width * extents[1] / extents[0] if extents[0] else 0.0, 0.3 * width), 0.7 * width
    )
    scale = 0.92 * min(
        (
            room / one
            for room, one in zip((plot_width, plot_height), extents, strict=True)
            if one > 0
        ),
        default=1.0,
    )
    corner = (low + high) / 2 - np.array([plot_width, plot_height]) / (
        2 * scale
    )  # what is drawn at the lower left

    def x(number: float) -> float:
        return float(_LEFT + (number - corner[0]) * scale)

    def y(number: float) -> float:
        return float(_TOP + plot_height - (number - corner[1]) * scale)

    bottom = _TOP + plot_height
    lines = [tag("path", d=f"M{_LEFT:.0f} {_TOP:.0f}V{bottom:.1f}H{width - _RIGHT:.0f}")]
    for tick in round_ticks(
        float(corner[0]), float(corner[0] + plot_width / scale), 6 if width > 400 else 4
    ):
        lines.append(tag("path", d=f"M{x(tick):.1f} {bottom:.1f}v5"))
        lines.append(tag("text", f"{tick:.6g}", x=x(tick), y=bottom + 19, text_anchor="middle"))
    for tick in (
        round_ticks(float(corner[1]), float(corner[1] + plot_height / scale), 5) if axes[1] else ()
    ):
        lines.append(tag("path", d=f"M{_LEFT:.0f} {y(tick):.1f}h-5"))
        lines.append(
            tag("text", f"{tick:.6g}", x=_LEFT - 9, y=y(tick), dy="0.35em", text_anchor="end")
        )
    characters = int(width / 6.5)
    lines.append(
        tag(
            "text",
            escape(shortened(axes[0], characters)),
            x=width - _RIGHT,
            y=bottom + 40,
            text_anchor="end",
        )
    )
    lines.append(tag("text", escape(shortened(axes[1], characters)), x=0.0, y=14.0))
    dots = []
    for number, (name, one) in enumerate(coresets.items()):
        style = f"fill:{COLOURS[number % len(COLOURS)]};fill-opacity:.75"
        for place, weight in zip(flat[name], one.weights, strict=True):
            radius = 5.0 * math.sqrt(float(weight) * len(one))
            dots.append(tag("circle", cx=x(place[0]), cy=y(place[1]), r=radius, style=style))
    return tag(
        "svg",
        tag("g", *lines, class_="axis"),
        *dots,
        viewBox=f"0 0 {width} {bottom + _BOTTOM:.0f}",
        role="img",
        aria_label=caption,
    )


def points_table(result: CoresetResult) -> str:
    """The points in numbers, the heaviest first; empty if the table would be too large to read."""
    names = feature_names(result)
    if len(result) > _MOST_POINTS or len(names) > _MOST_FEATURES:
        return ""
    order = np.argsort(-result.weights, kind="stable")
    rows = [
        [str(k + 1), f"{result.weights[k]:.1%}", *(f"{number:.4g}" for number in result.points[k])]
        for k in order.tolist()
    ]
    head = ["point", "weight", *(shortened(name, _MOST_CHARACTERS) for name in names)]
    caption = f"{pluralize(len(result), 'point')}, the heaviest first"
    return tag("div", table(head, rows, caption), class_="scroller")
