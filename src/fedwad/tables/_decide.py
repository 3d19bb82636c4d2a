"""The kind by which a column that all sites have is compared, or why it is ignored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedwad.tables._conflicts import StatisticsBySite, join_names
from fedwad.tables._profile import MAX_CODES, MAX_LEVELS, ColumnStatistics

__all__ = ["CompareKind", "Ignored", "decide_kind", "pooled_moments"]

_ROWS_PER_LEVEL = 3  # on average; measurements and free text repeat less
_FEWEST_STEPS = 6  # values of a scale
_FEWEST_FOR_IDENTIFIER = 20  # values that all differ say little about a shorter column
_NAMED_SHARE = 0.5  # of a category's rows have a level with a name, or it is free text

CompareKind = Literal["number", "category", "boolean", "date"]


@dataclass(frozen=True)
class Ignored:
    """Why a column is not compared; `problem` is that of a conflict between the sites."""

    reason: str
    problem: str = ""


def decide_kind(found: StatisticsBySite) -> CompareKind | Ignored:
    """The kind by which a column that all sites have is compared, or why it is ignored."""
    kinds = {s.kind for s in found.values()} - {"empty"}
    if "" in {s.name for s in found.values()}:
        return Ignored("it has no name, as an index of rows")
    if not kinds:
        return Ignored("all its values are missing at every site", "all missing")
    if "unusable" in kinds:
        return Ignored("its values are neither numbers, text nor dates")
    if len(kinds) > 1:
        return _decide_mixed(found, kinds)
    if _names_sites(found):
        return Ignored("each site has one value of its own, as a name of the site is", "site name")
    kind = kinds.pop()
    if kind == "category":
        return _decide_text(found)
    if kind == "number":
        return _decide_number(found)
    return _constant(found) or ("boolean" if kind == "boolean" else "date")


def _decide_mixed(
    found: StatisticsBySite, kinds: set[str]
) -> Literal["category", "boolean"] | Ignored:
    """Sites that read different kinds: codes and text may share levels, 0/1 may be booleans."""
    coded = all(s.codes for s in found.values() if s.kind == "number")
    levels = _levels_of(found, "number")
    if kinds == {"boolean", "number"} and coded and levels <= {"0", "1"}:
        return "boolean"
    if kinds == {"category", "number"} and coded and levels & _levels_of(found, "category"):
        return "category"
    return Ignored(f"it holds {_list_kinds(found)}{_numbers_hint(found)}", "kinds differ")


def _levels_of(found: StatisticsBySite, kind: str) -> set[str]:
    return {level for s in found.values() if s.kind == kind for level in s.levels}


def _list_kinds(found: StatisticsBySite) -> str:
    """'numbers at paris and text at oslo'."""
    words = {"number": "numbers", "category": "text", "boolean": "true/false", "date": "dates"}
    sites = {kind: [site for site, s in found.items() if s.kind == kind] for kind in words}
    return " and ".join(f"{words[kind]} at {join_names(at)}" for kind, at in sites.items() if at)


def _numbers_hint(found: StatisticsBySite) -> str:
    """A hint where text meets numbers: codes and words, a stray word, or a unit."""
    for site, s in found.items():
        if s.kind == "category" and s.numbers_in_text:
            return f", where {s.numbers_in_text} of {s.count} values of {site} are numbers"
    if {s.kind for s in found.values()} == {"number", "category"}:
        if all(s.codes for s in found.values() if s.kind == "number"):
            return "; write the same codes or words at all sites"
        return "; a number with its unit, such as 70 kg, is text"
    return ""


def _decide_text(found: StatisticsBySite) -> Literal["category"] | Ignored:
    if any(s.identifier for s in found.values()):
        return Ignored("its name is that of an identifier")
    if _all_differ(found):
        return Ignored("all values are different, as in an identifier or free text")
    many = [site for site, s in found.items() if s.distinct > MAX_LEVELS]
    if many:
        return Ignored(f"free text: more than {MAX_LEVELS} different values at {join_names(many)}")
    return _free_text(found) or _constant(found) or "category"


def _free_text(found: StatisticsBySite) -> Ignored | None:
    """Why texts with few different values are no category: too few rows share one."""
    texts = [s for s in found.values() if s.kind == "category"]
    total = sum(s.count for s in texts)
    if not _repeated(texts) and total >= _FEWEST_FOR_IDENTIFIER:
        return Ignored("free text: most values occur once or twice")
    if sum(sum(s.level_counts) for s in texts) < _NAMED_SHARE * total:
        return Ignored("free text or rare levels: most rows have a value that too few rows share")
    return None


def _decide_number(found: StatisticsBySite) -> Literal["number", "category"] | Ignored:
    numbers = [s for s in found.values() if s.kind == "number"]
    if any(s.identifier for s in numbers):
        return Ignored("its name is that of an identifier")
    if _all_differ(found) and all(s.whole for s in numbers) and _coincidences(numbers) > 1:
        return Ignored("all values are different, as in an identifier")
    constant = _constant(found)
    if constant:
        return constant
    if _are_codes(numbers):
        return "category"
    _, scale = pooled_moments(found)
    if not np.isfinite(scale):
        return Ignored(
            "every site has too few values, or one that outweighs all others", "too few values"
        )
    return "number" if scale > 0 else Ignored("its values are constant at every site")


def _are_codes(numbers: Sequence[ColumnStatistics]) -> bool:
    """Whether integers are few and repeated often enough to be a category."""
    levels = {level for s in numbers for level in s.levels}
    few = all(s.codes for s in numbers) and 0 < len(levels) <= MAX_CODES
    return few and _repeated(numbers) and not _is_scale(levels)


def _repeated(columns: Sequence[ColumnStatistics]) -> bool:
    """Whether values occur in several rows on average at some site, as levels do."""
    return any(s.count >= _ROWS_PER_LEVEL * s.distinct for s in columns)


def _is_scale(levels: set[str]) -> bool:
    """Whether integers are the steps of a scale, such as 50, 60, ... 100, and not codes."""
    values = sorted(int(float(level)) for level in levels)
    return len(values) >= _FEWEST_STEPS and math.gcd(*(v - values[0] for v in values)) > 1


def _names_sites(found: StatisticsBySite) -> bool:
    """Whether a column is constant at each of three sites or more, with another value at each.

    So it is at two sites if the values are their names.
    """
    if len(found) < 2 or any(s.distinct != 1 or s.missing > s.count for s in found.values()):
        return False
    values = {site: s.levels[0] if s.levels else str(s.mean) for site, s in found.items()}
    if "nan" in values.values() or len(set(values.values())) < len(values):
        return False
    return len(values) > 2 or all(site.lower() == value.lower() for site, value in values.items())


def _all_differ(found: StatisticsBySite) -> bool:
    present = [s for s in found.values() if s.count]
    longest = max((s.count for s in present), default=0)
    return all(s.all_different for s in present) and longest >= _FEWEST_FOR_IDENTIFIER


def _coincidences(numbers: Sequence[ColumnStatistics]) -> float:
    """How many pairs of equal values integers of this count and spread have by chance.

    Measurements have about as many, identifiers none.
    """
    known = [s for s in numbers if s.std > 0]
    return float(sum(s.count * s.count / (2.0 * np.sqrt(12.0) * s.std) for s in known))


def _constant(found: StatisticsBySite) -> Ignored | None:
    """Why a column that has one value everywhere cannot be compared."""
    if any(s.missing for s in found.values()):
        return None  # a value or none: still a difference
    present = [s for s in found.values() if s.count]
    values = {(s.levels, None if np.isnan(s.mean) else s.mean) for s in present}
    if len(values) != 1 or values == {((), None)} or any(s.distinct != 1 for s in present):
        return None
    return Ignored("it has the same value in every row of every site", "constant")


def pooled_moments(found: StatisticsBySite) -> tuple[float, float]:
    """Pooled mean and standard deviation of the sites that sent theirs.

    Sums of squares are about each site's own mean, so nothing cancels.
    """
    known = [m for m in map(_moments, found.values()) if m is not None]
    if not known:
        return float("nan"), float("nan")
    counts, means, squares = np.array(known, dtype=np.float64).T
    mean = float(means[0] + counts @ (means - means[0]) / counts.sum())
    between = counts @ np.square(means - mean)
    return mean, float(np.sqrt((squares.sum() + between) / counts.sum()))


def _moments(s: ColumnStatistics) -> tuple[float, float, float] | None:
    """Count, mean and sum of squares; of codes with a name where the sums stayed at the site."""
    if s.count and np.isfinite(s.mean):
        return s.count, s.mean, s.sum_of_squares
    if s.kind != "number" or not s.levels:
        return None
    values, counts = np.array([float(level) for level in s.levels]), np.array(s.level_counts)
    mean = float(counts @ values / counts.sum())
    return int(counts.sum()), mean, float(counts @ np.square(values - mean))
