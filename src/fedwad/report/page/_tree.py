"""The dendrogram: which sites join at which distance, in the order of the heat map."""

from __future__ import annotations

from dataclasses import dataclass

from fedwad.report.page._digits import Digits
from fedwad.report.page._figures import both_widths, marker_path, round_ticks
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import escape, shortened, tag, text_width

__all__ = ["tree_figure"]

_AXIS_HEIGHT = 26.0  # pixels above the first row, for the numbers of the axis
_DENSE = 60  # with more sites than this, rows are set closer


def tree_figure(subject: Subject) -> str:
    """The dendrogram with its caption: sites on the left, distances increasing to the right."""
    caption = "Two groups join at the mean distance between their members."
    if subject.clusters is not None:
        caption += " Members of a cluster join first."
    return tag(
        "figure",
        both_widths(lambda width: _draw(subject, width)),
        tag("figcaption", escape(caption)),
        class_="tree",
    )


@dataclass(frozen=True)
class _Layout:
    """Where things are drawn, in pixels: one row for each site, distances from left to right.

    The axis begins `left` pixels from the left edge. It shows the distances from `low` to `high`.
    """

    width: int
    left: float
    row_height: float
    low: float
    high: float

    def x(self, distance: float) -> float:
        fraction = (distance - self.low) / (self.high - self.low)
        return self.left + (self.width - self.left - 14) * min(max(fraction, 0.0), 1.0)

    def y(self, row: float) -> float:
        """The middle of a row; between two rows if `row` is not whole."""
        return _AXIS_HEIGHT + self.row_height * (row + 0.5)


def _draw(subject: Subject, width: int) -> str:
    row_height, font_size = (20.0, 12.5) if subject.size <= _DENSE else (12.5, 10.5)
    max_length = 22 if width > 400 else 15
    texts = [shortened(subject.names[site], max_length) for site in subject.tree.order]
    left = min(max(text_width(text, font_size) for text in texts) + 26, 0.45 * width)
    low, high = _limits([branch.height for branch in subject.tree.branches])
    layout = _Layout(width, left, row_height, low, high)
    bottom = layout.y(subject.size - 0.5)
    return tag(
        "svg",
        tag("g", *_axis(layout, bottom), class_="axis"),
        tag("g", *_branches(subject, layout), class_="branches"),
        tag("g", *_leaves(subject, layout, texts, font_size), class_="leaves"),
        viewBox=f"0 0 {width} {bottom + 6:.0f}",
        role="img",
        aria_label=f"Tree of {subject.size} sites, joined by similarity",
    )


def _axis(layout: _Layout, bottom: float) -> list[str]:
    ticks = round_ticks(layout.low, layout.high, 6 if layout.width > 400 else 4)
    if len(ticks) > 1:
        digits = Digits.fitting([*ticks, ticks[-1] - ticks[0]], 2)
    else:
        digits = Digits.fitting(ticks)
    return [
        tag("path", d=f"M{layout.x(tick):.1f} {_AXIS_HEIGHT:.0f}V{bottom:.0f}")
        + tag(
            "text",
            escape(digits.text(tick)),
            x=layout.x(tick),
            y=_AXIS_HEIGHT - 8,
            text_anchor="middle",
        )
        for tick in ticks
    ]


def _branches(subject: Subject, layout: _Layout) -> list[str]:
    """A bracket for each join of two groups, the largest distance first."""
    brackets = []
    for branch in reversed(subject.tree.branches):
        (x, x2), (y, y2) = map(layout.x, branch.heights), map(layout.y, branch.places)
        path = f"M{x:.1f} {y:.1f}H{layout.x(branch.height):.1f}V{y2:.1f}H{x2:.1f}"
        brackets.append(tag("path", d=path, class_=_colour_class(subject, branch.members)))
    return brackets


def _leaves(subject: Subject, layout: _Layout, texts: list[str], font_size: float) -> list[str]:
    """The name of each site, and a marker in the shape and colour of its cluster."""
    leaves = []
    for row, site in enumerate(map(int, subject.tree.order)):
        y = layout.y(row)
        transform = f"translate({layout.left - 8:.1f} {y:.1f}) scale(.7)"
        marker = tag("path", d=marker_path(subject.cluster_index(site)), transform=transform)
        text = tag(
            "text",
            escape(texts[row]),
            x=layout.left - 18,
            y=y,
            dy="0.35em",
            text_anchor="end",
            style=f"font-size:{font_size}px",
        )
        title = tag("title", escape(subject.names[site]))
        leaves.append(tag("g", title, text, marker, class_=subject.paint_of(site)))
    return leaves


def _limits(heights: list[float]) -> tuple[float, float]:
    """First and last distance of the axis.

    It starts at zero, or a little below the smallest join if the distances differ little.
    """
    if not heights or max(heights) <= 0:
        return 0.0, 1.0
    low, high = min(heights), max(heights)
    start = low - 0.35 * (high - low)
    return (start if high > low and start > 0.25 * high else 0.0), high


def _colour_class(subject: Subject, members: tuple[int, ...]) -> str:
    """The CSS class with the colour of a cluster if all members belong to it, else "plain"."""
    clusters = {subject.cluster_index(site) for site in members}
    return (
        subject.paint_of(members[0])
        if subject.clusters is not None and len(clusters) == 1
        else "plain"
    )
