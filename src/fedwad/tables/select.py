"""Which rows and columns of a table count, what its columns are, which one names its units, and
whether rows change from the first to the last."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.tables.columns import parse_date, parse_number
from fedwad.tables.encode import texts_to_numbers
from fedwad.tables.profiles import MAX_LEVELS, is_identifier
from fedwad.tables.table import Column, Table, level_texts

_CONDITION = re.compile(r"\s*(.+?)\s*(>=|<=|==|!=|=|<|>)\s*(.*?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
# Names of columns that number people, or animals; other identifiers may number rows or hospitals,
# and PID is a party, too.
_NAME = re.compile(r"(?i)^(first|last|family|given|sur)[_\W]*name$")  # which people share
_PERSON = re.compile(r"(?i)patient|person|subj|participant|proband|animal|mouse|^nhs")


def condition_column(condition: str) -> str:
    """The column that a condition such as age>=18 is about; InputError for any other text."""
    return _parse_condition(condition)[0]


def _parse_condition(condition: str) -> tuple[str, str, str]:
    match = _CONDITION.fullmatch(condition)
    if match is None:
        raise InputError(
            f"'{condition}' is no condition; write a column, one of = != < <= > >= and a value,"
            " such as age>=18.",
            "bad-condition",
        )
    return match[1], match[2], match[3].strip("'\"")


def where(table: Table, conditions: Iterable[str], may_be_empty: bool = False) -> Table:
    """The rows of a table that meet all conditions; a missing value meets none.

    >>> import pyarrow as pa
    >>> from fedwad.tables import read_table
    >>> table = read_table(pa.table({"age": [15, 20, None], "sex": ["f", "m", "m"]}))
    >>> where(table, ["age>=18", "sex = m"]).rows
    1
    """
    mask = np.ones(table.rows, dtype=bool)
    for condition in conditions:
        name, sign, value = _parse_condition(condition)
        mask &= _meets(table[name], sign, value, table.name)
    if mask.all():
        return table
    if not mask.any() and not may_be_empty:
        raise InputError(
            f"No row of {table.name} meets {' and '.join(conditions)}; check the conditions.",
            "empty-table",
        )
    return table.take(mask)


def _meets(column: Column, sign: str, value: str, table: str) -> NDArray[np.bool_]:
    """The mask of the rows whose value compares so with the value of a condition."""
    compare = _COMPARE[sign]
    number = parse_date(value) if column.kind == "date" else parse_number(value)
    if column.kind in ("number", "date"):
        if np.isnan(number):
            raise InputError(
                f"Column '{column.name}' of {table} holds {column.kind}s, and '{value}' is none;"
                " compare it with one.",
                "bad-condition",
            )
        return np.asarray(compare(column.values, number) & ~column.missing)
    if column.kind not in ("category", "boolean"):
        return np.zeros(len(column), dtype=bool)

    def meets(level: str) -> bool:
        own = parse_number(level)
        if not (np.isnan(number) or np.isnan(own)):
            return bool(compare(own, number))
        # Words have no order.
        return sign in ("=", "==", "!=") and bool(compare(level.lower(), value.lower()))

    return np.asarray(np.array([*map(meets, column.levels), False])[column.values])


def set_kinds(table: Table, category: Sequence[str], number: Sequence[str]) -> Table:
    """The table with these columns read as categories or as numbers, whatever they look like.

    A text that is no number is a missing value of a column of numbers, and a note counts these.
    """
    columns = {column.name: column for column in table.columns}
    notes = list(table.notes)
    for name in category:
        column = table[name]
        if column.kind in ("number", "boolean", "date"):
            column = Column(name, "category", *level_texts(column))
        columns[name] = replace(column, chosen=True)
    for name in number:
        read = table[name]
        if read.kind in ("unusable", "date"):
            raise InputError(
                f"Column '{name}' of {table.name} holds"
                f" {'dates' if read.kind == 'date' else read.detail}, which are no numbers; leave"
                " it out, or convert it first.",
                "wrong-kind",
            )
        if read.kind in ("category", "boolean"):
            read = texts_to_numbers(read)
            read = replace(read, kind="empty") if read.missing.all() else read
        lost = int((read.missing & ~table[name].missing).sum())
        if lost:
            notes.append(
                f"{table.name}: {lost} values of column '{name}' are no numbers and count as"
                " missing."
            )
        columns[name] = replace(read, chosen=True)
    return replace(table, columns=tuple(columns.values()), notes=tuple(notes))


@dataclass(frozen=True, eq=False)
class Unit:
    """The units that rows belong to, such as patients with several visits.

    `codes` numbers the unit of each row, `name` is the column that named them, and `found` says
    that nobody chose that column. A row without a value is a unit by itself.
    """

    name: str
    codes: NDArray[np.int64]
    found: bool

    def take(self, rows: NDArray[np.int64]) -> Unit:
        """The units of these rows alone, numbered anew in the same order."""
        return replace(self, codes=np.unique(self.codes[rows], return_inverse=True)[1].ravel())

    def __repr__(self) -> str:  # no values
        return f"Unit({self.name!r}, {len(np.unique(self.codes))} units)"


def find_unit(table: Table, not_these: Iterable[str]) -> str | None:
    """The column that numbers the units of rows: named like an identifier, and repeated.

    A column named after people comes first, but not if it has few values and all are words, as
    subjects of a school are; any other must have more than `MAX_LEVELS` different values, which a
    number of a ward has not. Of several, it is the one with the fewest: patients have visits, and
    not the other way round.
    """
    found: list[tuple[bool, int, str]] = []
    for column in table.columns:
        if column.name in not_these or column.chosen or not is_identifier(column.name):
            continue
        if (
            column.name == ""
            or _NAME.match(column.name)
            or column.kind not in ("number", "category")
        ):
            continue
        codes, levels = level_texts(column)
        numbered = any(sign.isdigit() for level in levels for sign in level)
        person = bool(_PERSON.search(column.name)) and numbered
        repeats = len(levels) < np.count_nonzero(codes >= 0)
        if repeats and len(levels) > (1 if person else MAX_LEVELS):
            found.append((not person, len(levels), column.name))
    return min(found)[2] if found else None


def likely_unit(table: Table, rows: int = 20_000) -> str | None:
    """A column that may number the units of rows, though its name does not say so.

    It has more than `MAX_LEVELS` values, which nearly all repeat, and within all rows of one value
    other columns are constant that change between values and do not rise or fall with them, as an
    age group does with age. Only the first `rows` rows count.
    """
    n = min(rows, table.rows)
    coded = {c.name: level_texts(replace(c, values=c.values[:n])) for c in table.columns}
    for column in table.columns:
        codes, levels = coded[column.name]
        whole = column.kind == "category" or (
            column.kind == "number" and all(map(str.isdigit, levels))
        )
        if not whole or not MAX_LEVELS < len(levels) <= n / 2 or (codes < 0).any():
            continue
        values = np.array(levels if column.kind == "category" else list(map(int, levels)))[codes]
        order = np.argsort(values, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
        if np.count_nonzero(np.diff(np.r_[starts, n]) == 1) > 0.1 * len(levels):
            continue
        for name, (other, names) in coded.items():
            within = other[order]
            same = np.minimum.reduceat(within, starts) == np.maximum.reduceat(within, starts)
            runs = 1 + np.count_nonzero(np.diff(within[starts]))
            if name != column.name and len(names) > 1 and same.all() and runs > 2 * len(names) + 2:
                return column.name
    return None


def take_unit(table: Table, name: str, found: bool) -> tuple[Table, Unit]:
    """The table without the column that names its units, and the units."""
    codes, levels = level_texts(table[name])
    alone = codes < 0
    codes[alone] = len(levels) + np.arange(np.count_nonzero(alone))
    columns = tuple(column for column in table.columns if column.name != name)
    return replace(table, columns=columns), Unit(name, codes, found)


def split_rows(
    table: Table, by: str, units: NDArray[np.int64] | None
) -> tuple[dict[str, NDArray[np.int64]], tuple[str, ...]]:
    """The rows of each site, by the value of a column, and notes; see `UnitSites` for units."""
    codes, levels = level_texts(table[by])
    notes = nameless_notes(table.name, by, int(np.count_nonzero(codes < 0)))
    if units is not None:
        keys = units.astype(np.uint64)
        of_units, said = UnitSites.of(keys, codes).dealt(table.name, by)
        codes, notes = of_units.moved(keys, codes), notes + said
    rows = {level: np.flatnonzero(codes == code) for code, level in enumerate(levels)}
    return {level: own for level, own in rows.items() if len(own)}, notes


def nameless_notes(table: str, by: str, count: int) -> tuple[str, ...]:
    """A note if rows have no value of the column that names sites."""
    rows = "1 row has" if count == 1 else f"{count} rows have"
    left = "is" if count == 1 else "are"
    return (f"{table}: {rows} no value of '{by}' and {left} left out.",) if count else ()


@dataclass(frozen=True, eq=False)
class UnitSites:
    """How many rows units have at sites: a unit, a site (-1: none) and a number for each pair.

    Those of parts of a table add up.
    """

    units: NDArray[np.uint64]
    sites: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, units: NDArray[np.uint64], sites: NDArray[np.int64]) -> UnitSites:
        """Those of rows with these units and sites."""
        return cls(units, sites, np.ones(len(units), dtype=np.int64))._counted()

    def __add__(self, other: UnitSites) -> UnitSites:
        pairs = zip(*((o.units, o.sites, o.rows) for o in (self, other)), strict=True)
        return UnitSites(*map(np.concatenate, pairs))._counted()

    def _counted(self) -> UnitSites:
        """The same with each pair once, in their order."""
        order = np.lexsort((self.sites, self.units))
        units, sites = self.units[order], self.sites[order]
        new = np.ones(len(units), dtype=bool)
        new[1:] = (np.diff(units) != 0) | (np.diff(sites) != 0)
        starts = np.flatnonzero(new)
        rows = np.add.reduceat(self.rows[order], starts) if len(starts) else self.rows
        return UnitSites(units[starts], sites[starts], rows)

    def dealt(self, table: str, by: str, more_units: int = 0) -> tuple[UnitSites, tuple[str, ...]]:
        """The units whose rows move, each with the site that gets them, and a note.

        All rows of a unit are at the site that has most of them, the first by name of several; but
        rows stay where they are if most units have rows at several sites, as people do in a
        survey's years.
        """
        total, named = len(np.unique(self.units)) + more_units, self.sites >= 0
        first = np.lexsort((self.sites, -self.rows, self.units))
        first = first[named[first]]
        _, starts, counts = np.unique(self.units[first], return_index=True, return_counts=True)
        chosen = first[starts[counts > 1]]
        several = len(chosen)
        if several > total / 2:
            chosen = chosen[:0]
            note = (
                f"{table}: rows of {several} of {total} units are at several sites by '{by}', as in"
                " repeated surveys; all rows stay where they are, and sites that share units may"
                " differ without a test that finds it."
            )
        else:
            note = (
                f"{table}: rows of {several} of {total} units are at several sites by '{by}'; all"
                " rows of each count at the site that has most of them."
            )
        moved = UnitSites(self.units[chosen], self.sites[chosen], self.rows[chosen])
        return moved, (note,) if several else ()

    def moved(self, units: NDArray[np.uint64], sites: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sites of rows, those of these units at the site that gets them; -1 stays."""
        if not len(self.units):
            return sites
        places = np.minimum(np.searchsorted(self.units, units), len(self.units) - 1)
        return np.where((self.units[places] == units) & (sites >= 0), self.sites[places], sites)


def trends(
    table: Table,
    label: str | None = None,
    units: NDArray[np.int64] | None = None,
    alpha: float = 0.001,
) -> tuple[str, ...]:
    """The columns that change with the place of a row in the table, most clearly first.

    The test of sites takes the rows of a site as exchangeable. Where they are not, as in an export
    in the order of time whose values drift, it compares mixtures of periods. Replies do not depend
    on the order of rows, so only the holder of a table can look.

    The scores of a column (ranks of numbers, each frequent level, missing values) are summed with
    the places as weights. Under exchangeable rows this sum has an exact mean and variance, and is
    nearly normal (Hoeffding 1951). P-values are multiplied by the number of scores of all columns,
    so one table in 1 / `alpha` is named by chance. Rows of one unit count as one, in the order in
    which units first appear. Dates and identifiers are left out: they order a table as they should.

    >>> import pyarrow as pa
    >>> from fedwad.tables import read_table
    >>> day = list(range(100))
    >>> trends(read_table(pa.table({"day": day, "odd": [k % 2 for k in day]})))
    ('day',)
    """
    from scipy.special import ndtr

    first, unit = np.arange(table.rows), np.arange(table.rows)
    if units is not None:
        _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    places = np.argsort(np.argsort(first)) - (len(first) - 1) / 2.0
    counts = np.bincount(unit.ravel())
    found: dict[str, float] = {}
    tried = 0
    for column in table.columns:
        if column.kind == "date" or column.name == label or is_identifier(column.name):
            continue
        for scores in _scores(column):
            of_units = np.bincount(unit.ravel(), weights=scores) / counts
            of_units -= of_units.mean()
            spread = np.sqrt((of_units @ of_units) * (places @ places) / max(1, len(places) - 1))
            if spread > 0:
                tried += 1
                p = 2 * float(ndtr(-abs(of_units @ places) / spread))
                found[column.name] = min(p, found.get(column.name, 1.0))
    named = [name for name in found if found[name] * tried <= alpha]
    return tuple(sorted(named, key=lambda name: found[name]))


def count_copies(table: Table) -> int:
    """How many rows are copies of an earlier one; 0 unless an export seems to be in there twice.

    That is so if they are a tenth of the rows or more, some column has different values in half of
    the rows, and there are ten times as many copies as columns that are independent of each other
    would give: rows of a few levels are alike by nature.

    >>> import pyarrow as pa
    >>> from fedwad.tables import read_table
    >>> x, y = np.random.default_rng(0).normal(size=(2, 50))
    >>> table = pa.table({"x": x, "y": y})
    >>> [count_copies(read_table(one)) for one in (table, pa.concat_tables([table, table]))]
    [0, 50]
    """
    keys, n, alike, most = np.zeros(table.rows, dtype=np.int64), table.rows, 1.0, 0
    for column in table.columns:
        _, codes, counts = np.unique(column.values, return_inverse=True, return_counts=True)
        keys = np.unique(keys * len(counts) + codes.ravel(), return_inverse=True)[1].ravel()
        alike *= float(((counts / n) ** 2).sum())
        most = max(most, len(counts))
    copies = n - int(keys.max(initial=-1)) - 1
    many = copies >= max(n / 10, 10 * alike * n * n / 2)
    return copies if many and 2 * most >= n else 0


def _scores(column: Column) -> Iterator[NDArray[np.float64]]:
    """Numbers for each row whose sum with the places of rows tells a trend."""
    missing = column.missing
    if missing.all():
        return
    yield missing.astype(float)
    if column.kind == "number":
        present = np.sort(column.values[~missing])
        below, up_to = (np.searchsorted(present, column.values, s) for s in ("left", "right"))
        ranks = (below + up_to + 1) / 2.0  # of ties: the mean
        yield np.where(missing, (len(present) + 1) / 2.0, ranks)
        return
    codes, levels = level_texts(column)
    frequent = np.argsort(-np.bincount(codes[codes >= 0], minlength=len(levels)))[:50]
    for code in frequent:
        yield (codes == code).astype(float)
