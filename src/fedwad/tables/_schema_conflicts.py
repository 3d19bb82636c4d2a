"""Conflicts between a table and a schema from a file: unknown levels, or a different unit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedwad.tables._conflicts import Conflict, join_names
from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER, SchemaColumn
from fedwad.tables._table import Column, Table

__all__ = ["find_schema_conflicts"]

_MIN_VALUES = 10  # a smaller number of values is not reported
_MIN_UNKNOWN = 0.05  # fraction of values with unknown levels from which on they are reported
_MAX_SHIFT = 5.0  # distance of a column's mean from the schema's centre, in scales of the schema
_MAX_SCALE_RATIO = 10.0  # of a column's standard deviation to the schema's scale, or its inverse


def find_schema_conflicts(schema: Schema, table: Table, site: str) -> Iterator[Conflict]:
    """The conflicts of a site's table with the schema, for whoever holds the table.

    >>> import pyarrow as pa
    >>> from fedwad.tables import read_table
    >>> schema = Schema((SchemaColumn("weight", "number", centre=75.0, scale=12.0),))
    >>> pounds = read_table(pa.table({"weight": [150.0, 165, 180] * 9}))
    >>> [conflict.problem for conflict in find_schema_conflicts(schema, pounds, "oslo")]
    ['units']
    """
    for spec in schema.compared_columns:
        if spec.name not in table:
            continue
        column = table[spec.name].with_missing(spec.missing_values)
        if spec.kind == "category" and column.kind == "category" and OTHER in spec.levels:
            yield from _unknown_levels(spec, column, site)
        elif spec.kind in ("number", "date") and column.kind == spec.kind:
            yield from _far_values(spec, column, site)


def _unknown_levels(spec: SchemaColumn, column: Column, site: str) -> Iterator[Conflict]:
    """A conflict if many values have levels that the schema does not list."""
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
    unknown = [k for k, level in enumerate(column.levels) if counts[k] and level not in spec.levels]
    unknown_values, present = int(counts[unknown].sum()), int(counts.sum())
    if unknown_values >= max(_MIN_VALUES, _MIN_UNKNOWN * present):
        most_frequent = sorted(unknown, key=lambda k: -counts[k])
        names = join_names([f"'{column.levels[k]}'" for k in most_frequent[:4]])
        what = f"{unknown_values} of {present}" if unknown_values < present else f"All {present}"
        yield Conflict(
            spec.name,
            (site,),
            "unknown levels",
            f"{what} values of column '{spec.name}' at {site} become '{OTHER}', because the schema"
            f" does not list {names}{' and more' if len(unknown) > 4 else ''}.",
        )


def _far_values(spec: SchemaColumn, column: Column, site: str) -> Iterator[Conflict]:
    """A conflict if the mean or the spread is far from what the schema says."""
    values = column.values[np.isfinite(column.values)]
    if len(values) < _MIN_VALUES:
        return
    mean, deviation = float(values.mean()), float(values.std())
    far = abs(mean - spec.centre) > _MAX_SHIFT * spec.scale
    wide = deviation > _MAX_SCALE_RATIO * spec.scale
    narrow = 0.0 < deviation < spec.scale / _MAX_SCALE_RATIO
    if far or wide or narrow:
        measured = f"mean {mean:.4g}" if far else f"standard deviation {deviation:.4g}"
        yield Conflict(
            spec.name,
            (site,),
            "units",
            f"Column '{spec.name}' at {site} has {measured} and the schema has centre"
            f" {spec.centre:.4g} and scale {spec.scale:.4g}; is the unit the same?",
        )
