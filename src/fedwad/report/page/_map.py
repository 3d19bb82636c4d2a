"""The map of sites: near means similar."""

from __future__ import annotations

from fedwad.ot import Floats
from fedwad.report.page._arrange import map_error, on_a_map
from fedwad.report.page._figures import both_widths, marker_path, round_ticks
from fedwad.report.page._labels import place_labels
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import escape, shortened, tag, text_width

__all__ = ["site_map"]

_MARGIN = 26.0
_FOOT = 30.0  # pixels below the map for its scale
_FONT = 12.5
_MOST_CHARACTERS = 22


def site_map(subject: Subject) -> str:
    """The figure, a line about the chosen site, and the error of the map."""
    points = on_a_map(subject.placed)
    median_error = map_error(points, subject.placed)
    readout = tag(
        "p",
        "Point at a site to see its nearest sites.",
        class_="site-readout",
        id="site-readout",
        role="status",
    )
    caption = (
        "Sites that are near each other have similar data. A thin line connects each site to its"
        " nearest. A plane cannot show all distances exactly: half of them are drawn within"
        f" {median_error:.0%} of their value."
        if subject.size > 2
        else "Sites that are near each other have similar data."
    )
    figure = both_widths(lambda width: _draw(subject, points, width))
    return tag("figure", figure, readout, tag("figcaption", escape(caption)), class_="map")


def _draw(subject: Subject, points: Floats, width: int) -> str:
    dots, scale, height = _fitted(points, width)
    nearest = sorted({(min(pair), max(pair)) for pair in enumerate(subject.nearest.tolist())})
    full = subject.names
    shown = [shortened(text, _MOST_CHARACTERS) for text in full]
    widths = [text_width(text, _FONT) for text in shown]
    labels = place_labels(dots, widths, _FONT + 2, (float(width), height - _FOOT), nearest)
    lines = "".join(
        tag("path", d=f"M{dots[i, 0]:.1f} {dots[i, 1]:.1f}L{dots[j, 0]:.1f} {dots[j, 1]:.1f}")
        for i, j in nearest
    )
    marks = []
    for site, (x, y) in enumerate(dots):
        label = labels[site]
        marker = tag(
            "path",
            d=marker_path(subject.cluster_index(site)),
            transform=f"translate({x:.1f} {y:.1f})",
        )
        text = (
            ""
            if label is None
            else tag(
                "text",
                escape(shown[site]),
                x=label.x,
                y=label.y,
                text_anchor=label.anchor,
                dy="0.35em",
            )
        )
        marks.append(
            tag(
                "g",
                tag("title", escape(full[site])),
                marker,
                text,
                class_=subject.paint_of(site),
                data_site=site,
            )
        )
    return tag(
        "svg",
        tag("g", lines, class_="nearest"),
        *marks,
        _scale_bar(scale, height) if scale else "",
        viewBox=f"0 0 {width} {height:.0f}",
        tabindex="0",
        role="application",
        aria_roledescription="map",
        aria_label=f"Map of {len(dots)} sites; arrow keys go from one to the next",
    )


def _fitted(points: Floats, width: int) -> tuple[Floats, float, float]:
    """Pixels for the points, pixels for a unit of distance (0 when all are in one place), and the
    height."""
    low, high = points.min(axis=0), points.max(axis=0)
    extents = high - low
    room_x = width - 2 * _MARGIN
    room_y = min(
        max(room_x * extents[1] / extents[0] if extents[0] else 0.0, 0.34 * width), 0.86 * width
    )
    scale = min(
        (
            room / extent
            for room, extent in zip((room_x, room_y), extents, strict=True)
            if extent > 0
        ),
        default=0.0,
    )
    dots = (points - (low + high) / 2) * [scale, -scale] + [width / 2, _MARGIN + room_y / 2]
    return dots, float(scale), float(room_y + 2 * _MARGIN + _FOOT)


def _scale_bar(scale: float, height: float) -> str:
    """A round distance as a line of its length, as on any map."""
    length = round_ticks(0.0, 130 / scale, 3)[1]
    text = f"{length:g}"
    line = f"M{_MARGIN:.0f} {height - 14:.0f}v5h{length * scale:.1f}v-5"
    return tag(
        "g",
        tag("path", d=line),
        tag("text", escape(text), x=_MARGIN + length * scale + 8, y=height - 8),
        class_="scale",
    )
