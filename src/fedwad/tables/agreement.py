"""The schema on which sites agree, from one profile of each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import median_high
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.tables.conflicts import Conflict, StatisticsBySite, find_conflicts, join_names
from fedwad.tables.profiles import MAX_CODES, MAX_LEVELS, ColumnStatistics, Profile, has_many_levels
from fedwad.tables.schema import Schema
from fedwad.tables.schema_column import OTHER, SchemaColumn, accept_missing
from fedwad.tables.table import is_code, similar_name


def agree(profiles: Mapping[str, Profile], majority: bool = False) -> Schema:
    """The schema of sites that sent these profiles, with the conflicts between them.

    A column is compared if every site has it and all read the same kind. Integers at some sites may
    also meet texts that share a level with them, or booleans if they are 0 and 1.

    Integers are a category if no site has more than `MAX_CODES` different values, the sites
    together list no more levels, and at some site a value occurs in three rows or more on average;
    steps of a scale (50, 60, ... 100) stay numbers.

    Texts are a category if at some site a value occurs in three rows or more on average (or all
    sites together have fewer than 20 values), and at least half of the rows have a level that
    `min_cell_size` rows of their site share. Texts with more than `MAX_LEVELS` different values at
    a site are a category of the frequent ones and "other", and a conflict says so. All other texts,
    identifiers, names of sites, and columns that are constant or all missing are ignored; the
    schema has the reason.

    Of three or more sites none has more weight in centres, scales and weights than twice the median
    site, and a mean or standard deviation that is far from the median of the sites counts as less
    far (`pooled_moments`).

    With `majority`, which is for sites that may lie, a site that contradicts the others about a
    column costs them nothing: a column that most sites have, and read as one kind, is compared as
    that kind. A site without the column has missing values there, and one that reads another kind
    will not take the schema. A site that lists too few of the levels that most sites list cannot
    be compared with them, which a conflict says (`lists_too_few`).

    The columns are in alphabetical order. So neither the order in which sites have them nor the
    order of the sites changes a bit of a result.
    """
    if not profiles:
        raise InputError("No site sent a profile; give at least one table.", "no-sites")
    columns: list[SchemaColumn] = []
    conflicts: list[Conflict] = []
    profiles = {site: profiles[site] for site in sorted(profiles)}
    statistics = {site: profile.by_name() for site, profile in profiles.items()}
    names = sorted({name for by_name in statistics.values() for name in by_name})

    @cache
    def unmatched(*lacking: str) -> tuple[list[str], list[str]]:
        """Names that sites which lack a column have and the others have not, and the other way
        round; none of over 100, since each is compared with each and a site may send any number."""
        here = statistics[lacking[0]]
        others = (by_name for site, by_name in statistics.items() if site not in lacking)
        there = {name for by_name in others for name in by_name}
        both = [name for name in here if name not in there], sorted(there - here.keys())
        first, second = (names if len(names) <= 100 else [] for names in both)
        return first, second

    # The fraction of its rows from which on a site of usual size lists a level.
    usual = (p.min_cell_size / p.rows for p in profiles.values())
    listed = median_high(usual) if majority else math.inf
    for name in names:
        by_site = {s: by_name[name] for s, by_name in statistics.items() if name in by_name}
        lacking = [site for site in profiles if site not in by_site]
        labels = sum(s.kind == "label" for s in by_site.values())
        if labels > len(profiles) / 2 if majority and len(profiles) > 2 else labels:
            if lacking and not majority:
                raise InputError(
                    f"{lacking[0]} has no label column '{name}'; add or rename it.",
                    "unknown-column",
                )
            columns.append(SchemaColumn(name, "label"))
            continue
        if majority and name and 2 * len(by_site) < len(profiles):  # however many one site sends
            columns.append(SchemaColumn(name, "ignored", reason=_say_lacking(lacking)))
            continue
        column, ignored = _decide_column(name, profiles, by_site, listed, unmatched)
        columns.append(column)
        conflicts += [*ignored, *find_conflicts(name, by_site, column, len(names))]
        for site in lists_too_few(by_site, listed) if column.kind == "category" else ():
            sentence = f"{site} lists too few levels of column '{name}', which most sites list."
            conflicts.append(Conflict(name, (site,), TOO_FEW_LEVELS, sentence))
    schema = Schema(tuple(columns), conflicts=tuple(conflicts))
    if not schema.width:
        some = list(schema.ignored.items())[:3]
        reasons = "; ".join(f"'{name}': {reason}" for name, reason in some)
        raise InputError(
            f"No column is left to compare ({reasons}); name columns the same way at all"
            " sites, or give a schema that says what they are.",
            "nothing-to-compare",
        )
    return schema


def _decide_column(
    name: str,
    profiles: Mapping[str, Profile],
    by_site: StatisticsBySite,
    listed: float,
    unmatched: Callable[..., tuple[list[str], list[str]]],
) -> tuple[SchemaColumn, list[Conflict]]:
    """What a column becomes, and the conflict because of which it is ignored, if there is one.

    `listed` is infinite unless a majority decides.
    """
    lacking = [site for site in profiles if site not in by_site]
    decided: CompareKind | Ignored
    if lacking and all(s.identifier for s in by_site.values()):
        decided = IDENTIFIER  # sites that deal rows by an identifier do not list it
    elif lacking and name:
        decided = _ignore_absent(name, lacking, unmatched)
    else:
        decided = decide_kind(by_site)
    if not isinstance(decided, Ignored):
        return _build_column(name, decided, by_site, listed), []
    for group in _groups(by_site, len(profiles)) if listed < math.inf and name else ():
        kind = decide_kind(group)
        if not isinstance(kind, Ignored):
            column = _build_column(name, kind, group, listed)
            if lacking or any(s.missing for s in by_site.values()):
                column = accept_missing(column)
            if not lacking:
                return column, []
            sentence = f"Column '{name}' is missing at {join_names(lacking)}: {decided.reason}."
            return column, [Conflict(name, tuple(lacking), "column missing", sentence)]
    column = SchemaColumn(name, "ignored", reason=decided.reason)
    if not decided.problem:
        return column, []
    sentence = f"Column '{name}' is ignored: {decided.reason}."
    return column, [Conflict(name, tuple(lacking or by_site), decided.problem, sentence)]


def _groups(by_site: StatisticsBySite, sites: int) -> Iterator[dict[str, ColumnStatistics]]:
    """Groups of more than half of the sites that may agree about a column where all do not: those
    that describe it alike, and all but one."""
    if sites < 3:
        return
    signs = {
        site: (s.kind, s.identifier, s.all_different, s.distinct > MAX_LEVELS)
        for site, s in by_site.items()
        if s.kind not in ("empty", "label")
    }
    if signs:
        common = Counter(signs.values()).most_common(1)[0][0]
        same_kind = [site for site, sign in signs.items() if sign[:2] == common[:2]]
        alike = [site for site, sign in signs.items() if sign == common]
        for group in (same_kind, alike):
            if len(group) > sites / 2:
                yield {site: by_site[site] for site in group}
    present = {site: s for site, s in by_site.items() if s.kind != "label"}
    for site in present:
        if len(present) - 1 > sites / 2:
            yield {other: s for other, s in present.items() if other != site}


def _ignore_absent(
    name: str, lacking: list[str], unmatched: Callable[..., tuple[list[str], list[str]]]
) -> Ignored:
    """Why a column that some sites lack is ignored, with a similar name that they have instead.

    If some sites have one of two similar names and the others have the other, only the shorter name
    gives a conflict.
    """
    instead, others = unmatched(*lacking)
    near = similar_name(name, instead)
    hint = "" if near is None else f" (but '{near}')"
    second_of_pair = (
        near is not None
        and (len(near), near.swapcase()) < (len(name), name.swapcase())
        and similar_name(near, others) == name
    )
    reason = _say_lacking(lacking) + hint
    return Ignored(reason, "" if second_of_pair else "column missing")


def _say_lacking(lacking: Sequence[str]) -> str:
    return f"{join_names(lacking)} {'have' if lacking[1:] else 'has'} no such column"


def _build_column(
    name: str, kind: CompareKind, by_site: StatisticsBySite, listed: float
) -> SchemaColumn:
    if kind == "category":
        few = lists_too_few(by_site, listed)
        return _category_column(name, {s: own for s, own in by_site.items() if s not in few})
    rule = "indicator" if any(s.missing for s in by_site.values()) else "refuse"
    if kind == "boolean":
        centre = _fraction_true(by_site)
        scale = math.sqrt(centre * (1.0 - centre))
    else:
        centre, scale = pooled_moments(by_site)
    if not math.isfinite(scale):
        return SchemaColumn(name, "ignored", reason=NO_MOMENTS)
    return SchemaColumn(name, kind, centre=centre, scale=scale or 1.0, missing=rule)


def _fraction_true(by_site: StatisticsBySite) -> float:
    """The pooled fraction of true among the values whose level the profiles reveal.

    If a site lists one level and has other rows, those have the other one, which is too rare.
    """
    true = total = 0.0
    weights = _bounded_weights(by_site)
    for site, s in by_site.items():
        counts = {k: weights[site] * n for k, n in zip(s.levels, s.level_counts, strict=True)}
        other = weights[site] * s.other if sum(counts.values()) > 0 else 0.0
        listed_true = counts.get("true", counts.get("1", 0))
        true += other if other > 0 and listed_true == 0 else listed_true
        total += sum(counts.values()) + other
    return true / total if total else 0.5


#: The problem of a conflict about a site that lists too few levels.
TOO_FEW_LEVELS = "too few levels"

# By how much a compared level is more frequent than one that some site does not list can be.
_TIMES_UNLISTED = 2.0


def _unlisted(by_site: StatisticsBySite) -> dict[str, float]:
    """The largest fraction of its rows that a level can have which a site does not list."""
    return {
        site: min((s.other, *s.level_counts)) / s.count for site, s in by_site.items() if s.count
    }


def _pooled_levels(by_site: StatisticsBySite) -> tuple[dict[str, float], float]:
    """The rows of each level that some site lists, and those of all others, with weights."""
    weights = _bounded_weights(by_site)
    counts: dict[str, float] = {}
    for site, s in by_site.items():
        for level, count in zip(s.levels, s.level_counts, strict=True):
            counts[level] = counts.get(level, 0.0) + weights[site] * count
    other = sum(weights[site] * s.other for site, s in by_site.items()) + counts.pop(OTHER, 0.0)
    return counts, other


def lists_too_few(by_site: StatisticsBySite, listed: float, half: float = 0.5) -> tuple[str, ...]:
    """The sites, fewer than half of them, that list too few of the levels that the others list.

    Levels that at least half of the rows of the others have would be compared without such a site,
    and levels of less than half of these rows with it. What it may not list is also more than twice
    the fraction from which on levels are usually `listed`: else chance would leave sites out.
    """
    unlisted = _unlisted(by_site)
    if len(unlisted) < 3:
        return ()
    usual = median_high(unlisted.values())
    counts, other = _pooled_levels({s: by_site[s] for s, own in unlisted.items() if own <= usual})
    total = sum(counts.values()) + other

    def compared(limit: float) -> float:
        """The fraction of the rows with a level that this limit lets through."""
        fractions = [count / total for count in counts.values()]
        return sum(one for one in fractions if one >= _TIMES_UNLISTED * limit)

    most = compared(usual)
    chance = 2.0 * max(usual, listed)
    few = (s for s, limit in unlisted.items() if limit > chance and compared(limit) < half * most)
    return tuple(few) if most >= half else ()


def _category_column(name: str, by_site: StatisticsBySite) -> SchemaColumn:
    """A category of the levels that every site can be expected to list, and "other".

    A level that a site does not list becomes "other" there, so it must be so at all sites: else two
    samples of one population would be encoded differently. Whether a level is listed depends on
    chance where its count is near the smallest that a site lists. So a level is compared if at each
    site its pooled fraction of the rows is at least twice what an unlisted level can have
    there: with 10 as the smallest listed count, one of 20 expected rows is listed in 99.5% of
    samples.
    """
    counts, other = _pooled_levels(by_site)
    weights = _bounded_weights(by_site)
    missing = sum(weights[site] * s.missing for site, s in by_site.items())
    total = sum(counts.values()) + other
    least = _TIMES_UNLISTED * max(_unlisted(by_site).values(), default=0.0) * total
    frequent = sorted(counts, key=lambda level: (-counts[level], level))
    most = MAX_LEVELS if any(has_many_levels(s) for s in by_site.values()) else len(frequent)
    for rank, level in enumerate(frequent):
        if rank >= most or counts[level] < least:
            other += counts.pop(level)
    if not counts and not missing:
        return SchemaColumn(name, "ignored", reason="no level is frequent at every site")
    levels = sorted(counts, key=float if all(map(is_code, counts)) else None)
    fractions = np.array([*counts.values(), other, missing], dtype=np.float64)
    fractions /= fractions.sum()
    spread = 1.0 - float(np.square(fractions).sum())
    weight = 2.0 / spread if spread > 0 else 2.0
    rule = "level" if missing else "refuse"
    return SchemaColumn(name, "category", levels=(*levels, OTHER), weight=weight, missing=rule)


#: By how much the scale of a number may differ from the standard deviation of a site.
SPREAD = 1000.0

#: Why a column is ignored if no site sent its mean and sum of squares.
NO_MOMENTS = "every site has too few values, or one that is too large or outweighs all others"

CompareKind = Literal["number", "category", "boolean", "date"]


@dataclass(frozen=True)
class Ignored:
    """Why a column is not compared; `problem` is that of its conflict, empty if it has none."""

    reason: str
    problem: str = ""


#: Why a column named like an identifier is not compared.
IDENTIFIER = Ignored("its name is that of an identifier")


def decide_kind(by_site: StatisticsBySite) -> CompareKind | Ignored:
    """The kind by which a column that all sites have is compared, or why it is ignored."""
    kinds = {s.kind for s in by_site.values()} - {"empty"}
    if "" in {s.name for s in by_site.values()}:
        return Ignored("it has no name, as an index of rows")
    if not kinds:
        return Ignored("all its values are missing at every site", "all missing")
    if "unusable" in kinds:
        return Ignored("its values are neither numbers, text nor dates")
    if len(kinds) > 1:
        return _decide_mixed(by_site, kinds)
    if _names_sites(by_site):
        return Ignored("each site has one value of its own, as a name of the site is", "site name")
    kind = kinds.pop()
    if kind == "category":
        return _decide_text(by_site)
    if kind == "number":
        return _decide_number(by_site)
    if kind == "boolean":
        return _constant(by_site) or "boolean"
    return _constant(by_site) or _periods(by_site) or _hardly_varies(by_site) or "date"


def _hardly_varies(by_site: StatisticsBySite) -> Ignored | None:
    """Why dates are ignored that vary too little at a site for it to take their common scale.

    Numbers of which that is true have another unit there, which is a conflict.
    """
    _, scale = pooled_moments(by_site)
    sites = [site for site, s in by_site.items() if s.moments and 0 < s.std * SPREAD < scale]
    few = f"it varies over {SPREAD:g} times less at {join_names(sites)} than over all sites"
    return Ignored(few) if sites else None


def _periods(by_site: StatisticsBySite, apart: float = 1.5) -> Ignored | None:
    """Why dates are ignored that say no more than which period each site is; None for others.

    The means of two periods that touch are sqrt(3) times as far apart as the sum of the standard
    deviations of dates that are uniform in them.
    """
    known = sorted((s.mean, s.std) for s in by_site.values() if s.moments)
    gaps = [b - a > apart * (std_a + std_b) for (a, std_a), (b, std_b) in pairwise(known)]
    if not gaps or len(known) < len(by_site) or not all(gaps):
        return None
    return Ignored(
        "its dates are a period of their own at each site, which is no difference between what"
        " happened in it",
        "periods",
    )


def _decide_mixed(
    by_site: StatisticsBySite, kinds: set[str]
) -> Literal["category", "boolean"] | Ignored:
    """The kind of a column that sites read differently: texts and codes, or booleans and 0/1."""
    numbers = [s for s in by_site.values() if s.kind == "number"]
    codes = all(s.may_be_codes for s in numbers)
    levels = {level for s in numbers for level in s.levels}
    words = {level for s in by_site.values() if s.kind == "category" for level in s.levels}
    two_values = all(s.distinct <= 2 for s in numbers)
    if kinds == {"boolean", "number"} and codes and two_values and levels <= {"0", "1"}:
        return "boolean"
    if kinds == {"category", "number"} and codes and levels & words:
        return "category"
    hint = ""
    if {s.kind for s in by_site.values()} == {"number", "category"}:
        same = "write the same codes or words at all sites"
        hint = f"; {same if codes else 'a number among words is text'}"
    for site, s in by_site.items():
        if s.kind == "category" and s.numbers_in_text:
            hint = f", where {s.numbers_in_text} of {s.count} values of {site} are numbers"
            break
    names = {"number": "numbers", "category": "text", "boolean": "true/false", "date": "dates"}
    held = [
        f"{names[kind]} at {join_names([site for site, s in by_site.items() if s.kind == kind])}"
        for kind in names
        if kind in kinds
    ]
    return Ignored(f"it holds {' and '.join(held)}{hint}", "kinds differ")


def _decide_text(
    by_site: StatisticsBySite, least: int = 20, listed: float = 0.5
) -> Literal["category"] | Ignored:
    """Whether texts are a category; free text is not.

    Texts with few different values are free text if of at least so many values too few repeat, or
    less than a share has a level that profiles list.
    """
    texts = [s for s in by_site.values() if s.kind == "category"]
    if any(s.identifier for s in by_site.values()):
        return IDENTIFIER
    if _all_differ(by_site):
        return Ignored("all values are different, as in an identifier or free text")
    many = [site for site, s in by_site.items() if has_many_levels(s)]
    total = sum(s.count for s in texts)
    if many and not any(by_site[site].levels for site in many):
        return Ignored(
            f"free text: more than {MAX_LEVELS} different values at {join_names(many)}, none of"
            " them frequent"
        )
    if not many and not _repeats(texts) and total >= least:
        return Ignored("free text: most values occur once or twice")
    if not many and sum(sum(s.level_counts) for s in texts) < listed * total:
        return Ignored("free text or rare levels: most rows have a value that too few rows share")
    return _constant(by_site) or "category"


def _decide_number(
    by_site: StatisticsBySite, steps: int = 6
) -> Literal["number", "category"] | Ignored:
    """Whether numbers are compared as such or are codes.

    Whole numbers that all differ are an identifier if random ones of this count and std would have
    more than one pair of equal values; measurements have about as many. Codes are few, and repeated
    often enough to be a category; so many steps of a scale, such as 50, 60, ... 100, are none.
    """
    numbers = [s for s in by_site.values() if s.kind == "number"]
    if any(s.identifier for s in numbers):
        return IDENTIFIER
    pairs = sum(s.count**2 / (2.0 * math.sqrt(12.0) * s.std) for s in numbers if s.std > 0)
    if _all_differ(by_site) and all(s.whole for s in numbers) and pairs > 1:
        return Ignored("all values are different, as in an identifier")
    if constant := _constant(by_site):
        return constant
    levels = {level for s in numbers for level in s.levels}
    if all(s.may_be_codes for s in numbers) and 0 < len(levels) <= MAX_CODES and _repeats(numbers):
        values = sorted(int(float(level)) for level in levels)
        if len(values) < steps or math.gcd(*(v - values[0] for v in values)) == 1:
            return "category"
    _, scale = pooled_moments(by_site)
    if not math.isfinite(scale):
        return Ignored(NO_MOMENTS, "too few values")
    return "number" if scale > 0 else Ignored("its values are constant at every site")


def _repeats(columns: Sequence[ColumnStatistics], rows: int = 3) -> bool:
    """Whether values occur in three rows or more on average at some site, as levels do."""
    return any(s.count >= rows * s.distinct for s in columns)


def _names_sites(by_site: StatisticsBySite) -> bool:
    """Whether a column is constant at every site, with another value at each.

    Of two sites, the values must also be the names of the sites. Of sites with one row each, that
    is so of every column.
    """
    if max((s.count for s in by_site.values()), default=0) < 2:
        return False
    if len(by_site) < 2 or any(s.distinct != 1 or s.missing > s.count for s in by_site.values()):
        return False
    values = {site: s.levels[0] if s.levels else str(s.mean) for site, s in by_site.items()}
    if "nan" in values.values() or len(set(values.values())) < len(values):
        return False
    return len(values) > 2 or all(site.lower() == value.lower() for site, value in values.items())


def _all_differ(by_site: StatisticsBySite, least: int = 20) -> bool:
    present = [s for s in by_site.values() if s.count]
    longest = max((s.count for s in present), default=0)
    return all(s.all_different for s in present) and longest >= least


def _constant(by_site: StatisticsBySite) -> Ignored | None:
    """Why a column with one value everywhere is not compared; None for any other column."""
    if any(s.missing for s in by_site.values()):
        return None  # a value or none: still a difference
    present = [s for s in by_site.values() if s.count]
    values = {(s.levels, None if np.isnan(s.mean) else s.mean) for s in present}
    if len(values) != 1 or values == {((), None)} or any(s.distinct != 1 for s in present):
        return None
    return Ignored("it has the same value in every row of every site", "constant")


def _bounded_weights(
    by_site: StatisticsBySite, most: float = 2.0, of_two: float = 1000.0
) -> dict[str, float]:
    """By how much the counts of each site are multiplied: 1, or less for a site that says that it
    has more than `most` times as many rows as the median of three or more sites, or more than
    `of_two` times as many as the other one of two.

    So no number of rows gives one of N sites more than 2 / (N / 2) of the weight of all.
    """
    rows = {site: s.count + s.missing for site, s in by_site.items()}
    limit = of_two * max(1, min(rows.values()))
    if len(rows) > 2:
        limit = most * float(np.median(list(rows.values())))
    return {site: min(1.0, limit / number) if number else 1.0 for site, number in rows.items()}


def pooled_moments(by_site: StatisticsBySite, reach: float = 2.0) -> tuple[float, float]:
    """Pooled mean and standard deviation of the sites that sent theirs; NaN if none did.

    Of three or more sites, means count as at most `reach` median standard deviations from the
    median of the means, and standard deviations as at most `reach` times their median. So one lie
    among N sites changes the pooled variance by a factor of at most about 1 + (4 / N) (2 reach^2).

    Sums of squares are about each site's own mean, so nothing cancels. They are made without
    products of BLAS, which round differently on different processors: the last digit of a schema
    decides on the random splits of the encoded rows.
    """
    weights = _bounded_weights(by_site)
    moments = [
        (weights[site] * m[0], m[1], weights[site] * m[2])
        for site, s in by_site.items()
        if (m := _moments(s)) is not None
    ]
    if not moments:
        return float("nan"), float("nan")
    counts, means, squares = np.array(moments, dtype=np.float64).T
    centre, scale = pool(counts, means, squares, reach)
    return float(centre), float(scale)


def pool(
    counts: NDArray[np.float64],
    means: NDArray[np.float64],
    squares: NDArray[np.float64],
    reach: float = 2.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pooled mean and standard deviation from means and sums of squares about them, (N, ...).

    `reach` is as in `pooled_moments`, and `counts` (N,) are bounded already.
    """
    counts = counts.reshape(-1, *[1] * (means.ndim - 1))
    if len(counts) > 2:
        middle = np.median(means, axis=0)
        typical = np.median(np.sqrt(squares / counts), axis=0)
        limit = np.where(typical > 0.0, reach * typical, np.inf)
        means = np.clip(means, middle - limit, middle + limit)
        squares = np.minimum(squares, counts * limit**2)
    total = counts.sum()
    mean = means[0] + (counts * (means - means[0])).sum(axis=0) / total
    between = (counts * np.square(means - mean)).sum(axis=0)
    return mean, np.asarray(np.sqrt((squares.sum(axis=0) + between) / total))


def _moments(s: ColumnStatistics) -> tuple[float, float, float] | None:
    """Count, mean and sum of squares about the mean, None if unknown.

    If a profile of integers has no moments, they are those of the levels that it lists.
    """
    if s.count and np.isfinite(s.mean):
        return s.count, s.mean, s.sum_of_squares
    if s.kind != "number" or not s.levels:
        return None
    values, counts = np.array([float(level) for level in s.levels]), np.array(s.level_counts)
    mean = float((counts * values).sum() / counts.sum())
    return int(counts.sum()), mean, float((counts * np.square(values - mean)).sum())


def encoded_moments(
    profile: Profile, schema: Schema
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each encoded column of a table with this profile.

    A number whose moments the profile withholds has those that a schema gives to all sites
    together, 0 and 1.
    """
    published = profile.by_name()
    mean: list[float] = []
    variance: list[float] = []
    for column in schema.compared_columns:
        s = published.get(column.name, ColumnStatistics(column.name, "empty", 0, profile.rows))
        if column.kind == "category":
            counts = dict.fromkeys(column.levels, 0)
            counts[OTHER] = s.other + (s.missing if column.missing == "other" else 0)
            for level, count in zip(s.levels, s.level_counts, strict=True):
                counts[level if level in counts else OTHER] += count
            shares = [counts[level] / profile.rows for level in column.levels]
            shares += [s.missing / profile.rows] if column.missing == "level" else []
            on = column.on_value
            mean += [on * share for share in shares]
            variance += [on * on * share * (1.0 - share) for share in shares]
            continue
        present = s.count / profile.rows
        centre, std = s.mean, s.std
        if column.kind == "boolean":
            centre = _fraction_true({"": s})
            std = math.sqrt(centre * (1.0 - centre))
        middle, square = 0.0, 1.0
        if math.isfinite(centre) and math.isfinite(std):
            middle = (centre - column.centre) / column.scale
            square = middle * middle + (std / column.scale) ** 2
        mean.append(present * middle)
        variance.append(max(present * square - (present * middle) ** 2, 0.0))
        if column.missing == "indicator":
            mean.append(1.0 - present)
            variance.append(present * (1.0 - present))
    return np.array(mean), np.sqrt(variance)
