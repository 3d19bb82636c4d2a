"""Levels that too few rows of a site have, which no encoding may name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER
from fedwad.tables._table import Column, Table

__all__ = ["hide_rare"]


def hide_rare(table: Table, schema: Schema, least: int) -> Table:
    """The table with "other" for each level of a category that fewer than `least` rows have.

    Otherwise a schema that names a rare level would say in an average how many rows have it.

    >>> import pyarrow as pa
    >>> from fedwad.tables import SchemaColumn, read_table
    >>> schema = Schema((SchemaColumn("sex", "category", levels=("f", "m", "x", "other")),))
    >>> table = read_table(pa.table({"sex": ["f", "f", "m", "m", "x"]}))
    >>> schema.describe(schema.encode(hide_rare(table, schema, 2)).mean(axis=0))["sex"]
    {'f': 0.4, 'm': 0.4, 'x': 0.0, 'other': 0.2}
    """
    if least < 2:
        return table
    named = {c.name for c in schema.compared_columns if c.kind == "category"}
    columns = tuple(_hidden(c, least) if c.name in named else c for c in table.columns)
    return replace(table, columns=columns)


def _hidden(column: Column, least: int) -> Column:
    if column.kind in ("number", "date"):
        _, value_indices, counts = np.unique(column.values, return_inverse=True, return_counts=True)
        rare = (counts < least)[value_indices.ravel()] & ~np.isnan(column.values)
        return replace(column, values=np.where(rare, np.inf, column.values))  # infinity is no level
    if column.kind not in ("category", "boolean"):
        return column
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
    if column.kind == "boolean" and counts.min() >= least:
        return column
    lookup = np.where((counts > 0) & (counts < least), len(counts), np.arange(len(counts)))
    codes = np.append(lookup, -1)[column.values]
    return replace(column, kind="category", values=codes, levels=(*column.levels, OTHER))
