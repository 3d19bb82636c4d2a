"""Rare levels of a site's table become "other" before the table is encoded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER
from fedwad.tables._table import Column, Table

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
    categories = {c.name for c in schema.compared_columns if c.kind == "category"}
    columns = tuple(
        _hide_rare_levels(c, min_cell_size) if c.name in categories else c for c in table.columns
    )
    return replace(table, columns=columns)


def _hide_rare_levels(column: Column, min_cell_size: int) -> Column:
    if column.kind in ("number", "date"):
        _, value_indices, counts = np.unique(column.values, return_inverse=True, return_counts=True)
        rare = (counts < min_cell_size)[value_indices.ravel()] & ~np.isnan(column.values)
        # Infinity is a level that the schema does not list, so it is encoded as "other".
        return replace(column, values=np.where(rare, np.inf, column.values))
    if column.kind not in ("category", "boolean"):
        return column
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
    if column.kind == "boolean" and counts.min() >= min_cell_size:
        return column
    other = len(counts)  # the code of the level that is added
    lookup = np.where((counts > 0) & (counts < min_cell_size), other, np.arange(len(counts)))
    codes = np.append(lookup, -1)[column.values]
    return replace(column, kind="category", values=codes, levels=(*column.levels, OTHER))
