"""Tables encoded cell by cell: what one row holds changes how no other row is read.

Usually the kind of a column follows from all of its cells, and a cell that does not fit is an
error. Under differential privacy one record could so change the contributions of all, or whether
there is a reply. Here each cell is read by itself, as the schema's kind of column. A cell that
does not fit counts as missing, and a missing value where the schema expects none counts at the
centre, or as no level.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
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

__all__ = ["encode_by_cell", "label_text", "label_texts", "numbers_by_cell"]

_EPOCH = datetime(1970, 1, 1)
_LARGEST = 1e99  # of an encoded number, a little less than what is refused as too large
_WHOLE = re.compile(r"[+-]?\d{1,30}")


def encode_by_cell(schema: Schema, table: Table) -> NDArray[np.float64]:
    """The matrix of `Schema.encode`; no cell is refused, whatever it holds.

    >>> schema = Schema((SchemaColumn("age", "number", centre=50.0, scale=10.0),))
    >>> ages = Column("age", "category", np.array([0, 1]), ("60", "unknown"))
    >>> encode_by_cell(schema, Table("paris", (ages,), 2)).tolist()
    [[1.0], [0.0]]
    """
    specs = [_accept_all_cells(spec) for spec in schema.columns]
    columns = tuple(_read_as_kind(table[spec.name], spec) for spec in specs if spec.width)
    points = encode(specs, Table(table.name, columns, table.rows))
    kept: list[int] = []
    start = 0
    for column, spec in zip(schema.columns, specs, strict=True):
        kept.extend(range(start, start + column.width))
        start += spec.width
    return np.clip(points[:, kept], -_LARGEST, _LARGEST)


def numbers_by_cell(table: Table, label: str | None) -> Table:
    """The table with each column of texts but the label read as numbers, cell by cell."""
    columns = tuple(
        Column(column.name, "number", _look_up(column, _level_numbers(column)))
        if column.kind == "category" and column.name != label
        else column
        for column in table.columns
    )
    return replace(table, columns=columns)


def label_texts(column: Column) -> NDArray[Any]:
    """The text of the label of each row, None where it is missing."""
    if column.kind in ("category", "boolean"):
        texts = [*map(label_text, column.levels), None]
        return np.asarray(np.array(texts, dtype=object)[column.values])
    found = np.full(len(column), None, dtype=object)
    if column.kind in ("number", "date"):
        for row in np.flatnonzero(np.isfinite(column.values)):
            number = float(column.values[row])
            day = column.kind == "date"
            found[row] = str(_EPOCH + timedelta(days=number)) if day else level_name(number)
    return found


def label_text(value: Any) -> str | None:
    """The text by which a label is compared with a public name; None for a missing one.

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
    if _WHOLE.fullmatch(word):
        return str(int(word))
    number = parse_number(word)
    if math.isfinite(number):
        return level_name(number)
    return word.lower() if word.lower() in ("true", "false") else word


def _accept_all_cells(spec: SchemaColumn) -> SchemaColumn:
    """The column with a rule for every cell: the centre, or an added last level."""
    if spec.kind == "category" and OTHER not in spec.levels:
        # An unlisted level falls into the added one, whose encoded column is left out.
        missing = "other" if spec.missing == "refuse" else spec.missing
        return replace(spec, levels=(*spec.levels, OTHER), missing=missing)
    if spec.missing != "refuse" or not spec.width:
        return spec
    return replace(spec, missing="other" if spec.kind == "category" else "mean")


def _read_as_kind(column: Column, spec: SchemaColumn) -> Column:
    """The column with texts read as the schema's kind."""
    if spec.kind == "category":
        return _rename_booleans(column, spec) if column.kind == "category" else column
    if column.kind != "category":
        values = column.values
        if column.kind in ("number", "date") and not np.isfinite(values).all():
            values = np.where(np.isfinite(values), values, np.nan)
        if spec.kind == "boolean" and column.kind == "number":
            values = np.where(np.isin(values, (0.0, 1.0)), values, np.nan)
        return replace(column, values=values)
    readers: dict[str, Callable[[], Sequence[float]]] = {
        "number": lambda: _level_numbers(column),
        "date": lambda: [parse_date(level) for level in column.levels],
        "boolean": lambda: [TRUTH.get(level.lower(), math.nan) for level in column.levels],
    }
    kind = "number" if spec.kind == "boolean" else spec.kind
    values = _look_up(column, readers[spec.kind]())
    return Column(column.name, kind, values)  # type: ignore[arg-type]


def _rename_booleans(column: Column, spec: SchemaColumn) -> Column:
    """The column with 1 and 0 for true and false where the schema lists those."""
    codes = {"true": "1", "false": "0"}
    levels = []
    for level in column.levels:
        code = codes.get(level.lower(), level)
        levels.append(level if level in spec.levels or code not in spec.levels else code)
    return replace(column, levels=tuple(levels))


def _level_numbers(column: Column) -> list[float]:
    return [parse_number(level, column.detail) for level in column.levels]


def _look_up(column: Column, values: Sequence[float]) -> NDArray[np.float64]:
    """The value of each row's level, NaN where it is missing or not finite."""
    numbers = np.array([*values, math.nan], dtype=np.float64)
    numbers[~np.isfinite(numbers)] = math.nan
    return np.asarray(numbers[column.values])
