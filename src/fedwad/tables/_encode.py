"""Encoding tables as matrices, some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.tables._schema_column import OTHER, SchemaColumn
from fedwad.tables._table import Column, Table, count_rows, index_dtype, is_code, list_rows
from fedwad.tables._text import locate_text

__all__ = ["TRUTH", "encode", "label_values", "refuse_infinite"]

_CHUNK_ROWS = 8192  # rows encoded at a time, so that they stay in the processor's cache
_MISSING, _UNKNOWN = -1, -2  # instead of the index of a level: no value, a level not listed
#: Texts that stand for booleans.
TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0}
TRUTH |= {"y": 1.0, "n": 0.0, "1": 1.0, "0": 0.0}

#: Writes the encoded values of a slice of rows into the array that it is given.
Writer = Callable[[slice, NDArray[np.float64]], None]


def encode(columns: Sequence[SchemaColumn], table: Table) -> NDArray[np.float64]:
    """The encoded columns of a table as a matrix, with a row for each row of the table."""
    writers: list[tuple[slice, Writer]] = []
    width = 0
    for spec in columns:
        if spec.width:
            column = table[spec.name].with_missing(spec.missing_values)
            features = slice(width, width + spec.width)
            make_writer = _levels_writer if spec.kind == "category" else _number_writer
            writers.append((features, make_writer(spec, column, table.name)))
            width = features.stop
    result = np.zeros((table.rows, width))
    for start in range(0, table.rows, _CHUNK_ROWS):
        rows = slice(start, min(start + _CHUNK_ROWS, table.rows))
        for features, write in writers:
            write(rows, result[rows, features])
    return result


def label_values(column: Column, table: str) -> NDArray[Any]:
    """The labels of the rows, as strings, integers, floats or booleans; `table` is for errors."""
    if column.kind == "unusable":
        raise InputError(
            f"Column '{column.name}' of {table} holds {column.detail}, and it is the label; give"
            " numbers or text."
        )
    if column.missing.any():
        count = count_rows(column.missing, "missing value")
        raise InputError(
            f"Column '{column.name}' of {table} has {count}, and it is the label; fill or"
            " remove them first."
        )
    if column.kind == "boolean":
        return column.values.astype(bool)
    if column.kind == "category":
        return np.asarray(np.array(column.levels, dtype=object)[column.values])
    integers = bool(np.all(np.abs(column.values) < 2.0**53) and np.all(column.values % 1.0 == 0.0))
    return column.values.astype(np.int64) if integers else column.values


def _refuse_missing(spec: SchemaColumn, missing: NDArray[np.bool_], table: str) -> None:
    if spec.missing == "refuse" and missing.any():
        rule = "level" if spec.kind == "category" else "indicator"
        raise InputError(
            f"Column '{spec.name}' of {table} has {count_rows(missing, 'missing value')}, and the"
            f' schema expects none; set missing = "{rule}" for it in the schema, or fill them.'
        )


def _number_writer(spec: SchemaColumn, column: Column, table: str) -> Writer:
    values = _read_numbers(spec, column, table)
    _refuse_missing(spec, np.isnan(values), table)
    refuse_infinite(values, f"Column '{spec.name}' of {table}")

    def write(rows: slice, out: NDArray[np.float64]) -> None:
        scaled = (values[rows] - spec.centre) / spec.scale
        missing = np.isnan(scaled)
        if missing.any():
            scaled[missing] = 0.0
            if spec.missing == "indicator":
                out[:, 1] = missing
        out[:, 0] = scaled

    return write


def refuse_infinite(values: NDArray[Any], where: str) -> None:
    """InputError if a value is infinite; `where` names the column and the table."""
    infinite = np.isinf(values)
    if infinite.any():
        wrong = count_rows(infinite, "infinite value")
        raise InputError(f"{where} has {wrong}; correct or remove them first.")


def _read_numbers(spec: SchemaColumn, column: Column, table: str) -> NDArray[np.float64]:
    """The values of a column that the schema takes for numbers, dates or booleans."""
    if column.kind == "empty":
        return np.full(len(column), np.nan)
    if column.kind == spec.kind or (spec.kind, column.kind) == ("number", "boolean"):
        values = column.values
    elif spec.kind == "boolean" and column.kind in ("category", "number"):
        values = _read_booleans(spec, column, table)
    else:
        raise _wrong_kind_error(spec, column, table)
    if column.kind == "boolean":
        values = np.where(values < 0, np.nan, values.astype(np.float64))
    return values.astype(np.float64, copy=False)


def _read_booleans(spec: SchemaColumn, column: Column, table: str) -> NDArray[np.float64]:
    """Booleans written as 0 and 1, or as texts such as yes and no."""
    if column.kind == "number":
        wrong = ~(np.isnan(column.values) | np.isin(column.values, (0.0, 1.0)))
        values = column.values
    else:
        lookup = np.array([*(TRUTH.get(level.lower(), np.inf) for level in column.levels), np.nan])
        values = lookup[column.values]
        wrong = np.isinf(values)
    if wrong.any():
        rows = (np.flatnonzero(wrong) + 1).tolist()
        raise InputError(
            f"Column '{spec.name}' of {table} has values that are neither true nor false"
            f" ({list_rows(rows)}); correct them, or change the column's kind in the schema."
        )
    return values


def _wrong_kind_error(spec: SchemaColumn, column: Column, table: str) -> InputError:
    holds = {"category": "text", "unusable": column.detail}.get(column.kind, f"{column.kind}s")
    where = locate_text(column) if column.kind == "category" else ""
    return InputError(
        f"Column '{spec.name}' of {table} holds {holds}{where} where the schema has a {spec.kind};"
        " correct the table, or change the column's kind in the schema."
    )


def _levels_writer(spec: SchemaColumn, column: Column, table: str) -> Writer:
    level_indices = _level_indices(spec, column, table)

    def write(rows: slice, out: NDArray[np.float64]) -> None:
        out[np.arange(len(out)), level_indices[rows]] = spec.on_value

    return write


def _level_indices(spec: SchemaColumn, column: Column, table: str) -> NDArray[np.signedinteger]:
    """The encoded column that is not 0 in each row, counted within the category."""
    if column.kind == "unusable":
        raise _wrong_kind_error(spec, column, table)
    level_indices = _look_up_levels(spec, column)
    missing = level_indices == _MISSING
    _refuse_missing(spec, missing, table)
    if missing.any():
        level_indices[missing] = (
            len(spec.levels) if spec.missing == "level" else _index_of_other(spec)
        )
    unknown = level_indices == _UNKNOWN
    if unknown.any():
        if OTHER not in spec.levels:
            rows = (np.flatnonzero(unknown) + 1).tolist()
            raise InputError(
                f"Column '{spec.name}' of {table} has levels that the schema does not list"
                f" ({list_rows(rows)}); add them, or '{OTHER}', to its levels."
            )
        level_indices[unknown] = spec.levels.index(OTHER)
    return level_indices


def _index_of_other(spec: SchemaColumn) -> int:
    if OTHER not in spec.levels:
        raise InputError(
            f"missing of column '{spec.name}' is 'other', which is not among its levels; add it."
        )
    return spec.levels.index(OTHER)


def _look_up_levels(spec: SchemaColumn, column: Column) -> NDArray[np.signedinteger]:
    """The index of each row's level in the schema, or _MISSING or _UNKNOWN."""
    index_of: dict[str, int] = {level: index for index, level in enumerate(spec.levels)}
    dtype = index_dtype(spec.levels)
    if column.kind in ("category", "boolean"):
        lookup = [index_of.get(level, _UNKNOWN) for level in column.levels]
        if column.kind == "boolean" and set(lookup) == {_UNKNOWN}:
            lookup = [index_of.get(level, _UNKNOWN) for level in ("0", "1")]
        return np.asarray(np.array([*lookup, _MISSING], dtype=dtype)[column.values])
    result = np.full(len(column), _MISSING, dtype=dtype)
    if column.kind == "empty":
        return result
    result[~column.missing] = _UNKNOWN
    for level, index in index_of.items():
        if is_code(level):
            result[column.values == float(level)] = index
    return result
