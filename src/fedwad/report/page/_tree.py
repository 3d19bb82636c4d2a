"""The dendrogram: which sites join at which distance, in the order of the heat map."""

from __future__ import annotations

from dataclasses import dataclass

from fedwad.report.page._digits import Digits
from fedwad.report.page._figures import both_widths, marker_path, round_ticks
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import escape, shortened, tag, text_width

__all__ = ["tree_figure"]

_HEAD = 26.0
_DENSE = 60  # sites from which rows are set closer


def tree_figure(subject: Subject) -> str:
    """Leaves on the left, the distance to the right."""
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
    """Pixels of the dendrogram: leaves down, distances across."""

    width: int
    left: float
    pitch: float
    low: float
    high: float

    def across(self, height: float) -> float:
        share = (height - self.low) / (self.high - self.low)
        return self.left + (self.width - self.left - 14) * min(max(share, 0.0), 1.0)

    def down(self, place: float) -> float:
        return _HEAD + self.pitch * (place + 0.5)


def _draw(subject: Subject, width: int) -> str:
    pitch, font = (20.0, 12.5) if subject.size <= _DENSE else (12.5, 10.5)
    max_length = 22 if width > 400 else 15
    texts = [shortened(subject.names[site], max_length) for site in subject.tree.order]
    left = min(max(text_width(text, font) for text in texts) + 26, 0.45 * width)
    low, high = _limits([branch.height for branch in subject.tree.branches])
    layout = _Layout(width, left, pitch, low, high)
    bottom = layout.down(subject.size - 0.5)
    return tag(
        "svg",
        tag("g", *_axis(layout, bottom), class_="axis"),
        tag("g", *_lines(subject, layout), class_="branches"),
        tag("g", *_leaves(subject, layout, texts, font), class_="leaves"),
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
        tag("path", d=f"M{layout.across(tick):.1f} {_HEAD:.0f}V{bottom:.0f}")
        + tag(
            "text",
            escape(digits.text(tick)),
            x=layout.across(tick),
            y=_HEAD - 8,
            text_anchor="middle",
        )
        for tick in ticks
    ]


def _lines(subject: Subject, layout: _Layout) -> list[str]:
    """The branches, the highest first."""
    lines = []
    for branch in reversed(subject.tree.branches):
        (x, x2), (y, y2) = map(layout.across, branch.heights), map(layout.down, branch.places)
        path = f"M{x:.1f} {y:.1f}H{layout.across(branch.height):.1f}V{y2:.1f}H{x2:.1f}"
        lines.append(tag("path", d=path, class_=_paint(subject, branch.members)))
    return lines


def _leaves(subject: Subject, layout: _Layout, texts: list[str], font: float) -> list[str]:
    """Names and marks of the sites."""
    leaves = []
    for k, site in enumerate(map(int, subject.tree.order)):
        y = layout.down(k)
        turn = f"translate({layout.left - 8:.1f} {y:.1f}) scale(.7)"
        marker = tag("path", d=marker_path(subject.cluster_index(site)), transform=turn)
        text = tag(
            "text",
            escape(texts[k]),
            x=layout.left - 18,
            y=y,
            dy="0.35em",
            text_anchor="end",
            style=f"font-size:{font}px",
        )
        title = tag("title", escape(subject.names[site]))
        leaves.append(tag("g", title, text, marker, class_=subject.paint_of(site)))
    return leaves


def _limits(heights: list[float]) -> tuple[float, float]:
    """The axis starts at zero, or just below the lowest branch if distances differ little."""
    if not heights or max(heights) <= 0:
        return 0.0, 1.0
    low, high = min(heights), max(heights)
    start = low - 0.35 * (high - low)
    return (start if high > low and start > 0.25 * high else 0.0), high


def _paint(subject: Subject, members: tuple[int, ...]) -> str:
    """The colour of the cluster to which all of a branch belongs."""
    paints = {subject.cluster_index(site) for site in members}
    return (
        subject.paint_of(members[0])
        if subject.clusters is not None and len(paints) == 1
        else "plain"
    )
