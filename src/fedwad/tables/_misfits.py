"""Where a table does not fit a schema that others made: unknown levels, a different unit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedwad.tables._conflicts import Conflict, listed
from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER, SchemaColumn
from fedwad.tables._table import Column, Table

__all__ = ["misfits"]

_FEWEST, _OFTEN = 10, 0.05  # rows, and share of them, with a level that the schema does not list
_FAR = 5.0  # scales between the mean of a column and the centre
_WIDE = 10.0  # ratio of a standard deviation and the scale


def misfits(schema: Schema, table: Table, site: str) -> Iterator[Conflict]:
    """What is odd about a site's table under a schema from a file; for its holder.

    >>> import pyarrow as pa
    >>> from fedwad.tables import read_table
    >>> schema = Schema((SchemaColumn("weight", "number", centre=75.0, scale=12.0),))
    >>> pounds = read_table(pa.table({"weight": [150.0, 165, 180] * 9}))
    >>> [(conflict.column, conflict.problem) for conflict in misfits(schema, pounds, "oslo")]
    [('weight', 'units')]
    """
    for spec in schema.compared_columns:
        if spec.name not in table:
            continue
        column = table[spec.name].without(spec.missing_values)
        if spec.kind == "category" and column.kind == "category" and OTHER in spec.levels:
            yield from _unknown_levels(spec, column, site)
        elif spec.kind in ("number", "date") and column.kind == spec.kind:
            yield from _far_values(spec, column, site)


def _unknown_levels(spec: SchemaColumn, column: Column, site: str) -> Iterator[Conflict]:
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
    unknown = [k for k, level in enumerate(column.levels) if counts[k] and level not in spec.levels]
    number, present = int(counts[unknown].sum()), int(counts.sum())
    if number >= max(_FEWEST, _OFTEN * present):
        often = sorted(unknown, key=lambda k: -counts[k])
        names = listed([f"'{column.levels[k]}'" for k in often[:4]])
        what = f"All {number}" if number == present else f"{number} of {present}"
        yield Conflict(
            spec.name,
            (site,),
            "unknown levels",
            f"{what} values of column '{spec.name}' at {site} become '{OTHER}', because the schema"
            f" does not list {names}{' and more' if len(often) > 4 else ''}.",
        )


def _far_values(spec: SchemaColumn, column: Column, site: str) -> Iterator[Conflict]:
    values = column.values[np.isfinite(column.values)]
    if len(values) < _FEWEST:
        return
    mean, deviation = float(values.mean()), float(values.std())
    far = abs(mean - spec.centre) > _FAR * spec.scale
    wide = deviation > _WIDE * spec.scale or 0.0 < deviation < spec.scale / _WIDE
    if far or wide:
        found = f"mean {mean:.4g}" if far else f"standard deviation {deviation:.4g}"
        yield Conflict(
            spec.name,
            (site,),
            "units",
            f"Column '{spec.name}' at {site} has {found} and the schema has centre"
            f" {spec.centre:.4g} and scale {spec.scale:.4g}; is the unit the same?",
        )
