"""Tables encoded value by value: no value changes how another is read.

Usually the kind of a column follows from all of its values, and a value of another kind is an
error. Under differential privacy this must not be: one record could change what all others
contribute, or whether there is a reply. Here each value is read by itself, as the kind that the
schema gives the column. A value that cannot be read so counts as missing. A missing value for
which the schema has no rule counts as the centre, as "other", or as no level if the schema does not
list "other".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.tables._encode import TRUTH, encode
from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER, SchemaColumn
from fedwad.tables._table import Column, Table, level_name
from fedwad.tables._text import parse_date, parse_number

__all__ = ["encode_elementwise", "label_text", "label_texts", "read_numbers_elementwise"]

_EPOCH = datetime(1970, 1, 1)
_MAX_ENCODED = 1e99  # encoded values are clipped to it; larger ones would be refused later
_INTEGER = re.compile(r"[+-]?\d{1,30}")


def encode_elementwise(schema: Schema, table: Table) -> NDArray[np.float64]:
    """The matrix of `Schema.encode`, read value by value; no value is refused.

    A column is refused if its type does not fit: lists, or dates where the schema has a number.

    >>> schema = Schema((SchemaColumn("age", "number", centre=50.0, scale=10.0),))
    >>> ages = Column("age", "category", np.array([0, 1]), ("60", "unknown"))
    >>> encode_elementwise(schema, Table("paris", (ages,), 2)).tolist()
    [[1.0], [0.0]]
    """
    specs = [_accept_all_values(spec) for spec in schema.columns]
    columns = tuple(_read_as_kind(table[spec.name], spec) for spec in specs if spec.width)
    points = encode(specs, Table(table.name, columns, table.rows))
    features: list[int] = []  # those of the schema, without the levels that were added
    start = 0
    for column, spec in zip(schema.columns, specs, strict=True):
        stop = start + spec.width
        added = start + len(column.levels) if spec.levels != column.levels else stop
        features += [*range(start, added), *range(added + 1, stop)]
        start = stop
    return np.clip(points[:, features], -_MAX_ENCODED, _MAX_ENCODED)


def read_numbers_elementwise(table: Table, label: str | None) -> Table:
    """The table with the texts of all columns but the label read as numbers, each by itself."""
    columns = tuple(
        _read_numbers(column) if column.kind == "category" and column.name != label else column
        for column in table.columns
    )
    return replace(table, columns=columns)


def label_texts(column: Column) -> NDArray[Any]:
    """The text of the label of each row, None where it is missing."""
    if column.kind in ("category", "boolean"):
        texts = [*map(label_text, column.levels), None]
        return np.asarray(np.array(texts, dtype=object)[column.values])
    result = np.full(len(column), None, dtype=object)
    if column.kind in ("number", "date"):
        for row in np.flatnonzero(np.isfinite(column.values)):
            number = float(column.values[row])
            is_date = column.kind == "date"
            result[row] = str(_EPOCH + timedelta(days=number)) if is_date else level_name(number)
    return result


def label_text(value: Any) -> str | None:
    """The text by which a label is compared with a public class name; None for a missing one.

    A number and its text are the same label, and so are a boolean and its text.

    >>> label_text(1.0), label_text("01"), label_text(True), label_text(float("nan"))
    ('1', '1', 'true', None)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**30 else None
    if isinstance(value, float):
        return level_name(value) if math.isfinite(value) else None
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return None
    return _normalise(str(value).strip())


def _normalise(word: str) -> str:
    """One spelling of a number or a boolean; any other word as it is."""
    if _INTEGER.fullmatch(word):
        return str(int(word))
    number = parse_number(word)
    if math.isfinite(number):
        return level_name(number)
    return word.lower() if word.lower() in ("true", "false") else word


def _accept_all_values(spec: SchemaColumn) -> SchemaColumn:
    """The column with a rule for every value: where it had none, the centre or "other"."""
    if spec.kind == "category" and OTHER not in spec.levels:
        # Levels that are not listed fall into the added one, whose encoded column is left out.
        missing = "other" if spec.missing == "refuse" else spec.missing
        return replace(spec, levels=(*spec.levels, OTHER), missing=missing)
    if spec.missing != "refuse" or not spec.width:
        return spec
    return replace(spec, missing="other" if spec.kind == "category" else "mean")


def _read_as_kind(column: Column, spec: SchemaColumn) -> Column:
    """The column with texts read as the schema's kind; booleans become 0 and 1."""
    if spec.kind == "category":
        return _rename_booleans(column, spec) if column.kind == "category" else column
    if column.kind != "category":
        values = column.values
        if column.kind in ("number", "date") and not np.isfinite(values).all():
            values = np.where(np.isfinite(values), values, np.nan)
        if spec.kind == "boolean" and column.kind == "number":
            values = np.where(np.isin(values, (0.0, 1.0)), values, np.nan)
        return replace(column, values=values)
    if spec.kind == "number":
        return _read_numbers(column)
    if spec.kind == "date":
        return Column(column.name, "date", _read_levels(column, parse_date))
    truth = _read_levels(column, lambda level: TRUTH.get(level.lower(), math.nan))
    return Column(column.name, "number", truth)


def _rename_booleans(column: Column, spec: SchemaColumn) -> Column:
    """The column with levels "1" and "0" for "true" and "false" if the schema lists only those."""
    codes = {"true": "1", "false": "0"}
    levels = []
    for level in column.levels:
        code = codes.get(level.lower(), level)
        levels.append(level if level in spec.levels or code not in spec.levels else code)
    return replace(column, levels=tuple(levels))


def _read_numbers(column: Column) -> Column:
    """The column with numbers for its texts; true and false are 1 and 0."""
    truth = {"true": 1.0, "false": 0.0}

    def read(level: str) -> float:
        word = level.lower()
        return truth[word] if word in truth else parse_number(level, column.decimal)

    return Column(column.name, "number", _read_levels(column, read))


def _read_levels(column: Column, read: Callable[[str], float]) -> NDArray[np.float64]:
    """The number that `read` returns for each row's level; NaN if missing or infinite."""
    numbers = np.array([*map(read, column.levels), math.nan], dtype=np.float64)  # -1: the last
    numbers[~np.isfinite(numbers)] = math.nan
    return np.asarray(numbers[column.values])
