"""The numbers: a table to read and a CSV file to download."""

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
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import escape, name, tag

__all__ = ["folded", "pairs_csv", "table", "table_of_pairs"]

_ALL = 40  # sites up to which the table lists every pair
_MOST_FOR_CSV = 300  # sites up to which the page holds the CSV file


def table_of_pairs(subject: Subject) -> str:
    """Every pair, closest first, or the nearest of each of many sites; and all pairs as a file."""
    size, count = subject.size, len(subject.pairs[0])
    if size <= _ALL:
        chosen, caption = (
            [(int(subject.pairs[0][k]), int(subject.pairs[1][k])) for k in subject.ranked],
            "closest first",
        )
        title = f"Show all {count} pairs" if count > 1 else "Show the pair"
    else:
        chosen, caption = (
            [(int(site), int(subject.nearest[site])) for site in subject.tree.order],
            "each site and its nearest",
        )
        title = f"Show the nearest of each of {size} sites"
    head = ["site", "nearest" if size > _ALL else "site", *(title for title, _ in _cells(subject))]
    rows = [
        [
            name(subject.names[i]),
            name(subject.names[j]),
            *(escape(text(i, j)) for _, text in _cells(subject)),
        ]
        for i, j in chosen
    ]
    return folded("pairs", title, table(head, rows, f"Distances, {caption}", names=2)) + _download(
        subject
    )


def _cells(subject: Subject) -> list[tuple[str, Callable[[int, int], str]]]:
    """Titles of the columns of numbers, and what each says about a pair."""
    digits, matrix = subject.digits, subject.matrix

    def number(table: Floats) -> Callable[[int, int], str]:
        return lambda i, j: digits.text(float(table[i, j]))

    def between(ends: tuple[Floats, Floats]) -> Callable[[int, int], str]:
        return lambda i, j: digits.interval(float(ends[0][i, j]), float(ends[1][i, j]))

    cells: list[tuple[str, Callable[[int, int], str]]] = []
    if subject.of_populations:
        cells += [("populations", number(subject.value)), (subject.interval_name, subject.interval)]
        cells += [("chance alone", number(np.asarray(matrix.noise, dtype=float)))]
    if matrix.pvalue is not None:
        pvalue = matrix.pvalue
        cells.append(("p", lambda i, j: _pvalue(float(pvalue[i, j]))))
    cells.append(("samples" if subject.of_populations else "value", number(subject.sample)))
    cells.append((subject.sample_interval_name, between(subject.sample_bounds)))
    return cells + [(label, number(numbers)) for label, numbers in subject.others()]


def _pvalue(number: float) -> str:
    return "unknown" if math.isnan(number) else f"{number:.2g}"


def table(head: list[str], rows: list[list[str]], caption: str, names: int = 0) -> str:
    """A table whose cells are HTML; the first `names` columns hold words, the others numbers."""
    header = tag("tr", *(tag("th", escape(text), scope="col") for text in head))
    body = "".join(
        tag(
            "tr",
            *(
                tag("th", cell, scope="row")
                if k == 0
                else tag("td", cell, class_=None if k < names else "n")
                for k, cell in enumerate(row)
            ),
        )
        for row in rows
    )
    return tag("table", tag("caption", escape(caption)), tag("thead", header), tag("tbody", body))


def folded(key: str, title: str, content: str) -> str:
    """Content behind a switch without script; print always shows it."""
    switch = f'<input type="checkbox" id="fold-{escape(key)}">'
    label = tag("label", escape(title), for_=f"fold-{key}")
    return tag("div", switch, label, tag("div", content, class_="content"), class_=f"fold {key}")


def pairs_csv(subject: Subject) -> str:
    """All pairs as comma-separated values with eight digits, bounds rounded outwards."""
    others = _further_columns(subject)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["a", "b", "value", "lower", "upper", *(label for label, _ in others)])
    lower, upper = np.asarray(subject.matrix.lower), np.asarray(subject.matrix.upper)
    safe = [_plain(text) for text in subject.names]
    for i, j in zip(*subject.pairs, strict=True):
        bounds = _written(lower[i, j], ROUND_FLOOR), _written(upper[i, j], ROUND_CEILING)
        rest = (_written(part[i, j]) for _, part in others)
        writer.writerow([safe[i], safe[j], _written(subject.sample[i, j]), *bounds, *rest])
    return file.getvalue()


def _further_columns(subject: Subject) -> list[tuple[str, Floats]]:
    """Further columns of the file."""
    matrix, found = subject.matrix, []
    if subject.of_populations and matrix.population_interval is not None:
        low, high = matrix.population_interval
        found += [("population", subject.value), ("population lower", low)]
        found += [("population upper", high), ("noise", np.asarray(matrix.noise, dtype=float))]
    if matrix.pvalue is not None:
        found.append(("p-value", matrix.pvalue))
    return found + [(label.removeprefix("the "), table) for label, table in subject.others()]


def _written(number: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """Eight digits with the given rounding; empty for an unknown number."""
    if not math.isfinite(number):
        return "" if math.isnan(number) else "inf"
    slack = {ROUND_FLOOR: 1e-9, ROUND_CEILING: -1e-9}.get(
        rounding, 0.0
    )  # certificates hold up to this rounding
    exact = Decimal(float(number) + slack * abs(float(number)))
    return f"{float(Context(prec=8, rounding=rounding).create_decimal(exact)):.8g}"


def _plain(text: str) -> str:
    """A name that a spreadsheet does not read as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def _download(subject: Subject) -> str:
    count = len(subject.pairs[0])
    if subject.size > _MOST_FOR_CSV:
        return tag(
            "p",
            f"{pluralize(count, 'pair')} are too many for this page; save the result to get all.",
        )
    link = "data:text/csv;charset=utf-8," + quote(pairs_csv(subject), safe=",.'")
    return tag(
        "p",
        tag(
            "a", f"Download {pluralize(count, 'pair')} as CSV", href=link, download="distances.csv"
        ),
        class_="download",
    )
