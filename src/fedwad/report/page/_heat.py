"""The heat map: every pair of sites as a cell, dark if the sites are similar.

The cells are drawn here, one path for each shade, and need no script. The script adds the choice of
a cell. The style sheet sets the size and the position of names, so one drawing serves every screen.
"""

from __future__ import annotations

import math

import numpy as np

from fedwad.ot import Floats
from fedwad.report.page._colour import shade_index
from fedwad.report.page._digits import outward_rounding
from fedwad.report.page._figures import marker_path
from fedwad.report.page._layout import Ints
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._readout import readout, readout_lines, verdicts
from fedwad.report.page._text import escape, escape_name, tag

__all__ = ["heat_data", "heat_map"]

_MAX_NAMED = 80  # sites up to which every row and column has a name
_MAX_NUMBERED_ON_PHONE = 5  # sites up to which numbers fit into the cells on a phone
_MAX_NUMBERED = 14  # sites up to which every cell shows its number
_MAX_SPACED = 40  # sites up to which there is a gap between cells
_MAX_BESIDE = 26  # sites up to which the readout is beside the map, not above it


def heat_map(view: MatrixView) -> str:
    """The figure: the chosen pair, a ruler of colours, and the cells with their names."""
    size = view.size
    layout = "beside" if size <= _MAX_BESIDE else "above"
    names = "named" if size <= _MAX_NAMED else "unnamed"
    characters = min(max(len(text) for text in view.names), 24)
    return tag(
        "figure",
        readout(view),
        _plot(view),
        tag("div", *_arrow_buttons(), class_="steps"),
        class_=f"heat {layout} {names}" + (" few" if size <= _MAX_NUMBERED_ON_PHONE else ""),
        id="heat",
        style=f"--n:{size};--characters:{characters}",
    )


def heat_data(view: MatrixView) -> dict[str, object]:
    """The numbers for the script: for each pair i < j, integers in units of the last digit.

    "sure" is the word for the intervals, and "span" the range of the axis.
    """
    digits, pairs = view.digits, view.pairs
    (low, high), (down, up) = view.bounds, outward_rounding(not view.shows_populations)
    position = {int(site): index for index, site in enumerate(view.tree.order)}
    return {
        "names": list(view.names),
        "order": view.tree.order.tolist(),
        "start": [position[site] for site in view.farthest_pair],
        "decimals": digits.decimals,
        "suffix": digits.suffix,
        "value": digits.to_integers(view.value[pairs]),
        "sure": view.interval_name,
        "lower": digits.to_integers(low[pairs], down),
        "upper": digits.to_integers(high[pairs], up),
        "verdict": [] if view.differs is None else verdicts(view)[pairs].tolist(),
        "others": [line.data(view) for line in readout_lines(view)],
        "span": [bound * 10.0 ** (digits.decimals - digits.exponent) for bound in view.axis_range],
    }


def _arrow_buttons() -> list[str]:
    """Buttons for touch screens, on which small cells are hard to hit."""
    directions = [("left", "←", "0 -1"), ("up", "↑", "-1 0")]
    directions += [("down", "↓", "1 0"), ("right", "→", "0 1")]
    return [
        tag("button", arrow, type="button", data_step=step, aria_label=f"One cell {direction}")
        for direction, arrow, step in directions
    ]


def _plot(view: MatrixView) -> str:
    """The cells with names on both sides, or cluster labels if there are many sites."""
    size, order = view.size, view.tree.order
    if size <= _MAX_NAMED:
        labels = [
            tag("span", escape_name(view.names[site]), title=view.names[site]) for site in order
        ]
    else:
        labels = [_cluster_label(view, *run) for run in view.cluster_runs()]
    cells = tag(
        "div",
        _cells(view),
        class_="cells",
        id="cells",
        tabindex="0",
        role="application",
        aria_roledescription="heat map",
        aria_label=(
            f"Distances between {size} sites; arrow keys choose a pair, the table below lists them"
        ),
    )
    inner = tag(
        "div",
        tag("div", *labels, class_="across", aria_hidden="true"),
        tag("div", *labels, class_="down", aria_hidden="true"),
        cells,
        class_="plot",
    )
    return tag("div", inner, class_="scroller")


def _cluster_label(view: MatrixView, number: int, start: int, count: int) -> str:
    """A cluster's marker and number at the middle of its sites, whose names would not fit."""
    site = int(view.tree.order[start])
    marker = tag("svg", tag("path", d=marker_path(view.cluster_index(site))), viewBox="-7 -7 14 14")
    style = f"--at:{start / view.size:.4f};--share:{count / view.size:.4f}"
    return tag(
        "span", marker, str(number or ""), class_=f"block {view.css_class(site)}", style=style
    )


def _cells(view: MatrixView) -> str:
    size, order = view.size, view.tree.order
    gap = 0.035 if size <= _MAX_SPACED else 0.0
    ordered = view.value[np.ix_(order, order)]
    colour_values = view.colour_values[np.ix_(order, order)]
    shades = shade_index(
        np.where(np.isfinite(colour_values), colour_values, view.colour_range[1]),
        *view.colour_range,
    )
    # An attribute, not a style rule: rules for descendants do not apply to the copy of <use>.
    edges, dense = (None, None) if gap else ("crispEdges", "dense")
    half = tag(
        "g",
        *_shade_paths(shades, np.isfinite(ordered), gap),
        id="half",
        class_=dense,
        shape_rendering=edges,
    )
    # The matrix is symmetric, so the other half is a copy with x and y exchanged.
    other_half = '<use href="#half" transform="matrix(0 1 1 0 0 0)"></use>'
    diagonal = "".join(_diagonal_cell(view, int(site), k, gap) for k, site in enumerate(order))
    frames = "".join(
        tag("rect", x=start, y=start, width=count, height=count, class_="block")
        for _, start, count in view.cluster_runs()
    )
    numbers = _numbers(view, ordered, shades) if size <= _MAX_NUMBERED else ""
    cursor = tag(
        "g", *(tag("rect", class_=part) for part in ("row", "column", "cell")), id="cursor"
    )
    return tag(
        "svg",
        half,
        other_half,
        diagonal,
        frames,
        numbers,
        cursor,
        viewBox=f"0 0 {size} {size}",
        aria_hidden="true",
    )


def _diagonal_cell(view: MatrixView, site: int, position: int, gap: float) -> str:
    """A site's diagonal cell: the marker of its cluster, or filled if there are no gaps."""
    classes = f"own {view.css_class(site)}"
    if gap and view.clusters is not None:
        at_centre = f"translate({position + 0.5} {position + 0.5}) scale(.036)"
        outline = marker_path(view.cluster_index(site))
        return tag("path", d=outline, transform=at_centre, class_=classes)
    return tag(
        "rect",
        x=position + gap,
        y=position + gap,
        width=1 - 2 * gap,
        height=1 - 2 * gap,
        class_=classes,
        shape_rendering=None if gap else "crispEdges",
    )


def _shade_paths(
    shades: Ints, is_known: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], gap: float
) -> list[str]:
    """One path per shade for the cells above the diagonal.

    Without gaps, neighbours of one shade in a row become one bar.
    """
    paths: dict[str, list[str]] = {}
    size, shades = len(shades), np.where(is_known, shades, -1)
    for row in range(size):
        column = row + 1
        while column < size:
            shade, start = shades[row, column], column
            column += 1
            while not gap and column < size and shades[row, column] == shade:
                column += 1
            bar = f"M{start} {row}h{column - start}v1h{start - column}z"
            if gap:
                side = 1 - 2 * gap
                bar = f"M{start + gap:.3f} {row + gap:.3f}h{side:.3f}v{side:.3f}h{-side:.3f}z"
            paths.setdefault("unknown" if shade < 0 else f"l{shade}", []).append(bar)
    return [tag("path", d="".join(bars), class_=name) for name, bars in sorted(paths.items())]


def _numbers(view: MatrixView, ordered: Floats, shades: Ints) -> str:
    digits, size = view.digits, view.size
    if digits.suffix:
        return ""  # a power of ten in every cell would be clutter; the readout shows it
    longest = max(len(text) for text in digits.texts(ordered.ravel()))
    texts = [
        tag(
            "text",
            escape(digits.text(float(ordered[i, j]))),
            x=j + 0.5,
            y=i + 0.5,
            class_=f"t{shades[i, j]}",
        )
        for i in range(size)
        for j in range(size)
        if i != j and math.isfinite(ordered[i, j])
    ]
    return tag("g", *texts, class_="numbers", font_size=min(0.27, 1.35 / longest))
