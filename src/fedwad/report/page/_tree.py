"""The dendrogram: which sites join at which distance, in the order of the heat map."""

from __future__ import annotations

from dataclasses import dataclass

from fedwad.report.page._figures import (
    FONT_SIZE,
    HorizontalAxis,
    draw_both_widths,
    label_column,
    marker_path,
)
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import escape, tag

__all__ = ["tree_figure"]

_AXIS_HEIGHT = 26.0  # pixels above the first row, for the numbers of the axis
_DENSE = 60  # with more sites than this, rows are set closer


def tree_figure(view: MatrixView) -> str:
    """The dendrogram with its caption: sites on the left, distances increasing to the right."""
    caption = "Two groups join at the mean distance between their members."
    if view.clusters is not None:
        caption += " Members of a cluster join first."
    return tag(
        "figure",
        draw_both_widths(lambda width: _draw(view, width)),
        tag("figcaption", escape(caption)),
        class_="tree",
    )


@dataclass(frozen=True)
class _Layout:
    """One row for each site, and distances along an axis from left to right."""

    axis: HorizontalAxis
    row_height: float
    font_size: float

    def y(self, row: float) -> float:
        """The middle of a row in pixels; between two rows if `row` is not whole."""
        return _AXIS_HEIGHT + self.row_height * (row + 0.5)


def _draw(view: MatrixView, width: int) -> str:
    row_height, font_size = (20.0, FONT_SIZE) if view.size <= _DENSE else (12.5, 10.5)
    names = [view.names[site] for site in view.tree.order]
    texts, left = label_column(names, width, 26, font_size)
    low, high = _limits([branch.height for branch in view.tree.branches])
    layout = _Layout(HorizontalAxis(left, width - left - 14, low, high), row_height, font_size)
    bottom = layout.y(view.size - 0.5)
    return tag(
        "svg",
        layout.axis.grid(_AXIS_HEIGHT, bottom, 6 if width > 400 else 4),
        tag("g", *_branches(view, layout), class_="branches"),
        tag("g", *_leaves(view, layout, texts), class_="leaves"),
        viewBox=f"0 0 {width} {bottom + 6:.0f}",
        role="img",
        aria_label=f"Tree of {view.size} sites, joined by similarity",
    )


def _branches(view: MatrixView, layout: _Layout) -> list[str]:
    """A bracket for each join of two groups, the last join first."""
    brackets = []
    for branch in reversed(view.tree.branches):
        (x, x2), (y, y2) = map(layout.axis.x, branch.heights), map(layout.y, branch.positions)
        path = f"M{x:.1f} {y:.1f}H{layout.axis.x(branch.height):.1f}V{y2:.1f}H{x2:.1f}"
        brackets.append(tag("path", d=path, class_=_colour_class(view, branch.members)))
    return brackets


def _leaves(view: MatrixView, layout: _Layout, texts: list[str]) -> list[str]:
    """The name of each site, and a marker in the shape and colour of its cluster."""
    leaves, left = [], layout.axis.left
    for row, site in enumerate(map(int, view.tree.order)):
        y = layout.y(row)
        transform = f"translate({left - 8:.1f} {y:.1f}) scale(.7)"
        marker = tag("path", d=marker_path(view.cluster_index(site)), transform=transform)
        text = tag(
            "text",
            escape(texts[row]),
            x=left - 18,
            y=y,
            dy="0.35em",
            text_anchor="end",
            style=f"font-size:{layout.font_size}px",
        )
        title = tag("title", escape(view.names[site]))
        leaves.append(tag("g", title, text, marker, class_=view.css_class(site)))
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


def _colour_class(view: MatrixView, members: tuple[int, ...]) -> str:
    """The CSS class of a cluster if all members belong to it, else "plain"."""
    clusters = {view.cluster_index(site) for site in members}
    return view.css_class(members[0]) if len(clusters) == 1 else "plain"
