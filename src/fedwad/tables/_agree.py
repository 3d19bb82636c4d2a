"""The schema on which sites agree, from one profile of each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedwad.errors import InputError
from fedwad.tables._conflicts import Conflict, StatisticsBySite, conflicts_of, listed
from fedwad.tables._decide import CompareKind, Ignored, decide, pooled_moments
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
            columns.append(_label(name, profiles, found))
            continue
        column, ignored = _column(name, profiles, found)
        columns.append(column)
        conflicts += [*ignored, *conflicts_of(name, found, column)]
    schema = Schema(tuple(columns), conflicts=tuple(conflicts))
    if not schema.width:
        raise InputError(_nothing_left(schema))
    return schema


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
    decided = _absent(name, profiles, lacking) if lacking and name else decide(found)
    if not isinstance(decided, Ignored):
        return _make_column(name, decided, found), []
    column = SchemaColumn(name, "ignored", reason=decided.reason)
    if not decided.problem:
        return column, []
    sentence = f"Column '{name}' is ignored: {decided.reason}."
    return column, [Conflict(name, tuple(lacking or found), decided.problem, sentence)]


def _absent(name: str, profiles: Mapping[str, Profile], lacking: list[str]) -> Ignored:
    """A column that some sites do not have, perhaps under a different name; of two such, one is a
    conflict."""
    own = {n for site, p in profiles.items() if site not in lacking for n in p.names}
    theirs = profiles[lacking[0]].names
    near = nearest(name, [other for other in theirs if other not in own])
    hint = "" if near is None else f" (but '{near}')"
    second = (
        near is not None
        and _by_length(near) < _by_length(name)
        and nearest(near, [other for other in own if other not in theirs]) == name
    )
    reason = f"{listed(lacking)} {'have' if lacking[1:] else 'has'} no such column{hint}"
    return Ignored(reason, "" if second else "column missing")


def _by_length(name: str) -> tuple[int, str]:
    return len(name), name.swapcase()


def _make_column(name: str, kind: CompareKind, found: StatisticsBySite) -> SchemaColumn:
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
        one_named = named > 0 and s.other > 0  # of two levels, one is too rare to be named
        true += s.other if one_named and yes == 0 else yes
        total += named + (s.other if one_named else 0)
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
