"""Why sites differ, in sentences."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np

from fedwad._distance.result import DistanceResult
from fedwad._explain.explanation import Explanation
from fedwad._explain.text import percent
from fedwad._matrix.result import MatrixResult
from fedwad._words import format_day
from fedwad.errors import InputError
from fedwad.report.sentences import (
    Format,
    join_with_and,
    judged_sites,
    pairs_that_differ,
    shown_distances,
)

__all__ = ["distance_why", "format_mean", "format_number", "why_sentences"]

_MAX_SITES = 100  # a matrix of more sites is not explained in sentences
_MAX_NAMED_SITES, _MAX_NAMED_COLUMNS = 2, 2
_MIN_SECOND_EXCESS = 0.1  # excess from which a second column is named for a site that stands out
_MIN_MISSING = 0.3  # difference in the fraction of missing values that is named, not that of means


def why_sentences(
    matrix: MatrixResult, format_site: Format = str, format_text: Format = str
) -> list[str]:
    """Which sites stand out, and by which columns; empty if nothing differs or that is unknown.

    Names of columns and of levels pass through `format_text`.
    """
    differ = pairs_that_differ(matrix)
    if differ is None or not differ.any() or not 1 < len(matrix) <= _MAX_SITES:
        return []
    try:
        if len(matrix) == 2:
            return _pair_sentences(matrix.explain(*matrix.sites), format_site, format_text)
        explanations = matrix.explain_clusters(
            list(range(len(matrix)))
        )  # each site against the others
    except InputError:
        return []
    sites = (site for site in _farthest_first(matrix) if explanations[site].causes)
    return [
        _site_sentence(explanations[site], matrix.sites[site], format_site, format_text)
        for site in islice(sites, _MAX_NAMED_SITES)
    ]


def _farthest_first(matrix: MatrixResult) -> list[int]:
    """The sites that can be judged, or all if none can, those with the largest distances first."""
    judged = judged_sites(matrix)
    order = np.argsort(-np.nanmean(shown_distances(matrix) ** 2, axis=1), kind="stable").tolist()
    return [site for site in order if not judged or site in judged]


def distance_why(
    result: DistanceResult, format_site: Format = str, format_text: Format = str
) -> list[str]:
    """The columns that make the difference between two sites; empty if there is none."""
    if not result.differs:
        return []
    try:
        return _pair_sentences(result.explain(), format_site, format_text)
    except InputError:
        return []


def _pair_sentences(
    explanation: Explanation, format_site: Format, format_text: Format
) -> list[str]:
    """By which columns two sites differ most; empty if no column does by more than chance."""
    if not explanation.causes:
        return []
    a, b = (f" at {format_site(site)}" for site in explanation.sites)
    columns = [
        f"{format_text(column)} ({_change(explanation, column, format_text, a, b)})"
        for column in explanation.causes[:_MAX_NAMED_COLUMNS]
    ]
    return [f"They differ most in {join_with_and(columns)}."]


def _site_sentence(
    explanation: Explanation, site: str, format_site: Format, format_text: Format
) -> str:
    """By which columns one site differs most from all others."""
    excess = dict(zip(explanation.names, explanation.excess.tolist(), strict=True))
    first, *further = explanation.causes[:_MAX_NAMED_COLUMNS]
    columns = [
        f"{format_text(column)} ({_change(explanation, column, format_text, '', ' elsewhere')})"
        for column in [first, *(name for name in further if excess[name] >= _MIN_SECOND_EXCESS)]
    ]
    return f"{format_site(site)} stands out most by {join_with_and(columns)}."


def _change(
    explanation: Explanation, column: str, format_text: Format, where_first: str, where_second: str
) -> str:
    """`mean 0, 233 elsewhere`: what changed most in a column, and its value at both sides."""
    what, first, second = _values(explanation, explanation.names.index(column))
    return f"{format_text(what)} {first}{where_first}, {second}{where_second}"


def _values(explanation: Explanation, k: int) -> tuple[str, str, str]:
    """What changed most in column k, and its values at both sides."""
    here, there, kind = explanation.here[k], explanation.there[k], explanation.kinds[k]
    if kind == "category":
        level, p, q = explanation.levels(explanation.names[k])[0]
        return level, percent(p), percent(q)
    if kind == "boolean":
        return "true", percent(here["mean"]), percent(there["mean"])
    missing = here.get("missing", 0.0), there.get("missing", 0.0)
    if abs(missing[0] - missing[1]) > _MIN_MISSING:
        return "missing", percent(missing[0]), percent(missing[1])
    if explanation.scale[k] > explanation.location[k] and "std" in here and "std" in there:
        unit = " days" if kind == "date" else ""
        first, second = (f"{format_number(values['std'])}{unit}" for values in (here, there))
        return "standard deviation", first, second
    return "mean", format_mean(here["mean"], kind), format_mean(there["mean"], kind)


def format_mean(mean: float, kind: str) -> str:
    """A number as `format_number` gives it, or for a column of dates, in days since 1970, the day.

    >>> format_mean(246.69, "number"), format_mean(14600.2, "date")
    ('247', '2009-12-22')
    """
    if not math.isfinite(mean):
        return "unknown"
    day = format_day(mean) if kind == "date" else None
    return day or format_number(mean)


def format_number(number: float) -> str:
    """Three digits, or all digits before the point of a number from 1000 to a million.

    >>> format_number(4791.3), format_number(999.7), format_number(0.01234), format_number(2.5e9)
    ('4,791', '1,000', '0.0123', '2.5e+09')
    """
    return f"{number:,.0f}" if 999.5 <= abs(number) < 1e6 else f"{number:.3g}"
