"""Reading data: arrays, data frames and files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.federation.columns import Columns
from fedwad.federation.data import Dataset
from fedwad.federation.tables import is_number, is_table, read_table
from fedwad.ot import Measure, as_labels

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "read"]

#: File endings that can be read.
FORMATS = (".npy", ".npz", ".csv", ".parquet")

_HINTS = {
    ".npy": "a complete file written by numpy.save, without objects in it",
    ".npz": "a complete file written by numpy.savez, without objects in it",
    ".csv": "complete, separated by commas, with the same number of columns in each row",
    ".parquet": "complete",
}
_BARE, _MISSING = b"fedwad: columns have no names", ("", "NA", "N/A", "null")
_FEATURES = Columns()  # every column is one
_POINT_KEYS, _LABEL_KEYS, _WEIGHT_KEYS = (
    ("X", "x", "points", "data"),
    ("y", "labels"),
    ("weights", "w"),
)


def read(source: Any, name: str = "data", columns: Columns = _FEATURES) -> Dataset:
    """Make a Dataset of an array, a pair (X, y), a data frame or the path of a file."""
    if isinstance(source, str | Path):
        return _read_file(Path(source), columns)
    if (
        isinstance(source, tuple)
        and len(source) == 2
        and not np.isscalar(source[0])
        and not np.isscalar(source[1])
    ):
        data = read(source[0], name, Columns(drop=columns.drop))
        try:
            labels = as_labels(source[1])
        except InputError as error:
            raise InputError(f"In {name}: {error}") from None
        return Dataset(data.measure, labels, data.features)
    if is_table(source):
        return read_table(source, name, columns)
    _refuse_drop(columns, name)
    if isinstance(source, Dataset):
        return source
    return Dataset(source if isinstance(source, Measure) else Measure(source, name=name))


def _read_file(path: Path, columns: Columns) -> Dataset:
    _refuse_path(path)
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    try:
        content = readers[path.suffix.lower()](path)
    except InputError:
        raise
    except Exception:  # readers raise many kinds of errors, and some of their messages quote data
        hint = _HINTS[path.suffix.lower()]
        raise InputError(f"{path} cannot be read as {path.suffix}; is it {hint}?") from None
    if isinstance(content, Dataset):
        if columns.label is not None:
            raise InputError(
                f"{path} has no named columns; a label column can be given for .csv and .parquet."
            )
        _refuse_drop(columns, str(path))
        return content
    first_line = (content.schema.metadata or {}).get(_BARE)
    if first_line is None:
        return read_table(content, str(path), columns)
    _refuse_made_up(columns, json.loads(first_line), path)
    return Dataset(read_table(content, str(path), columns, named=False).measure)


def _refuse_path(path: Path) -> None:
    """InputError unless this is a file of a known format."""
    if _is_folder(path):
        raise InputError(f"{path} is a folder; give one file, {' '.join(FORMATS)}.")
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"{path} ends in '{path.suffix}'; the formats that can be read are {' '.join(FORMATS)}."
        )
    try:
        found = path.is_file()
    except (OSError, ValueError):
        found = False
    if not found:
        raise InputError(f"There is no file at {path}; check the path.")


def _refuse_drop(columns: Columns, name: str) -> None:
    if columns.drop:
        raise InputError(
            f"{name} has no named columns; columns can be dropped from .csv, .parquet and data"
            " frames."
        )


def _refuse_made_up(columns: Columns, first_line: Sequence[str], path: Path) -> None:
    """Refuse names of columns for a table without a header, where PyArrow makes up names."""
    wanted = [*columns.drop, *([] if columns.label is None else [columns.label])]
    found = [word for word in wanted if word in first_line]
    if found:
        raise InputError(
            f"'{found[0]}' is in the first line of {path}, which has no words and is read as a"
            " sample; if it names the columns, name them in words."
        )
    if wanted:
        raise InputError(
            f"{path} has no named columns, as its first line has no words and is read as a sample;"
            f" name the columns in a first line of words to find '{wanted[0]}'."
        )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _read_npy(path: Path) -> Dataset:
    return Dataset(Measure(np.load(path, allow_pickle=False), name=str(path)))


def _read_npz(path: Path) -> Dataset:
    with np.load(path, allow_pickle=False) as archive:
        keys = list(archive.files)

        def first(names: tuple[str, ...]) -> Any:
            found = [name for name in names if name in keys]
            return archive[found[0]] if found else None

        others = [key for key in keys if key not in _LABEL_KEYS + _WEIGHT_KEYS]
        points = archive[others[0]] if len(others) == 1 else first(_POINT_KEYS)
        if points is None:
            raise InputError(
                f"{path} holds the arrays {', '.join(keys) or '(none)'}; name the samples X"
                " and their labels, if there are any, y."
            )
        labels, weights = first(_LABEL_KEYS), first(_WEIGHT_KEYS)
    return Dataset(*_positive(points, labels, weights, str(path)))


def _positive(
    points: Any, labels: Any, weights: Any, name: str
) -> tuple[Measure, NDArray[Any] | None]:
    """Measure and labels. Samples of weight zero are dropped from both."""
    measure = Measure(points, weights, name=name)
    if labels is not None and len(measure) < len(points) and np.shape(labels) == np.shape(weights):
        labels = labels[np.asarray(weights) > 0]
    return measure, labels


def _read_csv(path: Path) -> pa.Table:
    from pyarrow import csv

    if path.stat().st_size == 0:  # PyArrow would ask for columns
        raise InputError(f"{path} is empty; give at least one sample.")
    _refuse_separators(path)
    # a missing label is not a label of its own
    options = csv.ConvertOptions(strings_can_be_null=True)
    table = csv.read_csv(path, convert_options=options)
    if _has_header(table.column_names, path):
        return table
    names = json.dumps(table.column_names)
    bare = csv.ReadOptions(autogenerate_column_names=True)
    table = csv.read_csv(path, read_options=bare, convert_options=options)
    return table.replace_schema_metadata({_BARE: names})


def _refuse_separators(path: Path) -> None:
    """InputError if the first line is separated by something else than commas."""
    first_line = _first_line(path)
    if first_line.count(";") > first_line.count(","):
        raise InputError(
            f"{path} is separated by semicolons; save it with commas, and points in numbers."
        )
    words = first_line.split()
    numbers = "," not in first_line and len(words) > 1 and all(map(is_number, words))
    if first_line.count("\t") > first_line.count(",") or numbers:
        raise InputError(f"{path} is separated by spaces or tabs; save it with commas.")


def _has_header(names: Sequence[str], path: Path) -> bool:
    """Whether these are names of columns; otherwise the first line is a sample.

    InputError if they may be either.
    """
    if set(names) == {str(k) for k in range(len(names))}:
        raise InputError(
            f"The first line of {path} may count the columns or be a sample; name the columns, or"
            " leave that line out."
        )
    if not all(is_number(name) or name in _MISSING for name in names):
        return True
    if "" in names and not _counts_rows(names):
        raise InputError(
            f"The first line of {path} has an empty cell and no words, and may name the columns or"
            " be a sample; name the columns in words, or fill that cell if it is a sample."
        )
    return "" in names


def _counts_rows(names: Sequence[str]) -> bool:
    """Whether pandas may have written these names: an empty one for row numbers, then whole numbers
    such as years."""
    return names[0] == "" and all(name.removeprefix("-").isdecimal() for name in names[1:])


def _first_line(path: Path) -> str:
    with path.open("rb") as file:
        line = file.readline()
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:  # Excel's "Unicode text" is UTF-16, and older exports are Latin-1
        raise InputError(f"{path} is not written in UTF-8; save it as CSV UTF-8.") from None


def _read_parquet(path: Path) -> pa.Table:
    from pyarrow import parquet

    return parquet.read_table(path)
