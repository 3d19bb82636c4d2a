"""Reading a table from a file or a data frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedwad.errors import InputError
from fedwad.tables._csv import read_csv
from fedwad.tables._excel import read_excel
from fedwad.tables._frames import is_frame, read_frame
from fedwad.tables._table import Table

__all__ = ["FORMATS", "check_file", "file_suffix", "read_table"]

#: File endings that can be read as tables; `.csv`, `.tsv` and `.txt` also with `.gz`.
FORMATS = (".csv", ".tsv", ".txt", ".parquet", ".xlsx")
_TEXT = (".csv", ".tsv", ".txt")


def read_table(
    source: Any,
    name: str | None = None,
    *,
    missing: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    label: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    by_cell: bool = False,
) -> Table:
    """A table from the path of a file or from a data frame of pandas, Polars or PyArrow.

    Parameters
    ----------
    source : path of a CSV, TSV, parquet or Excel file, a data frame, or a Table
    name : what messages call the table; the path when left out
    missing : texts that stand for a missing value, besides `?`, NA, N/A, NaN, null and nothing
    drop : columns that are left out; what they hold is not looked at
    label : a column that must be there, also where pandas stored it as an index
    encoding : of a text file; found out when left out
    sheet : of an Excel file; the first when left out
    by_cell : leave texts as texts, so that no cell changes how others are read; for
        `encode_by_cell`, under differential privacy

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = read_table(pa.table({"age": ["63", "?"], "sex": ["f", "m"]}), "paris")
    >>> [(column.name, column.kind) for column in table.columns]
    [('age', 'number'), ('sex', 'category')]
    """
    dropped = _words(drop, "drop")
    markers = frozenset(word.strip() for word in _words(missing, "missing"))
    wanted = (*dropped, *(() if label is None else (label,)))
    if isinstance(source, Table):
        table = source
    elif isinstance(source, str | Path):
        table = _read_file(Path(source), markers, dropped, wanted, encoding, sheet, by_cell)
        table = table if name is None else replace(table, name=name)
    elif is_frame(source):
        title = "The table" if name is None else name
        table = read_frame(source, title, markers, dropped, wanted, by_cell)
    else:
        raise InputError(
            f"A {type(source).__name__} arrived where a table is read; give the path of a file or a"
            " data frame of pandas, Polars or PyArrow."
        )
    _check_wanted(table, dropped, label)
    return _without(table, dropped)


def _words(words: str | Iterable[str], option: str) -> tuple[str, ...]:
    if isinstance(words, str):
        return (words,)
    try:
        found = tuple(dict.fromkeys(words))
    except TypeError:
        raise InputError(
            f"{option} is a {type(words).__name__}; give a word, or several."
        ) from None
    for word in found:
        if not isinstance(word, str):
            raise InputError(f"{option} holds {word!r}; give words.")
    return found


def _read_file(
    path: Path,
    markers: frozenset[str],
    drop: Sequence[str],
    wanted: Sequence[str],
    encoding: str | None,
    sheet: str | None,
    by_cell: bool,
) -> Table:
    suffix = file_suffix(path)
    check_file(path, FORMATS)
    readers: dict[str, Callable[[], Table]] = {
        ".parquet": lambda: _read_parquet(path, markers, drop, wanted, by_cell),
        ".xlsx": lambda: read_excel(path, markers, drop, sheet, by_cell),
    }
    return readers.get(suffix, lambda: read_csv(path, markers, drop, encoding, by_cell))()


def file_suffix(path: Path) -> str:
    """Return the ending of a file in small letters, without the `.gz` of a compressed text."""
    endings = [suffix.lower() for suffix in path.suffixes]
    if endings[-1:] == [".gz"]:
        return endings[-2] if len(endings) > 1 and endings[-2] in _TEXT else ".csv"
    return endings[-1] if endings else ""


def check_file(path: Path, formats: Sequence[str]) -> None:
    """Raise InputError unless this is a file that ends in one of `formats`."""
    try:
        folder, found = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        folder, found = False, False
    if folder:
        raise InputError(f"{path} is a folder; give one file, {' '.join(formats)}.")
    if file_suffix(path) not in formats:
        raise InputError(
            f"{path} ends in '{path.suffix}'; the formats that can be read are {' '.join(formats)}."
        )
    if not found:
        raise InputError(f"There is no file at {path}; check the path.")


def _read_parquet(
    path: Path,
    markers: frozenset[str],
    drop: Sequence[str],
    wanted: Sequence[str],
    by_cell: bool,
) -> Table:
    from pyarrow import parquet

    try:
        content = parquet.read_table(path)
    except Exception:  # PyArrow raises several kinds, and some of their messages quote the data
        raise InputError(f"{path} cannot be read as .parquet; is it complete?") from None
    return read_frame(content, str(path), markers, drop, wanted, by_cell)


def _check_wanted(table: Table, drop: Sequence[str], label: str | None) -> None:
    """Named columns must exist; in a table without a header line nothing has a name."""
    wanted = [*drop, *([] if label is None else [label])]
    if not wanted:
        return
    if not table.named:
        found = [word for word in wanted if word in table.first_line]
        if found:
            raise InputError(
                f"'{found[0]}' is in the first line of {table.name}, which has no words and is read"
                " as a sample; if it names the columns, name them in words."
            )
        raise InputError(
            f"{table.name} has no named columns, as its first line has no words and is read as a"
            f" sample; name the columns in a first line of words to find '{wanted[0]}'."
        )
    if label is not None and label not in table:
        table[label]


def _without(table: Table, drop: Sequence[str]) -> Table:
    kept = tuple(column for column in table.columns if column.name not in drop)
    if not kept:
        after = f" left after dropping {', '.join(map(repr, drop))}" if drop else " of values"
        raise InputError(f"{table.name} has no columns{after}; keep at least one.")
    return table if len(kept) == len(table.columns) else replace(table, columns=kept)
