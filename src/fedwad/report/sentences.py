"""Results in sentences, for pages and for the command line.

Functions apply their argument `named` to the name of each site, so that a page can escape and
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
    "Named",
    "cluster_numbers",
    "compared_distance",
    "compared_matrix",
    "distance_answer",
    "heterogeneity_sentences",
    "judged_sites",
    "listed",
    "matrix_answer",
    "pairs_that_differ",
]

_SIGNIFICANCE = 0.05  # p-values up to this are more than chance
_MOST_NAMED = 8  # with more sites than this, a sentence gives only their number

#: Turns the name of a site into the text that a sentence shows.
Named = Callable[[str], str]


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def cluster_numbers(labels: Sequence[int]) -> dict[int, int]:
    """For each label the number of its cluster, pluralize from 1.

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
    any_found = any_difference(
        None, matrix.population[among], (low[among], high[among]), health=health
    )
    return np.asarray((np.nan_to_num(low) > 0) & bool(any_found))


def judged_sites(matrix: MatrixResult) -> list[int]:
    """Indices of sites between which all population distances are known.

    A site that has too few rows, or whose policy does not share its calibration, is not among them.
    """
    if matrix.population is None:
        return []
    unknown = np.isnan(matrix.population)
    kept = list(range(len(matrix)))
    while kept and unknown[np.ix_(kept, kept)].any():
        worst = int(unknown[np.ix_(kept, kept)].sum(axis=1).argmax())
        kept.pop(worst)
    return kept if len(kept) > 1 else []


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
    count = pluralize(len(sites), "site")
    if not rows:
        return (
            f"{count}." if len(sites) > _MOST_NAMED else f"{count}: {listed([*map(named, sites)])}."
        )
    total = f"{count} with {pluralize(sum(rows), 'row')}"
    if len(sites) > _MOST_NAMED:
        return f"{total}, {min(rows):,} to {max(rows):,} at a site."
    each = [f"{named(site)} {number:,}" for site, number in zip(sites, rows, strict=True)]
    return f"{total}: {listed(each)}."


def _columns(schema: Schema | None) -> list[str]:
    return [] if schema is None else list(schema.description_lines())


def distance_answer(result: DistanceResult, named: Named = str) -> list[str]:
    """Whether two sites differ by more than chance, and how far."""
    a, b = map(named, result.sites)
    if result.population is None or result.population_interval is None:
        return [
            f"The samples of {a} and {b} are about {result.value:.3g} apart.",
            "How much of that is chance is unknown" + _other_method(result) + ".",
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
    labelled = result.class_covariance is not None and result.privacy is None
    return (
        "; with labels, method 'summary' shows it"
        if labelled and result.method != "summary"
        else ""
    )


def matrix_answer(matrix: MatrixResult, named: Named = str) -> list[str]:
    """Whether sites differ by more than chance, and which two are most and least similar."""
    if len(matrix) < 2:
        return ["There is nothing to compare."]
    order = _ranked(matrix)
    sentences = [_verdict(matrix, named), *_not_judged(matrix, named)]
    if len(order) == 1:
        sentences.append(f"{_only_distance(matrix, order[0], named)}.")
    elif order:
        sentences.append(f"The most similar are {_pair(matrix, order[0], named)}.")
        sentences.append(f"The least similar are {_pair(matrix, order[-1], named)}.")
    return sentences + _test(matrix)


def _not_judged(matrix: MatrixResult, named: Named) -> list[str]:
    """A sentence about the sites that `_verdict` leaves out; empty if there are none."""
    judged = _tested_sites(matrix) if matrix.pvalue is not None else judged_sites(matrix)
    if not judged or len(judged) == len(matrix):
        return []
    left_out = [named(site) for index, site in enumerate(matrix.sites) if index not in judged]
    who = listed(left_out) if len(left_out) <= _MOST_NAMED else pluralize(len(left_out), "site")
    if matrix.pvalue is not None:
        return [f"{who} cannot be judged: the test got no block means that it could use."]
    return [f"{who} cannot be judged: too few rows, or a policy that shares no noise level."]


def _tested_sites(matrix: MatrixResult) -> list[int]:
    """Indices of sites between which all p-values are known, at least two indices."""
    unknown = np.isnan(np.asarray(matrix.pvalue))
    kept = list(range(len(matrix)))
    while len(kept) > 2 and unknown[np.ix_(kept, kept)].any():
        kept.pop(int(unknown[np.ix_(kept, kept)].sum(axis=1).argmax()))
    return kept


def _verdict(matrix: MatrixResult, named: Named) -> str:
    """Whether the sites that can be judged differ by more than chance."""
    differ = pairs_that_differ(matrix)
    if differ is None:
        return "Whether these distances are more than chance is unknown."
    judged = _tested_sites(matrix) if matrix.pvalue is not None else judged_sites(matrix)
    differ = differ[np.ix_(judged, judged)]
    pairs = np.triu_indices(len(judged), 1)
    count, total = int(differ[pairs].sum()), len(pairs[0])
    sites = f"{len(judged)} sites" + (" that can be judged" if len(judged) < len(matrix) else "")
    if len(matrix) == 2:
        a, b = map(named, matrix.sites)
        if count:
            return f"{a} and {b} differ by more than chance."
        return f"There is no evidence of a difference between {a} and {b}."
    if not count:
        return f"There is no evidence of a difference between the {sites}."
    if count == total:
        return f"All {sites} differ from each other by more than chance."
    return f"{count:,} of {pluralize(total, 'pair')} of sites differ by more than chance."


def _test(matrix: MatrixResult) -> list[str]:
    """What the permutation test found, if there was one."""
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


def _shown_distances(matrix: MatrixResult) -> NDArray[np.float64]:
    """The distances in the sentences: between populations if any are known, else between samples.

    The two are never mixed.
    """
    if matrix.population is not None and judged_sites(matrix):
        return matrix.population
    return matrix.value


def _ranked(matrix: MatrixResult) -> list[tuple[int, int]]:
    """Pairs with a known distance, the closest first."""
    shown, pairs = _shown_distances(matrix), np.triu_indices(len(matrix), 1)
    known = [
        (float(shown[i, j]), int(i), int(j))
        for i, j in zip(*pairs, strict=True)
        if math.isfinite(shown[i, j])
    ]
    return [(i, j) for _, i, j in sorted(known)]


def _pair(matrix: MatrixResult, pair: tuple[int, int], named: Named) -> str:
    a, b = (named(matrix.sites[site]) for site in pair)
    return f"{a} and {b}: {_distance_and_interval(matrix, pair)}"


def _only_distance(matrix: MatrixResult, pair: tuple[int, int], named: Named) -> str:
    a, b = (named(matrix.sites[site]) for site in pair)
    return f"The distance between {a} and {b} is {_distance_and_interval(matrix, pair)}"


def _distance_and_interval(matrix: MatrixResult, pair: tuple[int, int]) -> str:
    shown = _shown_distances(matrix)
    digits = Digits.for_numbers(shown[np.triu_indices(len(matrix), 1)])
    text = digits.text(float(shown[pair]))
    if not judged_sites(matrix) or matrix.population_interval is None or matrix.noise is None:
        word = "certified" if matrix.certified else "likely"
        bounds = digits.interval(float(matrix.lower[pair]), float(matrix.upper[pair]))
        return f"{text} ({word} {bounds})"
    low, high = (float(end[pair]) for end in matrix.population_interval)
    interval = digits.interval(low, high, certified=False)
    return f"{text} (95% interval {interval}; chance alone {digits.text(matrix.noise[pair])})"


def heterogeneity_sentences(matrix: MatrixResult, named: Named = str) -> list[str]:
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
            f"No site is the odd one out by more than chance; {named(eccentricity.farthest)} is the"
            " farthest from the rest.",
        ]
    pvalues = dict(zip(eccentricity.sites, eccentricity.pvalue, strict=True))
    odd = [f"{named(site)} (p = {pvalues[site]:.2g})" for site in eccentricity.odd]
    verb = "is the odd one" if len(odd) == 1 else "are the odd ones"
    return [*sentences, f"{listed(odd)} {verb} out: farther from the rest than chance explains."]
