"""Tables of numbers, which need no schema: features as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.tables._encode import label_values, refuse_infinite
from fedwad.tables._table import Column, Table, count_rows, drop_hint, unnamed_column_error
from fedwad.tables._text import locate_text

__all__ = ["PlainTable", "plain_table"]


@dataclass(frozen=True, eq=False)
class PlainTable:
    """The numbers of a table, its labels if it has some, and the names of the features."""

    points: NDArray[np.float64]
    labels: NDArray[Any] | None
    features: tuple[str, ...] | None

    def __repr__(self) -> str:  # no values
        return f"PlainTable({self.points.shape[0]} rows, {self.points.shape[1]} features)"


def plain_table(table: Table, label: str | None = None) -> PlainTable:
    """Columns of numbers become features in their order; text and missing values are refused."""
    labels = None
    if label is not None:
        labels = label_values(table[label], table.name)
    if "" in table:
        raise unnamed_column_error(table.name, table.names.index(""))
    features = [column for column in table.columns if column.name != label]
    _refuse_text(features, table)
    if not features:
        raise InputError(f"{table.name} has no columns of numbers; give at least one.")
    points = np.empty((table.rows, len(features)))
    for index, column in enumerate(features):
        column_name = f"'{column.name}'" if table.has_header else str(index + 1)
        where = f"Column {column_name} of {table.name}"
        or_drop = f", or drop the column ({drop_hint(column.name)})" if table.has_header else ""
        _refuse_missing(column, where, or_drop)
        points[:, index] = column.values
        refuse_infinite(column.values, where)
    names = tuple(column.name for column in features) if table.has_header else None
    return PlainTable(points, labels, names)


def _refuse_text(columns: Sequence[Column], table: Table) -> None:
    """InputError that names all columns that are not numbers: one error for each would be slow."""
    wrong = [c for c in columns if c.kind in ("category", "date", "unusable")]
    if not wrong:
        return
    first = wrong[0]
    if not table.has_header:
        raise InputError(
            f"Column {columns.index(first) + 1} of {table.name} holds {_describe(first)};"
            " encode it as numbers, or name the columns in a first line of words, by which it can"
            " be dropped or be the label column."
        )
    if len(wrong) == 1:
        raise InputError(
            f"Column '{first.name}' of {table.name} holds {_describe(first)}; encode"
            f" it as numbers (a schema does), drop it ({drop_hint(first.name)}), or name it as the"
            " label column."
        )
    names = [column.name for column in wrong]
    raise InputError(
        f"Columns {', '.join(map(repr, names))} of {table.name} hold"
        f" {' or '.join(sorted({_kind_in_words(c) for c in wrong}))}; encode them as numbers"
        f" (a schema does), drop them ({drop_hint(*names)}), or name one as the label column."
    )


def _kind_in_words(column: Column) -> str:
    return {"category": "string values", "date": "dates"}.get(column.kind, column.detail)


def _describe(column: Column) -> str:
    """What a column that is not numeric holds; also in which rows if most values are numbers."""
    return _kind_in_words(column) + (locate_text(column) if column.kind == "category" else "")


def _refuse_missing(column: Column, where: str, or_drop: str) -> None:
    if column.missing.any():
        count = count_rows(column.missing, "missing value")
        raise InputError(f"{where} has {count}; fill or remove them first{or_drop}.")
