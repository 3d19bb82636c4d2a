"""Tables in text files: encodings, separators, decimal commas, headers, titles, ragged and blank
rows; and what does not fit into memory, which is refused."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import math
import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad.errors import InputError
from fedwad.tables.columns import MISSING, are_codes, arrow_column, is_number, parse_date
from fedwad.tables.table import Column, Table, check_names, list_rows

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_MISSING_SPELLINGS = [
    *{change(word) for word in MISSING for change in (str, str.upper, str.title)},
    "NaN",
]


@dataclass(frozen=True)
class FileOptions:
    """How a file is read; see `read_table`. `required` columns must exist."""

    missing_texts: frozenset[str] = frozenset()
    drop: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    encoding: str | None = None
    header: bool | None = None
    sheet: str | None = None
    elementwise: bool = False


@contextlib.contextmanager
def refusing(refusal: InputError) -> Iterator[None]:
    """Whatever another library raises becomes this error: some of its messages quote data."""
    try:
        yield
    except InputError:
        raise
    except Exception:  # PyArrow, openpyxl and the data frame libraries raise many kinds
        raise refusal from None


def read_csv(path: Path, options: FileOptions, parts: Sequence[Path] = ()) -> Table:
    """A table from text separated by commas, semicolons, tabs or bars, whichever the file has.

    `parts` are the files of the folder `path` that are one table: text with the same first line,
    which is there once.
    """
    if len(parts) < 2:
        data = read_utf8((*parts, path)[0], options.encoding, options.elementwise)
        return read_text(path, data, (), options)
    texts: list[bytes] = []
    names, size = b"", 0
    notes: tuple[str, ...] = ()
    for part in parts:
        data = read_utf8(part, options.encoding, options.elementwise)
        data, said = _drop_titles(data, part, options)
        notes += said
        if options.header is not False:
            first, _, data = data.strip(b"\r\n").partition(b"\n")
            names = names or first.rstrip(b"\r")
            if first.rstrip(b"\r") != names:
                raise _other_columns_error(part, parts[0])
        texts.append(data.strip(b"\r\n"))
        size += len(data)
        check_bytes(size, path)
    lines = [names, *texts]
    return read_text(path, b"\n".join(filter(None, lines)) + b"\n", notes, options)


def read_text(path: Path, data: bytes, notes: tuple[str, ...], options: FileOptions) -> Table:
    """A table from the text of a file.

    Lines of titles and comments above the table, a line of units below its names, and notes below
    its last row are left out. With `elementwise`, all columns are texts and no line is left out.
    """
    data, said = _drop_titles(data, path, options)
    table = _read_lines(data, path, path, options)
    rows, table = table.rows, replace(table, notes=notes + said)
    table = table if options.elementwise else _without_blank_end(table)
    if not table.rows:
        problem = f"has {rows} rows without a value" if rows else "is empty"
        raise InputError(f"{path} {problem}; give at least one sample.", "empty-table")
    return table


def csv_batches(
    path: Path, options: FileOptions, parts: Sequence[Path], texts: frozenset[str], batch_bytes: int
) -> Iterator[Table]:
    """The same in batches of about so many bytes; the columns in `texts` stay texts."""
    names: tuple[str, ...] = ()
    for part in parts or (path,):
        start = b""
        for data in _line_batches(part, options.encoding, batch_bytes):
            first = not start
            if first:
                data, _ = _drop_titles(data, part, options)
                start = data.lstrip(b"\r\n").partition(b"\n")[0] + b"\n"
            elif options.header is not False:
                data = start + data
            table = _read_lines(data, part, path, options, texts, first)
            names = names or table.names
            if table.names != names:
                raise _other_columns_error(part, (*parts, path)[0])
            if table.rows:
                yield table


def _read_lines(
    data: bytes,
    path: Path,
    whole: Path,
    options: FileOptions,
    texts: Collection[str] = (),
    first: bool = True,
) -> Table:
    """The table of the lines of a file.

    `whole` is the folder or the file that they belong to. The columns in `texts` stay texts; one
    without a name or a value, as after a separator that ends lines, is left out. If these are the
    `first` lines, they and the names of columns are checked.
    """
    if first:
        _refuse_other_content(data, path)
    separator = _find_separator(data, path)
    if options.elementwise:
        content = _parse_by_cell(data, separator, options)
    else:
        content = _parse(data, separator, path, options, sorted(texts))
    names = [" ".join(name.split()) for name in content.column_names]
    if all(len(name) > 2 and name[0] == name[-1] == "'" for name in names):
        names = [name[1:-1] for name in names]
    pairs = [*zip(names, content.columns, strict=True)]
    values = _values_in(pairs, options.elementwise) if options.header is None and first else ""
    if values:  # of a patient, perhaps: they are not quoted
        raise InputError(
            f"The first line of {path} has {values}, as a row of data has; give the columns names"
            " in a first line of words, or say header=False if it is a row, or header=True if it"
            " names the columns.",
            "no-columns",
        )
    if options.header is False:
        pairs = [(f"f{k}", array) for k, (_, array) in enumerate(pairs)]
    arrays = [(name, a) for name, a in pairs if name != "" or a.null_count < len(a)]
    if first:
        titles = [name for name, _ in arrays]
        # Dropping an unnamed column without content is no error: it is left out anyway.
        drop = [name for name in options.drop if name or "" in titles or "" not in names]
        check_names(titles, str(whole), () if options.header is False else drop)
    decimal = "" if separator == "," else ","
    columns = tuple(
        arrow_column(name, a, options.missing_texts, decimal, options.elementwise or name in texts)
        for name, a in arrays
        if name not in options.drop
    )
    if decimal and not options.elementwise:
        columns = _check_decimals(columns, dict(arrays), path)
    return Table(str(whole), columns, content.num_rows, options.header is not False)


def _line_batches(path: Path, encoding: str | None, batch_bytes: int) -> Iterator[bytes]:
    """The lines of a text file in UTF-8, about so many bytes of them; no quoted cell is cut."""
    rest = b""
    for block in _in_utf8(_blocks(path, batch_bytes), encoding, path):
        rest += block
        end = rest.rfind(b"\n")
        while end >= 0 and rest.count(b'"', 0, end) % 2:
            end = rest.rfind(b"\n", 0, end)
        if end >= 0:
            yield rest[: end + 1]
            rest = rest[end + 1 :]
    if rest.strip(b"\r\n"):
        yield rest


def _other_columns_error(part: Path, first: Path) -> InputError:
    return InputError(
        f"{part} has another first line than {first}; files that are one table need the same"
        " columns in the same order.",
        "different-columns",
    )


def _drop_titles(
    data: bytes, path: Path, options: FileOptions, most: int = 40
) -> tuple[bytes, tuple[str, ...]]:
    """The text without lines that are not of the table, and notes.

    These are lines with one cell, or before a blank line with another number of cells, above a
    table whose lines have several; comments; and a line of units in brackets below the names. Of
    the first `most` lines those of a table must have equally many cells.
    """
    _refuse_other_content(data, path)
    if options.elementwise:
        return data, ()
    lines = data[: 1 << 16].splitlines(keepends=True)[:most]
    if len(lines) < most and len(data) > 1 << 16:
        lines.pop()  # it is cut
    texts = [line.decode("utf-8", errors="ignore").strip("\r\n") for line in lines]
    cut = next((k for k, text in enumerate(texts) if not _is_comment(text, texts[k:])), 0)
    found: list[tuple[int, int, str]] = []  # - number of titles, cells, separator
    for separator in _SEPARATORS if options.header is not False else ():
        rows = [_cells(text, separator) for text in texts[cut:]]
        filled = [k for k, row in enumerate(rows) if sum(map(bool, row)) > 1]
        if len(filled) > 2:
            width = len(rows[filled[-1]])
            start = next(k for k in filled if len(rows[k]) == width)
            if all(map(any, rows[filled[0] : start])):  # no blank line below titles
                start = filled[0]
            if {len(row) for row in rows[start : filled[-1]] if any(row)} == {width}:
                found.append((-start, width, separator))
    if found and any(text.count('"') % 2 for text in texts[: -max(found)[0]]):
        found = []  # a line end inside a quoted name
    titles, _, separator = max(found, default=(0, 0, ""))
    start = cut - titles
    notes, said = [], sum(bool(text.strip(" ;,\t|")) for text in texts[cut:start])
    said += sum(text.startswith("#") for text in texts[:cut])
    if said:
        notes.append(f"{path}: {_left_out(said, 'above')}")
    units = [*filter(None, _cells("".join(texts[start + 1 : start + 2]), separator or ","))]
    if found and units and all(re.fullmatch(r"[\[(].*[\])]", unit) for unit in units):
        notes.append(f"{path}: the line of units below the names is left out.")
        data = b"".join([lines[start], data[sum(map(len, lines[: start + 2])) :]])
    else:
        data = data[sum(map(len, lines[:start])) :]
    end, dropped = _end_of_table(data, separator) if found else (len(data), 0)
    if dropped:
        notes.append(f"{path}: {_left_out(dropped, 'below')}")
    return data[:end], tuple(notes)


def _left_out(count: int, where: str) -> str:
    lines, verb = ("1 line", "is") if count == 1 else (f"{count} lines", "are")
    return f"{lines} {where} the table {verb} left out."


def _cells(line: str, separator: str) -> list[str]:
    """The cells of one line, without quotes and spaces around them."""
    try:
        return [cell.strip() for row in csv.reader([line], delimiter=separator) for cell in row]
    except csv.Error:  # a cell of more characters than are read, or a carriage return in one
        return line.split(separator)


def _is_comment(text: str, lines: Sequence[str]) -> bool:
    """Whether a line is a comment above a table: sep=; or one that begins with #.

    A line of names may begin with #, too: it has as many cells as the `lines` below it.
    """
    table = next((line for line in lines if not line.startswith("#")), "")
    sizes = [(len(_cells(text, sign)), len(_cells(table, sign))) for sign in _SEPARATORS]
    several = [one == two for one, two in sizes if two > 1]
    hash_ = text.startswith("#") and bool(several) and not any(several)
    return hash_ or text[:4].lower() == "sep="


def _end_of_table(data: bytes, separator: str, most: int = 10) -> tuple[int, int]:
    """Where the last row of the table ends, and how many notes with one cell are below it.

    A row with one value is no note, unless it follows a blank line or has no separator.
    """
    end, kept, dropped = len(data), len(data), 0
    for _ in range(most):
        while end and data[end - 1 : end] in (b"\n", b"\r"):
            end -= 1
        start = data.rfind(b"\n", 0, end) + 1
        line = data[start:end]
        cells = [*filter(None, _cells(line.decode(), separator))]
        above = data[data.rfind(b"\n", 0, max(start - 1, 0)) + 1 : start]
        alone = not above.strip(b"\r\n " + separator.encode())
        if not start or line.count(b'"') % 2 or len(cells) > 1:  # odd: in a cell of several lines
            break
        if cells and separator.encode() in line and not alone:
            break
        end = start
        dropped += bool(cells)
        if dropped:
            kept = start
    return kept, dropped


def _refuse_other_content(data: bytes, path: Path) -> None:
    if not data or data.isspace():
        raise InputError(f"{path} is empty; give at least one sample.", "empty-table")
    start = data[: 1 << 16]
    if b"\0" in start:
        raise InputError(f"{path} is not a text file; save the table as CSV.", "not-a-table")
    if start.lstrip()[:15].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise InputError(
            f"{path} is a web page or XML and no table; export or download it again.", "not-a-table"
        )


def _line(data: bytes, index: int) -> str:
    """The first line that is not empty, or the one `index` lines below it; "" if there is none."""
    text = data[: 1 << 16].decode("utf-8", errors="ignore").lstrip("\r\n")
    return "".join(text.splitlines()[index : index + 1])


def _find_separator(data: bytes, path: Path) -> str:
    """The separator that the first line has most of; decimal commas do not count.

    A line of words is refused if the second line has as many numbers, separated by spaces.
    """
    line, second = _line(data, 0), _line(data, 1)
    unquoted = _remove_quoted(line)
    pieces = unquoted.split(";")
    if len(pieces) > 1 and all(map(_is_number_with_comma, pieces)):
        return ";"
    separator = max(_SEPARATORS, key=unquoted.count)
    words, below = line.split(), second.split()
    spaced = all(map(is_number, words)) or (len(below) == len(words) and all(map(is_number, below)))
    if unquoted.count(separator) == 0 and len(words) > 1 and spaced:
        raise InputError(f"{path} is separated by spaces; save it with commas.", "not-a-table")
    return separator


def _remove_quoted(line: str) -> str:
    """The line without what stands in quotes."""
    return "".join(line.split('"')[::2])


def _is_number_with_comma(piece: str) -> bool:
    """Whether a text is a number, with a decimal comma or point if it has a fraction."""
    return is_number(piece.replace(",", ".", 1))


def _parse_by_cell(data: bytes, separator: str, options: FileOptions) -> pa.Table:
    """The table of texts in which each line is a row, read by itself.

    Rows have as many cells as the first line: missing ones are empty, others are cut. The quotes of
    a line in which one stays open or stands inside a cell are removed: such a quote of one record
    would take the records after it into one cell.
    """
    import pyarrow as pa

    by = re.escape(separator)
    cell = rf'(?:"(?:[^"]|"")*"|[^"{by}]*)'
    closed = re.compile(rf"{cell}(?:{by}{cell})*\r?")
    lines = data.decode("utf-8").lstrip("\r\n").split("\n")
    if not lines[-1]:
        lines.pop()
    width = len(_cells(_line(data, 0), separator))
    rows = []
    for line in lines:
        whole = '"' not in line or closed.fullmatch(line)
        cells = _cells(line if whole else line.replace('"', ""), separator)
        rows.append([*cells, *[""] * width][:width])  # an empty line is a row without values
    names = [str(k) for k in range(width)] if options.header is False else rows.pop(0)
    arrays = [
        pa.array([None if one in _MISSING_SPELLINGS else one for one in column], pa.string())
        for column in (zip(*rows, strict=True) if rows else [()] * width)
    ]
    return pa.Table.from_arrays(arrays, names=names)


def _parse(
    data: bytes, separator: str, path: Path, options: FileOptions, texts: Sequence[str]
) -> pa.Table:
    """The table that PyArrow reads; columns named in `texts` stay texts, and so do codes such as
    01234."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    ragged: list[Any] = []

    def skip_ragged(row: Any) -> str:
        ragged.append(row)
        return "skip"

    one_column = separator not in _remove_quoted(_line(data, 0))

    def read(content: bytes, texts: Sequence[str]) -> pa.Table:
        return arrow_csv.read_csv(
            pa.BufferReader(content),
            read_options=arrow_csv.ReadOptions(autogenerate_column_names=options.header is False),
            parse_options=arrow_csv.ParseOptions(
                delimiter=separator,
                newlines_in_values=b'"' in content,
                invalid_row_handler=skip_ragged,
                ignore_empty_lines=not one_column,  # in one column, it is a missing value
            ),
            convert_options=arrow_csv.ConvertOptions(
                strings_can_be_null=True,
                null_values=_MISSING_SPELLINGS,
                column_types=dict.fromkeys(texts, pa.string()),
            ),
        )

    unreadable = InputError(
        f"{path} cannot be read as .csv; is it complete, separated by commas, semicolons or"
        " tabs, with the same number of columns in each row?",
        "unreadable-file",
    )
    with refusing(unreadable):
        table = read(data, texts)
        if not ragged and re.search(rb"\b0\d\d", data[:_CHUNK_BYTES]):
            integers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
            start = data[: data.rfind(b"\n", 0, _CHUNK_BYTES) + 1] or data
            sample = read(start, integers)
            codes = [n for n in integers if are_codes(sample[n].drop_null().to_pylist())]
            table = read(data, [*texts, *codes]) if codes else table
    if ragged:
        line = "" if ragged[0].number is None else f" (line {ragged[0].number} of the file)"
        raise InputError(
            f"{path} cannot be read as .csv: its first line has {ragged[0].expected_columns} cells"
            f" separated by {_SEPARATORS[separator]}, and not so {len(ragged)} of its rows, the"
            f" first of which{line} has {ragged[0].actual_columns}; is it complete, with the same"
            " number of columns in each row?",
            "ragged-rows",
        )
    return table


_LIKE_VALUE = re.compile(
    r"[<>~\u2264\u2265]=?\s*[+-]?\d.*|[+-]?\d+([.,]\d+)?\s*[^\W\d]{1,5}|\d+([.,]\d+)?\s*%"
    r"|\d{4}[/.-]\d{1,2}|\d{1,2}[/.-]\d{4}|\?|(?i:unknown|missing|n/a|nan|null|none|not known)"
)


def _values_in(pairs: Sequence[tuple[str, pa.ChunkedArray]], elementwise: bool) -> str:
    """What the names of columns have that only values have: numbers or dates, or two texts that are
    frequent below them; "" if they have none.

    So have names most of which are numbers below a limit or with a unit, months, or words for a
    missing value.

    One time may be the header of another file that was appended. With `elementwise` no row may
    decide whether a file is read.
    """
    import pyarrow.compute as pc

    for name, _ in pairs:
        number = _is_number_with_comma(name) or not math.isnan(parse_date(name))
        if number and any(map(str.isdigit, name)):
            return "numbers or dates"
    if 2 * sum(bool(_LIKE_VALUE.fullmatch(name.strip())) for name, _ in pairs) > len(pairs):
        return "numbers or dates"
    times = []
    for name, array in pairs if not elementwise else ():
        if name and str(array.type) in ("string", "large_string"):
            equal = pc.match_substring_regex(array, rf"\A{re.escape(name)}\z")
            times.append(pc.sum(equal).as_py() or 0)  # `pc.equal` would import pandas
    return "texts that are values of their columns" if sum(n > 1 for n in times) > 1 else ""


def _check_decimals(
    columns: tuple[Column, ...], arrays: Mapping[str, pa.ChunkedArray], path: Path
) -> tuple[Column, ...]:
    """The columns; InputError if numbers have decimal commas in one of them and points in another.

    Such points may be decimal points or separate thousands. They separate thousands of money, such
    as 1.073 \u20ac, which has no three decimals.
    """
    import pyarrow.compute as pc

    with_comma, with_point = "", ""  # names of columns with fractions
    for column in columns:
        if column.kind != "number" or not np.any(column.values[np.isfinite(column.values)] % 1.0):
            continue
        array = arrays[column.name]  # PyArrow reads numbers with decimal commas as texts
        if str(array.type) == "string" and pc.any(pc.match_substring(array, ",")).as_py():
            with_comma = column.name
        elif not _is_money_in_thousands(array):
            with_point = column.name
    if with_comma:
        columns = tuple(
            arrow_column(one.name, pc.replace_substring(arrays[one.name], ".", ""), decimal=",")
            if one.kind == "number" and _is_money_in_thousands(arrays[one.name])
            else one
            for one in columns
        )
    if with_comma and with_point:
        raise InputError(
            f"{path} has decimal commas in column '{with_comma}' and points in column"
            f" '{with_point}'; write numbers one way.",
            "mixed-decimals",
        )
    return columns


def _is_money_in_thousands(array: pa.ChunkedArray) -> bool:
    """Whether all texts are money, and points in them separate thousands."""
    import pyarrow.compute as pc

    if str(array.type) != "string":
        return False
    money = r"\A[^\d.]*\d{1,3}(\.\d{3})*(,\d+)?[^\d.]*\z"
    texts = pc.drop_null(array)
    signed = pc.and_(
        pc.match_substring_regex(texts, money), pc.match_substring_regex(texts, "[$\u20ac\u00a3]")
    )
    return bool(pc.all(signed).as_py() and pc.any(pc.match_substring(texts, ".")).as_py())


def _without_blank_end(table: Table) -> Table:
    """The table without blank rows at the end of the file.

    A blank row has no value in any column. Blank rows inside the file stay; a note counts them.
    """
    blank = np.all([column.missing for column in table.columns], axis=0)
    if len(table.columns) < 2 or any(c.kind == "unusable" for c in table.columns):
        return table
    end = int(np.flatnonzero(~blank)[-1]) + 1 if not blank.all() else 0
    inside, count, notes = (np.flatnonzero(blank[:end]) + 1).tolist(), table.rows - end, []
    if count:
        what = "1 blank row at the end is" if count == 1 else f"{count} blank rows at the end are"
        notes.append(f"{table.name}: {what} left out.")
    if inside:
        notes.append(
            f"{table.name}: {len(inside)} of {end} rows have no value in any column"
            f" ({list_rows(inside)}); they are kept, as missing values."
        )
    kept = table.take(slice(0, end)) if count else table
    return replace(kept, notes=(*table.notes, *notes))


# Byte order marks, and the encodings that they announce.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHUNK_BYTES = 1 << 20  # number of bytes decoded or unpacked at a time


def read_utf8(path: Path, encoding: str | None = None, elementwise: bool = False) -> bytes:
    """The content of a text file in UTF-8, without a byte order mark; never more in memory than
    `check_bytes` lets.

    With `elementwise` nothing is detected but the mark, because one byte of one row would decide
    how all others are read: without `encoding` the text is UTF-8, and what is not valid in it, or
    no character of a text, is the character U+FFFD.
    """
    blocks: list[bytes] = []
    size = 0
    for block in _blocks(path):
        blocks.append(block)
        size += len(block)
        check_bytes(size, path)
    text = b"".join(_in_utf8(iter(blocks), encoding, path, elementwise))
    return text.replace(b"\0", "\ufffd".encode()) if elementwise else text


def _blocks(path: Path, size: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """The content of a file, unpacked if it is a gzip file, so many bytes at a time."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            while block := file.read(size):
                yield block
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(
            f"{path} is a damaged gzip file; copy or compress it again.", "unreadable-file"
        ) from None


def _from_cp1252(error: Any) -> tuple[str, int]:
    """Bytes that are no UTF-8 as Windows-1252, which Excel writes, has them."""
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error("fedwad.cp1252", _from_cp1252)


def _in_utf8(
    blocks: Iterator[bytes], encoding: str | None, path: Path, elementwise: bool = False
) -> Iterator[bytes]:
    """The blocks of a text in UTF-8, without a byte order mark.

    Unless an `encoding` is given, a byte order mark decides, or that about every other byte is zero
    (UTF-16). Else what is no UTF-8 is Windows-1252, also where files of both were joined.
    """
    first = next(blocks, b"")
    half = len(first[:4096]) // 2
    names = [name for bom, name in _BOMS if first.startswith(bom)]
    for zeros, name in ((first[1:4096:2], "utf-16-le"), (first[:4096:2], "utf-16-be")):
        if half and zeros.count(0) > 0.7 * half and not elementwise:
            names.append(name)
    known = encoding or (*names, "utf-8")[0]
    errors = "replace" if elementwise else "strict" if encoding else "fedwad.cp1252"
    errors = errors if elementwise or known.startswith("utf-8") else "strict"
    mark = "\ufeff"
    try:
        b"".decode(known)  # LookupError unless it is an encoding of texts
        for text in codecs.iterdecode(chain([first], blocks), known, errors):
            yield text.removeprefix(mark).encode()
            mark = ""
    except (LookupError, UnicodeError) as error:
        problem = f"{path} is not valid {known}; give its real encoding."
        if isinstance(error, LookupError):
            problem = f"There is no encoding '{known}'; give one such as utf-8, utf-16 or cp1252."
        raise InputError(problem, "wrong-encoding") from None


def largest_size() -> int:
    """The largest number of bytes of a table, unpacked, that is read: a third of the memory, which
    holds the text, the table that PyArrow reads and its columns at once."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no such numbers
        memory = 8 << 30
    with contextlib.suppress(OSError, ValueError):  # the limit of a container, or "max"
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return memory // 3


def check_bytes(size: int, name: str | Path) -> None:
    """InputError if this many bytes of a table, unpacked, are too many for this machine."""
    largest = largest_size()
    if size > largest:
        raise InputError(
            f"{name} has more than {largest / 1e9:.3g} GB when unpacked, which is what this"
            " machine's memory has room for; read a part of it, or fewer columns.",
            "too-large",
        )
