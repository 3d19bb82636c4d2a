"""The schema on which sites agree, from one profile of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from fedwad.errors import InputError
from fedwad.tables._conflicts import Conflict, StatisticsBySite, find_conflicts, join_names
from fedwad.tables._decide import CompareKind, Ignored, decide_kind, pooled_moments
from fedwad.tables._profile import Profile
from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER, SchemaColumn
from fedwad.tables._table import is_code, nearest

__all__ = ["agree"]


def agree(profiles: Mapping[str, Profile]) -> Schema:
    """The schema of sites that sent these profiles, with the conflicts between them.

    A column is compared when every site has it and all read the same kind. Integers with at
    most `MAX_CODES` different values are a category when they occur in three rows or more on
    average at some site and no site has more values, unless they are steps of a scale (50, 60, ...
    100). So are texts with at most `MAX_LEVELS` different values that occur in three rows or more
    on average, half of whose rows have a level that `min_cell_size` rows of a site share. All other
    texts, identifiers, names of sites, constant and all-missing columns are ignored, with the
    reason.

    The columns are in alphabetical order, so that the order in which sites have them changes no bit
    of a result; nor does the order of the sites.
    """
    if not profiles:
        raise InputError("No site sent a profile; give at least one table.")
    columns: list[SchemaColumn] = []
    conflicts: list[Conflict] = []
    known = {site: profiles[site].by_name() for site in sorted(profiles)}
    for name in sorted({name for found in known.values() for name in found}):
        found = {site: columns_of[name] for site, columns_of in known.items() if name in columns_of}
        if any(statistics.kind == "label" for statistics in found.values()):
            columns.append(_label_column(name, profiles, found))
            continue
        column, ignored = _decide_column(name, profiles, found)
        columns.append(column)
        conflicts += [*ignored, *find_conflicts(name, found, column)]
    schema = Schema(tuple(columns), conflicts=tuple(conflicts))
    if not schema.width:
        raise InputError(_nothing_to_compare(schema))
    return schema


def _label_column(
    name: str, profiles: Mapping[str, Profile], found: StatisticsBySite
) -> SchemaColumn:
    for site in profiles:
        if site not in found:
            raise InputError(f"{site} has no label column '{name}'; add or rename it.")
    return SchemaColumn(name, "label")


def _decide_column(
    name: str, profiles: Mapping[str, Profile], found: StatisticsBySite
) -> tuple[SchemaColumn, list[Conflict]]:
    """What a column becomes, and the conflict for which it is ignored, if there is one."""
    lacking = [site for site in profiles if site not in found]
    decided = _ignore_absent(name, profiles, lacking) if lacking and name else decide_kind(found)
    if not isinstance(decided, Ignored):
        return _build_column(name, decided, found), []
    column = SchemaColumn(name, "ignored", reason=decided.reason)
    if not decided.problem:
        return column, []
    sentence = f"Column '{name}' is ignored: {decided.reason}."
    return column, [Conflict(name, tuple(lacking or found), decided.problem, sentence)]


def _ignore_absent(name: str, profiles: Mapping[str, Profile], lacking: list[str]) -> Ignored:
    """Why a column that some sites lack is ignored, with a similar name that they have instead.

    Of two names that are similar to each other, one alone gives a conflict.
    """
    present = {n for site, p in profiles.items() if site not in lacking for n in p.names}
    lacking_names = profiles[lacking[0]].names
    near = nearest(name, [other for other in lacking_names if other not in present])
    hint = "" if near is None else f" (but '{near}')"
    second_of_pair = (
        near is not None
        and _by_length(near) < _by_length(name)
        and nearest(near, [other for other in present if other not in lacking_names]) == name
    )
    reason = f"{join_names(lacking)} {'have' if lacking[1:] else 'has'} no such column{hint}"
    return Ignored(reason, "" if second_of_pair else "column missing")


def _by_length(name: str) -> tuple[int, str]:
    return len(name), name.swapcase()


def _build_column(name: str, kind: CompareKind, found: StatisticsBySite) -> SchemaColumn:
    if kind == "category":
        return _category_column(name, found)
    rule = "indicator" if any(s.missing for s in found.values()) else "refuse"
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
        one_named = named > 0 and s.other > 0  # of two levels, one is too rare to be named
        true += s.other if one_named and yes == 0 else yes
        total += named + (s.other if one_named else 0)
    return true / total if total else 0.5


def _category_column(name: str, found: StatisticsBySite) -> SchemaColumn:
    counts: Counter[str] = Counter()
    for s in found.values():
        counts.update(dict(zip(s.levels, s.level_counts, strict=True)))
    levels = sorted(counts, key=float if all(map(is_code, counts)) else None)
    missing = sum(s.missing for s in found.values())
    other = sum(s.other for s in found.values())
    shares = np.array([*counts.values(), other, missing], dtype=np.float64)
    shares /= shares.sum()
    spread = 1.0 - float(shares @ shares)
    weight = 2.0 / spread if spread > 0 else 2.0
    rule = "level" if missing else "refuse"
    return SchemaColumn(name, "category", levels=(*levels, OTHER), weight=weight, missing=rule)


def _nothing_to_compare(schema: Schema) -> str:
    reasons = "; ".join(f"'{name}': {reason}" for name, reason in list(schema.ignored.items())[:3])
    return f"No column is left to compare ({reasons}); give a schema that says what they are."
