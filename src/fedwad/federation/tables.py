"""Tables with named columns: numbers become features, and one column may become the labels."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.federation.columns import Columns, dropping
from fedwad.federation.data import Dataset
from fedwad.ot import Measure

__all__ = ["is_number", "is_table", "read_table"]


def is_table(source: Any) -> bool:
    """Whether this is a table with columns, as those of pandas, Polars and PyArrow."""
    return any(hasattr(type(source), name) for name in ("columns", "column_names"))


def read_table(table: Any, name: str, columns: Columns, named: bool = True) -> Dataset:
    """Numeric columns become features in their order; the label column becomes the labels.

    Dropped columns are not read, so they may hold anything. Columns that the user has not `named`
    are called by their number in messages, and cannot be dropped.
    """
    frame = _frame(_without_index(table, columns), name, columns)
    names = list(frame.columns)
    for column in columns.drop:
        _refuse_unknown(column, names, name)
    frame = frame.drop(columns.drop)
    labels = None
    if columns.label is not None:
        _refuse_unknown(columns.label, names, name)
        _refuse_missing(frame[columns.label], f"Column '{columns.label}' of {name}")
        labels = _labels(frame[columns.label])
        frame = frame.drop(columns.label)
    features = list(frame.iter_columns())
    _refuse_other_features(features, name, columns, named)
    points = np.empty((len(frame), len(features)))
    for place, column in enumerate(features):
        points[:, place] = _finite_numbers(column, place, name, named)
    feature_names = tuple(str(column.name) for column in features)
    return Dataset(Measure(points, name=name), labels, feature_names)


def _frame(table: Any, name: str, columns: Columns) -> Any:
    """The table as a narwhals data frame with at least one row."""
    import narwhals as nw

    _refuse_names(table, name, columns)
    try:
        frame = nw.from_native(table, eager_only=True)
        empty = len(frame) == 0
    except Exception:  # each data frame library refuses in its own way
        raise InputError(
            f"{name} is a {type(table).__name__} that cannot be used; give a table in memory."
        ) from None
    if empty:
        raise InputError(f"{name} is empty; give at least one sample.")
    return frame


def _refuse_other_features(
    features: Sequence[Any], name: str, columns: Columns, named: bool
) -> None:
    """InputError unless there are columns, all of numbers."""
    words = [place for place, column in enumerate(features) if not _is_numeric(column)]
    if words and not named:
        _refuse_words_bare(words[0], features[words[0]], name)
    _refuse_words([features[place] for place in words], name)
    if not features and columns.drop:
        raise InputError(
            f"{name} has no columns left after {dropping(*columns.drop)}; keep at least one."
        )
    if not features:
        raise InputError(f"{name} has no columns of numbers; give at least one.")


def _finite_numbers(column: Any, place: int, name: str, named: bool) -> NDArray[np.float64]:
    """The values of a numeric column; InputError if one is missing or infinite."""
    title = f"Column '{column.name}' of {name}" if named else f"Column {place + 1} of {name}"
    drop = f", or drop the column ({dropping(str(column.name))})" if named else ""
    _refuse_missing(column, title, drop)
    values = _numbers(column)
    _refuse_infinite(values, title)
    return values


def _without_index(table: Any, columns: Columns) -> Any:
    """A table without the columns in which pandas stored an index, unless they are asked for by
    name.

    The index of a frame in memory is no feature either. The metadata that pandas writes list the
    columns of the index. An index that only counts rows has a start, a stop and a step there
    instead of a column.
    """
    if type(table).__module__.partition(".")[0] != "pyarrow":
        return table
    try:
        index = json.loads(table.schema.metadata[b"pandas"])["index_columns"]
        asked = (columns.label, *columns.drop)
        stored = {column for column in index if isinstance(column, str) and column not in asked}
        kept = [place for place, column in enumerate(table.column_names) if column not in stored]
    except (AttributeError, KeyError, TypeError, ValueError):  # a table that pandas did not write
        return table
    return table.select(kept) if len(kept) < len(table.column_names) else table


def is_number(text: str) -> bool:
    """Whether a cell of a table reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_numeric(column: Any) -> bool:
    import narwhals as nw

    return bool(column.dtype.is_numeric() or column.dtype == nw.Boolean)


def _numbers(column: Any) -> NDArray[np.float64]:
    """The values of a numeric column without missing ones.

    PyArrow's own conversion imports pandas if that is installed. This takes seconds, and an
    interrupt during that import is lost inside PyArrow together with the import lock, so that the
    next import waits for ever. PyArrow's memory is therefore read as it is.
    """
    native = column.to_native()
    if type(native).__module__.partition(".")[0] != "pyarrow":
        return np.asarray(column.to_numpy(), dtype=np.float64)
    doubles = native.cast("float64", safe=False)  # safe would refuse whole numbers beyond 2^53
    parts = [
        np.frombuffer(part.buffers()[1], np.float64, len(part), 8 * part.offset)
        for part in doubles.chunks
        if len(part)
    ]
    return np.concatenate([*parts, np.empty(0)])


def _labels(column: Any) -> NDArray[Any]:
    native = column.to_native()
    if type(native).__module__.partition(".")[0] != "pyarrow":
        return np.asarray(column.to_numpy())
    values = column.to_list()  # not to_numpy, for the reason above
    words = any(not isinstance(value, bool | int | float) for value in values)
    return np.array(values, dtype=object if words else None)


def _refuse_names(table: Any, name: str, columns: Columns) -> None:
    try:
        found = table.column_names if hasattr(type(table), "column_names") else table.columns
        names = [str(column) for column in found]
    except Exception:  # whatever reads the table later refuses it
        return
    if "" in names and "" not in columns.drop:
        raise InputError(
            f"{name} has a column without a name, number {names.index('') + 1}; name it, or drop it"
            f" with {dropping('')} (pandas writes row numbers like that, unless given index=False)."
        )
    twice = [column for place, column in enumerate(names) if column in names[:place]]
    if twice:
        raise InputError(
            f"{name} has more than one column '{twice[0]}'; rename or leave out all but one."
        )


def _refuse_unknown(wanted: Any, names: Sequence[Any], name: str) -> None:
    if wanted not in names or not isinstance(wanted, str):
        words = [str(column) for column in names]
        raise InputError(
            f"{name} has no column '{wanted}'{_meant(wanted, words)}; {_listed(words)}."
        )


def _meant(wanted: Any, names: Sequence[str]) -> str:
    """' (but 'diagnosis')' for a name that was nearly right."""
    plain = {column.strip().lower(): column for column in names}
    close = difflib.get_close_matches(str(wanted).strip().lower(), plain, 1)
    return f" (but '{plain[close[0]]}')" if close else ""


def _listed(names: Sequence[str]) -> str:
    """'its columns are u, v'. Names that are empty or have spaces around them are quoted."""
    return "its columns are " + ", ".join(
        column if column and column == column.strip() else f"'{column}'" for column in names
    )


def _refuse_words(columns: Sequence[Any], name: str) -> None:
    """Refuse columns that are not numeric, all in one message, so that the user can correct them at
    once."""
    if len(columns) == 1:
        raise InputError(
            f"Column '{columns[0].name}' of {name} holds {_what(columns[0])}; encode it as numbers,"
            f" drop it ({dropping(str(columns[0].name))}), or name it as the label column."
        )
    if columns:
        listed = ", ".join(f"'{column.name}'" for column in columns)
        kinds = " or ".join(sorted({str(column.dtype).lower() for column in columns}))
        raise InputError(
            f"Columns {listed} of {name} hold {kinds} values; encode them as numbers, drop them"
            f" ({dropping(*(str(column.name) for column in columns))}), or name one as the label"
            " column."
        )


def _refuse_words_bare(place: int, column: Any, name: str) -> None:
    raise InputError(
        f"Column {place + 1} of {name} holds {_what(column)}; encode it as numbers, or name the"
        " columns in a first line of words, by which it can be dropped or be the label column."
    )


def _what(column: Any) -> str:
    """The type of a column that is not numeric, and the rows that are no numbers if they are
    few."""
    kind = f"{str(column.dtype).lower()} values"
    odd = [
        row
        for row, value in enumerate(column.to_list(), 1)
        if value is not None and not is_number(str(value))
    ]
    return f"{kind} in {_rows(odd)}" if 0 < len(odd) < len(column) / 2 else kind


def _rows(rows: Sequence[int]) -> str:
    """'rows 2, 4, counting from 1'."""
    listed = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
    return f"row{'s' if len(rows) > 1 else ''} {listed}, counting from 1"


def _refuse_missing(column: Any, title: str, otherwise: str = "") -> None:
    kinds = [column.is_null()] + ([column.is_nan()] if column.dtype.is_float() else [])
    if any(lost.any() for lost in kinds):
        rows = [
            row
            for row, lost in enumerate(zip(*(kind.to_list() for kind in kinds), strict=True), 1)
            if any(lost)
        ]
        raise InputError(
            f"{title} has {len(rows)} missing value{'s' if len(rows) > 1 else ''}"
            f" ({_rows(rows)}); fill or remove them first{otherwise}."
        )


def _refuse_infinite(values: NDArray[np.float64], title: str) -> None:
    rows = (np.flatnonzero(~np.isfinite(values)) + 1).tolist()
    if rows:
        raise InputError(
            f"{title} has {len(rows)} infinite value{'s' if len(rows) > 1 else ''}"
            f" ({_rows(rows)}); correct or remove them first."
        )
