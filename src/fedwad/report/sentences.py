"""Results in sentences, for pages and for the command line.

Functions apply their argument `format_site` to the name of each site, so that a page can escape and
emphasise it. Everything else is plain text without characters that HTML reserves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedwad._distance.result import DistanceResult
from fedwad._matrix.result import MatrixResult
from fedwad._matrix.significance import any_difference
from fedwad._words import pluralize
from fedwad.report.page._digits import Digits
from fedwad.tables import Schema

__all__ = [
    "Format",
    "cluster_numbers",
    "distance_answer",
    "heterogeneity_sentences",
    "join_with_and",
    "judged_sites",
    "matrix_answer",
    "pairs_that_differ",
    "shown_distances",
    "what_was_compared",
]

_SIGNIFICANCE = 0.05  # p-values up to this are more than chance
_MAX_NAMED = 8  # with more sites than this, a sentence gives only their number

#: Turns a name, a column or a command into the text that a sentence shows; `str` for plain text.
Format = Callable[[str], str]


def join_with_and(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def cluster_numbers(labels: Sequence[int]) -> dict[int, int]:
    """For each label the number of its cluster, counted from 1.

    A label that only one site has is no cluster; its number is 0.

    >>> cluster_numbers([7, 0, 7, 3, 3])
    {0: 0, 3: 1, 7: 2}
    """
    sizes = Counter(labels)
    numbers, count = {}, 0
    for label in sorted(sizes):
        count += sizes[label] > 1
        numbers[label] = count if sizes[label] > 1 else 0
    return numbers


def pairs_that_differ(matrix: MatrixResult) -> NDArray[np.bool_] | None:
    """Which pairs differ by more than chance, as an (N, N) array; None if that is unknown.

    Adjusted p-values decide if there are any. Otherwise a pair differs if the interval of its
    population distance lies above zero. These intervals are not adjusted for the number of pairs,
    so they count only if a test over all pairs finds some difference.
    """
    if matrix.pvalue is not None:
        return np.asarray(matrix.pvalue <= _SIGNIFICANCE)
    judged = judged_sites(matrix)
    if len(judged) < 2 or matrix.population is None or matrix.population_interval is None:
        return None
    among = np.ix_(judged, judged)
    low, high = matrix.population_interval
    health = matrix.health if len(judged) == len(matrix) else None
    some_differ = any_difference(
        None, matrix.population[among], (low[among], high[among]), health=health
    )
    return np.asarray((np.nan_to_num(low) > 0) & bool(some_differ))


def judged_sites(matrix: MatrixResult) -> list[int]:
    """Indices of sites between which all population distances are known.

    A site that has too few rows, or whose policy does not share its calibration, is not among them.
    """
    if matrix.population is None:
        return []
    sites = _sites_without_unknown(np.isnan(matrix.population), 1)
    return sites if len(sites) > 1 else []


def _sites_without_unknown(unknown: NDArray[np.bool_], min_sites: int) -> list[int]:
    """Indices of sites between which no pair is unknown, or of the last `min_sites` sites.

    As long as some pair is unknown, the site with the most unknown pairs is left out.
    """
    sites = list(range(len(unknown)))
    while len(sites) > min_sites and unknown[np.ix_(sites, sites)].any():
        sites.pop(int(unknown[np.ix_(sites, sites)].sum(axis=1).argmax()))
    return sites


def what_was_compared(
    result: DistanceResult | MatrixResult, schema: Schema | None = None, format_site: Format = str
) -> list[str]:
    """The sites with their rows, and the columns if the schema is known."""
    columns = [] if schema is None else schema.description_lines()
    return [_sites_and_rows(result.sites, result.rows, format_site), *columns]


def _sites_and_rows(sites: Sequence[str], rows: Sequence[int], format_site: Format) -> str:
    count = pluralize(len(sites), "site")
    if not rows:
        names = join_with_and([format_site(site) for site in sites])
        return f"{count}." if len(sites) > _MAX_NAMED else f"{count}: {names}."
    total = f"{count} with {pluralize(sum(rows), 'row')}"
    if len(sites) > _MAX_NAMED:
        return f"{total}, {min(rows):,} to {max(rows):,} at each site."
    each = [f"{format_site(site)} {number:,}" for site, number in zip(sites, rows, strict=True)]
    return f"{total}: {join_with_and(each)}."


def distance_answer(result: DistanceResult, format_site: Format = str) -> list[str]:
    """Whether two sites differ by more than chance, and how far."""
    a, b = map(format_site, result.sites)
    if result.population is None or result.population_interval is None:
        return [
            f"The samples of {a} and {b} are about {result.value:.3g} apart.",
            f"How much of that is chance is unknown{_other_method(result)}.",
        ]
    digits = Digits.for_numbers([result.population, result.population_interval[1]])
    interval = digits.interval(*result.population_interval, certified=False)
    if not result.differs:
        first = f"There is no evidence of a difference between {a} and {b}."
    else:
        first = f"{a} and {b} differ by more than chance."
    return [
        first,
        f"Their populations are {digits.text(result.population)} apart (95% interval {interval});"
        f" two samples of one population would be about {digits.text(result.noise)} apart.",
    ]


def _other_method(result: DistanceResult) -> str:
    """The end of a sentence: the method that would show how much is chance; empty if none would."""
    is_labelled = result.class_covariance is not None and result.privacy is None
    if is_labelled and result.method != "summary":
        return "; with labels, method 'summary' shows it"
    return ""


def matrix_answer(matrix: MatrixResult, format_site: Format = str) -> list[str]:
    """Whether sites differ by more than chance, and which two are most and least similar."""
    if len(matrix) < 2:
        return ["There is nothing to compare."]
    pairs = _closest_first(matrix)
    sentences = [_verdict(matrix, format_site), *_not_judged(matrix, format_site)]
    if len(pairs) == 1:
        a, b = map(format_site, _names(matrix, pairs[0]))
        distance = _distance_and_interval(matrix, pairs[0])
        sentences.append(f"The distance between {a} and {b} is {distance}.")
    elif pairs:
        for word, pair in (("most", pairs[0]), ("least", pairs[-1])):
            a, b = map(format_site, _names(matrix, pair))
            distance = _distance_and_interval(matrix, pair)
            sentences.append(f"The {word} similar are {a} and {b}: {distance}.")
    return sentences + _test_sentences(matrix)


def _names(matrix: MatrixResult, pair: tuple[int, int]) -> tuple[str, str]:
    return matrix.sites[pair[0]], matrix.sites[pair[1]]


def _not_judged(matrix: MatrixResult, format_site: Format) -> list[str]:
    """A sentence about the sites that `_verdict` leaves out; empty if there are none."""
    judged = _sites_in_verdict(matrix)
    if not judged or len(judged) == len(matrix):
        return []
    left_out = [format_site(site) for index, site in enumerate(matrix.sites) if index not in judged]
    who = (
        join_with_and(left_out) if len(left_out) <= _MAX_NAMED else pluralize(len(left_out), "site")
    )
    if matrix.pvalue is not None:
        return [f"{who} cannot be judged: the test got no block means that it could use."]
    return [f"{who} cannot be judged: too few rows, or a policy that shares no noise level."]


def _sites_in_verdict(matrix: MatrixResult) -> list[int]:
    """Indices of the sites that can be judged: by p-values if there was a test.

    After a test they are the sites between which all p-values are known, at least two.
    """
    if matrix.pvalue is None:
        return judged_sites(matrix)
    return _sites_without_unknown(np.isnan(np.asarray(matrix.pvalue)), 2)


def _verdict(matrix: MatrixResult, format_site: Format) -> str:
    """Whether the sites that can be judged differ by more than chance."""
    differ = pairs_that_differ(matrix)
    if differ is None:
        return "Whether these distances are more than chance is unknown."
    judged = _sites_in_verdict(matrix)
    differ = differ[np.ix_(judged, judged)]
    pairs = np.triu_indices(len(judged), 1)
    count, total = int(differ[pairs].sum()), len(pairs[0])
    sites = f"{len(judged)} sites" + (" that can be judged" if len(judged) < len(matrix) else "")
    if len(matrix) == 2:
        a, b = map(format_site, matrix.sites)
        if count:
            return f"{a} and {b} differ by more than chance."
        return f"There is no evidence of a difference between {a} and {b}."
    if not count:
        return f"There is no evidence of a difference between the {sites}."
    if count == total:
        return f"All {sites} differ from each other by more than chance."
    return f"{count:,} of {pluralize(total, 'pair')} of sites differ by more than chance."


def _test_sentences(matrix: MatrixResult) -> list[str]:
    """A sentence about the p-values of the permutation test; empty if none is known."""
    if matrix.pvalue is None:
        return []
    pvalues = matrix.pvalue[np.triu_indices(len(matrix), 1)]
    pvalues = pvalues[~np.isnan(pvalues)]
    if not len(pvalues):
        return []
    small = pvalues[pvalues <= _SIGNIFICANCE]
    limit = f"at most {small.max():.2g}" if len(small) else f"at least {pvalues.min():.2g}"
    # "Their" refers to the pairs that differ, which the verdict counts.
    whose = "All" if len(small) in (0, len(pvalues)) else "Their"
    adjusted = ", adjusted for the number of pairs" if len(pvalues) > 1 else ""
    return [f"{whose} p-values of a permutation test are {limit}{adjusted}."]


def shown_distances(matrix: MatrixResult) -> NDArray[np.float64]:
    """The (N, N) distances of the sentences: between populations if those of some sites are known.

    Otherwise they are between samples. The two are never mixed.
    """
    if matrix.population is not None and judged_sites(matrix):
        return matrix.population
    return matrix.value


def _closest_first(matrix: MatrixResult) -> list[tuple[int, int]]:
    """Pairs with a known distance, the closest first."""
    shown, pairs = shown_distances(matrix), np.triu_indices(len(matrix), 1)
    ranked = sorted(
        (float(shown[i, j]), int(i), int(j))
        for i, j in zip(*pairs, strict=True)
        if math.isfinite(shown[i, j])
    )
    return [(i, j) for _, i, j in ranked]


def _distance_and_interval(matrix: MatrixResult, pair: tuple[int, int]) -> str:
    shown = shown_distances(matrix)
    digits = Digits.for_numbers(shown[np.triu_indices(len(matrix), 1)])
    text = digits.text(float(shown[pair]))
    if not judged_sites(matrix) or matrix.population_interval is None or matrix.noise is None:
        kind = "certified" if matrix.certified else "likely"
        bounds = digits.interval(float(matrix.lower[pair]), float(matrix.upper[pair]))
        return f"{text} ({kind} {bounds})"
    low, high = (float(end[pair]) for end in matrix.population_interval)
    interval = digits.interval(low, high, certified=False)
    return f"{text} (95% interval {interval}; chance alone {digits.text(matrix.noise[pair])})"


def heterogeneity_sentences(matrix: MatrixResult, format_site: Format = str) -> list[str]:
    """How different the sites are on the whole, and who is the odd one out; empty if unknown."""
    if matrix.health is None or len(matrix) < 2:
        return []
    heterogeneity = matrix.heterogeneity
    sentences = [
        f"{max(heterogeneity.fraction, 0):.0%} of the total variance lies between the sites; the"
        f" mean squared distance between two of them is {heterogeneity.value:.3g}, with a standard"
        f" error of {heterogeneity.error:.2g}."
    ]
    if len(matrix) < 3:
        return sentences
    eccentricity = matrix.eccentricity
    if not eccentricity.odd:
        return [
            *sentences,
            "No site is the odd one out by more than chance;"
            f" {format_site(eccentricity.farthest)} is the farthest from the rest.",
        ]
    pvalues = dict(zip(eccentricity.sites, eccentricity.pvalue, strict=True))
    odd = [f"{format_site(site)} (p = {pvalues[site]:.2g})" for site in eccentricity.odd]
    verb = "is the odd one" if len(odd) == 1 else "are the odd ones"
    return [
        *sentences,
        f"{join_with_and(odd)} {verb} out: farther from the rest than chance explains.",
    ]
