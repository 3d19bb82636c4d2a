"""Results in sentences, for pages and for the command line.

Names of sites pass through `named`, so that a page can escape and emphasise them. Everything else
is plain text without signs that HTML reserves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedwad._distance.result import DistanceResult
from fedwad._matrix.result import MatrixResult
from fedwad._words import counted
from fedwad.tables import Schema

__all__ = [
    "compared_distance",
    "compared_matrix",
    "distance_answer",
    "listed",
    "matrix_answer",
    "pairs_that_differ",
]

_LEVEL = 0.05
_MOST_NAMED = 8  # sites that a sentence names one by one

Named = Callable[[str], str]


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def pairs_that_differ(matrix: MatrixResult) -> NDArray[np.bool_] | None:
    """Which pairs differ by more than chance, an (N, N) table; None if that is unknown.

    Adjusted p-values decide where there are some, else the intervals of the populations. Those are
    about single pairs, so they count only if there is a difference over all pairs.
    """
    if matrix.pvalue is not None:
        return np.asarray(matrix.pvalue <= _LEVEL)
    if matrix.differs is None or matrix.population_interval is None:
        return None
    return np.asarray((matrix.population_interval[0] > 0) & bool(matrix.differs))


def compared_matrix(
    matrix: MatrixResult, schema: Schema | None = None, named: Named = str
) -> list[str]:
    """What was compared: sites with their rows, and columns."""
    return [_sites_and_rows(matrix.sites, matrix.rows, named), *_columns(schema)]


def compared_distance(
    result: DistanceResult, schema: Schema | None = None, named: Named = str
) -> list[str]:
    """What was compared: both sites with their rows, and columns."""
    return [_sites_and_rows(result.sites, result.rows, named), *_columns(schema)]


def _sites_and_rows(sites: Sequence[str], rows: Sequence[int], named: Named) -> str:
    count = counted(len(sites), "site")
    if not rows:
        return (
            f"{count}." if len(sites) > _MOST_NAMED else f"{count}: {listed(_all(sites, named))}."
        )
    whole = f"{count} with {counted(sum(rows), 'row')}"
    if len(sites) > _MOST_NAMED:
        return f"{whole}, {min(rows):,} to {max(rows):,} at a site."
    each = [f"{named(site)} {number:,}" for site, number in zip(sites, rows, strict=True)]
    return f"{whole}: {listed(each)}."


def _all(sites: Sequence[str], named: Named) -> list[str]:
    return [named(site) for site in sites]


def _columns(schema: Schema | None) -> list[str]:
    return [] if schema is None else list(schema.summary())


def distance_answer(result: DistanceResult, named: Named = str) -> list[str]:
    """Whether two sites differ by more than chance, and how far."""
    a, b = map(named, result.sites)
    if result.population is None or result.population_interval is None:
        return [
            f"The samples of {a} and {b} are about {result.value:.3g} apart.",
            "How much of that is chance is unknown.",
        ]
    low, high = result.population_interval
    if not result.differs:
        first = f"There is no evidence of a difference between {a} and {b}."
    else:
        first = f"{a} and {b} differ by more than chance."
    return [
        first,
        f"Their populations are {result.population:.3g} apart (95% interval {low:.3g} to"
        f" {high:.3g}); two samples of one population would be about {result.noise:.3g} apart.",
    ]


def matrix_answer(matrix: MatrixResult, named: Named = str) -> list[str]:
    """Whether sites differ by more than chance, who is most similar and who is least."""
    if len(matrix) < 2:
        return ["There is nothing to compare."]
    order = _ranked(matrix)
    sentences = [_verdict(matrix, named)]
    if len(order) == 1:
        sentences.append(f"{_distance_of(matrix, order[0], named)}.")
    elif order:
        sentences.append(f"The most similar are {_pair(matrix, order[0], named)}.")
        sentences.append(f"The least similar are {_pair(matrix, order[-1], named)}.")
    return sentences + _test(matrix)


def _verdict(matrix: MatrixResult, named: Named) -> str:
    differ, pairs = pairs_that_differ(matrix), np.triu_indices(len(matrix), 1)
    if differ is None:
        return "Whether these distances are more than chance is unknown."
    count, total = int(differ[pairs].sum()), len(pairs[0])
    if len(matrix) == 2:
        a, b = map(named, matrix.sites)
        if count:
            return f"{a} and {b} differ by more than chance."
        return f"There is no evidence of a difference between {a} and {b}."
    if not count:
        return f"There is no evidence of a difference between the {len(matrix)} sites."
    if count == total:
        return f"All {len(matrix)} sites differ from each other by more than chance."
    return f"{count:,} of {counted(total, 'pair')} of sites differ by more than chance."


def _test(matrix: MatrixResult) -> list[str]:
    """What the permutation test found, if there was one."""
    if matrix.pvalue is None:
        return []
    found = matrix.pvalue[np.triu_indices(len(matrix), 1)]
    small = found[found <= _LEVEL]
    what = f"at most {small.max():.2g}" if len(small) else f"at least {found.min():.2g}"
    which = "All" if len(small) in (0, len(found)) else "Their"
    adjusted = ", adjusted for the number of pairs" if len(found) > 1 else ""
    return [f"{which} p-values of a permutation test are {what}{adjusted}."]


def _shown(matrix: MatrixResult) -> NDArray[np.float64]:
    """Distances between populations where all are known, else between samples."""
    if matrix.calibrated and matrix.population is not None:
        return matrix.population
    return matrix.value


def _ranked(matrix: MatrixResult) -> list[tuple[int, int]]:
    """Pairs with a known distance, the closest first."""
    shown, pairs = _shown(matrix), np.triu_indices(len(matrix), 1)
    found = [
        (float(shown[i, j]), int(i), int(j))
        for i, j in zip(*pairs, strict=True)
        if math.isfinite(shown[i, j])
    ]
    return [(i, j) for _, i, j in sorted(found)]


def _pair(matrix: MatrixResult, pair: tuple[int, int], named: Named) -> str:
    a, b = (named(matrix.sites[site]) for site in pair)
    return f"{a} and {b}: {_number(matrix, pair)}"


def _distance_of(matrix: MatrixResult, pair: tuple[int, int], named: Named) -> str:
    a, b = (named(matrix.sites[site]) for site in pair)
    return f"The distance between {a} and {b} is {_number(matrix, pair)}"


def _number(matrix: MatrixResult, pair: tuple[int, int]) -> str:
    text = f"{_shown(matrix)[pair]:.3g}"
    if not matrix.calibrated or matrix.population_interval is None or matrix.noise is None:
        word = "certified" if matrix.certified else "likely"
        return f"{text} ({word} {matrix.lower[pair]:.3g} to {matrix.upper[pair]:.3g})"
    low, high = (end[pair] for end in matrix.population_interval)
    return f"{text} (95% interval {low:.3g} to {high:.3g}; chance alone {matrix.noise[pair]:.3g})"
