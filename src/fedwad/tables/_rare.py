"""Rare levels of a site's table become "other" before the table is encoded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER, SchemaColumn
from fedwad.tables._table import Column, Table, list_rows

__all__ = ["hide_rare"]


def hide_rare(table: Table, schema: Schema, min_cell_size: int) -> Table:
    """The table with "other" for each level that fewer than `min_cell_size` rows have.

    Otherwise the mean of the encoded rows would say how many rows have a rare level.

    >>> import pyarrow as pa
    >>> from fedwad.tables import SchemaColumn, read_table
    >>> schema = Schema((SchemaColumn("sex", "category", levels=("f", "m", "x", "other")),))
    >>> table = read_table(pa.table({"sex": ["f", "f", "m", "m", "x"]}))
    >>> schema.describe(schema.encode(hide_rare(table, schema, 2)).mean(axis=0))["sex"]
    {'f': 0.4, 'm': 0.4, 'x': 0.0, 'other': 0.2}
    """
    if min_cell_size < 2:
        return table
    specs = {c.name: c for c in schema.compared_columns if c.kind == "category"}
    columns = []
    for column in table.columns:
        if column.name in specs:
            spec = specs[column.name]
            column, rare = _hide_rare_levels(column, spec, min_cell_size)
            if rare.any() and OTHER not in spec.levels:
                rows = list_rows((np.flatnonzero(rare) + 1).tolist())
                raise InputError(
                    f"Column '{spec.name}' of {table.name} has levels that fewer than"
                    f" {min_cell_size} rows have ({rows}); add '{OTHER}', which they become, to its"
                    " levels in the schema."
                )
        columns.append(column)
    return replace(table, columns=tuple(columns))


def _hide_rare_levels(
    column: Column, spec: SchemaColumn, min_cell_size: int
) -> tuple[Column, NDArray[np.bool_]]:
    """The column with "other" for rare levels, and the mask of the rows that have one."""
    column = column.with_missing(spec.missing_values)
    if column.kind in ("number", "date"):
        _, value_indices, counts = np.unique(column.values, return_inverse=True, return_counts=True)
        rare = (counts < min_cell_size)[value_indices.ravel()] & ~np.isnan(column.values)
        # Infinity is a level that the schema does not list, so it is encoded as "other".
        return replace(column, values=np.where(rare, np.inf, column.values)), rare
    if column.kind not in ("category", "boolean"):
        return column, np.zeros(len(column), dtype=bool)
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
    levels = column.levels
    if column.kind == "boolean" and not set(levels) & set(spec.levels):
        levels = ("0", "1")  # as `encode` reads booleans where the schema lists codes
    other = len(counts)  # the code of the level that is added
    lookup = np.where((counts > 0) & (counts < min_cell_size), other, np.arange(len(counts)))
    codes = np.append(lookup, -1)[column.values]
    return replace(column, kind="category", values=codes, levels=(*levels, OTHER)), codes == other
