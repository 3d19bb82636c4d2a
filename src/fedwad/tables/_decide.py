"""The kind by which a column that all sites have is compared, or why it is ignored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedwad.tables._conflicts import StatisticsBySite, join_names
from fedwad.tables._profile import MAX_CODES, MAX_LEVELS, ColumnStatistics

__all__ = ["NO_MOMENTS", "CompareKind", "Ignored", "decide_kind", "pooled_moments"]

_MIN_ROWS_PER_LEVEL = 3  # on average; values of measurements and free text occur in fewer rows
_MIN_STEPS = 6  # different values from which on integers can be the steps of a scale
_MIN_FOR_IDENTIFIER = 20  # values from which on it matters that all are different
_MIN_LISTED = 0.5  # fraction of rows whose level a profile lists; below it, texts are free text
#: Why a column is ignored if no site sent its mean and sum of squares.
NO_MOMENTS = "every site has too few values, or one that is too large or outweighs all others"

CompareKind = Literal["number", "category", "boolean", "date"]


@dataclass(frozen=True)
class Ignored:
    """Why a column is not compared; `problem` is that of its conflict, empty if it has none."""

    reason: str
    problem: str = ""


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
    return _constant(by_site) or ("boolean" if kind == "boolean" else "date")


def _decide_mixed(
    by_site: StatisticsBySite, kinds: set[str]
) -> Literal["category", "boolean"] | Ignored:
    """The kind of a column that sites read differently: texts and codes, or booleans and 0/1."""
    may_be_codes = all(s.may_be_codes for s in by_site.values() if s.kind == "number")
    levels = _levels_of(by_site, "number")
    two_values = all(s.distinct <= 2 for s in by_site.values() if s.kind == "number")
    if kinds == {"boolean", "number"} and may_be_codes and two_values and levels <= {"0", "1"}:
        return "boolean"
    shared = levels & _levels_of(by_site, "category")
    if kinds == {"category", "number"} and may_be_codes and shared:
        return "category"
    return Ignored(f"it holds {_list_kinds(by_site)}{_numbers_hint(by_site)}", "kinds differ")


def _levels_of(by_site: StatisticsBySite, kind: str) -> set[str]:
    return {level for s in by_site.values() if s.kind == kind for level in s.levels}


def _list_kinds(by_site: StatisticsBySite) -> str:
    """'numbers at paris and text at oslo'."""
    words = {"number": "numbers", "category": "text", "boolean": "true/false", "date": "dates"}
    sites = {kind: [site for site, s in by_site.items() if s.kind == kind] for kind in words}
    return " and ".join(f"{words[kind]} at {join_names(at)}" for kind, at in sites.items() if at)


def _numbers_hint(by_site: StatisticsBySite) -> str:
    """A hint where text meets numbers: codes and words, a stray word, or a unit."""
    for site, s in by_site.items():
        if s.kind == "category" and s.numbers_in_text:
            return f", where {s.numbers_in_text} of {s.count} values of {site} are numbers"
    if {s.kind for s in by_site.values()} == {"number", "category"}:
        if all(s.may_be_codes for s in by_site.values() if s.kind == "number"):
            return "; write the same codes or words at all sites"
        return "; a number with its unit, such as 70 kg, is text"
    return ""


def _decide_text(by_site: StatisticsBySite) -> Literal["category"] | Ignored:
    if any(s.identifier for s in by_site.values()):
        return Ignored("its name is that of an identifier")
    if _all_differ(by_site):
        return Ignored("all values are different, as in an identifier or free text")
    many = [site for site, s in by_site.items() if s.distinct > MAX_LEVELS]
    if many:
        return Ignored(f"free text: more than {MAX_LEVELS} different values at {join_names(many)}")
    return _free_text(by_site) or _constant(by_site) or "category"


def _free_text(by_site: StatisticsBySite) -> Ignored | None:
    """Why texts with few different values are free text: too few rows share one; None if not."""
    texts = [s for s in by_site.values() if s.kind == "category"]
    total = sum(s.count for s in texts)
    if not _repeats(texts) and total >= _MIN_FOR_IDENTIFIER:
        return Ignored("free text: most values occur once or twice")
    if sum(sum(s.level_counts) for s in texts) < _MIN_LISTED * total:
        return Ignored("free text or rare levels: most rows have a value that too few rows share")
    return None


def _decide_number(by_site: StatisticsBySite) -> Literal["number", "category"] | Ignored:
    numbers = [s for s in by_site.values() if s.kind == "number"]
    if any(s.identifier for s in numbers):
        return Ignored("its name is that of an identifier")
    if _all_differ(by_site) and all(s.whole for s in numbers) and _coincidences(numbers) > 1:
        return Ignored("all values are different, as in an identifier")
    constant = _constant(by_site)
    if constant:
        return constant
    if _are_codes(numbers):
        return "category"
    _, scale = pooled_moments(by_site)
    if not np.isfinite(scale):
        return Ignored(NO_MOMENTS, "too few values")
    return "number" if scale > 0 else Ignored("its values are constant at every site")


def _are_codes(numbers: Sequence[ColumnStatistics]) -> bool:
    """Whether integers are few and repeated often enough to be a category."""
    levels = {level for s in numbers for level in s.levels}
    few = all(s.may_be_codes for s in numbers) and 0 < len(levels) <= MAX_CODES
    return few and _repeats(numbers) and not _is_scale(levels)


def _repeats(columns: Sequence[ColumnStatistics]) -> bool:
    """Whether values occur in three rows or more on average at some site, as levels do."""
    return any(s.count >= _MIN_ROWS_PER_LEVEL * s.distinct for s in columns)


def _is_scale(levels: set[str]) -> bool:
    """Whether integers are the steps of a scale, such as 50, 60, ... 100, and not codes."""
    values = sorted(int(float(level)) for level in levels)
    return len(values) >= _MIN_STEPS and math.gcd(*(v - values[0] for v in values)) > 1


def _names_sites(by_site: StatisticsBySite) -> bool:
    """Whether a column is constant at every site, with another value at each.

    Of two sites, the values must also be the names of the sites.
    """
    if len(by_site) < 2 or any(s.distinct != 1 or s.missing > s.count for s in by_site.values()):
        return False
    values = {site: s.levels[0] if s.levels else str(s.mean) for site, s in by_site.items()}
    if "nan" in values.values() or len(set(values.values())) < len(values):
        return False
    return len(values) > 2 or all(site.lower() == value.lower() for site, value in values.items())


def _all_differ(by_site: StatisticsBySite) -> bool:
    present = [s for s in by_site.values() if s.count]
    longest = max((s.count for s in present), default=0)
    return all(s.all_different for s in present) and longest >= _MIN_FOR_IDENTIFIER


def _coincidences(numbers: Sequence[ColumnStatistics]) -> float:
    """The expected number of pairs of equal values among random integers of this count and std.

    Measurements have about as many, identifiers none.
    """
    varying = [s for s in numbers if s.std > 0]
    return float(sum(s.count * s.count / (2.0 * np.sqrt(12.0) * s.std) for s in varying))


def _constant(by_site: StatisticsBySite) -> Ignored | None:
    """Why a column with one value everywhere is not compared; None for any other column."""
    if any(s.missing for s in by_site.values()):
        return None  # a value or none: still a difference
    present = [s for s in by_site.values() if s.count]
    values = {(s.levels, None if np.isnan(s.mean) else s.mean) for s in present}
    if len(values) != 1 or values == {((), None)} or any(s.distinct != 1 for s in present):
        return None
    return Ignored("it has the same value in every row of every site", "constant")


def pooled_moments(by_site: StatisticsBySite) -> tuple[float, float]:
    """Pooled mean and standard deviation of the sites that sent theirs; NaN if none did.

    Sums of squares are about each site's own mean, so nothing cancels. They are made without
    products of BLAS, which round differently on different processors: the last digit of a schema
    decides on the random splits of the encoded rows.
    """
    moments = [m for m in map(_moments, by_site.values()) if m is not None]
    if not moments:
        return float("nan"), float("nan")
    counts, means, squares = np.array(moments, dtype=np.float64).T
    mean = float(means[0] + (counts * (means - means[0])).sum() / counts.sum())
    between = (counts * np.square(means - mean)).sum()
    return mean, float(np.sqrt((squares.sum() + between) / counts.sum()))


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
