"""The profile of a site's data: all that a site publishes about its columns.

A profile has the names and kinds of the columns, counts, means and sums of squares over at least
`min_cell_size` rows, expected order statistics that are means over as many groups, and counts of
levels with at least `min_cell_size` rows. It has no smallest or largest value. Of levels that fewer
rows have, it has only the number of all their rows, `other`. It lists no level of a column named
like an identifier: a patient's number may occur in many rows of one patient. Of texts with more
than `MAX_LEVELS` different values, such as codes of diagnoses, it lists the frequent ones, if some
values are more frequent than chance makes them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad._checks import check_integer
from fedwad.errors import InputError
from fedwad.tables.columns import is_number
from fedwad.tables.read import read_table
from fedwad.tables.table import Column, ReadKind, level_name, level_texts

#: Integers with at most so many different values may be codes of a category.
MAX_CODES = 10
#: Of texts with more different values than this, only frequent ones are listed.
MAX_LEVELS = 50
#: Most draws of which a profile has expected order statistics.
MAX_DRAWS = 32
#: Numbers that often stand for a missing value.
SENTINELS = (0.0, -1.0, -9.0, -99.0, -999.0, 9.0, 99.0, 999.0, 9999.0)

DOMINANT = 0.9  # fraction of a sum of squares from which on a value follows from the sum
_IDENTIFIER = re.compile(
    r"(?i:(^|[_\W])(ids?|p(at)?id|pidnum|mrn|ssn|uuid|guid|e?mail|phone)($|[_\W]))|[a-z]I[dD]$"
    r"|(?i:^(patient|person|subject|sample|specimen|record|case|row|line)[_\W]*(no|nr|num|number)$)"
    r"|(?i:^(patient|person|subject|participant)$|^(patient(en)?|pat|fall|proband(en)?)[_\W]*(nummer|nr)$)"
    r"|(?i:^u?subjid$|^(patient|person|subject|participant|pat|case|record|sample|visit|encounter)id$)"
    r"|(?i:^nhs[_\W]*(no|nr|num|number)?$|^(patient|full|first|last|family|given|sur)[_\W]*name$)"
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
    levels, level_counts, other : levels with at least `min_cell_size` rows, at most `MAX_LEVELS` of
        them, and the number of rows with any other level. Most columns of numbers have neither.
    sentinels, sentinel_counts : values that may stand for missing ones (0, -1, -9, 99, 999, ...)
        with at least `min_cell_size` rows
    numbers_in_text : number of texts that are numbers, if there are at least `min_cell_size`
    order, order_variance : of numbers and dates, if the site adds them, the expected order
        statistics of m = 1, 2, 4, ... or 32 draws, at the largest m for which each is a mean over
        `min_cell_size` groups of m present values and reveals no value of fewer groups, and the
        variances of these means; empty where moments are
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
    order: tuple[float, ...] = ()
    order_variance: tuple[float, ...] = ()

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


def has_many_levels(statistics: ColumnStatistics) -> bool:
    """Whether these are texts with more different values than a profile lists."""
    return statistics.kind == "category" and statistics.distinct > MAX_LEVELS


@dataclass(frozen=True)
class ColumnSums:
    """What some rows add to the statistics of a column; those of parts of a table add up.

    Parameters
    ----------
    kind : of the column, as read
    count, missing : numbers of rows with and without a value
    mean, squares : mean and sum of squared differences from it, of numbers and dates
    low, high : smallest and largest number, which stay at the site
    whole : whether all numbers are whole
    mode : rows of the most frequent number of a part
    counts : rows of each level; of numbers, rows of each value if there are at most `MAX_LEVELS`,
        and else of those that may stand for a missing value
    complete : whether `counts` are about all values
    """

    kind: ReadKind
    count: int = 0
    missing: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True
    mode: int = 0
    counts: Mapping[Any, int] = field(default_factory=dict)
    complete: bool = True

    def __repr__(self) -> str:  # no values
        return f"ColumnSums({self.kind}, {self.count} values)"


def sums_of(column: Column) -> ColumnSums:
    """The sums of one column; the order of rows changes no bit of them."""
    missing = int(column.missing.sum())
    count = len(column) - missing
    if column.kind in ("category", "boolean"):
        found = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
        levels = {column.levels[k]: int(found[k]) for k in np.flatnonzero(found)}
        counts, complete = bounded_counts(levels, True, column.kind)
        return ColumnSums(column.kind, count, missing, counts=counts, complete=complete)
    if count == 0:
        return ColumnSums(column.kind, 0, missing)
    values = np.sort(column.values)[:count]  # NaN is last
    distinct, sizes = np.unique(values, return_counts=True)
    complete = len(distinct) <= MAX_LEVELS
    shown = complete | np.isin(distinct, SENTINELS)
    counts = dict(zip(distinct[shown].tolist(), sizes[shown].tolist(), strict=True))
    low, high, mode = float(values[0]), float(values[-1]), int(sizes.max())
    with np.errstate(over="ignore", invalid="ignore"):  # of squares of very large values
        mean, squares = _moments(values)
        whole = bool(np.isfinite([low, high]).all() and np.all(values % 1.0 == 0.0))
    return ColumnSums(
        column.kind, count, missing, mean, squares, low, high, whole, mode, counts, complete
    )


def bounded_counts(
    counts: Mapping[Any, int], complete: bool, kind: str, most: int = 100_000
) -> tuple[Mapping[Any, int], bool]:
    """The counts, of more than `most` texts without rare ones; and whether they are all of them."""
    if kind in ("number", "date"):
        if complete and len(counts) <= MAX_LEVELS:
            return counts, True
        return {value: n for value, n in counts.items() if value in SENTINELS}, False
    if len(counts) <= most:
        return counts, complete
    frequent = sorted(counts, key=lambda level: (-counts[level], level))[: most // 2]
    return {level: counts[level] for level in frequent}, False


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


def is_identifier(name: str) -> bool:
    """Whether a column of this name numbers rows, people or the like.

    >>> is_identifier("patient_id"), is_identifier("age")
    (True, False)
    """
    return name == "" or bool(_IDENTIFIER.search(name))


def profile(
    table: Any,
    min_cell_size: int = 10,
    label: str | None = None,
    units: NDArray[np.int64] | None = None,
    sums: Mapping[str, ColumnSums] | None = None,
    rows: int | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Profile:
    """The profile of a table, which is whatever `read_table` reads.

    Of the `label` column it has only the name. `units` has a number for each row, the same for rows
    of one unit, such as a patient: a minimum then counts different units. The order of rows changes
    nothing. If the table is a sample of `rows` rows, `sums` are those of all of them.
    Rows with `weights` count as if as many of equal weight had these shares; minima count rows, and
    for moments Kish's effective number.

    >>> import pyarrow as pa
    >>> sex = ["f"] * 12 + ["m"] * 12 + ["x"]
    >>> profile(pa.table({"sex": sex}))["sex"].levels
    ('f', 'm')
    """
    min_cell_size = check_integer(min_cell_size, "min_cell_size")
    read = read_table(table, label=label)
    for name in read.names:
        if not name.isprintable():
            raise InputError(
                f"The name of column {read.names.index(name) + 1} of {read.name} holds characters"
                " that cannot be seen, such as a line end or a non-breaking space; rename it.",
                "bad-name",
            )
    columns: list[ColumnStatistics] = []
    for column in read.columns:
        s = ColumnStatistics(column.name, "label")
        if column.name != label:
            s = _statistics(column, min_cell_size, units, (sums or {}).get(column.name))
            s = s if weights is None else _weighted(s, column, min_cell_size, weights)
        columns.append(s)
    return Profile(read.rows if rows is None else rows, tuple(columns), min_cell_size)


def _weighted(
    s: ColumnStatistics, column: Column, min_cell_size: int, weights: NDArray[np.float64]
) -> ColumnStatistics:
    """The statistics of rows with weights."""
    rows, shares = len(weights), weights / weights.sum()
    codes, texts = level_texts(column)
    masses = np.bincount(codes + 1, shares, len(texts) + 1)  # the first is that of missing values
    edges = np.rint(rows * np.cumsum(masses)).astype(np.int64)
    missing, *numbers = np.diff(edges, prepend=0).tolist()
    counts = dict(zip(texts, numbers, strict=True))
    missing = 0 if s.kind == "unusable" else missing
    s = replace(s, count=rows - missing, missing=missing, sentinels=(), sentinel_counts=())
    if s.kind in ("number", "date") and s.moments:
        present = ~column.missing
        own = shares[present] / shares[present].sum()
        found = number_statistics(s.name, column.values[present], min_cell_size, own).moments
        s = replace(s, moments=(found[0], s.count * found[1] / int(present.sum())) if found else ())
    listed = {level: counts[level] for level in s.levels if counts[level] >= min_cell_size}
    other = s.count - sum(listed.values()) if s.levels or s.other else 0
    s = replace(s, levels=tuple(listed), level_counts=tuple(listed.values()), other=other)
    return replace(s, numbers_in_text=min(s.numbers_in_text, s.count))


def number_statistics(
    name: str,
    values: NDArray[np.float64],
    min_cell_size: int,
    weights: NDArray[np.float64] | None = None,
    units: NDArray[np.int64] | None = None,
) -> ColumnStatistics:
    """The statistics of a column of numbers; moments of weighted values are weighted.

    With weights, a minimum counts Kish's effective number of values. No name makes such a column an
    identifier: it is compared as it is, and its moments are the units of the test.
    """
    if weights is None:
        return _statistics(Column(name, "number", values), min_cell_size, units, by_name=False)
    mean = float(values[0] + weights @ (values - values[0]))
    squares = weights * np.square(values - mean)
    variance, kish = float(squares.sum()), 1.0 / float(np.square(weights).sum())
    dominated = min_cell_size > 1 and float(squares.max()) > DOMINANT * variance
    if kish < min_cell_size - 1e-9 or dominated:
        return ColumnStatistics(name, "number", len(values))
    return ColumnStatistics(name, "number", len(values), moments=(mean, len(values) * variance))


def _statistics(
    column: Column,
    min_cell_size: int,
    units: NDArray[np.int64] | None,
    sums: ColumnSums | None = None,
    by_name: bool = True,
) -> ColumnStatistics:
    """The statistics of a column, or of all rows with these `sums` if it is a sample of them.

    Unless `by_name`, its name makes it no identifier.
    Where rows belong to units, only levels and numbers that enough units of the sample have are
    named.

    Moments are withheld if they and the rest of the profile reveal values of fewer rows than the
    minimum. The mean of 199 zeros and one other value is that value over 200. The sum over all rows
    minus the sum over listed levels is the sum over the remaining rows, and that of squares tells
    how many have each of a few values that one can guess. So each count of remaining rows must be 0
    or large enough. A single value that dominates the sum of squares follows from
    that sum alone.
    """
    identifier = by_name and not column.chosen and is_identifier(column.name)
    if column.kind == "unusable":
        return ColumnStatistics(column.name, column.kind, len(column), identifier=identifier)
    own = sums_of(column)
    total = own if sums is None else sums
    result = ColumnStatistics(
        column.name, total.kind, total.count, total.missing, identifier=identifier
    )
    if not total.count:
        return replace(result, all_different=total.kind in ("number", "date"))
    text = total.kind in ("category", "boolean")
    counts = dict(sorted(total.counts.items())) if text else total.counts
    owners = counts
    if units is not None:
        codes: dict[Any, Any] = {level: code for code, level in enumerate(column.levels)}
        unknown = -2  # the code of a level that the sample does not have
        owners = {
            v: _count(column.values == (codes.get(v, unknown) if text else v), units)
            for v in counts
        }
    if text:
        numeric = sum(count for level, count in counts.items() if is_number(level))
        result = replace(
            result,
            distinct=min(len(counts), MAX_LEVELS + 1),
            all_different=max(counts.values()) == 1,
            numbers_in_text=numeric if numeric >= min_cell_size else 0,
            other=sum(counts.values()),
        )
        if identifier:
            return result
        frequent = min_cell_size
        if len(counts) > MAX_LEVELS:
            frequent = _frequent(np.array([*counts.values()]), min_cell_size, column.chosen)
        elif units is None and not column.chosen and _are_codes_of_persons(counts):
            frequent = total.count + 1
        return replace(result, **_list_levels(counts, owners, min_cell_size, frequent))
    result = replace(
        result,
        whole=total.whole and not column.chosen,
        distinct=len(counts) if total.complete else MAX_LEVELS + 1,
        all_different=max(own.mode, total.mode, *(counts.values() or [0])) == 1,
    )
    if identifier and total.kind == "number":
        return result  # as of a text, only counts
    if total.kind == "number":
        shown = tuple(value for value in SENTINELS if owners.get(value, 0) >= min_cell_size)
        numbers = tuple(counts[value] for value in shown)
        result = replace(result, sentinels=shown, sentinel_counts=numbers)
        if result.whole and total.complete and len(counts) <= MAX_CODES:
            names = {value: level_name(value) for value in sorted(counts)}
            named, named_owners = ({names[v]: n[v] for v in names} for n in (counts, owners))
            result = replace(result, **_list_levels(named, named_owners, min_cell_size))
    present = ~column.missing
    independent = total.count if units is None else _count(present, units)
    finite = np.isfinite([total.low, total.high, total.mean, total.squares]).all()
    if finite and independent >= min_cell_size:
        mode = max(counts.values()) if total.complete else total.mode
        with np.errstate(over="ignore"):
            reach = np.square(max(total.high - total.mean, total.mean - total.low))
        dominated, modal = bool(reach > DOMINANT * total.squares), np.empty(0)
        if units is not None:
            dominated = dominated or _is_dominated(column.values[present], units[present])
            distinct, inverse = np.unique(column.values[present], return_inverse=True)
            modal = distinct[[_units_of_each(inverse, units[present]).argmax()]]

        def without(values: ArrayLike, rows: int) -> int:
            """Of so many rows with none of these values, how many: rows, or units in the sample."""
            if units is None or not rows:
                return rows
            return max(1, _count(present & ~np.isin(column.values, values), units))

        # The mean of 199 zeros and one other value is that value over 200; the sum over all rows
        # minus that over listed levels is the sum over the rest; a single value that dominates the
        # sum of squares follows from it.
        others = [
            without(result.sentinels, total.count - sum(result.sentinel_counts)),
            without([*map(float, result.levels)], result.other),
            without(modal, _off_mode(total.count, mode, min_cell_size)),
            without(modal, _off_mode(own.count, own.mode, min_cell_size)),
        ]
        usual = [value for value in counts if owners.get(value, 0) >= min_cell_size]
        if total.complete and 0 < len(usual) <= MAX_CODES:
            others.append(without(usual, total.count - sum(counts[v] for v in usual)))
        dominated = min_cell_size > 1 and dominated
        if not dominated and not any(0 < few < min_cell_size for few in others):
            return replace(result, moments=(total.mean, total.squares))
    return result


def _count(mask: NDArray[np.bool_], units: NDArray[np.int64]) -> int:
    """Of how many different units these rows are."""
    return len(np.unique(units[mask]))


def _off_mode(count: int, mode: int, min_cell_size: int) -> int:
    """Rows with another value than the most frequent one, if that is frequent; else none."""
    return count - mode if mode >= min_cell_size else 0


def _units_of_each(codes: NDArray[np.intp], units: NDArray[np.int64]) -> NDArray[np.intp]:
    """How many different units have each of the values with these codes."""
    each = int(units.max()) + 1
    return np.bincount(np.unique(codes * each + units) // each)


def _is_dominated(values: NDArray[np.float64], units: NDArray[np.int64]) -> bool:
    """Whether the rows of one unit make up most of the sum of squares."""
    with np.errstate(over="ignore", invalid="ignore"):  # of squares of very large values
        squares = np.bincount(
            np.unique(units, return_inverse=True)[1], np.square(values - values.mean())
        )
    return bool(squares.max() > DOMINANT * squares.sum())


def groups_reveal(
    min_cell_size: int, groups: NDArray[np.float64], units: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Whether means over groups, (groups, m, d), reveal values of fewer groups than this, (d,).

    They do if most groups have the same k-th smallest value and fewer than `min_cell_size` have
    another one, or if one group makes up most of the sum of squares. The third smallest of 16
    values may be 0 in all groups but one, for example. With `units`, that of each value, values of
    different units count, not groups.
    """
    if min_cell_size < 2:
        return np.zeros(groups.shape[2], dtype=bool)
    half = len(groups) // 2
    middle = np.partition(groups, half, axis=0)[half]  # what most groups have, if they agree
    others = (groups != middle).sum(axis=0)
    few = (others > 0) & (others < np.minimum(min_cell_size, len(groups) - others))
    squares = np.square(groups - groups.mean(axis=0))
    reveal = few | (squares.max(axis=0) > DOMINANT * squares.sum(axis=0))
    if units is not None:  # one unit has a value in several groups, in so many at most
        most = min(len(groups), int(np.unique(units[:, :, :1], return_counts=True)[1].max()))
        largest = np.partition(squares, len(groups) - most, axis=0)[len(groups) - most :]
        doubtful = (others > 0) & (others < min_cell_size * most) & (2 * others < len(groups))
        doubtful |= largest.sum(axis=0) > DOMINANT * squares.sum(axis=0)
        for k, j in np.argwhere(doubtful & ~reveal):
            differ, own = groups[:, k, j] != middle[k, j], units[:, k, j]
            owners = len(np.unique(own[differ]))
            few_own = 2 * differ.sum() < len(groups) and 0 < owners < min_cell_size
            reveal[k, j] = few_own or _is_dominated(groups[:, k, j], own)
    return np.asarray(reveal.any(axis=0))


def hide_few(
    values: NDArray[np.float64],
    least: int,
    units: NDArray[np.int64] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """A column whose moments are withheld, without the values for which they are.

    Values of fewer than `least` rows, or of fewer units, beside frequent ones become the most
    frequent one, and a value that outweighs all others, or all values of such a unit, become the
    median.
    """
    found, present = values.copy(), np.isfinite(values)
    some = values[present]
    if not len(some):
        return found
    owners = np.arange(len(some)) if units is None else units[present]
    own = np.ones(len(some)) if weights is None else weights[present]
    own = own / own.sum()
    distinct, inverse = np.unique(some, return_inverse=True)
    counts = _units_of_each(inverse, owners)
    rare = counts[inverse] < least
    if len(np.unique(owners[rare])) < least:
        some[rare] = distinct[counts.argmax()]
    with np.errstate(over="ignore", invalid="ignore"):  # of squares of very large values
        while least > 1:
            squares = np.bincount(owners, own * np.square(some - own @ some))
            if not squares.max() > DOMINANT * squares.sum():
                break
            some[owners == squares.argmax()] = np.median(some)
    found[present] = some
    return found


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


def _frequent(counts: NDArray[np.int64], min_cell_size: int, chosen: bool) -> int:
    """The number of rows from which on a level among more than `MAX_LEVELS` is frequent.

    It is above the average, and at most `MAX_LEVELS` levels have it. If the counts vary no more
    than those of equally likely values, as the visits of patients do, no level is frequent, unless
    a user chose that the column is a category.
    """
    if counts.var() <= counts.mean() and not chosen:
        return int(counts.sum()) + 1
    above_average = math.floor(float(counts.mean())) + 1
    rest = int(np.sort(counts)[-MAX_LEVELS - 1])
    return max(min_cell_size, above_average, rest + 1)


def _are_codes_of_persons(
    counts: Mapping[str, int], fewest: int = 10, dispersion: float = 0.25
) -> bool:
    """Whether levels are numbered and about equally frequent, as persons with equally many visits.

    The frequencies of levels that are drawn at random vary more: the variance of counts is their
    mean if all levels are equally likely, and larger otherwise.
    """
    numbers = np.array([*counts.values()])
    numbered = sum(any(map(str.isdigit, level)) for level in counts)
    few_vary = numbers.var() < dispersion * numbers.mean()
    return len(counts) >= fewest and bool(few_vary) and 10 * numbered > 9 * len(counts)


def _list_levels(
    counts: Mapping[str, int], owners: Mapping[str, int], min_cell_size: int, frequent: int = 0
) -> dict[str, Any]:
    """Levels that at least `min_cell_size` rows have, and the number of rows with any other.

    `owners` are the numbers of different units with each level, which are those that count; a level
    also needs `frequent` rows. A level with a very long name, or with control characters in it, is
    not listed.
    """
    listed = {
        level: count
        for level, count in counts.items()
        if owners.get(level, 0) >= min_cell_size
        and count >= frequent
        and len(level) <= 100
        and level.isprintable()
    }
    return {
        "levels": tuple(listed),
        "level_counts": tuple(listed.values()),
        "other": sum(counts.values()) - sum(listed.values()),
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


def check_profile(profile: Profile, characters: int = 1 << 20) -> None:
    """InputError unless the numbers of a profile, decoded and so of the right types, fit together,
    with names of columns of at most so many characters."""
    names = [s.name for s in profile.columns]
    problem = ""
    if min(profile.rows, profile.min_cell_size) < 1:
        problem = "an impossible number of rows"
    elif sum(map(len, names)) > characters:
        problem = f"names of columns of over {characters} characters"
    elif not all(_is_consistent(s, profile.rows) for s in profile.columns):
        problem = "a column whose numbers do not fit together"
    elif len(set(names)) < len(names):
        problem = "two columns of one name"
    elif smallest_group(profile) < min(profile.min_cell_size, profile.rows):
        problem = "a group of fewer rows than its min_cell_size"
    if problem:
        raise InputError(f"A profile arrived with {problem}.", "bad-profile")


def _is_consistent(s: ColumnStatistics, rows: int) -> bool:
    """Whether counts fit together. `distinct` is MAX_LEVELS + 1 if there are more, and
    `numbers_in_text` counts texts that are numbers."""
    if len(s.name) > 1000 or not all(map(str.isprintable, (s.name, *s.levels))):
        return False
    if s.kind == "label":
        return s == ColumnStatistics(s.name, "label")
    if not (
        s.kind in get_args(ReadKind)
        and min(s.count, s.missing, s.other, s.numbers_in_text) >= 0
        and s.count + s.missing == rows
        and 0 <= s.distinct <= MAX_LEVELS + 1
    ):
        return False
    # `other` counts rows whose level is not listed. Most columns of numbers list no levels.
    for values, counts, other in (
        (s.levels, s.level_counts, s.other),
        (s.sentinels, s.sentinel_counts, 0),
    ):
        each_once = len(values) == len(counts) == len(set(values)) <= MAX_LEVELS
        if not each_once or min(counts, default=1) <= 0 or sum(counts) + other > s.count:
            return False
    # Moments are the mean and the sum of squared differences from it, or nothing. Order statistics
    # of 1, 2, 4, ... draws are increasing.
    return (
        set(s.sentinels) <= set(SENTINELS)
        and len(s.moments) in (0, 2)
        and not s.sum_of_squares < 0
        and len(s.order) == len(s.order_variance) <= min(s.count, MAX_DRAWS)
        and all(map(math.isfinite, (*s.moments, *s.order, *s.order_variance)))
        and all(a <= b for a, b in pairwise(s.order))
        and min(s.order_variance, default=0.0) >= 0
    )
