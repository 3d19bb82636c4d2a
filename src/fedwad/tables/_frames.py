"""Tables of pandas, Polars and PyArrow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedwad.errors import InputError
from fedwad.tables._arrow import arrow_column
from fedwad.tables._table import Column, Table, check_names
from fedwad.tables._text import values_column

__all__ = ["is_frame", "read_frame"]


def is_frame(source: Any) -> bool:
    """Whether this has columns, as the tables of pandas, Polars and PyArrow do."""
    return any(hasattr(type(source), name) for name in ("columns", "column_names"))


def read_frame(
    frame: Any,
    name: str,
    missing_texts: frozenset[str] = frozenset(),
    drop: Sequence[str] = (),
    wanted: Sequence[str] = (),
    by_cell: bool = False,
) -> Table:
    """A table of a data frame in memory; an index that pandas stored is a column only if wanted."""
    import narwhals as nw

    frame = _drop_index(frame, wanted)
    _check_names(frame, name, drop)
    try:
        data = nw.from_native(frame, eager_only=True)
        names = [str(column) for column in data.columns]
        rows = len(data)
    except Exception:  # each data frame library refuses in its own way
        raise InputError(
            f"{name} is a {type(frame).__name__} that cannot be used; give a table in memory."
        ) from None
    if rows == 0:
        raise InputError(f"{name} is empty; give at least one sample.")
    columns = tuple(
        _read_column(column, title, missing_texts, by_cell)
        for title, column in zip(names, data.iter_columns(), strict=True)
        if title not in drop
    )
    return Table(name, columns, rows)


def _read_column(series: Any, name: str, missing_texts: frozenset[str], by_cell: bool) -> Column:
    native = series.to_native()
    if _is_from(native, "pandas") and native.dtype == np.float64 and not missing_texts:
        values = np.asarray(native)  # as they are in memory
        return Column(name, "empty" if np.isnan(values).all() else "number", values)
    try:
        array = series.to_arrow()
    except Exception:  # a column of objects of several types
        return _object_column(series, name, missing_texts, by_cell)
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    return arrow_column(name, array, missing_texts, by_cell=by_cell)


def _is_from(value: Any, library: str) -> bool:
    return type(value).__module__.partition(".")[0] == library


def _object_column(series: Any, name: str, missing_texts: frozenset[str], by_cell: bool) -> Column:
    values = series.to_list()
    plain = (str, bool, int, float, np.generic, type(None))
    unusable = next(
        (v for v in values if not isinstance(v, plain) and not hasattr(v, "year")), None
    )
    if unusable is not None and not hasattr(unusable, "__float__"):
        kind = type(unusable).__name__
        return Column(name, "unusable", np.zeros(len(values), np.int8), detail=f"{kind} values")
    missing_types = ("NAType", "NaTType")  # of pandas.NA and pandas.NaT
    present = [None if type(value).__name__ in missing_types else value for value in values]
    return values_column(name, present, missing_texts, by_cell)


def _drop_index(table: Any, wanted: Sequence[str]) -> Any:
    """A PyArrow table without the columns in which pandas stored an index.

    The index of a frame in memory is not a feature either. The table's metadata say which columns
    hold one; an index that only counts is a start, a stop and a step instead of a column.
    """
    if not _is_from(table, "pyarrow"):
        return table
    try:
        index = json.loads(table.schema.metadata[b"pandas"])["index_columns"]
        stored = {column for column in index if isinstance(column, str) and column not in wanted}
        kept = [number for number, name in enumerate(table.column_names) if name not in stored]
    except (AttributeError, KeyError, TypeError, ValueError):  # pandas did not write this table
        return table
    return table.select(kept) if len(kept) < len(table.column_names) else table


def _check_names(table: Any, name: str, drop: Sequence[str]) -> None:
    try:
        found = table.column_names if hasattr(type(table), "column_names") else table.columns
        names = [str(column) for column in found]
    except Exception:  # a table of an unknown kind is refused by what reads it
        return
    check_names(names, name, drop)
