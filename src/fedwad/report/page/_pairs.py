"""The numbers of all pairs: a table to read and a CSV file to download."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from urllib.parse import quote

import numpy as np

from fedwad._words import pluralize
from fedwad.ot import Floats
from fedwad.report.page._elements import collapsible, table
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import escape, escape_name, tag

__all__ = ["table_of_pairs"]

_MAX_LISTED = 40  # sites up to which the table lists every pair
_MAX_FOR_CSV = 300  # sites up to which the page holds the CSV file

#: The text of a column of the table for the pair (i, j).
PairText = Callable[[int, int], str]


def table_of_pairs(view: MatrixView) -> str:
    """All pairs as a table, closest first, and as a file.

    With many sites the table has only each site and its nearest, and there may be no file.
    """
    size, count = view.size, len(view.pairs[0])
    if size <= _MAX_LISTED:
        pairs = [(int(view.pairs[0][k]), int(view.pairs[1][k])) for k in view.ranking]
        second_title, caption = "site", "closest first"
        title = f"Show all {count} pairs" if count > 1 else "Show the pair"
    else:
        pairs = [(int(site), int(view.nearest[site])) for site in view.tree.order]
        second_title, caption = "nearest", "each site and its nearest"
        title = f"Show the nearest of each of {size} sites"
    columns = _columns(view)
    rows = [
        [
            escape_name(view.names[i]),
            escape_name(view.names[j]),
            *(escape(text(i, j)) for text in columns.values()),
        ]
        for i, j in pairs
    ]
    numbers = table(["site", second_title, *columns], rows, f"Distances, {caption}", text_columns=2)
    return collapsible("pairs", title, numbers) + _download(view)


def _columns(view: MatrixView) -> dict[str, PairText]:
    """The columns of the table besides the sites, by title."""
    digits, matrix = view.digits, view.matrix

    def number(distances: Floats) -> PairText:
        return lambda i, j: digits.text(float(distances[i, j]))

    lower, upper = view.sample_bounds
    columns: dict[str, PairText] = {}
    if view.shows_populations:
        columns["populations"] = number(view.value)
        columns[view.interval_name] = view.interval
        columns["chance alone"] = number(np.asarray(matrix.noise, dtype=float))
    if matrix.pvalue is not None:
        pvalue = matrix.pvalue
        columns["p-value"] = lambda i, j: _pvalue(float(pvalue[i, j]))
    columns["samples" if view.shows_populations else "value"] = number(view.sample_value)
    columns[view.sample_interval_name] = lambda i, j: digits.interval(
        float(lower[i, j]), float(upper[i, j])
    )
    others = view.other_distances().items()
    return columns | {label: number(distances) for label, distances in others}


def _pvalue(number: float) -> str:
    return "unknown" if math.isnan(number) else f"{number:.2g}"


def _pairs_csv(view: MatrixView) -> str:
    """All pairs as comma-separated values with eight digits, bounds rounded outwards."""
    columns = _csv_columns(view)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["a", "b", "value", "lower", "upper", *(label for label, _ in columns)])
    lower, upper = np.asarray(view.matrix.lower), np.asarray(view.matrix.upper)
    names = [_csv_name(text) for text in view.names]
    for i, j in zip(*view.pairs, strict=True):
        bounds = _csv_number(lower[i, j], ROUND_FLOOR), _csv_number(upper[i, j], ROUND_CEILING)
        further = (_csv_number(numbers[i, j]) for _, numbers in columns)
        value = _csv_number(view.sample_value[i, j])
        writer.writerow([names[i], names[j], value, *bounds, *further])
    return file.getvalue()


def _csv_columns(view: MatrixView) -> list[tuple[str, Floats]]:
    """The columns of the file besides value, lower and upper, by title."""
    matrix, columns = view.matrix, []
    if view.shows_populations and matrix.population_interval is not None:
        low, high = matrix.population_interval
        columns += [("population", view.value), ("population lower", low)]
        columns += [("population upper", high), ("noise", np.asarray(matrix.noise, dtype=float))]
    if matrix.pvalue is not None:
        columns.append(("p-value", matrix.pvalue))
    others = view.other_distances().items()
    return columns + [(label.removeprefix("the "), distances) for label, distances in others]


def _csv_number(number: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """Eight digits with the given rounding; empty for an unknown number."""
    if not math.isfinite(number):
        return "" if math.isnan(number) else "inf"
    # Certified bounds are exact up to this relative error; see `_digits`.
    slack = {ROUND_FLOOR: 1e-9, ROUND_CEILING: -1e-9}.get(rounding, 0.0)
    exact = Decimal(float(number) + slack * abs(float(number)))
    return f"{float(Context(prec=8, rounding=rounding).create_decimal(exact)):.8g}"


def _csv_name(text: str) -> str:
    """A name that a spreadsheet does not read as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def _download(view: MatrixView) -> str:
    count = len(view.pairs[0])
    if view.size > _MAX_FOR_CSV:
        return tag(
            "p",
            f"{pluralize(count, 'pair')} are too many for this page; save the result to get all.",
        )
    link = "data:text/csv;charset=utf-8," + quote(_pairs_csv(view), safe=",.'")
    return tag(
        "p",
        tag(
            "a", f"Download {pluralize(count, 'pair')} as CSV", href=link, download="distances.csv"
        ),
        class_="download",
    )
