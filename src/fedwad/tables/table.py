"""A table in memory: named columns of numbers, dates, booleans or categories."""

from __future__ import annotations

import difflib
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError

#: What the values of a column are, as they were read; a category is text.
ReadKind = Literal["number", "category", "boolean", "date", "empty", "unusable"]


@dataclass(frozen=True, eq=False)
class Column:
    """One column.

    Numbers and dates (in days since 1970) are float64 with NaN where a value is missing. Categories
    and booleans are codes, indices into `levels`, with -1 where a value is missing. All values of
    an empty column are missing. The values of an unusable column (lists, bytes) are not read;
    `detail` says what it holds, and of another column how its texts were read. `decimal` is "," if
    commas in its texts are decimal commas; only texts that are still to be read as numbers have it.
    `chosen` says that a user chose its kind.
    """

    name: str
    kind: ReadKind
    values: NDArray[Any]
    levels: tuple[str, ...] = ()
    detail: str = ""
    decimal: str = ""
    chosen: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:  # no values: what is printed may end up anywhere
        return f"Column({self.name!r}, {self.kind}, {len(self)} rows)"

    def with_missing(self, missing_values: Sequence[str]) -> Column:
        """The column in which these values, written as names of levels, count as missing."""
        if not missing_values or self.kind in ("empty", "unusable"):
            return self
        if self.kind in ("number", "date"):
            numbers = [float(value) for value in missing_values if is_code(value)]
            values = np.where(np.isin(self.values, numbers), np.nan, self.values)
            return replace(self, values=values)
        codes = [code for code, level in enumerate(self.levels) if level in missing_values]
        values = np.where(np.isin(self.values, codes), self.values.dtype.type(-1), self.values)
        return replace(self, values=values)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """The mask of the rows without a value; all rows of an empty or unusable column."""
        if self.kind in ("number", "date"):
            return np.asarray(np.isnan(self.values))
        if self.kind in ("category", "boolean"):
            return np.asarray(self.values < 0)
        return np.ones(len(self), dtype=bool)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    `name` is what errors call the table; `notes` are sentences about what reading it changed or
    noticed. A file without a line of column names has no header: its columns are called f0, f1 and
    so on.
    """

    name: str
    columns: tuple[Column, ...]
    rows: int
    has_header: bool = True
    notes: tuple[str, ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:  # no values
        return f"Table({self.name!r}, {self.rows} rows, {len(self.columns)} columns)"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in their order."""
        return tuple(column.name for column in self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Column:
        if name not in self._by_name:
            raise unknown_column_error(name, self.names, self.name)
        return self._by_name[name]

    def take(self, rows: Any) -> Table:
        """The table with these rows alone, given by their indices or by a mask."""
        columns = tuple(replace(column, values=column.values[rows]) for column in self.columns)
        return replace(self, columns=columns, rows=len(np.arange(self.rows)[rows]))


def level_name(number: float) -> str:
    """The name of the level that a number stands for: 1 and 1.0 are both '1'.

    >>> level_name(1.0), level_name(2.5)
    ('1', '2.5')
    """
    value = float(number)
    exact = value.is_integer() and abs(value) < 1e15  # without a point or an exponent
    return str(int(value)) if exact else repr(value)


def date_name(days: float) -> str:
    """The date so many days after 1970, with its time of day if it has one.

    >>> date_name(18292.0), date_name(18292.25)
    ('2020-01-31', '2020-01-31 06:00:00')
    """
    return str(datetime(1970, 1, 1) + timedelta(days=days)).removesuffix(" 00:00:00")


def level_texts(column: Column) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The code of each row and the texts that codes stand for, sorted; -1 where one is missing."""
    if column.kind in ("category", "boolean"):
        used = np.unique(column.values[column.values >= 0])
        code_of = np.full(len(column.levels) + 1, -1, dtype=np.int64)
        code_of[used] = np.arange(len(used))
        return code_of[column.values], tuple(column.levels[code] for code in used)
    codes = np.full(len(column), -1, dtype=np.int64)
    values, indices = np.unique(column.values[~column.missing], return_inverse=True)
    codes[~column.missing] = indices.ravel()
    return codes, tuple(map(date_name if column.kind == "date" else level_name, values))


def unknown_column_error(wanted: Any, names: Sequence[str], table: str) -> InputError:
    """The error for a column that a table does not have, with the most similar name that it has."""
    # Names that are empty or have spaces around them, which one cannot see, are quoted.
    shown = [name if name and name == name.strip() else f"'{name}'" for name in names[:30]]
    columns = ", ".join(shown) + (", ..." if len(names) > 30 else "")
    hint = similar_name_hint(wanted, names)
    return InputError(
        f"{table} has no column '{wanted}'{hint}; its columns are {columns}.", "unknown-column"
    )


def check_names(names: Sequence[str], table: str, drop: Sequence[str] = ()) -> None:
    """InputError unless column names are unique and those to drop are among them.

    The first name may be empty, as that of an index of rows is.
    """
    for wanted in drop:
        if wanted not in names:
            raise unknown_column_error(wanted, names, table)
    blank = [index for index, name in enumerate(names) if name == ""]
    if blank not in ([], [0]) and "" not in drop:
        raise unnamed_column_error(table, blank[-1])
    repeated = first_repeated([name for name in names if name])
    if repeated is not None:
        raise InputError(
            f"{table} has more than one column '{repeated}'; rename or leave out all but one.",
            "repeated-column",
        )


def first_repeated(names: Sequence[str]) -> str | None:
    """The first name that occurs more than once, if there is one."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


def unnamed_column_error(table: str, index: int) -> InputError:
    """The error for a column without a name."""
    return InputError(
        f"{table} has a column without a name, number {index + 1}; name it, or drop it"
        f" ({drop_hint('')}); pandas writes the numbers of rows like that, unless index=False.",
        "bad-name",
    )


def similar_name_hint(wanted: Any, names: Sequence[str]) -> str:
    """' (but 'diagnosis')' if one of the names is similar to the wanted one, else ''."""
    near = similar_name(wanted, names)
    return "" if near is None else f" (but '{near}')"


def similar_name(wanted: Any, names: Sequence[str]) -> str | None:
    """The name that is most similar to the wanted one, if any is similar."""
    original = {name.strip().lower(): name for name in names}
    word = str(wanted).strip().lower()
    matches = difflib.get_close_matches(word, original, 1)
    matches += [w for w in original if min(len(w), len(word)) > 2 and (w in word or word in w)]
    return original[matches[0]] if matches else None


def list_rows(rows: Sequence[int]) -> str:
    """'rows 2, 4, counting from 1'.

    >>> list_rows([3])
    'row 3, counting from 1'
    """
    listed = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
    return f"row{'s' if len(rows) > 1 else ''} {listed}, counting from 1"


def count_rows(mask: NDArray[np.bool_], what: str) -> str:
    """'2 missing values (rows 2, 4, counting from 1)'.

    >>> count_rows(np.array([False, True]), "missing value")
    '1 missing value (row 2, counting from 1)'
    """
    rows = (np.flatnonzero(mask) + 1).tolist()
    return f"{len(rows)} {what}{'s' if len(rows) > 1 else ''} ({list_rows(rows)})"


def drop_hint(*names: str) -> str:
    """How to drop these columns, as errors say it; the command line puts its options there.

    >>> drop_hint("age", "last name")
    "drop: age, 'last name'"
    """
    return f"drop: {', '.join(map(shlex.quote, names))}"


def index_dtype(items: Sequence[Any]) -> type[np.signedinteger]:
    """The smallest type of integers that holds the indices of these items."""
    return np.int8 if len(items) < 120 else np.int16 if len(items) < 30_000 else np.int32


def is_code(level: str) -> bool:
    """Whether a level is the name that `level_name` gives to a number.

    >>> is_code("4"), is_code("four")
    (True, False)
    """
    try:
        return level_name(float(level)) == level
    except (OverflowError, ValueError):
        return False
