"""The map of sites, where near means similar, and the tree in which they join."""

from __future__ import annotations

from markupsafe import Markup

from fedwad.report.page._figures import (
    FONT_SIZE,
    HorizontalAxis,
    PointMap,
    draw_both_widths,
    marker,
)
from fedwad.report.page._matrix_view import MatrixView, embed_in_plane, median_map_error
from fedwad.report.page._text import drawing, escape, shorten, tag, text_width
from fedwad.transport import Floats


def site_map(view: MatrixView) -> Markup:
    """The figure, a line about the chosen site, and the error of the map."""
    points = embed_in_plane(view.distances)
    hint = "Point at a site to see its nearest sites."
    readout = tag("p", hint, class_="site-readout", id="site-readout", role="status")
    what = "samples" if view.distances is view.matrix.value else "populations"
    caption = (
        f"Near means similar: estimates of the distances between {what}, with or without evidence"
        " of a difference."
    )
    if view.size > 2:
        error = median_map_error(points, view.distances)
        caption += (
            " A thin line connects each site to its nearest. A plane cannot show all distances"
            f" exactly: half of them are drawn within {error:.0%} of their value."
        )
    figure = draw_both_widths(lambda width: _draw_map(view, points, width))
    return tag("figure", figure, readout, tag("figcaption", escape(caption)), class_="map")


def _draw_map(view: MatrixView, points: Floats, width: int) -> Markup:
    point_map = PointMap.of(points, width, 26.0, 0.34, 0.86)
    dots = point_map.dots
    lines = [
        tag("path", d=f"M{dots[i, 0]:.1f} {dots[i, 1]:.1f}L{dots[j, 0]:.1f} {dots[j, 1]:.1f}")
        for i, j in sorted({(min(pair), max(pair)) for pair in enumerate(view.nearest.tolist())})
    ]
    sites = [
        tag(
            "g",
            tag("title", escape(f"{view.names[site]} {view.rows_text(site)}".rstrip())),
            marker(view.cluster_index(site), transform=f"translate({x:.1f} {y:.1f})"),
            name,
            class_=view.css_class(site),
            data_site=site,
        )
        for site, ((x, y), name) in enumerate(zip(dots, point_map.names(view.names), strict=True))
    ]
    return tag(
        "svg",
        tag("g", *lines, class_="nearest"),
        *sites,
        point_map.scale_bar,
        viewBox=f"0 0 {width} {point_map.height:.0f}",
        tabindex="0",
        role="application",
        aria_roledescription="map",
        aria_label=f"Map of {len(dots)} sites; arrow keys go from one to the next",
    )


def tree_figure(view: MatrixView) -> Markup:
    """The dendrogram with its caption: sites on the left, distances increasing to the right."""
    caption = "Two groups join at the mean distance between their members."
    if view.clusters is not None:
        caption += " Members of a cluster join first."
    figure = draw_both_widths(lambda width: _draw_tree(view, width))
    return tag("figure", figure, tag("figcaption", escape(caption)), class_="tree")


def _draw_tree(view: MatrixView, width: int, top: float = 26.0) -> Markup:
    """The tree, `top` pixels below the numbers of its axis."""
    # Many rows are set closer.
    row_height, font_size = (20.0, FONT_SIZE) if view.size <= 60 else (12.5, 10.5)
    order = view.tree.order.tolist()
    texts = [shorten(view.names[site], 22 if width > 400 else 15) for site in order]
    left = min(max(text_width(text, font_size) for text in texts) + 26, 0.45 * width)
    highest = max((one.height for one in view.tree.branches), default=0.0) or 1.0
    axis = HorizontalAxis(left, width - left - 14, 0.0, highest)
    brackets, leaves = [], []
    for branch in reversed(view.tree.branches):  # the last join first
        (x, x2), positions = map(axis.x, branch.heights), branch.positions
        y, y2 = (top + row_height * (row + 0.5) for row in positions)
        path = f"M{x:.1f} {y:.1f}H{axis.x(branch.height):.1f}V{y2:.1f}H{x2:.1f}"
        classes = {view.css_class(site) for site in branch.members}
        one_cluster = len({view.cluster_index(site) for site in branch.members}) == 1
        brackets.append(tag("path", d=path, class_=classes.pop() if one_cluster else "plain"))
    for row, (site, text) in enumerate(zip(order, texts, strict=True)):
        y = top + row_height * (row + 0.5)
        at = {"x": left - 18, "y": y, "dy": "0.35em", "text_anchor": "end"}
        name = tag("text", escape(text), **at, style=f"font-size:{font_size}px")
        place = f"translate({left - 8:.1f} {y:.1f}) scale(.7)"
        shape = marker(view.cluster_index(site), transform=place)
        title = tag("title", escape(view.names[site]))
        leaves.append(tag("g", title, name, shape, class_=view.css_class(site)))
    bottom = top + row_height * view.size
    return drawing(
        width,
        bottom + 6,
        f"Tree of {view.size} sites, joined by similarity",
        axis.grid(top, bottom, 6 if width > 400 else 4),
        tag("g", *brackets, class_="branches"),
        tag("g", *leaves, class_="leaves"),
    )
