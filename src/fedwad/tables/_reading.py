"""Reading a table from a file or a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    source : path of a CSV, TSV, parquet or Excel file, a data frame, or a Table, which keeps its
        name and its values: `name`, `missing`, `encoding`, `sheet` and `by_cell` do not apply
    name : what messages call the table; the path when left out
    missing : texts that stand for a missing value, besides `?`, NA, N/A, NaN, null and the
        empty string
    drop : columns that are left out; what they hold is not looked at. They must exist, except in
        a Table.
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
    dropped = _as_strings(drop, "drop")
    missing_texts = frozenset(text.strip() for text in _as_strings(missing, "missing"))
    named_columns = (*dropped, *(() if label is None else (label,)))
    if isinstance(source, Table):
        table = source
    elif isinstance(source, str | Path):
        table = _read_file(
            Path(source), missing_texts, dropped, named_columns, encoding, sheet, by_cell
        )
        table = table if name is None else replace(table, name=name)
    elif is_frame(source):
        title = "The table" if name is None else name
        table = read_frame(source, title, missing_texts, dropped, named_columns, by_cell)
    else:
        raise InputError(
            f"A {type(source).__name__} arrived where a table is read; give the path of a file or a"
            " data frame of pandas, Polars or PyArrow."
        )
    _check_header(table, named_columns)
    if label is not None:
        table[label]  # InputError if there is none
    return _drop_columns(table, dropped)


def _as_strings(strings: str | Iterable[str], option: str) -> tuple[str, ...]:
    if isinstance(strings, str):
        return (strings,)
    try:
        distinct = tuple(dict.fromkeys(strings))
    except TypeError:
        raise InputError(
            f"{option} is a {type(strings).__name__}; give a string, or several strings."
        ) from None
    for one in distinct:
        if not isinstance(one, str):
            raise InputError(f"{option} holds {one!r}; give strings.")
    return distinct


def _read_file(
    path: Path,
    missing_texts: frozenset[str],
    drop: Sequence[str],
    named_columns: Sequence[str],
    encoding: str | None,
    sheet: str | None,
    by_cell: bool,
) -> Table:
    suffix = file_suffix(path)
    check_file(path, FORMATS)
    if suffix == ".parquet":
        return _read_parquet(path, missing_texts, drop, named_columns, by_cell)
    if suffix == ".xlsx":
        return read_excel(path, missing_texts, drop, sheet, by_cell)
    return read_csv(path, missing_texts, drop, encoding, by_cell)


def file_suffix(path: Path) -> str:
    """Return the ending of a file in lower case, without the `.gz` of a compressed text."""
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
    missing_texts: frozenset[str],
    drop: Sequence[str],
    named_columns: Sequence[str],
    by_cell: bool,
) -> Table:
    from pyarrow import parquet

    try:
        content = parquet.read_table(path)
    except Exception:  # PyArrow raises several kinds, and some of their messages quote the data
        raise InputError(f"{path} cannot be read as .parquet; is it complete?") from None
    return read_frame(content, str(path), missing_texts, drop, named_columns, by_cell)


def _check_header(table: Table, named_columns: Sequence[str]) -> None:
    """InputError if columns are named and the table has no header line."""
    if table.named or not named_columns:
        return
    found = next((name for name in named_columns if name in table.first_line), None)
    if found is not None:
        raise InputError(
            f"'{found}' is in the first line of {table.name}, which holds numbers only and is read"
            " as data; to use it as a header, give the columns names that are not numbers."
        )
    raise InputError(
        f"{table.name} has no named columns: its first line holds numbers only and is read as data;"
        f" to find '{named_columns[0]}', add a header line with the names of the columns."
    )


def _drop_columns(table: Table, drop: Sequence[str]) -> Table:
    kept = tuple(column for column in table.columns if column.name not in drop)
    if not kept:
        after = f" left after dropping {', '.join(map(repr, drop))}" if drop else " of values"
        raise InputError(f"{table.name} has no columns{after}; keep at least one.")
    return table if len(kept) == len(table.columns) else replace(table, columns=kept)
