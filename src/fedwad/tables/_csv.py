"""Tables in text files: separators, decimal commas, headers, ragged and blank rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad.errors import InputError
from fedwad.tables._arrow import arrow_column
from fedwad.tables._bytes import read_utf8
from fedwad.tables._table import Column, Table, check_names, list_rows
from fedwad.tables._text import MISSING, is_missing, is_number

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_csv"]

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_MISSING_SPELLINGS = [
    *{change(word) for word in MISSING for change in (str, str.upper, str.title)},
    "NaN",
]


def read_csv(
    path: Path,
    missing_texts: frozenset[str] = frozenset(),
    drop: Sequence[str] = (),
    encoding: str | None = None,
    elementwise: bool = False,
) -> Table:
    """A table from text separated by commas, semicolons, tabs or bars, whichever the file has.

    `missing_texts` are further spellings of a missing value; `drop` names columns to leave out.
    With `elementwise`, all columns are texts and no row is left out.
    """
    data = read_utf8(path, encoding)
    _refuse_other_content(data, path)
    separator = _find_separator(_first_line(data), path)
    content = _parse(data, separator, path, headerless=False)
    names = [name.removeprefix("\ufeff") for name in content.column_names]
    headerless = _is_headerless(names, path, separator)
    column_names = [f"f{index}" for index in range(len(names))] if headerless else names
    if headerless:
        content = _parse(data, separator, path, headerless=True)
    _check_names(column_names, content, path, drop, headerless)
    decimal = "," if separator in ";\t|" else ""
    if elementwise:
        content = _parse(data, separator, path, headerless, content.column_names)
    columns = tuple(
        arrow_column(name, _combine_chunks(array), missing_texts, decimal, elementwise)
        for name, array in zip(column_names, content.columns, strict=True)
        if name not in drop and _has_content(name, array)
    )
    rows, notes = content.num_rows, tuple[str, ...]()
    if not elementwise:
        if decimal:
            _refuse_mixed_decimals(columns, content, path)
        columns, rows, notes = _drop_blank_end(columns, rows, path)
    if rows == 0:
        problem = f"has {content.num_rows} rows without a value" if content.num_rows else "is empty"
        raise InputError(f"{path} {problem}; give at least one sample.")
    first_line = tuple(names) if headerless else ()
    return Table(str(path), columns, rows, not headerless, notes, first_line)


def _refuse_other_content(data: bytes, path: Path) -> None:
    if not data or data.isspace():
        raise InputError(f"{path} is empty; give at least one sample.")
    start = data[: 1 << 16]
    if b"\0" in start:
        raise InputError(f"{path} is not a text file; save the table as CSV.")
    if start.lstrip()[:15].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise InputError(f"{path} is a web page or XML and no table; export or download it again.")


def _first_line(data: bytes) -> str:
    text = data[: 1 << 16].decode("utf-8", errors="ignore").lstrip("\r\n")
    return text.splitlines()[0] if text else ""


def _find_separator(line: str, path: Path) -> str:
    """The separator that the first line has most of; decimal commas do not count."""
    unquoted = _remove_quoted(line)
    pieces = unquoted.split(";")
    if len(pieces) > 1 and all(map(_is_number_with_comma, pieces)):
        return ";"
    separator = max(_SEPARATORS, key=unquoted.count)
    words = line.split()
    if unquoted.count(separator) == 0 and len(words) > 1 and all(map(is_number, words)):
        raise InputError(f"{path} is separated by spaces; save it with commas.")
    return separator


def _remove_quoted(line: str) -> str:
    """The line without what stands in quotes."""
    return "".join(line.split('"')[::2])


def _is_number_with_comma(piece: str) -> bool:
    """Whether a text is a number, with a decimal comma or point if it has a fraction."""
    return is_number(piece.replace(",", ".", 1))


def _parse(
    data: bytes, separator: str, path: Path, headerless: bool, text_columns: Sequence[str] = ()
) -> pa.Table:
    """The table that PyArrow reads; columns named in `text_columns` stay texts."""
    import pyarrow as pa
    from pyarrow import csv

    ragged: list[Any] = []

    def skip_ragged(row: Any) -> str:
        ragged.append(row)
        return "skip"

    one_column = separator not in _remove_quoted(_first_line(data))
    options = {
        "read_options": csv.ReadOptions(autogenerate_column_names=headerless),
        "parse_options": csv.ParseOptions(
            delimiter=separator,
            newlines_in_values=b'"' in data,
            invalid_row_handler=skip_ragged,
            ignore_empty_lines=not one_column,  # in one column, an empty line is a missing value
        ),
        "convert_options": csv.ConvertOptions(
            strings_can_be_null=True,
            null_values=_MISSING_SPELLINGS,
            column_types=dict.fromkeys(text_columns, pa.string()),
        ),
    }
    try:
        table = csv.read_csv(pa.BufferReader(data), **options)
    except Exception:  # PyArrow raises several kinds, and some of their messages quote the data
        raise InputError(
            f"{path} cannot be read as .csv; is it complete, separated by commas, semicolons or"
            " tabs, with the same number of columns in each row?"
        ) from None
    if ragged:
        _refuse_ragged(ragged, separator, path)
    return table


def _refuse_ragged(ragged: Sequence[Any], separator: str, path: Path) -> None:
    more = f" in {len(ragged)} rows, the first of them" if len(ragged) > 1 else " in a row"
    line = "" if ragged[0].number is None else f" (line {ragged[0].number} of the file)"
    raise InputError(
        f"{path} cannot be read as .csv: its first line has {ragged[0].expected_columns} cells"
        f" separated by {_SEPARATORS[separator]} and{more}{line} there are"
        f" {ragged[0].actual_columns}; is it complete, with the same number of columns in each row?"
    )


def _is_headerless(names: Sequence[str], path: Path, separator: str) -> bool:
    """Whether the first line is a row of data and not a header."""
    if set(names) == {str(index) for index in range(len(names))}:
        raise InputError(
            f"The first line of {path} may count the columns or be a sample; name the columns, or"
            " leave that line out."
        )
    numeric = is_number if separator == "," else _is_number_with_comma
    if not all(numeric(name) or is_missing(name) for name in names):
        return False
    if "" in names and not _is_pandas_header(names):
        raise InputError(
            f"The first line of {path} has an empty cell and otherwise numbers only, so it may be"
            " a header or data; give the columns names that are not numbers, or fill that cell."
        )
    return "" not in names


def _is_pandas_header(names: Sequence[str]) -> bool:
    """Whether pandas may have written these names: an empty one for the index, then integers."""
    return names[0] == "" and all(name.removeprefix("-").isdecimal() for name in names[1:])


def _check_names(
    names: Sequence[str], content: pa.Table, path: Path, drop: Sequence[str], headerless: bool
) -> None:
    pairs = zip(names, content.columns, strict=True)
    with_content = [name for name, array in pairs if _has_content(name, array)]
    # Dropping an unnamed column without content is no error: it is left out anyway.
    to_check = [name for name in drop if name or "" in with_content or "" not in names]
    check_names(with_content, str(path), () if headerless else to_check)


def _has_content(name: str, array: pa.ChunkedArray) -> bool:
    """Whether a column has a name or a value; one after a separator that ends lines has neither."""
    return name != "" or array.null_count < len(array)


def _combine_chunks(array: pa.ChunkedArray) -> pa.Array:
    """The array in one piece; PyArrow may return chunks even from `combine_chunks`."""
    whole = array.combine_chunks()
    return whole.combine_chunks() if hasattr(whole, "combine_chunks") else whole


def _refuse_mixed_decimals(columns: Sequence[Column], content: pa.Table, path: Path) -> None:
    """InputError if numbers have decimal commas in one column and points in another.

    Such points may be decimal points or separate thousands.
    """
    with_comma, with_point = "", ""  # names of columns with fractions
    arrays = dict(zip(content.column_names, content.columns, strict=True))
    for column in columns:
        finite = column.values[np.isfinite(column.values)] if column.kind == "number" else ()
        if np.any(np.asarray(finite) % 1.0):
            if _has_comma(arrays.get(column.name)):
                with_comma = column.name
            else:
                with_point = column.name
    if with_comma and with_point:
        raise InputError(
            f"{path} has decimal commas in column '{with_comma}' and points in column"
            f" '{with_point}'; write numbers one way."
        )


def _has_comma(array: pa.ChunkedArray | None) -> bool:
    """Whether a text has a comma; PyArrow reads numbers with decimal commas as texts."""
    if array is None or str(array.type) != "string":
        return False
    return any("," in text for text in array.unique().to_pylist() if text is not None)


def _drop_blank_end(
    columns: tuple[Column, ...], rows: int, path: Path
) -> tuple[tuple[Column, ...], int, tuple[str, ...]]:
    """The columns without blank rows at the end of the file, the number of rows, and notes.

    A blank row has no value in any of these columns. Blank rows inside the file stay; a note counts
    them.
    """
    if len(columns) < 2 or any(column.kind == "unusable" for column in columns):
        return columns, rows, ()
    blank = np.all([column.missing for column in columns], axis=0)
    if not blank.any():
        return columns, rows, ()
    end = int(np.flatnonzero(~blank)[-1]) + 1 if not blank.all() else 0
    notes = []
    if end < rows:
        count = rows - end
        what = "1 blank row at the end is" if count == 1 else f"{count} blank rows at the end are"
        notes.append(f"{path}: {what} left out.")
    inside = (np.flatnonzero(blank[:end]) + 1).tolist()
    if inside:
        notes.append(
            f"{path}: {len(inside)} of {end} rows have no value in any column"
            f" ({list_rows(inside)}); they are kept, as missing values."
        )
    columns = tuple(replace(column, values=column.values[:end]) for column in columns)
    return columns, end, tuple(notes)
