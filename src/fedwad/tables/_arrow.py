"""Columns of Arrow arrays, without importing pandas on the way."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad.tables._table import Column, level_name
from fedwad.tables._text import text_column

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_column"]

_SECONDS_PER_DAY = 86400.0
_UNITS_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def arrow_column(
    name: str,
    array: pa.Array,
    missing_texts: frozenset[str] = frozenset(),
    decimal: str = "",
    elementwise: bool = False,
) -> Column:
    """A column of an Arrow array; one of lists, bytes or the like is unusable.

    `missing_texts` are further spellings of a missing value. `decimal` is "," where commas are
    known to be decimal ones. With `elementwise`, texts stay texts.
    """
    from pyarrow import types

    dtype = array.type
    if types.is_null(dtype) or (types.is_boolean(dtype) and array.null_count == len(array)):
        return Column(name, "empty", np.full(len(array), np.nan))
    if types.is_boolean(dtype):
        codes = _to_codes(array.cast("int8"), np.int8)
        return Column(name, "boolean", codes, ("false", "true"))
    if types.is_dictionary(dtype):
        return _categorical_column(name, array, missing_texts)
    if str(dtype) in ("string", "large_string", "string_view"):
        texts = array if str(dtype) != "string_view" else array.cast("string")
        return _text_column(name, texts, missing_texts, decimal, elementwise)
    if types.is_temporal(dtype):
        return _temporal_column(name, array)
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return _numeric_column(name, "number", _to_float64(array), missing_texts)
    return _unusable_column(name, array)


def _unusable_column(name: str, array: pa.Array) -> Column:
    values = np.zeros(len(array), np.int8)
    return Column(name, "unusable", values, detail=f"{array.type} values")


def _numeric_column(
    name: str,
    kind: Literal["number", "date"],
    values: NDArray[np.float64],
    missing_texts: frozenset[str] = frozenset(),
) -> Column:
    missing_numbers = [float(text) for text in missing_texts if _is_float(text)]
    if missing_numbers and np.isin(values, missing_numbers).any():
        values = np.where(np.isin(values, missing_numbers), np.nan, values)
    return Column(name, "empty" if np.isnan(values).all() else kind, values)


def _is_float(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _categorical_column(
    name: str, array: pa.DictionaryArray, missing_texts: frozenset[str]
) -> Column:
    """A column of a categorical type: its levels stay levels, also where they are numbers."""
    codes = _to_codes(array.indices.cast("int64"), np.int64)
    texts = [_to_text(value) for value in array.dictionary.to_pylist()]
    return text_column(name, codes, texts, missing_texts, keep_texts=True)


def _to_text(value: Any) -> str:
    """The name of a level; the empty text, which stands for a missing value, for None and NaN."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return level_name(value) if value == value else ""
    return "" if value is None else str(value)


def _text_column(
    name: str, array: pa.Array, missing_texts: frozenset[str], decimal: str, elementwise: bool
) -> Column:
    encoded = array.dictionary_encode()
    codes, texts = _to_codes(encoded.indices, np.int32), encoded.dictionary.to_pylist()
    column = text_column(name, codes, texts, missing_texts, decimal, keep_texts=elementwise)
    return replace(column, decimal=decimal) if elementwise else column


def _temporal_column(name: str, array: pa.Array) -> Column:
    """Dates and timestamps in days since 1970, durations in days, times of day in hours."""
    from pyarrow import types

    dtype = array.type
    if types.is_date(dtype):
        return _numeric_column(
            name, "date", _to_float64(array.cast("date32", safe=False).cast("int32"))
        )
    if types.is_timestamp(dtype) or types.is_duration(dtype):
        per_day = _SECONDS_PER_DAY * _UNITS_PER_SECOND[dtype.unit]
        days = _to_float64(array.cast("int64")) / per_day
        return _numeric_column(name, "date" if types.is_timestamp(dtype) else "number", days)
    if types.is_time(dtype):
        integers = array.cast("int64") if types.is_time64(dtype) else array.cast("int32")
        hours = _to_float64(integers) / (3600.0 * _UNITS_PER_SECOND[dtype.unit])
        return _numeric_column(name, "number", hours)
    return _unusable_column(name, array)


def _to_float64(array: pa.Array) -> NDArray[np.float64]:
    """Numbers as float64, NaN where missing."""
    doubles = array.cast("float64", safe=False)  # safe would refuse integers beyond 2^53
    values = _as_numpy(doubles, np.float64)
    if not array.null_count:
        return values
    values = values.copy()
    values[_is_missing(array)] = np.nan
    return values


def _to_codes(array: pa.Array, dtype: type[np.signedinteger]) -> NDArray[Any]:
    """Integers as they are, -1 where missing."""
    codes = _as_numpy(array, dtype).copy()
    codes[_is_missing(array)] = -1
    return codes


def _is_missing(array: pa.Array) -> NDArray[np.bool_]:
    if not array.null_count:
        return np.zeros(len(array), dtype=bool)
    return _as_numpy(array.is_null().cast("uint8"), np.uint8).astype(bool)


def _as_numpy(array: pa.Array, dtype: type[np.generic]) -> NDArray[Any]:
    """The memory of an Arrow array as a NumPy array.

    PyArrow's own `to_numpy` imports pandas if that is installed. This takes seconds, and an
    interrupt during the import leaves the import lock taken.
    """
    if not len(array):
        return np.empty(0, dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array), size * array.offset)
