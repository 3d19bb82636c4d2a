"""The schema on which sites agree, from one profile of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from fedwad.errors import InputError
from fedwad.tables._conflicts import Conflict, StatisticsBySite, find_conflicts, join_names
from fedwad.tables._decide import NO_MOMENTS, CompareKind, Ignored, decide_kind, pooled_moments
from fedwad.tables._profile import Profile
from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER, SchemaColumn
from fedwad.tables._table import is_code, similar_name

__all__ = ["agree"]


def agree(profiles: Mapping[str, Profile]) -> Schema:
    """The schema of sites that sent these profiles, with the conflicts between them.

    A column is compared if every site has it and all read the same kind. Integers at some sites may
    also meet texts that share a level with them, or booleans if they are 0 and 1.

    Integers are a category if no site has more than `MAX_CODES` different values, the sites
    together list no more levels, and at some site a value occurs in three rows or more on average;
    steps of a scale (50, 60, ... 100) stay numbers.

    Texts are a category if no site has more than `MAX_LEVELS` different values, at some site a
    value occurs in three rows or more on average (or all sites together have fewer than 20
    values), and at least half of the rows have a level that `min_cell_size` rows of their site
    share. All other texts, identifiers, names of sites, and columns that are constant or all
    missing are ignored; the schema has the reason.

    The columns are in alphabetical order. So neither the order in which sites have them nor the
    order of the sites changes a bit of a result.
    """
    if not profiles:
        raise InputError("No site sent a profile; give at least one table.")
    columns: list[SchemaColumn] = []
    conflicts: list[Conflict] = []
    profiles = {site: profiles[site] for site in sorted(profiles)}
    statistics = {site: profile.by_name() for site, profile in profiles.items()}
    for name in sorted({name for by_name in statistics.values() for name in by_name}):
        by_site = {s: by_name[name] for s, by_name in statistics.items() if name in by_name}
        if any(s.kind == "label" for s in by_site.values()):
            columns.append(_label_column(name, profiles, by_site))
            continue
        column, ignored = _decide_column(name, profiles, by_site)
        columns.append(column)
        conflicts += [*ignored, *find_conflicts(name, by_site, column)]
    schema = Schema(tuple(columns), conflicts=tuple(conflicts))
    if not schema.width:
        raise InputError(_nothing_to_compare(schema))
    return schema


def _label_column(
    name: str, profiles: Mapping[str, Profile], by_site: StatisticsBySite
) -> SchemaColumn:
    for site in profiles:
        if site not in by_site:
            raise InputError(f"{site} has no label column '{name}'; add or rename it.")
    return SchemaColumn(name, "label")


def _decide_column(
    name: str, profiles: Mapping[str, Profile], by_site: StatisticsBySite
) -> tuple[SchemaColumn, list[Conflict]]:
    """What a column becomes, and the conflict because of which it is ignored, if there is one."""
    lacking = [site for site in profiles if site not in by_site]
    decided = _ignore_absent(name, profiles, lacking) if lacking and name else decide_kind(by_site)
    if not isinstance(decided, Ignored):
        return _build_column(name, decided, by_site), []
    column = SchemaColumn(name, "ignored", reason=decided.reason)
    if not decided.problem:
        return column, []
    sentence = f"Column '{name}' is ignored: {decided.reason}."
    return column, [Conflict(name, tuple(lacking or by_site), decided.problem, sentence)]


def _ignore_absent(name: str, profiles: Mapping[str, Profile], lacking: list[str]) -> Ignored:
    """Why a column that some sites lack is ignored, with a similar name that they have instead.

    If some sites have one of two similar names and the others have the other, only the shorter name
    gives a conflict.
    """
    present = {n for site, p in profiles.items() if site not in lacking for n in p.names}
    lacking_names = profiles[lacking[0]].names
    near = similar_name(name, [other for other in lacking_names if other not in present])
    hint = "" if near is None else f" (but '{near}')"
    second_of_pair = (
        near is not None
        and _length_key(near) < _length_key(name)
        and similar_name(near, [other for other in present if other not in lacking_names]) == name
    )
    reason = f"{join_names(lacking)} {'have' if lacking[1:] else 'has'} no such column{hint}"
    return Ignored(reason, "" if second_of_pair else "column missing")


def _length_key(name: str) -> tuple[int, str]:
    return len(name), name.swapcase()


def _build_column(name: str, kind: CompareKind, by_site: StatisticsBySite) -> SchemaColumn:
    if kind == "category":
        return _category_column(name, by_site)
    rule = "indicator" if any(s.missing for s in by_site.values()) else "refuse"
    if kind == "boolean":
        fraction = _fraction_true(by_site)
        scale = float(np.sqrt(fraction * (1.0 - fraction))) or 1.0
        return SchemaColumn(name, kind, centre=fraction, scale=scale, missing=rule)
    centre, scale = pooled_moments(by_site)
    if not np.isfinite(scale):
        return SchemaColumn(name, "ignored", reason=NO_MOMENTS)
    return SchemaColumn(name, kind, centre=centre, scale=scale or 1.0, missing=rule)


def _fraction_true(by_site: StatisticsBySite) -> float:
    """The pooled fraction of true among the values whose level the profiles reveal."""
    true = total = 0
    for s in by_site.values():
        counts = dict(zip(s.levels, s.level_counts, strict=True))
        listed = sum(counts.values())
        listed_true = counts.get("true", counts.get("1", 0))
        one_listed = listed > 0 and s.other > 0  # the other of the two levels is too rare
        true += s.other if one_listed and listed_true == 0 else listed_true
        total += listed + (s.other if one_listed else 0)
    return true / total if total else 0.5


def _category_column(name: str, by_site: StatisticsBySite) -> SchemaColumn:
    counts: Counter[str] = Counter()
    for s in by_site.values():
        counts.update(dict(zip(s.levels, s.level_counts, strict=True)))
    levels = sorted(counts, key=float if all(map(is_code, counts)) else None)
    missing = sum(s.missing for s in by_site.values())
    other = sum(s.other for s in by_site.values())
    fractions = np.array([*counts.values(), other, missing], dtype=np.float64)
    fractions /= fractions.sum()
    spread = 1.0 - float(np.square(fractions).sum())
    weight = 2.0 / spread if spread > 0 else 2.0
    rule = "level" if missing else "refuse"
    return SchemaColumn(name, "category", levels=(*levels, OTHER), weight=weight, missing=rule)


def _nothing_to_compare(schema: Schema) -> str:
    reasons = "; ".join(f"'{name}': {reason}" for name, reason in list(schema.ignored.items())[:3])
    return f"No column is left to compare ({reasons}); give a schema that says what they are."
