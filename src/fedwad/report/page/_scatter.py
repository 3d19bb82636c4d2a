"""Points as dots on two axes, for coresets that are not images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedwad._coreset.result import CoresetResult
from fedwad._words import pluralize
from fedwad.ot import Floats
from fedwad.report.coresets import feature_names, project_to_plane
from fedwad.report.page._elements import scrolling, table
from fedwad.report.page._figures import draw_both_widths, round_ticks, scale_to_fit
from fedwad.report.page._text import escape, shorten, tag

__all__ = ["points_table", "scatter"]

_COLOURS = ("var(--ours)", "var(--paper-line)", "var(--soft)", "var(--ink)")
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 30.0, 46.0  # margins in pixels
_MAX_POINTS, _MAX_FEATURES, _MAX_CHARACTERS = 50, 30, 24  # of the table of points


def scatter(coresets: Mapping[str, CoresetResult]) -> str:
    """All points on the same two axes with equal scales; heavier points are larger."""
    coordinates, names = project_to_plane(coresets)
    features = next(iter(coresets.values())).points.shape[1]
    where = (
        f"in the two principal directions of their {features} features"
        if features > 2
        else "as they are"
    )
    caption = f"The points {where}. Both axes have the same scale, in the units of the data."
    drawn = draw_both_widths(lambda width: _draw(coresets, coordinates, names, width, caption))
    dot = "border-radius:50%;width:.7em;height:.7em"
    items = [
        tag("li", tag("i", style=f"background:{_COLOURS[k % len(_COLOURS)]};{dot}"), escape(name))
        for k, name in enumerate(coresets)
    ]
    key = tag("ul", *items, class_="key") if len(items) > 1 else ""
    return tag("figure", drawn, key, tag("figcaption", escape(caption)), style="max-width:44rem")


def _draw(
    coresets: Mapping[str, CoresetResult],
    coordinates: Mapping[str, Floats],
    names: tuple[str, str],
    width: int,
    caption: str,
) -> str:
    points = np.concatenate(list(coordinates.values()))
    low, high = points.min(axis=0), points.max(axis=0)
    plot_width = width - _LEFT - _RIGHT
    fitting, plot_height = scale_to_fit(high - low, plot_width, 0.3 * width, 0.7 * width)
    scale = 0.92 * (fitting or 1.0)
    corner = (low + high) / 2 - np.array([plot_width, plot_height]) / (2 * scale)
    axes = _Axes(width, _TOP + plot_height, scale, float(corner[0]), float(corner[1]))
    dots = []
    for number, (name, coreset) in enumerate(coresets.items()):
        style = f"fill:{_COLOURS[number % len(_COLOURS)]};fill-opacity:.75"
        for point, weight in zip(coordinates[name], coreset.weights, strict=True):
            radius = 5.0 * math.sqrt(float(weight) * len(coreset))
            x, y = axes.x(point[0]), axes.y(point[1])
            dots.append(tag("circle", cx=x, cy=y, r=radius, style=style))
    return tag(
        "svg",
        tag("g", *axes.draw(names), class_="axis"),
        *dots,
        viewBox=f"0 0 {width} {axes.bottom + _BOTTOM:.0f}",
        role="img",
        aria_label=caption,
    )


@dataclass(frozen=True)
class _Axes:
    """Two axes with `scale` pixels for a unit; they start at the numbers `first_x`, `first_y`."""

    width: int
    bottom: float
    scale: float
    first_x: float
    first_y: float

    def x(self, number: float) -> float:
        return float(_LEFT + (number - self.first_x) * self.scale)

    def y(self, number: float) -> float:
        return float(self.bottom - (number - self.first_y) * self.scale)

    def draw(self, names: tuple[str, str]) -> list[str]:
        """Lines, ticks and names; an axis without a name has no ticks."""
        bottom, right = self.bottom, self.width - _RIGHT
        last_x = self.first_x + (right - _LEFT) / self.scale
        last_y = self.first_y + (bottom - _TOP) / self.scale
        parts = [tag("path", d=f"M{_LEFT:.0f} {_TOP:.0f}V{bottom:.1f}H{right:.0f}")]
        for tick in round_ticks(self.first_x, last_x, 6 if self.width > 400 else 4):
            x = self.x(tick)
            parts.append(tag("path", d=f"M{x:.1f} {bottom:.1f}v5"))
            parts.append(tag("text", f"{tick:.6g}", x=x, y=bottom + 19, text_anchor="middle"))
        for tick in round_ticks(self.first_y, last_y, 5) if names[1] else ():
            y = self.y(tick)
            parts.append(tag("path", d=f"M{_LEFT:.0f} {y:.1f}h-5"))
            text = f"{tick:.6g}"
            parts.append(tag("text", text, x=_LEFT - 9, y=y, dy="0.35em", text_anchor="end"))
        across, up = (escape(shorten(name, int(self.width / 6.5))) for name in names)
        parts.append(tag("text", across, x=right, y=bottom + 40, text_anchor="end"))
        return [*parts, tag("text", up, x=0.0, y=14.0)]


def points_table(result: CoresetResult) -> str:
    """The points in numbers, the heaviest first; empty if the table would be too large to read."""
    names = feature_names(result)
    if len(result) > _MAX_POINTS or len(names) > _MAX_FEATURES:
        return ""
    order = np.argsort(-result.weights, kind="stable")
    rows = [
        [str(k + 1), f"{result.weights[k]:.1%}", *(f"{number:.4g}" for number in result.points[k])]
        for k in order.tolist()
    ]
    head = ["point", "weight", *(shorten(name, _MAX_CHARACTERS) for name in names)]
    caption = f"{pluralize(len(result), 'point')}, the heaviest first"
    return scrolling(table(head, rows, caption))
