"""Checks of a profile that arrived: its types, and whether its numbers are consistent."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_args

from fedwad.errors import InputError
from fedwad.tables._profile import MAX_LEVELS, SENTINELS, ColumnStatistics, Profile
from fedwad.tables._table import ReadKind

__all__ = ["check_profile", "smallest_group"]

_MAX_NAME_LENGTH = 1000
_TYPES = {"str": str, "int": int, "bool": bool}
_ITEM_TYPES: dict[str, type | tuple[type, ...]] = {
    "tuple[str, ...]": str,
    "tuple[int, ...]": int,
    "tuple[float, ...]": (float, int),
}


def smallest_group(profile: Profile) -> int:
    """The fewest rows that a listed level, a sentinel or a mean of this profile is about.

    A sentinel is a number that often stands for a missing value, such as 0, -9 or 999.
    """
    counts = [profile.rows]
    for s in profile.columns:
        counts += [*s.level_counts, *s.sentinel_counts]
        if s.moments:
            counts.append(s.count)
    return min(counts)


def check_profile(profile: Any) -> None:
    """InputError unless this is a profile whose numbers fit together."""
    if type(profile) is not Profile or type(profile.columns) is not tuple:
        raise InputError("What arrived is not the profile of a table.")
    for number in (profile.rows, profile.min_cell_size):
        if type(number) is not int or number < 1:
            raise InputError("A profile arrived with an impossible number of rows.")
    for statistics in profile.columns:
        _check_column(statistics, profile.rows)
    if len(set(profile.names)) < len(profile.names):
        raise InputError("A profile arrived with two columns of one name.")
    if smallest_group(profile) < min(profile.min_cell_size, profile.rows):
        raise InputError("A profile arrived with a group of fewer rows than its min_cell_size.")


def _check_column(statistics: Any, rows: int) -> None:
    if type(statistics) is not ColumnStatistics:
        raise InputError("A profile arrived with an entry that is not the statistics of a column.")
    if not (_has_types(statistics) and _is_consistent(statistics, rows)):
        raise InputError("A profile arrived with a column whose numbers do not fit together.")


def _has_types(s: ColumnStatistics) -> bool:
    """Whether each field has its declared type; a boolean is no integer."""
    for field in fields(s):
        value: Any = getattr(s, field.name)
        declared = str(field.type)
        items = _ITEM_TYPES.get(declared)
        if items is not None:
            right = isinstance(value, tuple) and all(
                isinstance(item, items) and type(item) is not bool for item in value
            )
        else:
            right = isinstance(value, _TYPES[declared])
            right = right and (declared == "bool" or type(value) is not bool)
        if not right:
            return False
    return True


def _is_consistent(s: ColumnStatistics, rows: int) -> bool:
    """Whether counts fit together. `distinct` is MAX_LEVELS + 1 if there are more, and
    `numbers_in_text` counts texts that are numbers."""
    if len(s.name) > _MAX_NAME_LENGTH:
        return False
    if s.kind == "label":
        return s == ColumnStatistics(s.name, "label")
    return (
        s.kind in get_args(ReadKind)
        and min(s.count, s.missing, s.other, s.numbers_in_text) >= 0
        and s.count + s.missing == rows
        and 0 <= s.distinct <= MAX_LEVELS + 1
        and _moments_fit(s)
        and _levels_fit(s)
        and _sentinels_fit(s)
    )


def _moments_fit(s: ColumnStatistics) -> bool:
    """Moments are the mean and the sum of squared differences from it, or nothing."""
    finite = len(s.moments) in (0, 2) and all(map(math.isfinite, s.moments))
    return finite and not s.sum_of_squares < 0


def _levels_fit(s: ColumnStatistics) -> bool:
    """`other` counts rows whose level is not listed. Most columns of numbers list no levels."""
    return (
        len(s.levels) == len(s.level_counts) == len(set(s.levels)) <= MAX_LEVELS
        and all(number > 0 for number in s.level_counts)
        and sum(s.level_counts) + s.other <= s.count
    )


def _sentinels_fit(s: ColumnStatistics) -> bool:
    return (
        len(s.sentinels) == len(s.sentinel_counts) == len(set(s.sentinels))
        and set(s.sentinels) <= set(SENTINELS)
        and all(number > 0 for number in s.sentinel_counts)
        and sum(s.sentinel_counts) <= s.count
    )
