"""Reading a table from a file (Excel files through openpyxl) or from a data frame in memory."""

from __future__ import annotations

import importlib
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedwad._checks import format_value
from fedwad.errors import InputError
from fedwad.tables.columns import arrow_column, number_column, object_column, text_of
from fedwad.tables.csv import (
    FileOptions,
    check_bytes,
    read_csv,
    read_text,
    refusing,
)
from fedwad.tables.database import is_database, read_query, redact
from fedwad.tables.table import Column, Table, check_names

#: File endings that can be read as tables; `.csv`, `.tsv` and `.txt` also with `.gz`.
FORMATS = (".csv", ".tsv", ".txt", ".parquet", ".xlsx")
TEXT_FORMATS = (".csv", ".tsv", ".txt")


def read_table(
    source: Any,
    name: str | None = None,
    *,
    missing: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    label: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    sheet: str | None = None,
    query: str | None = None,
    elementwise: bool = False,
) -> Table:
    """A table from a file, a folder, a database, or a data frame of pandas, Polars or PyArrow.

    Parameters
    ----------
    source : path of a CSV, TSV, parquet or Excel file, or of a folder whose files are one table;
        the address of a database (postgresql://, sqlite:///, duckdb:///); a data frame; or a Table.
        For a Table only `drop` and `label` apply.
    name : what errors call the table; by default the path, or "The table" for a data frame
    missing : texts that stand for a missing value, besides `?`, NA, N/A, NaN, null and the
        empty string
    drop : names of columns that are left out unread. They must exist, except in a Table.
    label : name of the label column, which must exist. It may be one that pandas stored as an
        index.
    encoding : of a text file; detected by default
    header : whether the first line of a text or Excel file names the columns. By default it does,
        and is refused if it has numbers or dates, or two texts that are frequent values of their
        columns, as a row of data has.
    sheet : of an Excel file; the first that holds a table by default
    query : the SELECT statement that a database answers, or the name of a table in it
    elementwise : leave texts as texts, so that no value changes how another is read. Under
        differential privacy `encode_elementwise` then encodes the table.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = read_table(pa.table({"age": ["63", "?"], "sex": ["f", "m"]}), "paris")
    >>> [(column.name, column.kind) for column in table.columns]
    [('age', 'number'), ('sex', 'category')]
    """
    dropped = as_strings(drop, "drop")
    missing_texts = frozenset(text.strip() for text in as_strings(missing, "missing"))
    required = (*dropped, *(() if label is None else (label,)))
    options = FileOptions(missing_texts, dropped, required, encoding, header, sheet, elementwise)
    if isinstance(source, Table):
        table = source
    elif is_database(source):
        table = _read_frame(read_query(source, query), redact(source), options)
    elif isinstance(source, str | Path):
        if query is not None:
            raise InputError(f"{source} is a file, and a query is for a database.", "bad-option")
        table = _read_file(Path(source), options)
    elif is_frame(source):
        table = _read_frame(source, "The table" if name is None else name, options)
    else:
        raise InputError(
            f"A {type(source).__name__} arrived where a table is read; give the path of a file or a"
            " data frame of pandas, Polars or PyArrow.",
            "not-a-table",
        )
    if name is not None and not isinstance(source, Table):
        table = replace(table, name=name)
    if not table.has_header and required:
        raise InputError(
            f"{table.name} has no named columns, because its first line is read as data; to find"
            f" '{required[0]}', add a header line with the names of the columns.",
            "no-columns",
        )
    if label is not None:
        table[label]  # raises InputError if it does not exist
    kept = tuple(column for column in table.columns if column.name not in dropped)
    if not kept:
        left = f" besides {', '.join(map(repr, dropped))}" if dropped else ""
        raise InputError(f"{table.name} has no columns{left}; give at least one.", "no-columns")
    if isinstance(source, Table):
        return replace(table, columns=kept)
    said = (
        f"{table.name}: column '{column.name}' {column.detail}."
        for column in kept
        if column.detail and column.kind in ("number", "date")
    )
    return replace(table, columns=kept, notes=(*table.notes, *said))


def as_strings(given: Any, option: str) -> tuple[str, ...]:
    """One string or several as a tuple, each once."""
    several = () if given is None else (given,) if isinstance(given, str) else given
    strings = tuple(several) if isinstance(several, Iterable) else (several,)
    for string in strings:
        if not isinstance(string, str):
            raise InputError(
                f"{option} holds {format_value(string)}; give a string, or several.", "bad-option"
            )
    return tuple(dict.fromkeys(strings))


def _read_file(path: Path, options: FileOptions) -> Table:
    """A table of a file, or of all text files or all parquet files of a folder and its folders.

    A folder inside that is named like centre=paris is a column of parquet files.
    """
    folder = is_folder(path)
    if not folder:
        check_file(path, FORMATS)
    files = table_files(path) if folder else [path]
    suffixes = sorted({file_suffix(file) for file in files})
    if suffixes == [".parquet"]:
        return _read_parquet(path, files, options)
    if suffixes and set(suffixes) <= set(TEXT_FORMATS):
        return read_csv(path, options, files if folder else ())
    if not folder:
        return read_text(path, *_excel_text(path, options), options)
    found = f"has files of several kinds ({' '.join(suffixes)})" if suffixes else "has no tables"
    raise InputError(
        f"The folder {path} {found}; a folder is one table if its files are all text"
        f" ({' '.join(TEXT_FORMATS)}) or all .parquet.",
        "not-a-table",
    )


def table_files(folder: Path) -> list[Path]:
    """The files of tables in a folder and its folders, sorted; hidden ones are left out."""
    return sorted(
        path
        for path in folder.rglob("*")
        if file_suffix(path) in FORMATS
        and path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )


def file_suffix(path: Path) -> str:
    """Return the ending of a file in lower case, without `.gz`: `.tsv` for x.TSV.gz.

    A compressed file with no ending of a text before `.gz` counts as `.csv`.
    """
    endings = [suffix.lower() for suffix in path.suffixes]
    if endings[-1:] == [".gz"]:
        return endings[-2] if len(endings) > 1 and endings[-2] in TEXT_FORMATS else ".csv"
    return endings[-1] if endings else ""


def site_name(path: Path) -> str:
    """The name of the site whose file this is: that of the file without its ending.

    >>> site_name(Path("sites/st.mary.csv")), site_name(Path("st.mary.csv.gz"))
    ('st.mary', 'st.mary')
    """
    if path.suffix.lower() != ".gz":
        return path.stem
    inner = Path(path.stem)
    return inner.stem if inner.suffix.lower() in TEXT_FORMATS else inner.name


def files_by_site(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by the names of their sites; those of files of the same name are their paths."""
    counts = Counter(map(site_name, paths))
    return {str(p) if counts[site_name(p)] > 1 else site_name(p): p for p in paths}


def is_folder(path: Path) -> bool:
    """Whether there is a folder at this path; a name that no file can have is none."""
    return os.path.isdir(path)  # noqa: PTH112 (the method raises where a name is too long)


def check_file(path: Path, formats: Sequence[str]) -> None:
    """Raise InputError unless this is a file that ends in one of `formats`."""
    is_file = os.path.isfile(path)  # noqa: PTH113
    listed = " ".join(formats)
    if is_folder(path):
        raise InputError(f"{path} is a folder; give one file, {listed}.", "is-a-folder")
    if file_suffix(path) not in formats and (is_file or path.suffix):
        raise InputError(
            f"{path} ends in '{path.suffix}'; the formats that can be read are {listed}.",
            "unknown-format",
        )
    if not is_file:
        raise InputError(f"There is no file at {path}; check the path.", "no-such-file")


def _read_parquet(path: Path, files: Sequence[Path], options: FileOptions) -> Table:
    from pyarrow import parquet

    unreadable = InputError(
        f"{path} cannot be read as .parquet; is it complete, with the same columns in all files?",
        "unreadable-file",
    )
    with refusing(unreadable):
        contents = map(parquet.read_metadata, files)
        groups = (one.row_group(k) for one in contents for k in range(one.num_row_groups))
        check_bytes(sum(group.total_byte_size for group in groups), path)
        content = parquet.read_table(path)
    return _read_frame(content, str(path), options)


def _excel_text(path: Path, options: FileOptions) -> tuple[bytes, tuple[str, ...]]:
    """One sheet of an Excel file as the text of a table, and a note if there are several.

    Texts are in quotes. A note directly below the table, without an empty row between them, has no
    separators, as in text files.
    """
    rows, notes = _sheet_rows(path, options.sheet, options.elementwise)
    if options.elementwise and options.header is not False and rows:
        # No row decides how many columns there are: cells beyond the names are left out.
        width = max((k for k, cell in enumerate(rows[0], 1) if cell is not None), default=0)
        rows = [row[:width] for row in rows]
    end = len(rows)
    while end > 2 and not options.elementwise and _is_note(rows[end - 1], rows[1 : end - 1]):
        end -= 1
    lines = [",".join(map(_cell_text, row)) for row in rows[:end]]
    lines += ["".join(map(_cell_text, row)) for row in rows[end:]]
    return "".join(f"{line}\n" for line in lines).encode(), notes


def _cell_text(value: Any) -> str:
    text = text_of(value)
    return "" if text is None else '"' + " ".join(text.splitlines()).replace('"', '""') + '"'


def _is_note(row: tuple[Any, ...], above: Sequence[tuple[Any, ...]]) -> bool:
    """Whether a row has one cell with several words that no row above it has there, where the table
    has more; but not where no value comes twice there, such as names of patients."""
    cells = [(k, cell) for k, cell in enumerate(row) if cell is not None]
    if len(row) < 3 or len(cells) != 1 or len(str(cells[0][1]).split()) < 2:
        return False
    index, note = cells[0]
    others = [other[index] for other in above if other[index] is not None]
    return isinstance(note, str) and note not in others and len({*others}) < len(others)


def _sheet_rows(
    path: Path, sheet: str | None, elementwise: bool
) -> tuple[list[tuple[Any, ...]], tuple[str, ...]]:
    """The rows of a sheet, and a note if it was chosen among several."""
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise InputError(
            f"{path} is an Excel file, which needs openpyxl; install it with"
            " pip install 'fedwad[excel]', or save the table as CSV.",
            "missing-package",
        ) from None
    unreadable = InputError(f"{path} cannot be read as .xlsx; is it complete?", "unreadable-file")
    with refusing(unreadable):
        with zipfile.ZipFile(path) as archive:
            check_bytes(sum(member.file_size for member in archive.infolist()), path)
        workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
    bad_cell = InputError(
        f"{path} has a cell that cannot be read; open it in Excel and save it again.",
        "unreadable-file",
    )
    with refusing(bad_cell), closing(workbook):
        titles = [one.title for one in workbook.worksheets]
        if sheet is not None and sheet not in titles:
            raise InputError(
                f"{path} has no sheet '{sheet}'; it has {', '.join(titles)}.", "unknown-table"
            )
        wanted = [sheet] if sheet is not None else titles[:1] if elementwise else titles
        contents = {
            title: [*map(tuple, workbook[title].iter_rows(values_only=True))] for title in wanted
        }

    def is_table(title: str) -> bool:
        """A table is more than titles: it has two rows or more with several cells."""
        return sum(sum(cell is not None for cell in row) > 1 for row in contents[title]) > 1

    chosen = next(filter(is_table, wanted), wanted[0])
    if len(wanted) == 1:
        return contents[chosen], ()
    note = f"{path}: of its sheets {', '.join(titles)} only '{chosen}' is read; name another one"
    return contents[chosen], (f"{note} if that is the table (sheet).",)


def is_frame(source: Any) -> bool:
    """Whether this has columns, as data frames of pandas, Polars and PyArrow do."""
    return any(hasattr(type(source), name) for name in ("columns", "column_names"))


def _read_frame(frame: Any, name: str, options: FileOptions) -> Table:
    """A table of a data frame in memory.

    A column of a PyArrow table in which pandas stored an index is left out unless its name is
    `required`. With `elementwise`, texts stay texts.
    """
    import narwhals as nw

    unusable = InputError(
        f"{name} is a {type(frame).__name__} that cannot be used; give a table in memory.",
        "not-a-table",
    )
    with refusing(unusable):
        if _is_from(frame, "pyarrow"):
            frame = frame.drop_columns(index_columns(frame.schema, options.required))
        columns = frame.column_names if hasattr(type(frame), "column_names") else frame.columns
        check_names([str(column) for column in columns], name, options.drop)
        data = nw.from_native(frame, eager_only=True)
        names = [str(column) for column in data.columns]
        rows = len(data)
    if rows == 0:
        raise InputError(f"{name} is empty; give at least one sample.", "empty-table")
    read = tuple(
        _read_column(column, title, options)
        for title, column in zip(names, data.iter_columns(), strict=True)
        if title not in options.drop
    )
    return Table(name, read, rows)


def _read_column(series: Any, name: str, options: FileOptions) -> Column:
    native, elementwise = series.to_native(), options.elementwise
    if _is_from(native, "pandas") and native.dtype == np.float64 and not options.missing_texts:
        return number_column(name, np.asarray(native), elementwise=elementwise)  # without a copy
    if elementwise and _is_from(native, "pandas") and native.dtype == object:
        return object_column(name, series.to_list(), options.missing_texts, elementwise)
    try:
        array = series.to_arrow()
    except Exception:  # a column of objects of several types
        return object_column(name, series.to_list(), options.missing_texts, elementwise)
    return arrow_column(name, array, options.missing_texts, elementwise=elementwise)


def _is_from(value: Any, library: str) -> bool:
    """Whether the type of a value is defined in this library."""
    return type(value).__module__.partition(".")[0] == library


def index_columns(schema: Any, required: Sequence[str]) -> list[str]:
    """The columns of a PyArrow schema in which pandas stored an index, unless required: the index
    of a frame in memory is not a feature either.

    For an index that only counts, the metadata have a start, a stop and a step instead of a name.
    """
    try:
        stored = list(json.loads(schema.metadata[b"pandas"])["index_columns"])
    except (KeyError, TypeError, ValueError):  # pandas did not write this table
        return []
    return [name for name in schema.names if name in stored and name not in required]
