"""The schema on which sites agree, from one profile of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from fedwad.errors import InputError
from fedwad.tables._conflicts import Conflict, conflicts_of, listed
from fedwad.tables._profile import MAX_CODES, MAX_LEVELS, ColumnStatistics, Profile
from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER, SchemaColumn
from fedwad.tables._table import is_code, nearest_name

__all__ = ["Agreement", "agree", "pooled_moments"]

_ROWS_PER_CODE = 3  # a code occurs in so many rows on average; measurements of few rows do not
_FEWEST_FOR_IDENTIFIER = 20  # values that all differ say little about a shorter column
_NAMED_SHARE = 0.5  # of a category's rows have a level with a name, or it is free text

StatisticsBySite = Mapping[str, ColumnStatistics]


class Agreement(NamedTuple):
    """The schema, and the conflicts between the sites in sentences."""

    schema: Schema
    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True)
class _Ignored:
    reason: str
    problem: str = ""  # that of a conflict, where the sites contradict each other


def agree(
    profiles: Mapping[str, Profile],
    label: str | None = None,
    missing_values: Mapping[str, Sequence[str]] | None = None,
) -> Agreement:
    """The schema of sites that sent these profiles.

    A column is compared when every site has it and all read the same kind. Whole numbers with at
    most `MAX_CODES` different values are a category when they occur in three rows or more on
    average at some site and no site has more values; so are texts with at most `MAX_LEVELS`
    different values, half of whose rows have a level that `min_cell_size` rows of a site share. All
    other texts, identifiers, constant and all-missing columns are ignored, with the reason.
    `missing_values` are those with which the profiles were made. The columns are in alphabetical
    order, so that the order in which sites have them changes no bit of a result; nor does the order
    of the sites.
    """
    if not profiles:
        raise InputError("No site sent a profile; give at least one table.")
    columns: list[SchemaColumn] = []
    conflicts: list[Conflict] = []
    known = {site: profiles[site].by_name() for site in sorted(profiles)}
    for name in sorted({name for found in known.values() for name in found}):
        found = {site: columns_of[name] for site, columns_of in known.items() if name in columns_of}
        if name == label or any(statistics.kind == "label" for statistics in found.values()):
            columns.append(_label(name, profiles, found))
            continue
        column, ignored = _column(name, profiles, found)
        columns.append(replace(column, missing_values=tuple((missing_values or {}).get(name, ()))))
        conflicts += [*ignored, *conflicts_of(name, found, column)]
    schema = Schema(tuple(columns), conflicts=tuple(conflicts))
    if not schema.width:
        raise InputError(_nothing_left(schema))
    return Agreement(schema, tuple(conflicts))


def _label(name: str, profiles: Mapping[str, Profile], found: StatisticsBySite) -> SchemaColumn:
    for site in profiles:
        if site not in found:
            raise InputError(f"{site} has no label column '{name}'; add or rename it.")
    return SchemaColumn(name, "label")


def _column(
    name: str, profiles: Mapping[str, Profile], found: StatisticsBySite
) -> tuple[SchemaColumn, list[Conflict]]:
    """What a column becomes, and the conflict for which it is ignored, if there is one."""
    lacking = [site for site in profiles if site not in found]
    decided = _absent(name, profiles, lacking) if lacking and name else _decide(found)
    if not isinstance(decided, _Ignored):
        return _make_column(name, decided, found), []
    column = SchemaColumn(name, "ignored", reason=decided.reason)
    if not decided.problem:
        return column, []
    sentence = f"Column '{name}' is ignored: {decided.reason}."
    return column, [Conflict(name, tuple(lacking or found), decided.problem, sentence)]


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


def _absent(name: str, profiles: Mapping[str, Profile], lacking: list[str]) -> _Ignored:
    elsewhere = {n for site, p in profiles.items() if site not in lacking for n in p.names}
    near = nearest_name(name, [n for n in profiles[lacking[0]].names if n not in elsewhere])
    return _Ignored(f"{listed(lacking)} {_have(lacking)} no such column{near}", "column missing")


def _have(sites: list[str]) -> str:
    return "have" if len(sites) > 1 else "has"


def _decide(found: StatisticsBySite) -> Literal["number", "category", "boolean", "date"] | _Ignored:
    """What a column is that all sites have."""
    kinds = {s.kind for s in found.values()} - {"empty"}
    if "" in {s.name for s in found.values()}:
        return _Ignored("it has no name, as an index of rows")
    if not kinds:
        return _Ignored("all its values are missing at every site", "all missing")
    if "unusable" in kinds:
        return _Ignored("its values are neither numbers, text nor dates")
    if len(kinds) > 1:
        return _decide_mixed(found, kinds)
    kind = kinds.pop()
    if kind == "category":
        return _decide_text(found)
    if kind == "number":
        return _decide_number(found)
    constant = _constant(found)
    if constant:
        return constant
    return "boolean" if kind == "boolean" else "date"


def _decide_mixed(
    found: StatisticsBySite, kinds: set[str]
) -> Literal["category", "boolean"] | _Ignored:
    """Sites that read different kinds: codes and text may share levels, 0/1 may be truth values."""
    numbers = [s for s in found.values() if s.kind == "number"]
    coded = all(s.codes for s in numbers)
    levels = {level for s in numbers for level in s.levels}
    if kinds == {"boolean", "number"} and coded and levels <= {"0", "1"}:
        return "boolean"
    if kinds == {"category", "number"} and coded:
        texts = {lv for s in found.values() if s.kind == "category" for lv in s.levels}
        if texts & levels:
            return "category"
    return _Ignored(f"it holds {_what_sites_hold(found)}{_numbers_in_text(found)}", "kinds differ")


def _what_sites_hold(found: StatisticsBySite) -> str:
    """'numbers at paris and text at oslo'."""
    words = {"number": "numbers", "category": "text", "boolean": "true/false", "date": "dates"}
    sites = {kind: [site for site, s in found.items() if s.kind == kind] for kind in words}
    return " and ".join(f"{words[kind]} at {listed(at)}" for kind, at in sites.items() if at)


def _numbers_in_text(found: StatisticsBySite) -> str:
    """A hint where most of a text could be numbers: a stray word may have made it one."""
    for site, s in found.items():
        if s.kind == "category" and s.numbers_in_text:
            return f", where {s.numbers_in_text} of {s.count} values of {site} are numbers"
    return ""


def _decide_text(found: StatisticsBySite) -> Literal["category"] | _Ignored:
    if any(s.identifier for s in found.values()):
        return _Ignored("its name is that of an identifier")
    texts = [s for s in found.values() if s.kind == "category"]
    if _all_differ(found):
        return _Ignored("all values are different, as in an identifier or free text")
    many = [site for site, s in found.items() if s.distinct > MAX_LEVELS]
    if many:
        return _Ignored(f"free text: more than {MAX_LEVELS} different values at {listed(many)}")
    named = sum(sum(s.level_counts) for s in texts)
    total = sum(s.count for s in texts)
    if named < _NAMED_SHARE * total:
        return _Ignored("free text or rare levels: most rows have a value that too few rows share")
    return _constant(found) or "category"


def _decide_number(found: StatisticsBySite) -> Literal["number", "category"] | _Ignored:
    numbers = [s for s in found.values() if s.kind == "number"]
    if any(s.identifier for s in numbers):
        return _Ignored("its name is that of an identifier")
    if _all_differ(found) and all(s.whole for s in numbers) and _coincidences(numbers) > 1:
        return _Ignored("all values are different, as in an identifier")
    constant = _constant(found)
    if constant:
        return constant
    if _are_codes(numbers):
        return "category"
    _, scale = pooled_moments(found)
    if not np.isfinite(scale):
        return _Ignored(
            "every site has too few values, or one that outweighs all others", "too few values"
        )
    return "number" if scale > 0 else _Ignored("its values are constant at every site")


def _are_codes(numbers: Sequence[ColumnStatistics]) -> bool:
    """Whether whole numbers are few and repeated often enough to be a category."""
    levels = {level for s in numbers for level in s.levels}
    repeated = any(s.count >= _ROWS_PER_CODE * s.distinct for s in numbers)
    return all(s.codes for s in numbers) and repeated and 0 < len(levels) <= MAX_CODES


def _all_differ(found: StatisticsBySite) -> bool:
    present = [s for s in found.values() if s.count]
    longest = max(s.count for s in present)
    return all(s.all_different for s in present) and longest >= _FEWEST_FOR_IDENTIFIER


def _coincidences(numbers: Sequence[ColumnStatistics]) -> float:
    """How many pairs of equal values whole numbers of this count and spread have by chance.

    Measurements have about as many, identifiers none.
    """
    known = [s for s in numbers if s.std > 0]
    return float(sum(s.count * s.count / (2.0 * np.sqrt(12.0) * s.std) for s in known))


def _constant(found: StatisticsBySite) -> _Ignored | None:
    """Why a column that has one value everywhere cannot be compared."""
    present = [s for s in found.values() if s.count]
    if any(s.distinct != 1 for s in present):
        return None
    values = {(s.levels, None if np.isnan(s.mean) else s.mean) for s in present}
    if len(values) > 1 or not any(s.levels or np.isfinite(s.mean) for s in present):
        return None
    if any(s.missing for s in found.values()):
        return None  # a value or none: still a difference
    return _Ignored("it has the same value in every row of every site", "constant")


def _make_column(
    name: str, kind: Literal["number", "category", "boolean", "date"], found: StatisticsBySite
) -> SchemaColumn:
    missing = any(s.missing for s in found.values())
    if kind == "category":
        return _category(name, found)
    rule = "indicator" if missing else "refuse"
    if kind == "boolean":
        share = _true_share(found)
        scale = float(np.sqrt(share * (1.0 - share))) or 1.0
        return SchemaColumn(name, kind, centre=share, scale=scale, missing=rule)
    centre, scale = pooled_moments(found)
    if not np.isfinite(scale):
        reason = "every site has too few values, or one that outweighs all others"
        return SchemaColumn(name, "ignored", reason=reason)
    return SchemaColumn(name, kind, centre=centre, scale=scale or 1.0, missing=rule)


def _true_share(found: StatisticsBySite) -> float:
    true = total = 0
    for s in found.values():
        counts = dict(zip(s.levels, s.level_counts, strict=True))
        named = sum(counts.values())
        yes = counts.get("true", counts.get("1", 0))
        only = named > 0 and s.other > 0  # the level that has no name is the other of the two
        true += s.other if only and yes == 0 else yes
        total += named + (s.other if only else 0)
    return true / total if total else 0.5


def _category(name: str, found: StatisticsBySite) -> SchemaColumn:
    counts: dict[str, int] = {}
    for s in found.values():
        for level, number in zip(s.levels, s.level_counts, strict=True):
            counts[level] = counts.get(level, 0) + number
    if all(is_code(level) for level in counts):
        levels = sorted(counts, key=float)
    else:
        levels = sorted(counts)
    missing = sum(s.missing for s in found.values())
    other = sum(s.other for s in found.values())
    shares = np.array([*counts.values(), other, missing], dtype=np.float64)
    shares /= shares.sum()
    spread = 1.0 - float(shares @ shares)
    weight = 2.0 / spread if spread > 0 else 2.0
    rule = "level" if missing else "refuse"
    return SchemaColumn(name, "category", levels=(*levels, OTHER), weight=weight, missing=rule)


def _nothing_left(schema: Schema) -> str:
    reasons = "; ".join(f"'{name}': {reason}" for name, reason in list(schema.ignored.items())[:3])
    return f"No column is left to compare ({reasons}); give a schema that says what they are."
