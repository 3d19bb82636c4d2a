"""Columns of tables and the features that encode them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.ot import ColumnMoments, Floats
from fedwad.tables import Schema, SchemaColumn

__all__ = ["Column", "build_columns", "column_index"]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name, kind : as in the schema; without a schema each feature is a column of kind "number"
    feature_slice : which features of a row encode the column
    on_values : one number for each of these features. Some features are either 0 or one fixed
        value, such as that of a level of a category; then it is that value. Otherwise it is nan.
    entry : the column's entry in the schema, if there is one
    """

    name: str
    kind: str
    feature_slice: slice
    on_values: tuple[float, ...]
    entry: SchemaColumn | None = None

    @property
    def is_category(self) -> bool:
        return self.kind == "category"

    def describe(self, moments: ColumnMoments) -> dict[str, float]:
        """The column at one site in its own units.

        A number or a date has its mean, its standard deviation and the fraction of missing values,
        where they are known, a boolean the same without the standard deviation; a category has the
        fraction of each level. Dates are in days.
        """
        mean = moments.mean[self.feature_slice]
        std = None if moments.std is None else moments.std[self.feature_slice]
        if self.entry is None:
            return {"mean": float(mean[0])} | ({} if std is None else {"std": float(std[0])})
        values = self.entry.describe(mean)
        if self.is_category:
            return {level: min(max(fraction, 0.0), 1.0) for level, fraction in values.items()}
        if std is not None and self.kind != "boolean":
            spread = _present_std(self.entry, mean, std)
            values = {"mean": values.pop("mean"), "std": spread} | values
        return values


def _present_std(entry: SchemaColumn, mean: Floats, std: Floats) -> float:
    """The standard deviation of the values that are present, in the column's units."""
    present = 1.0 - (float(mean[1]) if entry.missing == "indicator" else 0.0)
    if present <= 0:
        return math.nan
    second_moment = (float(std[0]) ** 2 + float(mean[0]) ** 2) / present
    return entry.scale * math.sqrt(max(second_moment - (float(mean[0]) / present) ** 2, 0.0))


def build_columns(
    dimension: int, features: Sequence[str] | None = None, schema: Schema | None = None
) -> tuple[Column, ...]:
    """The columns behind the features of a distance; numbered from 1 where nothing names them."""
    if schema is not None:
        if schema.width != dimension:
            raise InputError(
                f"The schema encodes {schema.width} features and the distance has {dimension}; give"
                " the schema that the sites used."
            )
        return tuple(
            _build_column(entry, schema.feature_slice(entry.name))
            for entry in schema.compared_columns
        )
    names = [f"column {k + 1}" for k in range(dimension)] if features is None else list(features)
    if len(names) != dimension:
        raise InputError(
            f"{len(names)} names came for {dimension} columns; give one for each column."
        )
    return tuple(
        Column(str(name), "number", slice(k, k + 1), (math.nan,)) for k, name in enumerate(names)
    )


def _build_column(entry: SchemaColumn, feature_slice: slice) -> Column:
    if entry.kind == "category":
        on_values = (entry.on_value,) * entry.width
    else:
        first = 1 / entry.scale if entry.kind == "boolean" else math.nan
        on_values = (first, *((1.0,) * (entry.width - 1)))
    return Column(entry.name, entry.kind, feature_slice, on_values, entry)


def column_index(columns: Sequence[Column]) -> NDArray[np.int64]:
    """The index of the column that each feature belongs to."""
    widths = [column.feature_slice.stop - column.feature_slice.start for column in columns]
    return np.repeat(np.arange(len(columns)), widths)
