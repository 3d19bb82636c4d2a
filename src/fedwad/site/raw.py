"""A table that a site holds before it is encoded."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._words import to_printable
from fedwad.errors import InputError
from fedwad.site.data import Dataset
from fedwad.statistics.order import order_statistics
from fedwad.tables import Column, ColumnStatistics, Profile, Schema, profile
from fedwad.tables.batches import Batches, Part
from fedwad.tables.encode import (
    encode_elementwise,
    hide_rare,
    keep_levels,
    label_texts,
    label_values,
    plain_table,
    read_numbers_elementwise,
)
from fedwad.tables.profiles import groups_reveal, hide_few, number_statistics
from fedwad.tables.select import Unit
from fedwad.tables.table import Table
from fedwad.transport import Measure


@dataclass(frozen=True, eq=False)
class RawTable:
    """A table with the name of its label column, or with labels that came beside it.

    `weights` are those of rows, if they have any.

    `unit` is the units that its rows belong to; the column that names them is not in the table.

    Of a table that is read in batches, `table` is a random sample of the rows, `whole` has the sums
    over all of them, and `batches` reads all of them again.

    With `elementwise`, which is for differential privacy, each entry of the table is encoded
    without regard to the others, no entry is refused, and labels are texts.
    """

    table: Table
    label: str | None = None
    labels: NDArray[Any] | None = None
    elementwise: bool = False
    unit: Unit | None = None
    weights: NDArray[np.float64] | None = None
    whole: Part | None = None
    batches: Batches | None = None
    _profiles: dict[int, Profile] = field(default_factory=dict, init=False, repr=False)

    def __repr__(self) -> str:  # no values, because it may be printed anywhere
        return f"RawTable({self.rows} rows, {len(self.table.columns)} columns)"

    @property
    def units(self) -> NDArray[np.int64] | None:
        """The number of the unit that each row belongs to; None if each row is one by itself."""
        return None if self.unit is None else self.unit.codes

    @property
    def rows(self) -> int:
        """Number of rows, also of those that are not held."""
        return self.table.rows if self.whole is None else self.whole.rows

    def encode(self, schema: Schema, min_level_size: int = 1) -> Dataset:
        """The data as the schema encodes them.

        A level with fewer than `min_level_size` rows or units becomes "other", even if the schema
        lists it, and so few numbers become the usual one, unless `elementwise` is set.
        """
        label = self._label_column(schema)
        if self.elementwise:
            points = encode_elementwise(schema, self.table)
        else:
            table = self._without_few_numbers(schema, min_level_size)
            points = schema.encode(hide_rare(table, schema, min_level_size, self.units))
        labels = self.labels if label is None else self._label_values(label)
        return self._dataset(points, labels, schema=schema)

    def _dataset(
        self,
        points: Any,
        labels: NDArray[Any] | None,
        names: tuple[str, ...] | None = None,
        label_error: str = "",
        schema: Schema | None = None,
    ) -> Dataset:
        unit = self.unit
        return Dataset(
            Measure(points, self.weights, name=self.table.name),
            labels,
            names if schema is None else schema.feature_names,
            label_error,
            schema=schema,
            row_digests=None if schema is None else self._row_digests(),
            units=self.units,
            unit_name="" if unit is None else unit.name,
            unit_found=unit is not None and unit.found,
        )

    def take(self, rows: NDArray[np.int64], name: str) -> RawTable:
        """These rows alone, as a table of another name."""
        return replace(
            self,
            table=replace(self.table.take(rows), name=name),
            labels=None if self.labels is None else self.labels[rows],
            weights=None if self.weights is None else self.weights[rows],
            unit=None if self.unit is None else self.unit.take(rows),
        )

    def encode_proposal(self, schema: Schema, published: Profile) -> Dataset:
        """The data as a schema from outside encodes them, once `accept_schema` accepted it.

        Only levels that the site has published have their own name; all others become "other". The
        labels are those that the site's operator named, whatever the schema says. PolicyError with
        the constant sentence of a refusal if the table cannot be encoded at all.
        """
        from fedwad.site.acceptance import refusal

        listed = {column.name: column.levels for column in published.columns}
        labels, label_error, log = self.labels, "", logging.getLogger("fedwad.client")
        try:
            known = tuple(
                without_few_values(self.table.columns, published, self.units, self.weights)
            )
            table = replace(self.table, columns=known)
            points = schema.encode(keep_levels(table, schema, listed))
        except InputError as error:  # its text can name rows, so it stays here
            log.warning("%s", to_printable(str(error)))
            raise refusal() from None
        if labels is None and self.label is not None:
            try:
                labels = self._label_values(self.label)
            except InputError as error:
                log.warning("%s", to_printable(str(error)))
                label_error = "The label column has missing or unusable values; correct them first."
        return self._dataset(points, labels, None, label_error, schema)

    def _without_few_numbers(self, schema: Schema, least: int) -> Table:
        """The table as `without_few_values` has it, for a schema that says what is missing."""
        if least < 2:
            return self.table
        missing = {column.name: column.missing_values for column in schema.compared_columns}
        numbers = tuple(
            column.with_missing(missing[column.name])
            for column in self.table.columns
            if column.kind in ("number", "date") and column.name in missing
        )
        if not numbers:
            return self.table
        table = replace(self.table, columns=numbers)
        published = profile(table, least, None, self.units, weights=self.weights)
        found = without_few_values(numbers, published, self.units, self.weights, empty=True)
        known = {c.name: c for c in found}
        columns = tuple(known.get(column.name, column) for column in self.table.columns)
        return replace(self.table, columns=columns)

    def _label_column(self, schema: Schema) -> str | None:
        """The label column that this site or the schema names; None if there is none, or if the
        labels came beside the table."""
        if self.labels is not None or self.label is None:
            return schema.label if self.labels is None else None
        if schema.label not in (None, self.label):
            raise InputError(
                f"The schema has the label column '{schema.label}', but '{self.label}' was named as"
                " the label column; name the same column in both.",
                "different-schema",
            )
        if self.label in schema and schema[self.label].width:
            raise InputError(
                f"The schema compares column '{self.label}', which was named as the label column;"
                ' give it kind = "label" in the schema.',
                "different-schema",
            )
        return self.label

    def _row_digests(self) -> NDArray[np.void]:
        """A digest of each row, 16 bytes, that depends on neither the schema nor the order of the
        columns."""
        usable = [column for column in self.table.columns if _has_values(column)]
        by_name = sorted(usable, key=lambda column: column.name)
        values = [column.values for column in by_name]
        values += [] if self.unit is None else [self.unit.codes]
        rows = _rows(values) if values else np.empty((self.table.rows, 0))
        digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
        return np.array(digests, dtype="V16")

    def _label_values(self, label: str) -> NDArray[Any]:
        column = self.table[label]
        return label_texts(column) if self.elementwise else label_values(column, self.table.name)

    def as_numbers(self) -> Dataset:
        """The data of a table in which all features are numbers, without any encoding.

        With `elementwise`, features that are no numbers are refused, but no label.
        """
        labels = self.labels if self.label is None else self._label_values(self.label)
        read = read_numbers_elementwise(self.table, self.label) if self.elementwise else self.table
        points, names = plain_table(read, self.label)
        return self._dataset(points, labels, names)

    def profile(self, min_cell_size: int) -> Profile:
        """The profile of the table; the order of rows does not change it.

        If rows belong to units, such as patients, a minimum counts different units. It is made once
        for all requests.
        """
        if min_cell_size in self._profiles:
            return self._profiles[min_cell_size]
        units = self.units
        if self.whole is None:
            found = profile(self.table, min_cell_size, self.label, units, weights=self.weights)
        else:
            found = self.whole.profile(min_cell_size, self.label, units)
        if self.weights is None:
            values = [self.table[s.name].values for s in found.columns]
            columns = _with_orders(found.columns, values, min_cell_size, units)
            found = replace(found, columns=tuple(columns))
        self._profiles[min_cell_size] = found
        return found

    def encoded_batches(self, schema: Schema, published: Profile) -> Iterator[NDArray[np.float64]]:
        """All rows as `encode_proposal` encodes them, some at a time."""
        listed = {column.name: column.levels for column in published.columns}
        for table in self.batches or (self.table,):
            yield schema.encode(keep_levels(table, schema, listed))

    def digest(self) -> str:
        """SHA-256 of the table and its labels; the order of rows and columns does not change it."""
        if self.whole is not None:
            kinds = sorted((name, sums.kind) for name, sums in self.whole.sums.items())
            content = repr((self.label, self.whole.rows, self.whole.digest, kinds))
            return hashlib.sha256(content.encode()).hexdigest()
        columns = sorted(self.table.columns, key=lambda column: column.name)
        sha = hashlib.sha256(repr((self.label, self.table.rows)).encode())
        values: list[NDArray[Any]] = []
        for column in columns:
            text = column.detail or column.decimal  # at most one of them is set
            sha.update(repr((column.name, column.kind, column.levels, text)).encode())
            if _has_values(column):
                values.append(column.values)
        if self.labels is not None:
            names, codes = np.unique(self.labels.astype(str), return_inverse=True)
            sha.update(repr(names.tolist()).encode())
            values.append(codes.ravel())
        if self.weights is not None:
            sha.update(b"weights")
            values.append(self.weights)
        if self.unit is not None:
            sha.update(repr(self.unit.name).encode())
            values.append(self.unit.codes)
        if values:
            rows = np.ascontiguousarray(_rows(values))
            sha.update(np.sort(rows.view(f"V{8 * len(values)}")[:, 0]).data)
        return sha.hexdigest()


def without_few_values(
    columns: Iterable[Column],
    published: Profile,
    units: NDArray[np.int64] | None,
    weights: NDArray[np.float64] | None = None,
    empty: bool = False,
) -> Iterator[Column]:
    """The columns without what sums over all rows would tell and the profile withholds: numbers or
    dates of which too few units have a value, and values of too few rows.

    Such a column is left out, or is `empty` if some of its values are missing anyway.
    """
    least, statistics = published.min_cell_size, published.by_name()
    for column in columns:
        if column.kind in ("number", "date"):
            present = np.flatnonzero(~column.missing)
            owners = present if units is None else np.unique(units[present])
            count = float(len(owners))
            if weights is not None and len(present):  # Kish's effective number
                own = weights[present]
                count = float(own.sum() ** 2 / (own**2).sum())
            if count < least - 1e-9:
                if empty and column.missing.any():
                    yield replace(column, values=np.full(len(column), np.nan))
                elif empty:
                    yield column
                continue
            if not statistics[column.name].moments:
                column = replace(column, values=hide_few(column.values, least, units, weights))
        yield column


def profile_of_points(data: Dataset, min_cell_size: int) -> Profile:
    """The profile of data that are numbers, whose columns are "0", "1", ... if they have no names.

    Weighted samples have weighted moments, as if they were as many of equal weight.
    """
    measure = data.measure
    names = data.features or tuple(map(str, range(measure.dimension)))
    weights = None if measure.is_uniform else measure.weights
    values = list(np.asarray(measure.points).T)
    columns = [
        number_statistics(name, own, min_cell_size, weights, data.units)
        for name, own in zip(names, values, strict=True)
    ]
    if weights is None:
        columns = _with_orders(columns, values, min_cell_size, data.units)
    return Profile(len(measure), tuple(columns), min_cell_size)


def _with_orders(
    columns: Sequence[ColumnStatistics],
    values: Sequence[NDArray[Any]],
    min_cell_size: int,
    units: NDArray[np.int64] | None,
    together: int = 1 << 18,
) -> list[ColumnStatistics]:
    """The columns, those of numbers with expected order statistics at the largest level.

    Present values of a column are dealt by a hash of all of them, so neither the order of rows nor
    other columns play a part; columns with as many values are sorted together, about so many
    numbers at a time. A level whose means would reveal values of few groups is left out
    (`groups_reveal`).
    """
    found, by_count = list(columns), dict[int, list[int]]()
    for k, statistics in enumerate(columns):
        if statistics.moments:
            count = int(np.count_nonzero(~np.isnan(values[k])))
            by_count.setdefault(count, []).append(k)
    for count, places in by_count.items():
        step = max(1, together // max(count, 1)) if units is None else 1
        for start in range(0, len(places), step):
            some, owners = places[start : start + step], None
            if units is None:  # numbers alone are sorted many times faster than with their places
                ordered = np.sort([values[k] for k in some])[:, :count] + 0.0  # 0.0 for -0.0
            else:
                order = np.lexsort((units, values[some[0]]))[:count]
                ordered = values[some[0]][None, order] + 0.0
            for own in ordered:
                seed = int.from_bytes(hashlib.sha256(own.tobytes()).digest()[:16], "little")
                shuffled = np.random.default_rng(seed).permutation(count)
                own[:] = own[shuffled]
                owners = None if units is None else units[order][shuffled]
            withhold = partial(groups_reveal, min_cell_size)
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    orders = order_statistics(
                        ordered.T,
                        np.arange(count),
                        min_cell_size,
                        owners,
                        32,
                        1 << 60,
                        256,
                        withhold,
                    )
            except InputError:  # too few values
                continue
            for place, k in enumerate(some):
                # Levels that are withheld of one column, and not of another, are nan.
                level = max(m for m, one in enumerate(orders.means) if not np.isnan(one[0, place]))
                means, own = orders.means[level][:, place], orders.variances[level][:, place]
                if np.isfinite(means).all() and np.isfinite(own).all():
                    sent = tuple(means.tolist()), tuple(own.tolist())
                    found[k] = replace(columns[k], order=sent[0], order_variance=sent[1])
    return found


def as_dataset(data: Dataset | RawTable, schema: Schema | None, min_level_size: int = 1) -> Dataset:
    """A table as the schema encodes it, or without a schema its numbers as they are.

    A Dataset is returned unchanged.
    """
    if isinstance(data, Dataset):
        return data
    return data.as_numbers() if schema is None else data.encode(schema, min_level_size)


def _has_values(column: Column) -> bool:
    return column.kind not in ("unusable", "empty")


def _rows(columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """The columns side by side, with 0.0 for -0.0, whose bytes differ."""
    return np.column_stack([column.astype(np.float64) + 0.0 for column in columns])
