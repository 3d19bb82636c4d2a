"""Tables in memory: data frames of pandas, Polars and PyArrow."""

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
    """Whether this has columns, as data frames of pandas, Polars and PyArrow do."""
    return any(hasattr(type(source), name) for name in ("columns", "column_names"))


def read_frame(
    frame: Any,
    name: str,
    missing_texts: frozenset[str] = frozenset(),
    drop: Sequence[str] = (),
    required: Sequence[str] = (),
    elementwise: bool = False,
) -> Table:
    """A table of a data frame in memory.

    A column of a PyArrow table in which pandas stored an index is left out unless its name is
    `required`. With `elementwise`, texts stay texts.
    """
    import narwhals as nw

    frame = _drop_index(frame, required)
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
        _read_column(column, title, missing_texts, elementwise)
        for title, column in zip(names, data.iter_columns(), strict=True)
        if title not in drop
    )
    return Table(name, columns, rows)


def _read_column(
    series: Any, name: str, missing_texts: frozenset[str], elementwise: bool
) -> Column:
    native = series.to_native()
    if _is_from(native, "pandas") and native.dtype == np.float64 and not missing_texts:
        values = np.asarray(native)  # without a copy
        return Column(name, "empty" if np.isnan(values).all() else "number", values)
    if elementwise and _is_from(native, "pandas") and native.dtype == object:
        return _object_column(series, name, missing_texts, elementwise)
    try:
        array = series.to_arrow()
    except Exception:  # a column of objects of several types
        return _object_column(series, name, missing_texts, elementwise)
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    return arrow_column(name, array, missing_texts, elementwise=elementwise)


def _is_from(value: Any, library: str) -> bool:
    """Whether the type of a value is defined in this library."""
    return type(value).__module__.partition(".")[0] == library


def _object_column(
    series: Any, name: str, missing_texts: frozenset[str], elementwise: bool
) -> Column:
    """A column of Python objects; unusable if the first that is no scalar or date is no number.

    With `elementwise`, each such object is a missing value.
    """
    values = series.to_list()
    scalars = (str, bool, int, float, np.generic, type(None))
    first = next((v for v in values if not isinstance(v, scalars) and not hasattr(v, "year")), None)
    if first is not None and not hasattr(first, "__float__") and not elementwise:
        detail = f"{type(first).__name__} values"
        return Column(name, "unusable", np.zeros(len(values), np.int8), detail=detail)
    missing_types = ("NAType", "NaTType")  # of pandas.NA and pandas.NaT
    with_none = [
        None
        if type(value).__name__ in missing_types
        or not (isinstance(value, scalars) or hasattr(value, "year") or hasattr(value, "__float__"))
        else value
        for value in values
    ]
    return values_column(name, with_none, missing_texts, elementwise)


def _drop_index(table: Any, required: Sequence[str]) -> Any:
    """A PyArrow table without the columns in which pandas stored an index, unless required.

    The index of a frame in memory is not a feature either. The table's metadata name the columns
    that hold one. For an index that only counts, they have a start, a stop and a step instead.
    """
    if not _is_from(table, "pyarrow"):
        return table
    try:
        index = json.loads(table.schema.metadata[b"pandas"])["index_columns"]
        stored = {column for column in index if isinstance(column, str) and column not in required}
        others = [number for number, name in enumerate(table.column_names) if name not in stored]
    except (AttributeError, KeyError, TypeError, ValueError):  # pandas did not write this table
        return table
    return table.select(others) if len(others) < len(table.column_names) else table


def _check_names(table: Any, name: str, drop: Sequence[str]) -> None:
    try:
        columns = table.column_names if hasattr(type(table), "column_names") else table.columns
        names = [str(column) for column in columns]
    except Exception:  # `read_frame` refuses a table of an unknown kind
        return
    check_names(names, name, drop)
