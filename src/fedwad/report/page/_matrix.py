"""The page of a distance matrix: which sites are similar, and a heat map of all pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from markupsafe import Markup

from fedwad.compare.answers import verdict
from fedwad.compare.digits import outward_rounding
from fedwad.compare.sentences import ALPHA
from fedwad.compare.shown import TOO_FEW_ROWS, VERDICTS, Ints
from fedwad.report.page._colour import N_SHADES, shade_index
from fedwad.report.page._figures import marker
from fedwad.report.page._maps import site_map, tree_figure
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import clean, escape, tag
from fedwad.report.page._why import explain_pairs, set_apart, why_data, why_pair
from fedwad.transport import Floats

_MAX_LISTED = 40  # sites up to which a table lists every pair, and every site

#: The text of a column of the table for the pair (i, j).
PairText = Callable[[int, int], str]


def matrix_page(view: MatrixView) -> dict[str, Any]:
    """What the template of a matrix shows."""
    matrix, several = view.matrix, view.size > 1
    reasons, test = explain_pairs(view), matrix.test
    placement = None if view.newcomer is None else matrix.placement(view.newcomer)
    if placement is not None:
        title = f"Is {clean(view.newcomer)} like the others?"
    else:
        title = f"How similar are {f'{view.size} sites' if several else 'the sites'}?"
    parts = ("whole", "heat", "pair", "apart", "groups", "numbers")
    content: dict[str, Any] = dict.fromkeys(parts)
    if several:
        data, square = heat_data(view), matrix.square
        known = matrix.variance and square is not None and not np.isnan(square).any()
        whole = matrix.heterogeneity if known else None
        content |= {
            "whole": whole,
            "each": whole and view.size > 2 and (test is None or not test.pvalue > ALPHA),
            "heat": heat_map(view),
            "map": site_map(view),
            "tree": tree_figure(view),
            "groups": None if view.clusters is None else view.groups,
            "numbers": _table_of_pairs(view),
            "data": data,
        }
        if reasons is not None:
            data["why"] = why_data(reasons)
            content |= {"pair": why_pair(reasons), "apart": set_apart(reasons)}
    return content | {
        "title": title,
        "placement": placement,
        "view": view,
        "marker": marker,
        "differs": None if test is None else verdict(test.pvalue, test.smallest),
        "asked": view.size if placement is None else 1,
    }


def _table_of_pairs(view: MatrixView) -> dict[str, Any]:
    """All pairs as a table, closest first; with many sites only each site and its nearest."""
    size, count, sizes = view.size, len(view.pairs[0]), view.matrix.rows
    if size <= _MAX_LISTED:
        ranking = np.argsort(view.distances[view.pairs], kind="stable")  # unknown ones come last
        pairs = [(int(view.pairs[0][k]), int(view.pairs[1][k])) for k in ranking]
        second_title, caption = "site", "closest first"
        title = f"Show all {count} pairs" if count > 1 else "Show the pair"
    else:
        pairs = [(int(site), int(view.nearest[site])) for site in view.tree.order]
        second_title, caption = "nearest", "each site and its nearest"
        title = f"Show the nearest of each of {size} sites"
    columns = _columns(view)
    rows = [
        [
            view.names[i],
            *([f"{sizes[i]:,}"] if sizes else []),
            view.names[j],
            *([f"{sizes[j]:,}"] if sizes else []),
            *(text(i, j) for text in columns.values()),
        ]
        for i, j in pairs
    ]
    n = ["n"] if sizes else []
    head = ["site", *n, second_title, *n, *columns]
    return {
        "head": head,
        "rows": rows,
        "caption": f"Distances, {caption}",
        "words": head.index(second_title, 1) + 1,
        "title": title,
        "all": size <= _MAX_LISTED,
    }


def _columns(view: MatrixView) -> dict[str, PairText]:
    """The columns of the table besides the sites, by title."""
    digits = view.digits

    def number(distances: Floats) -> PairText:
        return lambda i, j: digits.text(float(distances[i, j]))

    lower, upper = view.sample_bounds
    columns: dict[str, PairText] = {}
    if view.tested:
        columns["test"] = view.verdict
        columns["p-value"] = view.pvalue_text
    if view.shows_populations:
        columns["populations"] = view.number_text
        columns[view.interval_name] = view.interval
    if view.shows_samples_too or not view.shows_populations:
        columns["samples" if view.shows_populations else "value"] = number(view.matrix.value)
        columns[view.sample_interval_name] = lambda i, j: digits.interval(
            float(lower[i, j]), float(upper[i, j])
        )
    return columns | {label: number(values) for label, values in view.other_distances().items()}


# --- the heat map: every pair of sites as a cell, dark if the sites are similar
#
# The cells are drawn here, one path for each shade, and need no script. The script adds the choice
# of a cell. The style sheet sets the size and the position of names, so one drawing serves every
# screen.


def heat_map(view: MatrixView) -> dict[str, Any]:
    """What the template of the map shows besides the numbers of the view."""
    size, order, pair = view.size, view.tree.order.tolist(), view.farthest_pair
    blocks = [  # where names would not fit: each cluster at the middle of its sites
        {
            "number": number,
            "marker": marker(view.cluster_index(order[start])),
            "colour": view.css_class(order[start]),
            "at": f"{start / size:.4f}",
            "share": f"{count / size:.4f}",
        }
        for number, start, count in view.cluster_runs()
    ]
    return {
        "several": size > 2 and math.isfinite(view.value[pair]),
        "ruler": _ruler(view, *pair),
        "blocks": blocks,
        "cells": _cells(view),
    }


def _ruler(view: MatrixView, i: int, j: int) -> dict[str, Any]:
    """The colour scale over `view.axis_range`, with the interval of a pair above it, in percent."""
    low, high = view.axis_range
    (nearest, farthest), digits = view.colour_range, view.digits

    def position(number: float) -> float:
        fraction = (number - low) / ((high - low) or 1.0)
        return 100 * min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else 100.0

    start, stop = position(nearest), position(farthest)
    value, lower, upper = (position(end[i, j]) for end in (view.value, *view.bounds))
    # Labels extend inwards from the ends of the scale; if it is short, outwards where there is
    # room.
    short = stop - start < 38
    before, after = short and start > 18, short and stop < 82
    first, last = digits.text(nearest), digits.text(farthest)
    return {
        "nearest": first,
        "farthest": last,
        "shades": N_SHADES,
        "value": f"{value:.2f}",
        "lower": f"{lower:.2f}",
        "upper": f"{100 - upper:.2f}",
        "start": f"{start:.2f}",
        "stop": f"{100 - stop:.2f}",
        "ends": [
            (first, "similar", "before" if before else "after", f"{start:.2f}"),
            (last, "far apart", "after" if after else "before", f"{stop:.2f}"),
        ],
    }


def heat_data(view: MatrixView) -> dict[str, object]:
    """The numbers for the script: for each pair i < j, integers in units of the last digit.

    "sure" is the word for the intervals, "span" the range of the axis, "near" has the distances
    of the map, and "others" those beside ours.
    """
    digits, pairs = view.digits, view.pairs
    order, tested = view.tree.order.tolist(), view.tested

    def ends(bounds: tuple[Floats, Floats], sure: str, certified: bool) -> dict[str, object]:
        (low, high), (down, up) = bounds, outward_rounding(certified)
        return {
            "sure": sure,
            "lower": digits.to_integers(low[pairs], down),
            "upper": digits.to_integers(high[pairs], up),
        }

    others: list[dict[str, object]] = [
        {"label": label, "value": digits.to_integers(values[pairs])}
        for label, values in view.other_distances().items()
    ]
    if view.shows_samples_too:
        samples = {"label": "these samples", "value": digits.to_integers(view.matrix.value[pairs])}
        others.insert(0, samples | ends(view.sample_bounds, view.sample_interval_name, True))
    return {
        "names": list(view.names),
        "order": order,
        "start": [order.index(site) for site in view.farthest_pair],
        "decimals": digits.decimals,
        "suffix": digits.suffix,
        "rows": [view.rows_text(site) for site in range(view.size)],
        "value": digits.to_integers(view.value[pairs]),
        "near": digits.to_integers(view.distances[pairs]),
        **ends(view.bounds, view.interval_name, not view.shows_populations),
        "words": list(VERDICTS),
        "verdict": view.verdicts[pairs].tolist() if tested else [],
        "pvalue": [view.pvalue_text(*pair) for pair in zip(*pairs, strict=True) if tested],
        "others": others,
        "span": [bound * 10.0 ** (digits.decimals - digits.exponent) for bound in view.axis_range],
    }


def _cells(view: MatrixView) -> Markup:
    size, order = view.size, view.tree.order
    gap = 0.035 if size <= 40 else 0.0  # between cells
    colour_values = view.colour_values[np.ix_(order, order)]
    shades = shade_index(
        np.where(np.isfinite(colour_values), colour_values, view.colour_range[1]),
        *view.colour_range,
    )
    # An attribute, not a style rule: rules for descendants do not apply to the copy of <use>.
    edges, dense = (None, None) if gap else ("crispEdges", "dense")
    drawn = _shade_paths(np.where(np.isfinite(colour_values), shades, -1), gap)
    diagonal = []
    for k, site in enumerate(order.tolist()):
        look: dict[str, object] = {"class_": f"own {view.css_class(site)}"}
        if gap and view.clusters is not None:
            at_centre = f"translate({k + 0.5} {k + 0.5}) scale(.036)"
            diagonal.append(marker(view.cluster_index(site), transform=at_centre, **look))
        else:
            box = {"x": k + gap, "y": k + gap, "width": 1 - 2 * gap, "height": 1 - 2 * gap}
            diagonal.append(tag("rect", **box, **look, shape_rendering=edges))
    frames = (
        tag("rect", x=start, y=start, width=count, height=count, class_="block")
        for _, start, count in view.cluster_runs()
    )
    return tag(
        "svg",
        tag("g", *drawn, id="half", class_=dense, shape_rendering=edges),
        # The matrix is symmetric, so the other half is a copy with x and y exchanged.
        tag("use", href="#half", transform="matrix(0 1 1 0 0 0)"),
        *diagonal,
        *frames,
        _numbers(view, shades) if size <= 14 else "",
        tag("g", *(tag("rect", class_=part) for part in ("row", "column", "cell")), id="cursor"),
        viewBox=f"0 0 {size} {size}",
        aria_hidden="true",
    )


def _shade_paths(shades: Ints, gap: float) -> list[Markup]:
    """One path per shade for the cells above the diagonal; shade -1 is unknown.

    Without gaps, neighbours of one shade in a row become one bar.
    """
    paths: dict[str, list[str]] = {}
    size, side = len(shades), 1 - 2 * gap
    for row in range(size):
        column = row + 1
        while column < size:
            shade, start = shades[row, column], column
            column += 1
            while not gap and column < size and shades[row, column] == shade:
                column += 1
            bar = f"M{start} {row}h{column - start}v1h{start - column}z"
            if gap:
                bar = f"M{start + gap:.3f} {row + gap:.3f}h{side:.3f}v{side:.3f}h{-side:.3f}z"
            paths.setdefault("unknown" if shade < 0 else f"l{shade}", []).append(bar)
    return [tag("path", d="".join(bars), class_=name) for name, bars in sorted(paths.items())]


def _numbers(view: MatrixView, shades: Ints) -> Markup:
    """The distance in each cell, or what can be said without one."""
    if view.digits.suffix:
        return Markup()  # a power of ten in every cell would be clutter; the readout shows it
    order = view.tree.order.tolist()
    texts = {(i, j): view.number_text(i, j) for i in order for j in order if i != j}
    longest = max(map(len, texts.values()), default=1) or 1
    few = tag("tspan", "too few", dy="-.09", font_size="0.15")
    cells = []
    for (i, j), text in texts.items():
        row, column = order.index(i), order.index(j)
        at = {"x": column + 0.5, "y": row + 0.5}
        if view.verdicts[i, j] == TOO_FEW_ROWS:
            rows = tag("tspan", "rows", x=at["x"], dy=".18", font_size="0.15")
            cells.append(tag("text", few, rows, **at, class_="few-rows"))
        elif text:
            cells.append(tag("text", escape(text), **at, class_=f"t{shades[row, column]}"))
    return tag("g", *cells, class_="numbers", font_size=min(0.27, 1.35 / longest))
