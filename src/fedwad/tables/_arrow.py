"""Columns of Arrow arrays, without importing pandas on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad.tables._table import Column, level_name
from fedwad.tables._text import text_column

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_column"]

_DAY = 86400.0
_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def arrow_column(
    name: str,
    array: pa.Array,
    missing_texts: frozenset[str] = frozenset(),
    decimal: str = "",
    by_cell: bool = False,
) -> Column:
    """A column of an Arrow array of any type; types with no meaning as a column are unusable.

    With `by_cell`, texts stay texts.
    """
    import pyarrow.types as kinds

    kind = array.type
    if kinds.is_null(kind) or (kinds.is_boolean(kind) and array.null_count == len(array)):
        return Column(name, "empty", np.full(len(array), np.nan))
    if kinds.is_boolean(kind):
        codes = _as_numpy(array.cast("int8"), np.int8).copy()
        codes[_is_missing(array)] = -1
        return Column(name, "boolean", codes, ("false", "true"))
    if kinds.is_dictionary(kind):
        return _categorical_column(name, array, missing_texts)
    if str(kind) in ("string", "large_string", "string_view"):
        texts = array if str(kind) != "string_view" else array.cast("string")
        return _text_column(name, texts, missing_texts, decimal, by_cell)
    if kinds.is_temporal(kind):
        return _temporal_column(name, array)
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
        return _numeric_column(name, "number", _floats(array), missing_texts)
    return Column(name, "unusable", np.zeros(len(array), np.int8), detail=f"{kind} values")


def _numeric_column(
    name: str,
    kind: Literal["number", "date"],
    values: NDArray[np.float64],
    missing_texts: frozenset[str] = frozenset(),
) -> Column:
    numbers = [float(text) for text in missing_texts if _is_float(text)]
    if numbers and np.isin(values, numbers).any():
        values = np.where(np.isin(values, numbers), np.nan, values)
    return Column(name, "empty" if np.isnan(values).all() else kind, values)


def _is_float(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _categorical_column(
    name: str, array: pa.DictionaryArray, missing_texts: frozenset[str]
) -> Column:
    """A categorical type: its levels stay levels, also where they are numbers."""
    codes = _as_numpy(array.indices.cast("int64"), np.int64).copy()
    codes[_is_missing(array.indices)] = -1
    texts = [_to_text(value) for value in array.dictionary.to_pylist()]
    return text_column(name, codes, texts, missing_texts, declared=True)


def _to_text(value: Any) -> str:
    """The name of a level, or an empty text for a missing one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return level_name(value) if value == value else ""
    return "" if value is None else str(value)


def _text_column(
    name: str, array: pa.Array, missing_texts: frozenset[str], decimal: str, by_cell: bool
) -> Column:
    encoded = array.dictionary_encode()
    codes = _as_numpy(encoded.indices, np.int32).copy()
    codes[_is_missing(encoded.indices)] = -1
    texts = encoded.dictionary.to_pylist()
    column = text_column(name, codes, texts, missing_texts, decimal, declared=by_cell)
    return replace(column, detail=decimal) if by_cell else column


def _temporal_column(name: str, array: pa.Array) -> Column:
    """Dates and timestamps in days since 1970, durations in days, times of day in hours."""
    import pyarrow.types as kinds

    kind = array.type
    if kinds.is_date(kind):
        return _numeric_column(name, "date", _floats(array.cast("date32").cast("int32")))
    if kinds.is_timestamp(kind) or kinds.is_duration(kind):
        days = _floats(array.cast("int64")) / (_DAY * _UNITS[kind.unit])
        return _numeric_column(name, "date" if kinds.is_timestamp(kind) else "number", days)
    if kinds.is_time(kind):
        plain = array.cast("int64") if kinds.is_time64(kind) else array.cast("int32")
        return _numeric_column(name, "number", _floats(plain) / (3600.0 * _UNITS[kind.unit]))
    return Column(name, "unusable", np.zeros(len(array), np.int8), detail=f"{kind} values")


def _floats(array: pa.Array) -> NDArray[np.float64]:
    """Numbers as float64, NaN where missing.

    PyArrow's own way to NumPy imports pandas where that is installed: seconds of waiting, and an
    interrupt during that import leaves the import lock taken. Its memory can be read as it is.
    """
    doubles = array.cast("float64", safe=False)  # safe would refuse integers beyond 2^53
    values = _as_numpy(doubles, np.float64)
    if not array.null_count:
        return values
    values = values.copy()
    values[_is_missing(array)] = np.nan
    return values


def _is_missing(array: pa.Array) -> NDArray[np.bool_]:
    if not array.null_count:
        return np.zeros(len(array), dtype=bool)
    return _as_numpy(array.is_null().cast("uint8"), np.uint8).astype(bool)


def _as_numpy(array: pa.Array, dtype: type[np.generic]) -> NDArray[Any]:
    if not len(array):
        return np.empty(0, dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array), size * array.offset)
