"""Reading the data of one site from arrays, data frames and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.federation.columns import Columns
from fedwad.federation.data import Dataset
from fedwad.federation.raw import RawTable
from fedwad.ot import Measure, as_labels
from fedwad.tables import FORMATS as TABLE_FORMATS
from fedwad.tables import Schema, Table, agree, check_file, file_suffix, is_frame, read_table

__all__ = ["FORMATS", "is_readable", "read", "read_raw"]

#: File endings that can be read. The endings of text files may be followed by `.gz`.
FORMATS = (".npy", ".npz", *TABLE_FORMATS)

# The functions that write NumPy's formats, for messages.
_WRITERS = {".npy": "numpy.save", ".npz": "numpy.savez"}
_NO_OPTIONS = Columns()  # every column is a feature, taken as it is
# Names of the arrays in an .npz file; the first one that the file has is read. A single array
# besides labels and weights holds the samples, whatever its name.
_POINT_KEYS, _LABEL_KEYS, _WEIGHT_KEYS = (
    ("X", "x", "points", "data"),
    ("y", "labels"),
    ("weights", "w"),
)


def is_readable(path: Path) -> bool:
    """Whether the ending of a file is one of `FORMATS`, or that of a text file and `.gz`."""
    return file_suffix(path) in FORMATS


def read(source: Any, name: str = "data", columns: Columns = _NO_OPTIONS) -> Dataset:
    """A Dataset of an array, a pair (X, y), a data frame or the path of a file.

    A table is encoded by the schema in `columns`. If that is "auto", the schema is made from this
    table alone.
    """
    raw = read_raw(source, name, columns)
    if isinstance(raw, Dataset):
        return raw
    if isinstance(columns.schema, Schema):
        return raw.encode(columns.schema)
    if columns.schema is None:
        return raw.as_numbers()
    return raw.encode(agree({name: raw.profile(1)}))


def read_raw(source: Any, name: str = "data", columns: Columns = _NO_OPTIONS) -> Dataset | RawTable:
    """A RawTable of a data frame or a file with named columns, not encoded; else a Dataset."""
    if isinstance(source, RawTable):
        return source
    if isinstance(source, str | Path):
        return _read_file(Path(source), columns)
    if _is_pair(source):
        return _read_pair(source, name, columns)
    if is_frame(source) or isinstance(source, Table):
        return _read_columns(source, name, columns)
    _refuse_drop(columns, name)
    if isinstance(source, Dataset):
        return source
    if columns.label is not None:
        raise InputError(f"{name} has no named columns; only a table can have a label column.")
    return Dataset(source if isinstance(source, Measure) else Measure(source, name=name))


def _read_columns(source: Any, name: str | None, columns: Columns) -> Dataset | RawTable:
    """A RawTable, or a Dataset if the columns have no names, which a schema would need."""
    table = read_table(
        source,
        name,
        missing=columns.missing,
        drop=columns.drop,
        label=columns.label,
        elementwise=columns.elementwise,
    )
    if columns.missing:  # texts for all columns are missing already; these are for single columns
        table = replace(
            table, columns=tuple(c.with_missing(columns.missing_in(c.name)) for c in table.columns)
        )
    raw = RawTable(table, columns.label, elementwise=columns.elementwise)
    return raw if table.has_header else raw.as_numbers()


def _is_pair(source: Any) -> bool:
    return (
        isinstance(source, tuple)
        and len(source) == 2
        and not np.isscalar(source[0])
        and not np.isscalar(source[1])
    )


def _read_pair(pair: Any, name: str, columns: Columns) -> Dataset | RawTable:
    """The data of a pair (X, y) of samples and labels."""
    raw = read_raw(pair[0], name, replace(columns, label=None))
    try:
        labels = as_labels(pair[1])
    except InputError as error:
        raise InputError(f"In {name}: {error}") from None
    if isinstance(raw, Dataset):
        return Dataset(raw.measure, labels, raw.features)
    if labels.shape != (raw.table.rows,):
        raise InputError(
            f"{raw.table.rows} samples came with labels of shape {labels.shape}; give one label"
            " per sample."
        )
    if columns.label is not None and columns.label in raw.table:
        raise InputError(
            f"{name} has labels beside its table and the label column '{columns.label}' in it; drop"
            " that column, or leave out the labels beside the table."
        )
    return RawTable(raw.table, labels=labels, elementwise=columns.elementwise)


def _read_file(path: Path, columns: Columns) -> Dataset | RawTable:
    check_file(path, FORMATS)
    suffix = path.suffix.lower()
    if suffix not in _WRITERS:
        return _read_columns(path, None, columns)
    try:
        content = _read_npy(path) if suffix == ".npy" else _read_npz(path)
    except InputError:
        raise
    except Exception:  # readers raise many kinds of errors, and some of their messages quote data
        hint = f"a complete file written by {_WRITERS[suffix]}, without objects in it"
        raise InputError(f"{path} cannot be read as {path.suffix}; is it {hint}?") from None
    if columns.label is not None:
        raise InputError(f"{path} has no named columns; only a table can have a label column.")
    _refuse_drop(columns, str(path))
    return content


def _refuse_drop(columns: Columns, name: str) -> None:
    if columns.drop:
        raise InputError(f"{name} has no named columns; columns can be dropped from tables.")


def _read_npy(path: Path) -> Dataset:
    return Dataset(Measure(np.load(path, allow_pickle=False), name=str(path)))


def _read_npz(path: Path) -> Dataset:
    with np.load(path, allow_pickle=False) as archive:
        keys = list(archive.files)

        def first_of(names: tuple[str, ...]) -> Any:
            return next((archive[name] for name in names if name in keys), None)

        others = [key for key in keys if key not in _LABEL_KEYS + _WEIGHT_KEYS]
        points = archive[others[0]] if len(others) == 1 else first_of(_POINT_KEYS)
        if points is None:
            raise InputError(
                f"{path} holds the arrays {', '.join(keys) or '(none)'}; name the samples X"
                " and their labels, if there are any, y."
            )
        labels, weights = first_of(_LABEL_KEYS), first_of(_WEIGHT_KEYS)
    return Dataset(*_without_zero_weights(points, labels, weights, str(path)))


def _without_zero_weights(
    points: Any, labels: Any, weights: Any, name: str
) -> tuple[Measure, NDArray[Any] | None]:
    """The measure and its labels. A Measure drops samples of weight zero; their labels go too."""
    measure = Measure(points, weights, name=name)
    if labels is not None and len(measure) < len(points) and np.shape(labels) == np.shape(weights):
        labels = labels[np.asarray(weights) > 0]
    return measure, labels
