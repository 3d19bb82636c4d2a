"""The page of a distance matrix: which sites are similar."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from fedwad._words import pluralize
from fedwad.compare.answers import verdict
from fedwad.compare.sentences import ALPHA
from fedwad.report.page._curve import Part, chart
from fedwad.report.page._figures import marker
from fedwad.report.page._heat import heat_data, heat_map
from fedwad.report.page._maps import site_map, tree_figure
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import clean
from fedwad.report.page._why import explain_pairs, set_apart, why_data, why_pair
from fedwad.transport import Floats

_MAX_LISTED = 40  # sites up to which a table lists every pair, and every site

#: The text of a column of the table for the pair (i, j).
PairText = Callable[[int, int], str]


def matrix_page(view: MatrixView, shape: tuple[int, ...] | None) -> dict[str, Any]:
    """What the template of a matrix shows."""
    matrix, several = view.matrix, view.size > 1
    reasons, test = explain_pairs(view, shape), matrix.test
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
        "bounds_width": _bounds_width(view),
        "eigenvalues": _eigenvalues(view),
        "shifts": _shifts(view),
    }


def _shifts(view: MatrixView) -> Markup | None:
    """How far the supports moved; None if there were no rounds."""
    points = [
        (int(record.number), float(record.shift))
        for record in view.matrix.history
        if record.shift is not None and math.isfinite(record.shift)
    ]
    if not points:
        return None
    curve = Part("curve", "how far the supports moved", points, "ours")
    caption = "How far the supports moved in each round. Flat and low means converged."
    return chart([curve], caption, from_zero=True)


def _eigenvalues(view: MatrixView) -> Markup | None:
    """The Laplacian eigenvalues, whose largest gap suggests the number of clusters.

    None with fewer than four sites, or if some distance is unknown.
    """
    if view.size < 4 or not np.isfinite(view.distances).all():
        return None
    suggestion = view.matrix.suggest()
    points = [
        (number, abs(round(float(eigenvalue), 12)))  # the first is 0 but for rounding
        for number, eigenvalue in enumerate(suggestion.eigenvalues, 1)
    ]
    by_distance = suggestion.by_distance or suggestion.k
    found = ""
    if suggestion.k < by_distance:
        found = f", but {suggestion.reason}"
    elif suggestion.k > by_distance:
        found = f"; only {suggestion.k} separate all pairs that were found to differ"
    caption = (
        "Eigenvalues of the similarity graph's Laplacian. Well separated clusters give one small"
        " eigenvalue each, then a gap. The largest gap suggests"
        f" {pluralize(by_distance, 'cluster')}{found}."
    )
    curve = Part("curve", "eigenvalue", points, "ours")
    gap = Part("mark", "", [(suggestion.k + 0.5, 0.0)])
    return chart([curve, gap], caption, "eigenvalue number", from_zero=True)


def _bounds_width(view: MatrixView) -> str | None:
    """How far the bounds are from the value; None if they are unknown."""
    lower, upper = (end[view.pairs] for end in view.sample_bounds)
    values = view.matrix.value[view.pairs]
    usable = np.isfinite(upper) & np.isfinite(lower) & (values > 0)
    if not usable.any():
        return None
    below, above = (
        float(np.median(np.abs(bound[usable] / values[usable] - 1))) for bound in (lower, upper)
    )
    return f"{below:.0%} below to {above:.0%} above the value (medians)"


def _table_of_pairs(view: MatrixView) -> dict[str, Any]:
    """All pairs as a table, closest first, and as a file.

    With many sites the table has only each site and its nearest, and there may be no file.
    """
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
    csv_file = None if size > 300 else quote(_pairs_csv(view), safe=",.'")  # not to be too large
    return {
        "head": head,
        "rows": rows,
        "caption": f"Distances, {caption}",
        "words": head.index(second_title, 1) + 1,
        "title": title,
        "count": count,
        "csv": None if csv_file is None else f"data:text/csv;charset=utf-8,{csv_file}",
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


def _pairs_csv(view: MatrixView) -> str:
    """All pairs as comma-separated values with eight digits, bounds rounded outwards.

    An unknown number is empty. A name that a spreadsheet would read as a formula gets an
    apostrophe.
    """
    matrix, others = view.matrix, view.other_distances()
    lower, upper = view.sample_bounds
    # Outwards by as much as rounding to eight digits may move a number inwards.
    columns = {
        "value": view.matrix.value,
        "lower": lower * (1 - 5e-8),
        "upper": upper * (1 + 5e-8),
    }
    if matrix.rows:
        sizes = np.broadcast_to(np.array(matrix.rows, dtype=float), lower.shape)
        columns |= {"rows of a": sizes.T, "rows of b": sizes}
    if view.shows_populations:
        low, high = view.bounds
        columns |= {"population": view.value, "population lower": low, "population upper": high}
    if "chance alone" in others:
        columns["noise"] = others.pop("chance alone")
    if view.tested and matrix.pvalue is not None and matrix.smallest is not None:
        columns |= {"p-value": matrix.pvalue, "smallest p-value": matrix.smallest}
    columns |= {label.removeprefix("the "): values for label, values in others.items()}
    names = [f"'{text}" if text[:1] in ("=", "+", "-", "@") else text for text in view.names]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["a", "b", *columns])
    for i, j in zip(*view.pairs, strict=True):
        numbers = (float(values[i, j]) for values in columns.values())
        texts = ("" if math.isnan(number) else f"{number:.8g}" for number in numbers)
        writer.writerow([names[i], names[j], *texts])
    return file.getvalue()
