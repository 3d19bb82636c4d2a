"""Reading the data that a client holds: arrays, data frames and files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.ot import Measure

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "Dataset", "read"]

#: File endings that can be read.
FORMATS = (".npy", ".npz", ".csv", ".parquet")

_POINT_KEYS, _LABEL_KEYS, _WEIGHT_KEYS = ("X", "x", "points", "data"), ("y", "labels"), ("weights", "w")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with their weights, and labels where there are any."""

    measure: Measure
    labels: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and self.labels.shape != (len(self.measure),):
            raise InputError(
                f"{len(self.measure)} samples came with labels of shape {self.labels.shape}; give one label per sample."
            )


def read(source: Any, name: str = "data", label_column: str | None = None) -> Dataset:
    """Make a Dataset of an array, a pair (X, y), a data frame or the path of a file."""
    if isinstance(source, Dataset):
        return source
    if isinstance(source, Measure):
        return Dataset(source)
    if isinstance(source, str | Path):
        return _read_file(Path(source), label_column)
    if isinstance(source, tuple) and len(source) == 2 and np.ndim(source[0]) == 2:
        return Dataset(_read_points(source[0], name), np.asarray(source[1]))
    return _read_table(source, name, label_column) if _is_frame(source) else Dataset(_read_points(source, name))


def _read_points(points: Any, name: str) -> Measure:
    return _read_table(points, name, None).measure if _is_frame(points) else Measure(points, name=name)


def _is_frame(source: Any) -> bool:
    return hasattr(source, "columns") or hasattr(source, "column_names")


def _read_file(path: Path, label_column: str | None) -> Dataset:
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} ends in '{path.suffix}'; the formats that can be read are {' '.join(FORMATS)}.")
    if not path.is_file():
        raise InputError(f"There is no file at {path}; check the path.")
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    try:
        content = readers[path.suffix.lower()](path)
    except InputError:
        raise
    except Exception as error:  # the readers raise a dozen kinds, all of which mean the same to a user
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(f"{path} cannot be read as {path.suffix} ({reason}); is the file complete?") from error
    if isinstance(content, Dataset):
        if label_column is not None:
            raise InputError(f"{path} has no named columns; a label column can be given for .csv and .parquet.")
        return content
    return _read_table(content, str(path), label_column)


def _read_npy(path: Path) -> Dataset:
    return Dataset(Measure(np.load(path, allow_pickle=False), name=str(path)))


def _read_npz(path: Path) -> Dataset:
    with np.load(path, allow_pickle=False) as archive:
        keys = list(archive.files)

        def first(names: tuple[str, ...]) -> Any:
            found = [name for name in names if name in keys]
            return archive[found[0]] if found else None

        points = archive[keys[0]] if len(keys) == 1 else first(_POINT_KEYS)
        if points is None:
            raise InputError(
                f"{path} holds the arrays {', '.join(keys) or '(none)'}; name the samples X"
                " and their labels, if there are any, y."
            )
        labels, weights = first(_LABEL_KEYS), first(_WEIGHT_KEYS)
    return Dataset(*_positive(points, labels, weights, str(path)))


def _positive(points: Any, labels: Any, weights: Any, name: str) -> tuple[Measure, NDArray[Any] | None]:
    """Measure and labels, the labels of samples of weight zero dropped as the measure drops those samples."""
    if labels is not None and weights is not None and np.shape(labels) == np.shape(weights):
        labels = labels[np.asarray(weights) > 0]
    return Measure(points, weights, name=name), labels


def _read_csv(path: Path) -> pa.Table:
    from pyarrow import csv

    if path.stat().st_size == 0:  # PyArrow would ask for columns
        raise InputError(f"{path} is empty; give at least one sample.")
    table = csv.read_csv(path)
    if all(_is_number(name) for name in table.column_names):  # the first line is data, not names
        table = csv.read_csv(path, read_options=csv.ReadOptions(autogenerate_column_names=True))
    return table


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> pa.Table:
    from pyarrow import parquet

    return parquet.read_table(path)


def _read_table(table: Any, name: str, label_column: str | None) -> Dataset:
    """Numeric columns become features in their order; the label column, if named, becomes the labels."""
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True)
    if len(frame) == 0:
        raise InputError(f"{name} is empty; give at least one sample.")
    labels = None
    if label_column is not None:
        if label_column not in frame.columns:
            raise InputError(f"{name} has no column '{label_column}'; its columns are {', '.join(frame.columns)}.")
        _refuse_missing(frame[label_column], name)
        labels = frame[label_column].to_numpy()
        frame = frame.drop(label_column)
    columns = []
    for column in frame.iter_columns():
        if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
            raise InputError(
                f"Column '{column.name}' of {name} holds {str(column.dtype).lower()} values; encode it as numbers,"
                " leave it out, or name it as the label column."
            )
        _refuse_missing(column, name)
        columns.append(column.cast(nw.Float64).to_numpy())
    if not columns:
        raise InputError(f"{name} has no columns of numbers; give at least one.")
    return Dataset(Measure(np.column_stack(columns), name=name), labels)


def _refuse_missing(column: Any, name: str) -> None:
    missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
    if column.dtype.is_float():
        missing = missing | np.asarray(column.is_nan().fill_null(False).to_numpy(), dtype=bool)
    if missing.any():
        rows = np.flatnonzero(missing) + 1
        listed = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
        raise InputError(
            f"Column '{column.name}' of {name} has {len(rows)} missing value{'s' if len(rows) > 1 else ''}"
            f" (row{'s' if len(rows) > 1 else ''} {listed}, counting from 1); fill or remove them first."
        )
