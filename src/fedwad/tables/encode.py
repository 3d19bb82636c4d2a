"""Tables as matrices: as a schema says, value by value, or plain numbers.

Usually the kind of a column follows from all of its values, and a value of another kind is an
error. Under differential privacy this must not be: one record could change what all others
contribute, or whether there is a reply. There, each value is read by itself (`encode_elementwise`),
as the kind that the schema gives the column. A value that cannot be read so counts as missing. A
missing value for which the schema has no rule counts as the centre, as "other", or as no level if
the schema does not list "other".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.tables.columns import locate_text, parse_date, parse_number
from fedwad.tables.schema_column import OTHER, SchemaColumn, accept_new_data
from fedwad.tables.table import (
    Column,
    Table,
    count_rows,
    date_name,
    drop_hint,
    index_dtype,
    is_code,
    level_name,
    level_texts,
    list_rows,
    unnamed_column_error,
)

if TYPE_CHECKING:
    from fedwad.tables.schema import Schema

_MISSING, _UNKNOWN = -1, -2  # instead of the index of a level: no value, a level not listed
#: Texts that stand for booleans.
TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0}
TRUTH |= {"y": 1.0, "n": 0.0, "1": 1.0, "0": 0.0}


def encode(columns: Sequence[SchemaColumn], table: Table) -> NDArray[np.float64]:
    """The encoded columns of a table as a matrix, with a row for each row of the table."""
    result = np.zeros((table.rows, sum(spec.width for spec in columns)))
    start = 0
    for spec in columns:
        if spec.width:
            column = table[spec.name].with_missing(spec.missing_values)
            write = _write_levels if spec.kind == "category" else _write_numbers
            write(spec, column, table.name, result[:, start : start + spec.width])
            start += spec.width
    return result


def label_values(column: Column, table: str) -> NDArray[Any]:
    """The labels of the rows, as strings, integers, floats or booleans; `table` is for errors."""
    if column.kind == "unusable":
        raise InputError(
            f"Column '{column.name}' of {table} holds {column.detail}, and it is the label; give"
            " numbers or text.",
            "wrong-kind",
        )
    if column.missing.any():
        count = count_rows(column.missing, "missing value")
        raise InputError(
            f"Column '{column.name}' of {table} has {count}, and it is the label; fill or"
            " remove them first.",
            "missing-values",
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
            f' schema expects none; set missing = "{rule}" for it in the schema, or fill them.',
            "missing-values",
        )


def _write_numbers(
    spec: SchemaColumn, column: Column, table: str, out: NDArray[np.float64]
) -> None:
    if column.kind == "boolean" and spec.kind in ("number", "boolean"):
        values = np.where(column.values < 0, np.nan, column.values.astype(np.float64))
    elif column.kind in ("empty", spec.kind):
        values = column.values
    elif spec.kind == "boolean" and column.kind in ("category", "number"):
        values = _truth(column)  # 0 and 1, or texts such as yes and no
        wrong = np.flatnonzero(np.isnan(values) & ~column.missing) + 1
        if len(wrong):
            raise InputError(
                f"Column '{spec.name}' of {table} has values that are neither true nor false"
                f" ({list_rows(wrong.tolist())}); correct them, or change the column's kind in the"
                " schema.",
                "wrong-kind",
            )
    else:
        raise _wrong_kind_error(spec, column, table)
    missing = np.isnan(values)
    _refuse_missing(spec, missing, table)
    refuse_infinite(values, f"Column '{spec.name}' of {table}")
    out[:, 0] = np.where(missing, 0.0, (values - spec.centre) / spec.scale)
    if spec.missing == "indicator":
        out[:, 1] = missing


def refuse_infinite(values: NDArray[Any], where: str) -> None:
    """InputError if a value is infinite; `where` names the column and the table."""
    infinite = np.isinf(values)
    if infinite.any():
        wrong = count_rows(infinite, "infinite value")
        raise InputError(f"{where} has {wrong}; correct or remove them first.", "infinite-values")


def _truth(column: Column) -> NDArray[np.float64]:
    """1 and 0 for what is true and false; NaN for all else."""
    if column.kind == "category":
        return _read_levels(column, lambda level: TRUTH.get(level.lower(), math.nan))
    return np.where(np.isin(column.values, (0.0, 1.0)), column.values, np.nan)


def _wrong_kind_error(spec: SchemaColumn, column: Column, table: str) -> InputError:
    holds = {"category": "text", "unusable": column.detail}.get(column.kind, f"{column.kind}s")
    where = locate_text(column) if column.kind == "category" else ""
    return InputError(
        f"Column '{spec.name}' of {table} holds {holds}{where} where the schema has a {spec.kind};"
        " correct the table, or change the column's kind in the schema.",
        "wrong-kind",
    )


def _level_names(column: Column, spec: SchemaColumn) -> tuple[str, ...]:
    """The names of a column's levels: 0 and 1 for booleans where the schema lists such codes."""
    codes = column.kind == "boolean" and not {*column.levels} & {*spec.levels}
    return ("0", "1") if codes else column.levels


def _write_levels(spec: SchemaColumn, column: Column, table: str, out: NDArray[np.float64]) -> None:
    """Set the encoded column of each row's level, counted within the category."""
    if column.kind == "unusable":
        raise _wrong_kind_error(spec, column, table)
    index_of = {level: index for index, level in enumerate(spec.levels)}
    codes, names = column.values, _level_names(column, spec)
    if column.kind not in ("category", "boolean"):
        codes, names = level_texts(column)
    lookup = [*(index_of.get(name, _UNKNOWN) for name in names), _MISSING]
    indices = np.array(lookup, dtype=index_dtype(spec.levels))[codes]
    missing, unknown = indices == _MISSING, indices == _UNKNOWN
    _refuse_missing(spec, missing, table)
    if missing.any() and spec.missing == "other" and OTHER not in index_of:
        raise InputError(
            f"missing of column '{spec.name}' is 'other', which is not among its levels; add it.",
            "unknown-level",
        )
    if unknown.any() and OTHER not in index_of:
        rows = (np.flatnonzero(unknown) + 1).tolist()
        raise InputError(
            f"Column '{spec.name}' of {table} has levels that the schema does not list"
            f" ({list_rows(rows)}); add them, or '{OTHER}', to its levels.",
            "unknown-level",
        )
    other = index_of.get(OTHER, 0)
    # A missing value may be a level of its own, after the others.
    indices[missing] = len(spec.levels) if spec.missing == "level" else other
    indices[unknown] = other
    out[np.arange(len(out)), indices] = spec.on_value


def encode_elementwise(schema: Schema, table: Table, max_abs: float = 1e99) -> NDArray[np.float64]:
    """The matrix of `Schema.encode`, read value by value; no value is refused.

    Encoded values are clipped to `max_abs`, as larger ones would be refused later. A column is
    refused if its type does not fit: lists, or dates where the schema has a number.

    >>> from fedwad.tables import Schema
    >>> schema = Schema((SchemaColumn("age", "number", centre=50.0, scale=10.0),))
    >>> ages = Column("age", "category", np.array([0, 1]), ("60", "unknown"))
    >>> encode_elementwise(schema, Table("paris", (ages,), 2)).tolist()
    [[1.0], [0.0]]
    """
    # Every value has a rule: where it had none, the centre or "other".
    specs = [accept_new_data(spec, "mean", "other") for spec in schema.columns]
    columns = tuple(_read_as_kind(table[spec.name], spec) for spec in specs if spec.width)
    points = encode(specs, Table(table.name, columns, table.rows))
    listed = [  # which are of the schema, without the levels that were added
        name in column.encoded_names
        for column, spec in zip(schema.columns, specs, strict=True)
        for name in spec.encoded_names
    ]
    return np.clip(points[:, listed], -max_abs, max_abs)


def read_numbers_elementwise(table: Table, label: str | None) -> Table:
    """The table with the texts of all columns but the label read as numbers, each by itself."""
    columns = tuple(
        texts_to_numbers(column) if column.kind == "category" and column.name != label else column
        for column in table.columns
    )
    return replace(table, columns=columns)


def label_texts(column: Column) -> NDArray[Any]:
    """The text of the label of each row, None where it is missing."""
    if column.kind in ("category", "boolean"):
        texts = [*map(label_text, column.levels), None]
        return np.asarray(np.array(texts, dtype=object)[column.values])
    result = np.full(len(column), None, dtype=object)
    name = date_name if column.kind == "date" else level_name
    for row in np.flatnonzero(~column.missing & np.isfinite(column.values)):
        result[row] = name(float(column.values[row]))
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
    word = str(value).strip()
    if re.fullmatch(r"[+-]?\d{1,30}", word):
        return str(int(word))
    number = parse_number(word)
    if math.isfinite(number):
        return level_name(number)
    return word.lower() if word.lower() in ("true", "false") else word


def _read_as_kind(column: Column, spec: SchemaColumn) -> Column:
    """The column with texts read as the schema's kind; booleans become 0 and 1."""
    if spec.kind == "category":
        if column.kind != "category":
            return column
        codes = {"true": "1", "false": "0"}  # if the schema lists only those
        pairs = [(level, codes.get(level.lower(), level)) for level in column.levels]
        names = [a if a in spec.levels or b not in spec.levels else b for a, b in pairs]
        return replace(column, levels=tuple(names))
    if spec.kind == "boolean" and column.kind in ("category", "number"):
        return Column(column.name, "number", _truth(column))
    if column.kind in ("number", "date"):
        values = np.where(np.isfinite(column.values), column.values, np.nan)
        return replace(column, values=values)
    if column.kind != "category":
        return column
    if spec.kind == "number":
        return texts_to_numbers(column)
    return Column(column.name, "date", _read_levels(column, parse_date))


def texts_to_numbers(column: Column) -> Column:
    """The column with numbers for its texts; true and false are 1 and 0, and <5 is 5."""
    truth = {"true": 1.0, "false": 0.0}

    def read(level: str) -> float:
        number = parse_number(level.lstrip("<>=\u2264\u2265"), column.decimal)
        return truth.get(level.lower(), number)

    return Column(column.name, "number", _read_levels(column, read))


def _read_levels(column: Column, read: Callable[[str], float]) -> NDArray[np.float64]:
    """The number that `read` returns for each row's level; NaN if missing or infinite."""
    numbers = np.array([*map(read, column.levels), math.nan], dtype=np.float64)  # -1: the last
    numbers[~np.isfinite(numbers)] = math.nan
    return np.asarray(numbers[column.values])


def plain_table(
    table: Table, label: str | None = None
) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """The numbers of a table without its label column, and the names of the features.

    Columns of numbers become features in their order; text and missing values are refused.
    """
    if "" in table:
        raise unnamed_column_error(table.name, table.names.index(""))
    features = [column for column in table.columns if column.name != label]
    _refuse_text(features, table)
    if not features:
        raise InputError(
            f"{table.name} has no columns of numbers; give at least one.", "no-columns"
        )
    points = np.empty((table.rows, len(features)))
    for index, column in enumerate(features):
        column_name = f"'{column.name}'" if table.has_header else str(index + 1)
        where = f"Column {column_name} of {table.name}"
        or_drop = f", or drop the column ({drop_hint(column.name)})" if table.has_header else ""
        if column.missing.any():
            count = count_rows(column.missing, "missing value")
            raise InputError(
                f"{where} has {count}; fill or remove them first{or_drop}.", "missing-values"
            )
        points[:, index] = column.values
        refuse_infinite(column.values, where)
    names = tuple(column.name for column in features) if table.has_header else None
    return points, names


def _refuse_text(columns: Sequence[Column], table: Table) -> None:
    """InputError that names all columns that are not numbers: one error for each would be slow.

    Of a single column it says in which rows it has text if most values are numbers.
    """
    wrong = [c for c in columns if c.kind in ("category", "date", "unusable")]
    if not wrong:
        return
    words = {"category": "string values", "date": "dates"}
    held = " or ".join(sorted({words.get(column.kind, column.detail) for column in wrong}))
    held += locate_text(wrong[0]) if len(wrong) == 1 and wrong[0].kind == "category" else ""
    if table.has_header:
        names = [column.name for column in wrong]
        listed = ", ".join(f"'{name}'" for name in names)
        hint = f"drop ({drop_hint(*names)}), or name one as the label column"
    else:
        listed = ", ".join(str(columns.index(column) + 1) for column in wrong)
        hint = "or name the columns in a first line of words, to drop some or take one as the label"
    these = (
        f"Columns {listed} of {table.name} hold"
        if wrong[1:]
        else f"Column {listed} of {table.name} holds"
    )
    raise InputError(f"{these} {held}; encode as numbers (a schema does), {hint}.", "not-a-number")


def hide_rare(
    table: Table, schema: Schema, min_cell_size: int, units: NDArray[np.int64] | None = None
) -> Table:
    """The table with "other" for each level that fewer than `min_cell_size` rows have, or fewer
    units, such as patients, if rows belong to some.

    Otherwise the mean of the encoded rows would say how many rows have a rare level.

    >>> import pyarrow as pa
    >>> from fedwad.tables import Schema, read_table
    >>> schema = Schema((SchemaColumn("sex", "category", levels=("f", "m", "x", "other")),))
    >>> table = read_table(pa.table({"sex": ["f", "f", "m", "m", "x"]}))
    >>> schema.describe(schema.encode(hide_rare(table, schema, 2)).mean(axis=0))["sex"]
    {'f': 0.4, 'm': 0.4, 'x': 0.0, 'other': 0.2}
    """
    if min_cell_size < 2:
        return table
    specs = {c.name: c for c in schema.compared_columns if c.kind == "category"}
    columns = []
    for column in table.columns:
        spec = specs.get(column.name)
        if spec is not None:
            column = column.with_missing(spec.missing_values)
            codes, texts = level_texts(column)
            owners = np.arange(len(codes)) if units is None else units
            pairs = np.unique(np.column_stack([codes, owners])[codes >= 0], axis=0)
            rare = np.bincount(pairs[:, 0], minlength=len(texts)) < min_cell_size
            if rare.any() and OTHER not in spec.levels:
                rows = list_rows((np.flatnonzero(np.append(rare, False)[codes]) + 1).tolist())
                raise InputError(
                    f"Column '{spec.name}' of {table.name} has levels that fewer than"
                    f" {min_cell_size} rows have ({rows}); add '{OTHER}', which they become, to its"
                    " levels in the schema.",
                    "rare-levels",
                )
            listed = {text for text, few in zip(texts, rare, strict=True) if not few}
            column = _keep_listed(column, spec, listed)
        columns.append(column)
    return replace(table, columns=tuple(columns))


def keep_levels(
    table: Table, schema: Schema, listed: Mapping[str, Sequence[str]], max_abs: float = 1e99
) -> Table:
    """The columns that a schema compares, with "other" for each level that is not listed.

    A column that the table does not have is empty.

    Numbers and dates are kept so small that no encoded value is above `max_abs`, so that whether
    encoding fails does not depend on a value.
    """
    columns = []
    for spec in schema.compared_columns:
        if spec.name not in table:
            columns.append(Column(spec.name, "empty", np.full(table.rows, np.nan)))
            continue
        column = table[spec.name]
        if spec.kind == "category":
            column = _keep_listed(column, spec, listed[spec.name])
        elif column.kind in ("number", "date"):
            reach = max_abs * min(spec.scale, 1.0)
            clipped = np.clip(column.values, spec.centre - reach, spec.centre + reach)
            values = np.where(np.isinf(column.values), column.values, clipped)
            column = replace(column, values=values)
        columns.append(column)
    return replace(table, columns=tuple(columns))


def _keep_listed(column: Column, spec: SchemaColumn, listed: Collection[str]) -> Column:
    """The column with "other" for each level that is not listed."""
    if column.kind in ("number", "date"):
        codes = [float(level) for level in listed if is_code(level)]
        keep = np.isin(column.values, codes) | np.isnan(column.values)
        # Infinity is a level that the schema does not list, so it is encoded as "other".
        return replace(column, values=np.where(keep, column.values, np.inf))
    if column.kind not in ("category", "boolean"):
        return column
    pairs = zip(_level_names(column, spec), column.levels, strict=True)
    kept = tuple(name if level in listed else OTHER for name, level in pairs)
    return replace(column, kind="category", levels=kept)
