"""The tree: which clients join at which distance. Its leaves stand in the order of the heat map."""

from __future__ import annotations

from fedwad.report.page._digits import Digits
from fedwad.report.page._figures import both_widths, mark_path, round_ticks
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import escape, shortened, tag, text_width

__all__ = ["tree_figure"]

_HEAD = 26.0
_DENSE = 60  # clients from which rows are set closer


def tree_figure(subject: Subject) -> str:
    """Leaves on the left, the distance to the right."""
    caption = "Two groups join where the mean distance between their members stands."
    if subject.clusters is not None:
        caption += " Clusters are joined within themselves first."
    return tag(
        "figure",
        both_widths(lambda width: _draw(subject, width)),
        tag("figcaption", escape(caption)),
        class_="tree",
    )


def _draw(subject: Subject, width: int) -> str:
    order, branches = subject.tree.order, subject.tree.branches
    pitch, font = (20.0, 12.5) if subject.size <= _DENSE else (12.5, 10.5)
    most = 22 if width > 400 else 15
    texts = [shortened(subject.names[client], most) for client in order]
    left = min(max(text_width(text, font) for text in texts) + 26, 0.45 * width)
    low, high = _limits([branch.height for branch in branches])
    room = width - left - 14

    def across(height: float) -> float:
        return left + room * min(max((height - low) / (high - low), 0.0), 1.0)

    def down(place: float) -> float:
        return _HEAD + pitch * (place + 0.5)

    bottom = down(subject.size - 0.5)
    ticks = round_ticks(low, high, 6 if width > 400 else 4)
    digits = (
        Digits.fitting([*ticks, ticks[-1] - ticks[0]], 2)
        if len(ticks) > 1
        else Digits.fitting(ticks)
    )
    axis = [
        tag("path", d=f"M{across(tick):.1f} {_HEAD:.0f}V{bottom:.0f}")
        + tag("text", escape(digits.text(tick)), x=across(tick), y=_HEAD - 8, text_anchor="middle")
        for tick in ticks
    ]
    lines = [
        tag(
            "path",
            d=f"M{across(branch.heights[0]):.1f} {down(branch.places[0]):.1f}H{across(branch.height):.1f}"
            f"V{down(branch.places[1]):.1f}H{across(branch.heights[1]):.1f}",
            class_=_paint(subject, branch.members),
        )
        for branch in reversed(branches)
    ]
    leaves = []
    for k, client in enumerate(map(int, order)):
        place = {
            "x": left - 18,
            "y": down(k),
            "dy": "0.35em",
            "text_anchor": "end",
            "style": f"font-size:{font}px",
        }
        turn = f"translate({left - 8:.1f} {down(k):.1f}) scale(.7)"
        mark = tag("path", d=mark_path(subject.mark_of(client)), transform=turn)
        text = tag("title", escape(subject.names[client])) + tag("text", escape(texts[k]), **place)
        leaves.append(tag("g", text, mark, class_=subject.paint_of(client)))
    return tag(
        "svg",
        tag("g", *axis, class_="axis"),
        tag("g", *lines, class_="branches"),
        tag("g", *leaves, class_="leaves"),
        viewBox=f"0 0 {width} {bottom + 6:.0f}",
        role="img",
        aria_label=f"Tree of {subject.size} clients, joined by likeness",
    )


def _limits(heights: list[float]) -> tuple[float, float]:
    """The axis begins below the lowest branch, not at zero, where distances differ by little."""
    if not heights or max(heights) <= 0:
        return 0.0, 1.0
    low, high = min(heights), max(heights)
    start = low - 0.35 * (high - low)
    return (start if high > low and start > 0.25 * high else 0.0), high


def _paint(subject: Subject, members: tuple[int, ...]) -> str:
    """The colour of the cluster to which all of a branch belongs."""
    paints = {subject.mark_of(client) for client in members}
    return (
        subject.paint_of(members[0])
        if subject.clusters is not None and len(paints) == 1
        else "plain"
    )
