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
    Profile,
    Schema,
    Table,
    encode_by_cell,
    hide_rare,
    label_texts,
    label_values,
    misfits,
    numbers_by_cell,
    plain_table,
    profile,
)

__all__ = ["RawTable", "as_dataset", "checked_schema"]


@dataclass(frozen=True, eq=False)
class RawTable:
    """A table with the name of its label column, or with labels that came beside it.

    With `by_cell` no cell changes how others are encoded, and none is refused; labels are texts.
    """

    table: Table
    label: str | None = None
    labels: NDArray[Any] | None = None
    by_cell: bool = False

    def __repr__(self) -> str:  # no values, because it may be printed anywhere
        return f"RawTable({self.table.rows} rows, {len(self.table.columns)} columns)"

    def encoded(self, schema: Schema, least: int = 1) -> Dataset:
        """The data as the schema encodes them.

        Levels that fewer than `least` rows have become "other", whatever the schema lists.
        """
        label = self._label(schema)
        if self.by_cell:
            points = encode_by_cell(schema, self.table)
        else:
            points = schema.encode(hide_rare(self.table, schema, least))
        labels = self.labels if label is None else self._label_values(label)
        measure = Measure(points, name=self.table.name)
        return Dataset(measure, labels, schema.feature_names, schema=schema, keys=self._keys())

    def _label(self, schema: Schema) -> str | None:
        """The label column: this site's own, or that of the schema."""
        if self.labels is not None or self.label is None:
            return schema.label if self.labels is None else None
        if schema.label not in (None, self.label):
            raise InputError(
                f"The schema has the label '{schema.label}' where '{self.label}' is named as the"
                " label column; use one."
            )
        if self.label in schema and schema[self.label].width:
            raise InputError(
                f"The schema compares column '{self.label}', which is named as the label column;"
                ' give it kind = "label" in the schema.'
            )
        return self.label

    def _keys(self) -> NDArray[np.void]:
        """Sixteen bytes for each row, the same for any schema and any order of columns."""
        usable = [one for one in self.table.columns if one.kind not in ("unusable", "empty")]
        parts = [one.values for one in sorted(usable, key=lambda one: one.name)]
        rows = np.column_stack([part.astype(np.float64) + 0.0 for part in parts])
        digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
        return np.array(digests, dtype="V16")

    def _label_values(self, label: str) -> NDArray[Any]:
        column = self.table[label]
        return label_texts(column) if self.by_cell else label_values(column, self.table.name)

    def plain(self) -> Dataset:
        """The data of a table whose columns are numbers, as they are."""
        if self.by_cell:
            return self._plain_by_cell()
        plain = plain_table(self.table, self.label)
        labels = plain.labels if self.labels is None else self.labels
        return Dataset(Measure(plain.points, name=self.table.name), labels, plain.features)

    def _plain_by_cell(self) -> Dataset:
        """As `plain`; a feature that is no number is still refused, a label is not."""
        table, label = numbers_by_cell(self.table, self.label), self.label
        features = tuple(column for column in table.columns if column.name != label)
        plain = plain_table(replace(table, columns=features))
        labels = self.labels if label is None else self._label_values(label)
        return Dataset(Measure(plain.points, name=self.table.name), labels, plain.features)

    def profile(self, least: int) -> Profile:
        """What one message says about the table; no order of rows changes it."""
        return profile(_sorted(self.table), least, self.label)

    def digest(self) -> str:
        """SHA-256 of the table and its labels; no order of rows or columns changes it."""
        columns = sorted(self.table.columns, key=lambda column: column.name)
        sha = hashlib.sha256(repr((self.label, self.table.rows)).encode())
        rows: list[NDArray[Any]] = []
        for column in columns:
            sha.update(repr((column.name, column.kind, column.levels, column.detail)).encode())
            if column.kind not in ("unusable", "empty"):
                rows.append(column.values)
        if self.labels is not None:
            names, codes = np.unique(self.labels.astype(str), return_inverse=True)
            sha.update(repr(names.tolist()).encode())
            rows.append(codes.ravel())
        sha.update(_in_order(rows).data)
        return sha.hexdigest()


def checked_schema(schema: Schema, tables: Mapping[str, RawTable]) -> Schema:
    """A schema from a file, its conflicts those with the tables of these sites.

    They may name levels, so they are for the holders of the tables.
    """
    found = tuple(c for name, held in tables.items() for c in misfits(schema, held.table, name))
    return replace(schema, conflicts=found)


def as_dataset(data: Dataset | RawTable, schema: Schema | None, least: int = 1) -> Dataset:
    """A table as this schema encodes it, or its numbers as they are; other data as they are."""
    if isinstance(data, Dataset):
        return data
    return data.plain() if schema is None else data.encoded(schema, least)


def _in_order(columns: Sequence[NDArray[Any]]) -> NDArray[np.void]:
    """The rows of these columns in the order of their bytes."""
    if not columns:
        return np.empty(0, dtype="V8")
    rows = np.column_stack([column.astype(np.float64) + 0.0 for column in columns])
    return np.sort(np.ascontiguousarray(rows).view(f"V{8 * len(columns)}")[:, 0])


def _sorted(table: Table) -> Table:
    columns = tuple(column.sorted() for column in table.columns)
    return Table(table.name, columns, table.rows, table.named)
