"""A table that a site holds before it is encoded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.federation.data import Dataset
from fedwad.ot import Measure
from fedwad.tables import (
    Column,
    Profile,
    Schema,
    Table,
    encode_elementwise,
    find_schema_conflicts,
    hide_rare,
    label_texts,
    label_values,
    plain_table,
    profile,
    read_numbers_elementwise,
)

__all__ = ["RawTable", "as_dataset", "schema_with_conflicts"]


@dataclass(frozen=True, eq=False)
class RawTable:
    """A table with the name of its label column, or with labels that came beside it.

    With `elementwise`, which is for differential privacy, each entry of the table is encoded
    without regard to the others, no entry is refused, and labels are texts.
    """

    table: Table
    label: str | None = None
    labels: NDArray[Any] | None = None
    elementwise: bool = False

    def __repr__(self) -> str:  # no values, because it may be printed anywhere
        return f"RawTable({self.table.rows} rows, {len(self.table.columns)} columns)"

    def encode(self, schema: Schema, min_level_size: int = 1) -> Dataset:
        """The data as the schema encodes them.

        A level with fewer than `min_level_size` rows becomes "other", even if the schema lists it,
        unless `elementwise` is set.
        """
        label = self._label_column(schema)
        if self.elementwise:
            points = encode_elementwise(schema, self.table)
        else:
            points = schema.encode(hide_rare(self.table, schema, min_level_size))
        labels = self.labels if label is None else self._label_values(label)
        measure = Measure(points, name=self.table.name)
        return Dataset(
            measure, labels, schema.feature_names, schema=schema, row_digests=self._row_digests()
        )

    def _label_column(self, schema: Schema) -> str | None:
        """The label column that this site or the schema names; None if there is none, or if the
        labels came beside the table."""
        if self.labels is not None or self.label is None:
            return schema.label if self.labels is None else None
        if schema.label not in (None, self.label):
            raise InputError(
                f"The schema has the label column '{schema.label}', but '{self.label}' was named as"
                " the label column; name the same column in both."
            )
        if self.label in schema and schema[self.label].width:
            raise InputError(
                f"The schema compares column '{self.label}', which was named as the label column;"
                ' give it kind = "label" in the schema.'
            )
        return self.label

    def _row_digests(self) -> NDArray[np.void]:
        """A digest of each row, 16 bytes, that depends on neither the schema nor the order of the
        columns."""
        usable = [column for column in self.table.columns if _has_values(column)]
        by_name = sorted(usable, key=lambda column: column.name)
        values = [column.values for column in by_name]
        rows = _rows(values) if values else np.empty((self.table.rows, 0))
        digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
        return np.array(digests, dtype="V16")

    def _label_values(self, label: str) -> NDArray[Any]:
        column = self.table[label]
        return label_texts(column) if self.elementwise else label_values(column, self.table.name)

    def as_numbers(self) -> Dataset:
        """The data of a table in which all features are numbers, without any encoding."""
        if self.elementwise:
            return self._as_numbers_elementwise()
        plain = plain_table(self.table, self.label)
        labels = plain.labels if self.labels is None else self.labels
        return Dataset(Measure(plain.points, name=self.table.name), labels, plain.features)

    def _as_numbers_elementwise(self) -> Dataset:
        """`as_numbers` for `elementwise`: it refuses features that are no numbers, but no label."""
        table, label = read_numbers_elementwise(self.table, self.label), self.label
        features = tuple(column for column in table.columns if column.name != label)
        plain = plain_table(replace(table, columns=features))
        labels = self.labels if label is None else self._label_values(label)
        return Dataset(Measure(plain.points, name=self.table.name), labels, plain.features)

    def profile(self, min_cell_size: int) -> Profile:
        """The profile of the table; the order of rows does not change it."""
        return profile(_with_sorted_columns(self.table), min_cell_size, self.label)

    def digest(self) -> str:
        """SHA-256 of the table and its labels; the order of rows and columns does not change it."""
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
        sha.update(_sorted_rows(values).data)
        return sha.hexdigest()


def schema_with_conflicts(schema: Schema, tables: Mapping[str, RawTable]) -> Schema:
    """A given schema with the list of conflicts between it and the tables of these sites.

    The conflicts may name levels, so only the sites themselves may see them.
    """
    conflicts = tuple(
        conflict
        for site, raw in tables.items()
        for conflict in find_schema_conflicts(schema, raw.table, site)
    )
    return replace(schema, conflicts=conflicts)


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


def _sorted_rows(columns: Sequence[NDArray[Any]]) -> NDArray[np.void]:
    """The rows of these columns as bytes, sorted."""
    if not columns:
        return np.empty(0, dtype="V8")
    rows = np.ascontiguousarray(_rows(columns))
    return np.sort(rows.view(f"V{8 * len(columns)}")[:, 0])


def _with_sorted_columns(table: Table) -> Table:
    """The table with each column sorted by itself."""
    columns = tuple(column.sorted() for column in table.columns)
    return Table(table.name, columns, table.rows, table.has_header)
