"""The profile of a site's table: all that a site says about it before sites agree on a schema.

A profile has the names and kinds of the columns, counts, means and sums of squares over at least
`min_cell_size` rows, and counts of levels with at least `min_cell_size` rows. It has no smallest or
largest value and no quantile. Of levels that fewer rows have, it has only the number of all their
rows, `other`. It lists no level of a column named like an identifier, or of texts with more than
`MAX_LEVELS` different values: a patient's number may occur in many rows of one patient.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_integer
from fedwad.tables._reading import read_table
from fedwad.tables._schema_column import OTHER
from fedwad.tables._table import Column, level_name
from fedwad.tables._text import is_number

__all__ = ["MAX_CODES", "MAX_LEVELS", "SENTINELS", "ColumnStatistics", "Profile", "profile"]

#: Integers with at most so many different values may be codes of a category.
MAX_CODES = 10
#: Texts with more different values than this are free text.
MAX_LEVELS = 50
#: Numbers that often stand for a missing value.
SENTINELS = (0.0, -1.0, -9.0, -99.0, -999.0, 9.0, 99.0, 999.0, 9999.0)

_MAX_LEVEL_LENGTH = 100
_DOMINANT = 0.9  # fraction of a sum of squares from which on a value follows from the sum
_IDENTIFIER = re.compile(
    r"(?i:(^|[_\W])(ids?|p(at)?id|pidnum|mrn|ssn|uuid|guid|e?mail|phone)($|[_\W]))|[a-z]I[dD]$"
    r"|(?i:^(patient|person|subject|sample|specimen|record|case|row|line)[_\W]*(no|nr|num|number)$)"
    r"|^Unnamed: \d+$"
)


@dataclass(frozen=True)
class ColumnStatistics:
    """What a profile says about one column.

    Parameters
    ----------
    name, kind : of the column, as read: number, category (text), boolean, date, empty, unusable.
        If the kind is "label", the profile has nothing else about the column.
    count, missing : numbers of rows with and without a value
    distinct : number of different values, at most `MAX_LEVELS` + 1
    whole : whether all numbers are whole
    all_different : whether no value occurs twice
    identifier : whether the name of the column is that of an identifier
    moments : mean and sum of squared differences from it, over the present values. Empty if fewer
        than `min_cell_size` values are present, if the moments would reveal values of fewer rows
        than that, or if values are infinite or so large that the sum would be.
    levels, level_counts, other : levels with at least `min_cell_size` rows, and the number of rows
        with any other level. Most columns of numbers have neither.
    sentinels, sentinel_counts : values that may stand for missing ones (0, -1, -9, 99, 999, ...)
        with at least `min_cell_size` rows
    numbers_in_text : number of texts that are numbers, if there are at least `min_cell_size`
    """

    name: str
    kind: str
    count: int = 0
    missing: int = 0
    distinct: int = 0
    whole: bool = False
    all_different: bool = False
    identifier: bool = False
    moments: tuple[float, ...] = ()
    levels: tuple[str, ...] = ()
    level_counts: tuple[int, ...] = ()
    other: int = 0
    sentinels: tuple[float, ...] = ()
    sentinel_counts: tuple[int, ...] = ()
    numbers_in_text: int = 0

    @property
    def mean(self) -> float:
        """The mean; NaN if the profile has no moments."""
        return self.moments[0] if self.moments else float("nan")

    @property
    def sum_of_squares(self) -> float:
        """The sum of squared differences from the mean; NaN if the profile has no moments."""
        return self.moments[1] if self.moments else float("nan")

    @property
    def std(self) -> float:
        """The standard deviation, in its population form."""
        return float(np.sqrt(self.sum_of_squares / self.count)) if self.count else float("nan")

    @property
    def may_be_codes(self) -> bool:
        """Whether the values may be codes: integers with few different values."""
        return self.kind == "number" and self.whole and 0 < self.distinct <= MAX_CODES


@dataclass(frozen=True)
class Profile:
    """What a site says about its table before sites agree on a schema."""

    rows: int
    columns: tuple[ColumnStatistics, ...]
    min_cell_size: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in their order."""
        return tuple(column.name for column in self.columns)

    def by_name(self) -> dict[str, ColumnStatistics]:
        """The statistics of each column."""
        return {column.name: column for column in self.columns}

    def __getitem__(self, name: str) -> ColumnStatistics:
        return self.by_name()[name]


def profile(table: Any, min_cell_size: int = 10, label: str | None = None) -> Profile:
    """The profile of a table, which is whatever `read_table` reads.

    Of the `label` column it has only the name.

    >>> import pyarrow as pa
    >>> sex = ["f"] * 12 + ["m"] * 12 + ["x"]
    >>> profile(pa.table({"sex": sex}))["sex"].levels
    ('f', 'm')
    """
    min_cell_size = check_integer(min_cell_size, "min_cell_size")
    read = read_table(table, label=label)
    columns = tuple(
        ColumnStatistics(c.name, "label") if c.name == label else _statistics(c, min_cell_size)
        for c in read.columns
    )
    return Profile(read.rows, columns, min_cell_size)


def _statistics(column: Column, min_cell_size: int) -> ColumnStatistics:
    kind = column.kind
    missing = 0 if kind == "unusable" else int(column.missing.sum())
    identifier = column.name == "" or bool(_IDENTIFIER.search(column.name))
    fields: dict[str, Any] = {}
    if kind in ("number", "date"):
        present = column.values[~np.isnan(column.values)] if missing else column.values
        fields = _number_statistics(present, kind, min_cell_size, identifier)
    elif kind in ("category", "boolean"):
        fields = _level_statistics(column, min_cell_size, identifier)
    return ColumnStatistics(
        column.name, kind, len(column) - missing, missing, identifier=identifier, **fields
    )


def _number_statistics(
    values: NDArray[np.float64], kind: str, min_cell_size: int, identifier: bool
) -> dict[str, Any]:
    finite = bool(np.isfinite(values).all())
    whole = finite and bool(np.all(values % 1.0 == 0.0))
    distinct = _distinct_if_few(values)
    count = len(np.unique(values)) if distinct is None else len(distinct)
    fields: dict[str, Any] = {
        "whole": whole,
        "distinct": min(count, MAX_LEVELS + 1),
        "all_different": count == len(values),
    }
    if kind == "number" and not identifier:
        fields |= _codes_and_sentinels(values, distinct if whole else None, min_cell_size)
    if finite and len(values) >= min_cell_size:
        with np.errstate(over="ignore", invalid="ignore"):  # of squares of very large values
            reveals = _reveals_few_rows(values, fields, min_cell_size)
            moments = _moments(values)
        if not reveals and np.isfinite(moments).all():
            fields["moments"] = moments
    return fields


def _reveals_few_rows(
    values: NDArray[np.float64], fields: Mapping[str, Any], min_cell_size: int
) -> bool:
    """Whether moments and the rest of the profile reveal values of fewer than `min_cell_size` rows.

    The mean of 199 zeros and one other value is that value over 200. The sum over all rows minus
    the sum over listed levels is the sum over the remaining rows. A single value that dominates the
    sum of squares follows from that sum alone.
    """
    not_sentinels = len(values) - sum(fields.get("sentinel_counts", ()))
    other = fields.get("other", 0)
    off_mode = min_cell_size  # rows with another value than the most frequent one, or enough
    if fields["distinct"] <= MAX_LEVELS or min_cell_size > MAX_LEVELS:
        largest_count = int(np.unique(values, return_counts=True)[1].max())
        off_mode = len(values) - largest_count if largest_count >= min_cell_size else min_cell_size
    few = any(0 < rows < min_cell_size for rows in (not_sentinels, other, off_mode))
    return few or (min_cell_size > 1 and _is_dominated(values))


def _is_dominated(values: NDArray[np.float64]) -> bool:
    """Whether one value makes up most of the sum of squares."""
    squares = np.square(values - np.mean(values))
    return bool(squares.max() > _DOMINANT * squares.sum())


def _moments(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and sum of squared differences from it.

    Values are first shifted by one of them, so that those far from zero lose no digits. NumPy's
    sums are the same on all processors; products of BLAS are not.
    """
    differences = values - values[0]
    shift = float(np.mean(differences))
    differences -= shift
    residual = float(np.sum(differences))  # 0 but for rounding
    squares = float(np.sum(np.square(differences))) - residual * residual / len(values)
    return float(values[0]) + shift, max(squares, 0.0)  # a NaN stays


def _codes_and_sentinels(
    values: NDArray[np.float64], distinct: NDArray[np.float64] | None, min_cell_size: int
) -> dict[str, Any]:
    counts = {value: int(np.count_nonzero(values == value)) for value in SENTINELS}
    frequent = [value for value in SENTINELS if counts[value] >= min_cell_size]
    fields: dict[str, Any] = {
        "sentinels": tuple(frequent),
        "sentinel_counts": tuple(counts[value] for value in frequent),
    }
    if distinct is not None and len(distinct) <= MAX_CODES:
        code_counts = [int(np.count_nonzero(values == value)) for value in distinct]
        fields |= _list_levels([level_name(v) for v in distinct], code_counts, min_cell_size)
    return fields


def _distinct_if_few(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The different values, None if there are more than `MAX_LEVELS`."""
    if len(np.unique(values[:1000])) > MAX_LEVELS:  # saves sorting all values
        return None
    distinct = np.unique(values)
    return distinct if len(distinct) <= MAX_LEVELS else None


def _level_statistics(column: Column, min_cell_size: int, identifier: bool) -> dict[str, Any]:
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
    used = np.flatnonzero(counts)
    levels = [column.levels[code] for code in used]
    numeric = sum(int(counts[k]) for k in used if is_number(column.levels[k]))
    fields: dict[str, Any] = {
        "distinct": min(len(used), MAX_LEVELS + 1),
        "all_different": bool(len(used) and counts.max() == 1),
        "numbers_in_text": numeric if numeric >= min_cell_size else 0,
    }
    if identifier or len(used) > MAX_LEVELS:
        return {**fields, "other": int(counts.sum())}
    return fields | _list_levels(levels, counts[used].tolist(), min_cell_size)


def _list_levels(
    levels: Sequence[str], counts: Sequence[int], min_cell_size: int
) -> dict[str, Any]:
    """Levels that at least `min_cell_size` rows have, and the number of rows with any other.

    A level with a very long name, or with the name "other", is not listed.
    """
    listed = [
        (level, count)
        for level, count in zip(levels, counts, strict=True)
        if count >= min_cell_size and level != OTHER and len(level) <= _MAX_LEVEL_LENGTH
    ]
    return {
        "levels": tuple(level for level, _ in listed),
        "level_counts": tuple(count for _, count in listed),
        "other": sum(counts) - sum(count for _, count in listed),
    }
