"""What may be said about a comparison, in the words that the terminal, pages and JSON share.

"Differs" comes from the permutation test and from nothing else. A verdict is True, False, or None
if the test could not have reached the level with these rows, or did not run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._words import pluralize
from fedwad.statistics.testing import MOST_BY_SHAFFER

if TYPE_CHECKING:
    from fedwad.compare.api import PermutationTestResult
    from fedwad.compare.results import DistanceResult, MatrixResult


#: The level of the test, as everywhere in applied statistics; a sentence prints the p-value too.
ALPHA = 0.05
#: Why nothing is tested under differential privacy.
NOT_TESTED = "Not tested: blocks of rows have no private form."
#: Why nothing else is tested.
NO_BLOCKS = (
    "no block means came, since policies withhold them, rows or units are too few, rows have"
    " weights or vary a thousand times more than elsewhere"
)
#: What the test of labelled data is about.
NO_LABELS = "The test compares features, not labels."
MAX_NAMED = 3  # columns or pairs in a sentence; the rest are counted


def join(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def join_columns(columns: Sequence[str], noun: str = "column") -> str:
    """`a, b, c and 2 more columns`."""
    rest = [pluralize(len(columns) - MAX_NAMED, f"more {noun}")]
    return join([*columns[:MAX_NAMED], *(rest if len(columns) > MAX_NAMED else [])])


def pvalue_in_words(pvalue: float) -> str:
    """`p = 0.03`; p-values of permutations are never 0."""
    return f"p = {pvalue:.2g}"


def distance_in_words(value: float, interval: tuple[float, float] | None) -> str:
    """`1.2 (95% interval 0.8 to 1.9)`; without an estimate inside the interval, only its ends."""
    if interval is None:
        return f"{value:.3g}"
    low, high = interval
    if low <= 0:
        return f"at most {high:.3g} (95%)"
    if value <= low:
        return f"{low:.3g} to {high:.3g} (95% interval)"
    return f"{value:.3g} (95% interval {low:.3g} to {high:.3g})"


def takes(enough: int) -> str:
    """With fewer rows no p-value of 5% is possible; how many a difference takes is not known."""
    return f"a p-value of 5% takes about {enough:,} rows, or units such as patients, at each site"


def units_in_words(rows: Sequence[int], units: Sequence[int]) -> tuple[str, ...]:
    """That rows of one unit were kept together, if that is so; `units` has those of all sites."""
    if not rows or len(units) != len(rows) or sum(units) >= sum(rows):
        return ()
    each = f" ({join([f'{n:,}' for n in units])})" if len(units) <= MAX_NAMED else ""
    return (
        f"Rows of one unit, such as a patient, were kept together: {sum(rows):,} rows are of"
        f" {sum(units):,} units{each}, counted at each site.",
    )


def pair_sentence(
    r: DistanceResult | PermutationTestResult,
    rows: Sequence[int],
    population: float = math.nan,
    interval: tuple[float, float] | None = None,
) -> str:
    """The answer about two sites with so many rows, and the notes of the result.

    `population` is the distance between the populations, NaN if unknown, and `interval` its 95%
    interval.
    """
    (a, b), said = r.sites, pvalue_in_words(r.pvalue)
    labelled = getattr(r, "class_covariance", None) is not None
    both = f"the features of {a} and {b}" if labelled else f"{a} and {b}"
    bound = ""
    if interval is not None and math.isfinite(interval[1]):
        bound = f"at most {interval[1]:.3g} apart (95%)"
    if r.differs is None and not (r.enough and rows):
        answer = [f"It was not tested whether {a} and {b} differ: {untested_because(r)}."]
    elif r.differs is None:
        sizes = zip(r.sites, rows, strict=True)
        few = join([f"{site} has {pluralize(count, 'row')}" for site, count in sizes])
        answer = [f"It cannot be told whether {a} and {b} differ: {few}; {takes(r.enough)}."]
    elif not r.differs:
        most = f"; their populations are {bound}" if bound else ""
        answer = [f"There is no evidence that {both} differ ({said}){most}."]
    else:
        answer = [f"{f'The {both[4:]}' if labelled else both} differ ({said})."]
        explanation = None if r.evidence is None else r.explain()
        causes = explanation.causes_in_words if explanation else ()
        if not math.isnan(population) and (interval is None or interval[0] > 0):
            where = distance_in_words(population, interval)
            estimate = f"The distance between their populations is estimated at {where}"
            part = explanation.part_of_causes if explanation else 1.0
            if causes and part < 0.995:
                estimate += (
                    f"; {part:.0%} of its square belongs to columns that were found to differ"
                )
            answer.append(f"{estimate}.")
        elif bound:
            answer.append(f"Their populations are {bound}.")
        answer.append(
            f"They differ in {join_columns(causes)}."
            if causes
            else "No single column was found to differ at the 5% level; the test of all columns"
            " together finds the difference."
        )
    if labelled:
        answer.append(NO_LABELS)
        lower, noise = getattr(r, "lower", 0.0), getattr(r, "noise", None)
        if noise is not None and lower > noise:
            answer.append(
                f"The dataset distance of these samples is at least {lower:.3g}, certified;"
                f" chance alone gives {noise:.3g}."
            )
    return " ".join([*answer, *r.notes])


def untested_because(r: Any) -> str:
    """Why the sites of a result were not tested."""
    method = getattr(r, "method", "summary")
    return NO_BLOCKS if method == "summary" else f"method {method} has no test"


def private_sentence(
    sites: Sequence[str],
    found: Mapping[tuple[int, int], tuple[float, tuple[float, float]]],
    privacy: Mapping[str, Any],
) -> str:
    """The answer from releases under differential privacy, with the likely range of each pair.

    Epsilon covers one row, whatever else a site's rows have in common.
    """
    if len(sites) == 2:
        value, (low, high) = found[0, 1]
        where = f"{value:.3g}"
        if not math.isnan(low):  # a range that no theorem covers
            where += f" (likely range {low:.3g} to {high:.3g})"
        answer = (
            f"By columns, the populations of {sites[0]} and {sites[1]} are estimated at {where}"
            " apart."
        )
    else:
        values = [value for value, _ in found.values()]
        answer = (
            f"By columns, the populations of {len(sites)} sites are estimated at {min(values):.2g}"
            f" to {max(values):.2g} apart."
        )
    epsilon, delta = privacy["epsilon"], privacy["delta"]
    release = f"Each site's release has epsilon {epsilon:g} and delta {delta:g} per row."
    return f"{answer} {release} {NOT_TESTED}"


def _nearest_and_farthest(
    sites: Sequence[str],
    found: Mapping[tuple[int, int], tuple[float, tuple[float, float]]],
) -> list[str]:
    """Which pair is nearest and which farthest, if their intervals say so, or has the smallest and
    the largest estimate; the whole range if even these two intervals overlap."""
    order = sorted(found, key=lambda pair: found[pair])
    (least, (_, end)), (most, (start, _)) = found[order[0]], found[order[-1]]
    if end >= start and min(low for _, (low, _) in found.values()) <= 0:
        most = max(high for _, (_, high) in found.values())
        return [f"The pairs that differ are at most {most:.3g} apart (95%)."]
    if end >= start:
        ends = f"{least:.2g}", f"{most:.2g}"
        where = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
        return [
            f"The distances of the pairs that differ are estimated at {where}; their 95% intervals"
            " overlap, so no pair is called nearest or farthest."
        ]
    others_start = min(found[pair][1][0] for pair in order[1:])
    others_end = max(found[pair][1][1] for pair in order[:-1])
    words = (
        "are nearest" if end < others_start else "have the smallest estimate",
        "are farthest" if start > others_end else "have the largest estimate",
    )
    sentences = []
    for word, pair in zip(words, (order[0], order[-1]), strict=True):
        a, b = (sites[k] for k in pair)
        value, (low, high) = found[pair]
        where = f"{value:.3g} (95% interval {low:.3g} to {high:.3g})"
        sentences.append(f"Of the pairs that differ, {a} and {b} {word}: {where}.")
    return sentences


def matrix_sentence(m: MatrixResult) -> str:
    """The answer about three or more sites: the test over all of them leads, pairs follow."""
    count = pluralize(len(m), "site")
    test, labelled = m.test, m.class_covariance is not None
    features = "features of the " if labelled else ""
    if len(m) < 2:
        return f"There is nothing to compare: {count} answered."
    if test is None and not m.enough:
        return f"It was not tested whether the {count} differ: {untested_because(m)}."
    if test is None or test.smallest > ALPHA:
        enough = f"; {takes(m.enough)}" if m.enough else ""
        return f"There are too few rows to tell whether the {count} differ{enough}."
    pairs = list(combinations(range(len(m)), 2))
    verdicts = {pair: m.differs[pair] for pair in pairs}
    different = [pair for pair in pairs if verdicts[pair] is True]
    unknown = [pair for pair in pairs if verdicts[pair] is None]
    untested = [pair for pair in unknown if m.pvalue is None or np.isnan(m.pvalue[pair])]
    few = len(unknown) - len(untested)
    untold = []
    alone = [k for k in range(len(m)) if sum(k in pair for pair in untested) == len(m) - 1]
    if alone:
        count = f"{len(m) - len(alone)} tested sites"
        names = join_columns([m.sites[k] for k in alone], "site")
        verb = "was" if len(alone) == 1 else "were"
        untold.append(f"{names} {verb} not tested: {NO_BLOCKS}.")
        untested = [pair for pair in untested if not {*pair} & {*alone}]
    if few:
        verb = "has" if few == 1 else "have"
        enough = f": {takes(m.enough)}" if m.enough else ""
        untold.append(f"{pluralize(few, 'pair')} {verb} too few rows to tell{enough}.")
    if untested:
        verb = "was" if len(untested) == 1 else "were"
        untold.append(f"{pluralize(len(untested), 'pair')} {verb} not tested.")
    if labelled:
        untold.append(NO_LABELS)
        pairs_above = [] if m.noise is None else [p for p in pairs if m.lower[p] > m.noise[p]]
        if pairs_above:
            untold.append(
                f"In {len(pairs_above)} of {pluralize(len(pairs), 'pair')} the certified lower"
                " bound of the dataset distance is above what chance alone gives."
            )
    if test.pvalue > ALPHA:
        bound = ""
        if m.population_interval is not None and np.isfinite(m.population_interval[1]).all():
            bound = f"; any two are at most {float(m.population_interval[1].max()):.3g} apart (95%)"
        said = f"There is no evidence that the {features}{count} differ"
        said += f" ({pvalue_in_words(test.pvalue)})"
        return " ".join([f"{said}{bound}.", *untold])
    sentences = [f"The {features}{count} differ ({pvalue_in_words(test.pvalue)})."]
    if len(different) == len(pairs):
        sentences.append(f"All {len(pairs)} pairs differ.")
    elif different:
        among = " (false discovery rate 5%)" if len(m) > MOST_BY_SHAFFER else ""
        sentences.append(
            f"A difference was found in {len(different)} of {len(pairs)} pairs{among}."
        )
    else:
        sentences.append("No single pair was found to differ at the 5% level.")
    sentences += untold
    known = m.knows_populations
    if known and m.eccentricity.odd:
        sentences.append(
            f"{m.eccentricity.odd[0]} is the odd one out: no two others were found to differ."
        )
    if known and m.population is not None:
        population = m.population
        low, high = m.population_interval or (population, population)
        ranges = {
            pair: (float(population[pair]), (float(low[pair]), float(high[pair])))
            for pair in different
            if not math.isnan(population[pair])
        }
        if len(different) == 1:
            a, b = (m.sites[k] for k in different[0])
            if ranges:
                where = distance_in_words(*ranges[different[0]])
                sentences.append(f"{a} and {b} differ: {where}.")
            else:
                sentences.append(
                    f"How far {a} and {b} are apart cannot be estimated from these rows."
                )
        elif ranges:
            sentences += _nearest_and_farthest(m.sites, ranges)
    return " ".join(sentences)
