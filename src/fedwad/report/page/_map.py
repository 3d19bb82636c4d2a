"""The map of sites: near means similar."""

from __future__ import annotations

from fedwad.ot import Floats
from fedwad.report.page._figures import PointMap, draw_both_widths, marker_path
from fedwad.report.page._labels import Label, place_names
from fedwad.report.page._layout import embed_in_plane, median_map_error
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import escape, tag

__all__ = ["site_map"]

_MARGIN = 26.0


def site_map(view: MatrixView) -> str:
    """The figure, a line about the chosen site, and the error of the map."""
    points = embed_in_plane(view.imputed)
    median_error = median_map_error(points, view.imputed)
    readout = tag(
        "p",
        "Point at a site to see its nearest sites.",
        class_="site-readout",
        id="site-readout",
        role="status",
    )
    caption = "Sites that are near each other have similar data."
    if view.size > 2:
        caption += (
            " A thin line connects each site to its nearest. A plane cannot show all distances"
            f" exactly: half of them are drawn within {median_error:.0%} of their value."
        )
    figure = draw_both_widths(lambda width: _draw(view, points, width))
    return tag("figure", figure, readout, tag("figcaption", escape(caption)), class_="map")


def _draw(view: MatrixView, points: Floats, width: int) -> str:
    point_map = PointMap.of(points, width, _MARGIN, 0.34, 0.86)
    dots = point_map.dots
    nearest = sorted({(min(pair), max(pair)) for pair in enumerate(view.nearest.tolist())})
    labels = place_names(view.names, dots, point_map.label_area, nearest)
    lines = "".join(
        tag("path", d=f"M{dots[i, 0]:.1f} {dots[i, 1]:.1f}L{dots[j, 0]:.1f} {dots[j, 1]:.1f}")
        for i, j in nearest
    )
    sites = []
    for site, ((x, y), (text, label)) in enumerate(zip(dots, labels, strict=True)):
        outline, at = marker_path(view.cluster_index(site)), f"translate({x:.1f} {y:.1f})"
        sites.append(
            tag(
                "g",
                tag("title", escape(view.names[site])),
                tag("path", d=outline, transform=at),
                "" if label is None else _name(text, label),
                class_=view.css_class(site),
                data_site=site,
            )
        )
    return tag(
        "svg",
        tag("g", lines, class_="nearest"),
        *sites,
        point_map.scale_bar,
        viewBox=f"0 0 {width} {point_map.height:.0f}",
        tabindex="0",
        role="application",
        aria_roledescription="map",
        aria_label=f"Map of {len(dots)} sites; arrow keys go from one to the next",
    )


def _name(text: str, label: Label) -> str:
    position = {"x": label.x, "y": label.y, "text_anchor": label.anchor}
    return tag("text", escape(text), **position, dy="0.35em")
