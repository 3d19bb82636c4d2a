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
_TEXT_FORMATS = (".csv", ".tsv", ".txt")


def read_table(
    source: Any,
    name: str | None = None,
    *,
    missing: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    label: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    elementwise: bool = False,
) -> Table:
    """A table from the path of a file or from a data frame of pandas, Polars or PyArrow.

    Parameters
    ----------
    source : path of a CSV, TSV, parquet or Excel file, a data frame, or a Table. For a Table only
        `drop` and `label` apply.
    name : what errors call the table; by default the path, or "The table" for a data frame
    missing : texts that stand for a missing value, besides `?`, NA, N/A, NaN, null and the
        empty string
    drop : names of columns that are left out unread. They must exist, except in a Table.
    label : name of the label column, which must exist. It may be one that pandas stored as an
        index.
    encoding : of a text file; detected by default
    sheet : of an Excel file; the first by default
    elementwise : leave texts as texts, so that no value changes how another is read. Under
        differential privacy `encode_elementwise` then encodes the table.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = read_table(pa.table({"age": ["63", "?"], "sex": ["f", "m"]}), "paris")
    >>> [(column.name, column.kind) for column in table.columns]
    [('age', 'number'), ('sex', 'category')]
    """
    dropped = _as_strings(drop, "drop")
    missing_texts = frozenset(text.strip() for text in _as_strings(missing, "missing"))
    required = (*dropped, *(() if label is None else (label,)))
    if isinstance(source, Table):
        table = source
    elif isinstance(source, str | Path):
        table = _read_file(
            Path(source), missing_texts, dropped, required, encoding, sheet, elementwise
        )
        table = table if name is None else replace(table, name=name)
    elif is_frame(source):
        title = "The table" if name is None else name
        table = read_frame(source, title, missing_texts, dropped, required, elementwise)
    else:
        raise InputError(
            f"A {type(source).__name__} arrived where a table is read; give the path of a file or a"
            " data frame of pandas, Polars or PyArrow."
        )
    _check_header(table, required)
    if label is not None:
        table[label]  # raises InputError if it does not exist
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
    for item in distinct:
        if not isinstance(item, str):
            raise InputError(f"{option} holds {item!r}; give strings.")
    return distinct


def _read_file(
    path: Path,
    missing_texts: frozenset[str],
    drop: Sequence[str],
    required: Sequence[str],
    encoding: str | None,
    sheet: str | None,
    elementwise: bool,
) -> Table:
    suffix = file_suffix(path)
    check_file(path, FORMATS)
    if suffix == ".parquet":
        return _read_parquet(path, missing_texts, drop, required, elementwise)
    if suffix == ".xlsx":
        return read_excel(path, missing_texts, drop, sheet, elementwise)
    return read_csv(path, missing_texts, drop, encoding, elementwise)


def file_suffix(path: Path) -> str:
    """Return the ending of a file in lower case, without `.gz`: `.tsv` for x.TSV.gz.

    A compressed file with no ending of a text before `.gz` counts as `.csv`.
    """
    endings = [suffix.lower() for suffix in path.suffixes]
    if endings[-1:] == [".gz"]:
        return endings[-2] if len(endings) > 1 and endings[-2] in _TEXT_FORMATS else ".csv"
    return endings[-1] if endings else ""


def check_file(path: Path, formats: Sequence[str]) -> None:
    """Raise InputError unless this is a file that ends in one of `formats`."""
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        is_folder, is_file = False, False
    if is_folder:
        raise InputError(f"{path} is a folder; give one file, {' '.join(formats)}.")
    if file_suffix(path) not in formats:
        raise InputError(
            f"{path} ends in '{path.suffix}'; the formats that can be read are {' '.join(formats)}."
        )
    if not is_file:
        raise InputError(f"There is no file at {path}; check the path.")


def _read_parquet(
    path: Path,
    missing_texts: frozenset[str],
    drop: Sequence[str],
    required: Sequence[str],
    elementwise: bool,
) -> Table:
    from pyarrow import parquet

    try:
        content = parquet.read_table(path)
    except Exception:  # PyArrow raises several kinds, and some of their messages quote the data
        raise InputError(f"{path} cannot be read as .parquet; is it complete?") from None
    return read_frame(content, str(path), missing_texts, drop, required, elementwise)


def _check_header(table: Table, required: Sequence[str]) -> None:
    """InputError if columns are required by name and the table has no header."""
    if table.has_header or not required:
        return
    in_first_line = next((name for name in required if name in table.first_line), None)
    if in_first_line is not None:
        raise InputError(
            f"'{in_first_line}' is in the first line of {table.name}, which holds numbers only and"
            " is read as data; to use it as a header, give the columns names that are not numbers."
        )
    raise InputError(
        f"{table.name} has no named columns: its first line holds numbers only and is read as data;"
        f" to find '{required[0]}', add a header line with the names of the columns."
    )


def _drop_columns(table: Table, drop: Sequence[str]) -> Table:
    kept = tuple(column for column in table.columns if column.name not in drop)
    if not kept:
        if drop:
            dropped = ", ".join(map(repr, drop))
            raise InputError(
                f"{table.name} has no columns left after dropping {dropped}; keep at least one."
            )
        raise InputError(f"{table.name} has no columns; give at least one.")
    return table if len(kept) == len(table.columns) else replace(table, columns=kept)
