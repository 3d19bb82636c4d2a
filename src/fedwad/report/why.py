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
from fedwad.report.sentences import Named, judged_sites, listed, pairs_that_differ

__all__ = ["distance_why", "mean_in_words", "number_in_words", "why_sentences"]

_MOST_SITES, _MOST_COLUMNS = 2, 2
_LEAST = 0.1  # part of the difference that a second column must make to be named
_LARGEST = 100  # sites of a matrix that is explained in sentences


def why_sentences(matrix: MatrixResult, named: Named = str, word: Named = str) -> list[str]:
    """Which sites stand out, and by which columns; empty if nothing differs or that is unknown.

    Other texts of users than names of sites pass through `word`.
    """
    differ = pairs_that_differ(matrix)
    if differ is None or not differ.any() or not 1 < len(matrix) <= _LARGEST:
        return []
    try:
        if len(matrix) == 2:
            return _of_two(matrix.explain(*matrix.sites), named, word)
        found = matrix.explain_clusters(list(range(len(matrix))))
    except InputError:
        return []
    sites = (site for site in _farthest_first(matrix) if found[site].causes)
    return [
        _of_one(found[site], matrix.sites[site], named, word) for site in islice(sites, _MOST_SITES)
    ]


def _farthest_first(matrix: MatrixResult) -> list[int]:
    """The sites that may be named, that with the largest distances first."""
    judged = judged_sites(matrix)
    shown = matrix.population if judged and matrix.population is not None else matrix.value
    order = np.argsort(-np.nanmean(shown**2, axis=1), kind="stable").tolist()
    return [site for site in order if not judged or site in judged]


def distance_why(result: DistanceResult, named: Named = str, word: Named = str) -> list[str]:
    """The columns that make the difference between two sites; empty if there is none."""
    if not result.differs:
        return []
    try:
        return _of_two(result.explain(), named, word)
    except InputError:
        return []


def _of_two(found: Explanation, named: Named, word: Named) -> list[str]:
    if not found.causes:
        return []
    a, b = found.sites
    columns = [
        f"{word(column)} ({_change(found, column, word, f'at {named(a)}', f'at {named(b)}')})"
        for column in found.causes[:_MOST_COLUMNS]
    ]
    return [f"They differ most in {listed(columns)}."]


def _of_one(found: Explanation, site: str, named: Named, word: Named) -> str:
    shares = dict(zip(found.names, found.excess.tolist(), strict=True))
    first, *further = found.causes[:_MOST_COLUMNS]
    columns = [
        f"{word(column)} ({_change(found, column, word, '', 'elsewhere')})"
        for column in [first, *(column for column in further if shares[column] >= _LEAST)]
    ]
    return f"{named(site)} stands out most by {listed(columns)}."


def _change(found: Explanation, column: str, word: Named, here: str, there: str) -> str:
    """`mean 0, elsewhere 233`."""
    k = found.names.index(column)
    what, first, second = _values(found, k)
    return f"{word(what)} {first}{f' {here}' if here else ''}, {second} {there}"


def _values(found: Explanation, k: int) -> tuple[str, str, str]:
    """What changed most in a column, and its values at both sides."""
    here, there = found.here[k], found.there[k]
    if found.kinds[k] == "category":
        level, p, q = found.levels(found.names[k])[0]
        return level, percent(p), percent(q)
    if found.kinds[k] == "boolean":
        return "true", percent(here["mean"]), percent(there["mean"])
    lost = here.get("missing", 0.0), there.get("missing", 0.0)
    if abs(lost[0] - lost[1]) > _MUCH:
        return "missing", percent(lost[0]), percent(lost[1])
    if found.scale[k] > found.location[k] and "std" in here and "std" in there:
        return "standard deviation", number_in_words(here["std"]), number_in_words(there["std"])
    kind = found.kinds[k]
    return "mean", mean_in_words(here["mean"], kind), mean_in_words(there["mean"], kind)


def mean_in_words(mean: float, kind: str) -> str:
    """A number with three digits, or the day of a date, which is pluralize from 1970.

    >>> mean_in_words(246.69, "number"), mean_in_words(14600.2, "date")
    ('247', '2009-12-22')
    """
    if not math.isfinite(mean):
        return "unknown"
    day = format_day(mean) if kind == "date" else None
    return day or number_in_words(mean)


def number_in_words(number: float) -> str:
    """Three digits, or all of a number of up to six.

    >>> number_in_words(4791.3), number_in_words(0.01234), number_in_words(2.5e9)
    ('4,791', '0.0123', '2.5e+09')
    """
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e6 else f"{number:.3g}"


_MUCH = 0.3  # difference in the share of missing values that is named before that of means
