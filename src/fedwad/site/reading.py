"""Reading the data of one site from arrays, data frames and files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._words import pluralize
from fedwad.errors import InputError
from fedwad.site.columns import AUTO, Columns
from fedwad.site.data import Dataset
from fedwad.site.raw import RawTable, as_dataset
from fedwad.tables import (
    Schema,
    agree,
    check_file,
    condition_column,
    is_database,
    is_frame,
    read_table,
)
from fedwad.tables.batches import Batches, Part, read_batches, thinned
from fedwad.tables.conflicts import join_names
from fedwad.tables.csv import check_bytes
from fedwad.tables.read import FORMATS as TABLE_FORMATS
from fedwad.tables.read import file_suffix, is_folder
from fedwad.tables.select import (
    count_copies,
    find_unit,
    likely_unit,
    nameless_notes,
    set_kinds,
    split_rows,
    take_unit,
    trends,
    where,
)
from fedwad.tables.table import Table, date_name, level_name, unknown_column_error
from fedwad.transport import Measure, as_labels

#: File endings that can be read. The endings of text files may be followed by `.gz`.
FORMATS = (".npy", ".npz", *TABLE_FORMATS)

_NO_OPTIONS = Columns()  # every column is a feature, taken as it is


def is_readable(path: Path) -> bool:
    """Whether the ending of a file is one of `FORMATS`, or that of a text file and `.gz`."""
    return file_suffix(path) in FORMATS


def read(source: Any, name: str = "data", columns: Columns = _NO_OPTIONS) -> Dataset:
    """A Dataset of an array, a pair (X, y), a data frame, a file, a folder or a database.

    A table is encoded by the schema in `columns`. If that is "auto", the schema is made from this
    table alone.
    """
    raw, schema = read_raw(source, name, columns), columns.schema
    if schema == "auto":
        schema = agree({name: raw.profile(1)}) if isinstance(raw, RawTable) else None
    return as_dataset(raw, schema)


def read_raw(source: Any, name: str = "data", columns: Columns = _NO_OPTIONS) -> Dataset | RawTable:
    """A RawTable of a data frame, or a file, folder or database with named columns, not encoded;
    else a Dataset."""
    if isinstance(source, RawTable):
        return source
    if is_database(source) or (isinstance(source, str | Path) and is_folder(Path(source))):
        return _read_columns(source, None, columns)
    if isinstance(source, str | Path):
        return _read_file(Path(source), columns)
    is_pair = isinstance(source, tuple) and len(source) == 2
    if is_pair and not np.isscalar(source[0]) and not np.isscalar(source[1]):
        return _read_pair(source, name, columns)
    if is_frame(source) or isinstance(source, Table):
        return _read_columns(source, name, columns)
    is_read = isinstance(source, Dataset)  # with its labels
    _refuse_columns(replace(columns, label=None) if is_read else columns, name)
    if isinstance(source, Dataset):
        return source
    return Dataset(source if isinstance(source, Measure) else Measure(source, name=name))


def _read_columns(source: Any, name: str | None, columns: Columns) -> Dataset | RawTable:
    """A RawTable, or a Dataset if the columns have no names, which a schema would need."""
    batches = _batches(source, name, columns) if columns.by is None else None
    if batches is not None:
        raw = _read_in_batches(batches, columns)
    else:
        options = _options(source, columns) | {"elementwise": columns.elementwise}
        table = read_table(source, name, **options, sheet=columns.sheet)
        raw = _as_raw(where(_with_kinds(table, columns), columns.where), columns)
    return raw if raw.table.has_header or raw.whole is not None else raw.as_numbers()


def _as_raw(table: Table, columns: Columns, unit_name: str | None = None) -> RawTable:
    """The columns of a table in memory that count, and its units."""
    unit_name = unit_name or _unit_name(table, columns)
    for needed in (*columns.keep, columns.label, columns.by, unit_name, columns.weights):
        if needed is not None:
            table[needed]  # raises InputError if it does not exist
    unit = None
    if unit_name is not None:
        table, unit = take_unit(table, unit_name, columns.unit == AUTO)
    weights = None if columns.weights is None else _weights(table, columns)
    kept = _kept(table, columns)
    return RawTable(
        kept, columns.label, elementwise=columns.elementwise, unit=unit, weights=weights
    )


def holder_notes(sites: Iterable[Dataset | RawTable]) -> tuple[str, ...]:
    """Sentences for the holder of tables: what was taken as the unit of rows, or may be one, where
    rows change from the first to the last, and where many are there twice.

    A site that replies to others does not say them: no reply depends on the order of rows.
    """
    units: dict[str, list[str]] = {}
    likely, ordered, twice = [], [], []
    for raw in sites:
        if not isinstance(raw, RawTable) or raw.elementwise:
            continue
        name = raw.table.name
        if raw.unit is not None and raw.unit.found:
            count = pluralize(len(np.unique(raw.unit.codes)), "unit")
            units.setdefault(raw.unit.name, []).append(f"{count} at {name}")
        if raw.whole is not None:
            continue
        if raw.unit is None and (column := likely_unit(raw.table)) is not None:
            likely.append(f"'{column}' of {name}")
        if raw.unit is None and (copies := count_copies(raw.table)):
            twice.append(f"{name} ({copies} of {raw.table.rows})")
        found = trends(raw.table, raw.label, raw.units)
        if found:
            ordered.append(f"{name} ({join_names(found)})")
    taken = [f"'{column}' ({join_names(counts)})" for column, counts in units.items()]
    notes = {
        "Taken as the unit of rows, and not compared: {}. Name another column, or 'none' (unit).": (
            taken
        ),
        "Rows with one value of {} are alike in other columns. If it numbers people or the like,"
        " name it (unit), since p-values take rows as independent.": likely,
        "From the first rows to the last, columns change (p < 0.001) in {}. If rows are in the"
        " order of time, the data mix periods; compare periods as sites (by).": ordered,
        "Many rows are exact copies of others in {}. If an export is there twice, leave one out,"
        " since p-values take rows as independent.": twice,
    }
    return tuple(text.format(join_names(found)) for text, found in notes.items() if found)


def _weights(table: Table, columns: Columns) -> NDArray[np.float64]:
    """The weight of each row."""
    column = table[columns.weights or ""]
    if columns.elementwise:
        raise InputError("Rows have no weights under differential privacy.", "bad-option")
    wrong = column.kind != "number" or not np.isfinite(column.values).all()
    if wrong or column.values.min() <= 0:
        raise InputError(
            f"Column '{column.name}' of {table.name} holds values that are no positive numbers;"
            " weights must be, so leave out other rows (where).",
            "bad-option",
        )
    return np.asarray(column.values)


def _with_kinds(table: Table, columns: Columns) -> Table:
    """The table with the kinds and the missing values that a user named."""
    if columns.missing:  # texts for all columns are missing already; these are for single columns
        for text in columns.missing:
            named = (*table.names, *columns.drop)
            if "=" in text and not any(text.startswith(f"{name}=") for name in named):
                raise unknown_column_error(text.partition("=")[0], table.names, table.name)
        table = replace(
            table, columns=tuple(c.with_missing(columns.missing_in(c.name)) for c in table.columns)
        )
    return set_kinds(table, columns.category, columns.number)


def _kept(table: Table, columns: Columns) -> Table:
    """The table with the columns that are compared, the label and that which names sites."""
    wanted = {*columns.keep, columns.label, columns.by} if columns.keep else set(table.names)
    dropped = {name for name in (*columns.drop, columns.weights) if name != columns.by}
    kept = tuple(c for c in table.columns if c.name in wanted and c.name not in dropped)
    if not kept:
        raise InputError(f"{table.name} has no columns left; keep at least one.", "no-columns")
    return replace(table, columns=kept)


def _read_in_batches(batches: Batches, columns: Columns) -> RawTable:
    """A large table: a sample of its rows, and sums over all of them; all rows that a condition
    leaves if they are few."""
    ready, whole = _prepared(batches, columns).scan(columns.max_rows)
    if whole.rows < 2 * columns.max_rows:
        if whole.rows > whole.sample.rows:
            whole = ready.scan(2 * columns.max_rows)[1]
        return _as_raw(whole.sample, columns)
    unit_name = _unit_name(whole.sample, columns)
    if unit_name is not None:
        ready, whole = ready.scan(columns.max_rows, unit_name)
    return _as_large(ready, whole, columns, unit_name)


def _as_large(batches: Batches, whole: Part, columns: Columns, unit_name: str | None) -> RawTable:
    """A table whose rows are not all held."""
    if not whole.sample.rows:
        raise InputError(
            f"A value of '{unit_name}' has more than {columns.max_rows} rows; name another unit, or"
            " none.",
            "bad-option",
        )
    note = (
        f"{batches.name}: {whole.rows} rows are read in batches; order statistics, blocks and"
        f" calibration are those of a random sample of {whole.sample.rows} rows (max_rows)."
    )
    raw = _as_raw(whole.sample, columns, unit_name)
    table = replace(raw.table, notes=(note,))
    sums = {name: own for name, own in whole.sums.items() if name in table}
    whole = replace(whole, sample=table, sums=sums)
    return replace(raw, table=table, whole=whole, batches=batches)


def _prepared(batches: Batches, columns: Columns) -> Batches:
    """The batches with the kinds that a user named, and the rows that meet the conditions."""

    def prepared(texts: frozenset[str]) -> Iterator[Table]:
        for table in batches.read(texts):
            some = where(_with_kinds(table, columns), columns.where, may_be_empty=True)
            if some.rows:
                yield some

    return replace(batches, read=prepared)


def _unit_name(table: Table, columns: Columns) -> str | None:
    """The column that names the units of rows, chosen or found; None if each row is one.

    Under differential privacy none is looked for, because the rows would decide on it.
    """
    if columns.unit != AUTO:
        return columns.unit
    if columns.elementwise or not table.has_header:
        return None
    in_schema = columns.schema.columns if isinstance(columns.schema, Schema) else ()
    used = {column.name for column in in_schema if column.kind != "ignored"}
    return find_unit(table, {*used, *columns.drop, columns.label or "", columns.by or ""})


def read_sites(
    data: Any, columns: Columns, queries: Mapping[str, str] | None = None
) -> dict[str, Dataset | RawTable]:
    """The data of each site: of a mapping from names to sources, or of one table that is split.

    The table is split by the column `by`, and rows of one unit stay together. `queries` are those
    of sites that have their own.
    """
    sources = data.values() if columns.by is None else [data]
    if (columns.query or queries) and not any(map(is_database, sources)):
        raise InputError("A query is for a database, and no address of one came.", "bad-option")
    if columns.by is None:
        own = {str(name): query for name, query in (queries or {}).items()}
        return {
            str(name): read_raw(
                source, str(name), replace(columns, query=own.get(str(name), columns.query))
            )
            for name, source in data.items()
        }
    large = _read_large_sites(data, columns)
    if large:
        return large
    raw = read_raw(data, "The table", columns)
    if not isinstance(raw, RawTable):
        raise InputError(
            f"by is '{columns.by}', and the data have no named columns; give a table.", "bad-option"
        )
    rows, notes = split_rows(raw.table, columns.by, raw.units)
    kept = tuple(column for column in raw.table.columns if column.name != columns.by)
    if not rows or not kept:
        raise InputError(
            f"Column '{columns.by}' of {raw.table.name} names no sites, or is its only column; give"
            " another one.",
            "bad-option",
        )
    sites: dict[str, Dataset | RawTable] = {}
    for name, chosen in rows.items():
        notes = () if sites else (*raw.table.notes, *notes)  # each note once
        table = replace(raw.table, columns=kept, notes=notes)
        sites[name] = replace(raw, table=table).take(chosen, name)
    return sites


def _read_large_sites(data: Any, columns: Columns) -> dict[str, Dataset | RawTable]:
    """The sites of one table that is read in batches; none if it is small.

    One pass finds the sites and the unit of rows, and one reads the rows of all sites. The sites
    together hold about `max_rows` rows.
    """
    by, batches = columns.by, _batches(data, None, columns)
    if by is None or batches is None:
        return {}
    ready, whole = _prepared(batches, columns).scan(columns.max_rows)
    whole.sample[by]  # raises InputError if it does not exist
    if not whole.sums[by].complete:
        return {}
    name_of = date_name if whole.sums[by].kind == "date" else level_name
    names = [v if isinstance(v, str) else name_of(v) for v in sorted(whole.sums[by].counts)]
    unit_name = _unit_name(whole.sample, columns)
    held = max(1000, columns.max_rows // max(1, len(names)))
    unit = None if unit_name is None else columns.unit
    own = replace(columns, by=None, drop=(*columns.drop, by), max_rows=held, unit=unit)
    found, said = ready.split(by, names, 2 * held, unit_name)
    notes = (*nameless_notes(batches.name, by, whole.sums[by].missing), *said)
    sites: dict[str, Dataset | RawTable] = {}
    for name, (rows, part) in found.items():
        if part.rows < 2 * held:
            raw = _as_raw(part.sample, own, unit_name)
        else:
            raw = _as_large(rows, thinned(replace(part, held=held)), own, unit_name)
        if not sites:  # each note once
            raw = replace(raw, table=replace(raw.table, notes=(*raw.table.notes, *notes)))
        sites[name] = raw
    return sites


def _batches(source: Any, name: str | None, columns: Columns) -> Batches | None:
    """The rows of a large table, some at a time; None if it must or may be read whole."""
    if columns.schema != "auto" or columns.elementwise or columns.weights is not None:
        return None
    return read_batches(source, name, **_options(source, columns), held=columns.max_rows)


def _options(source: Any, columns: Columns) -> dict[str, Any]:
    """The options with which a source is read, in batches or not."""
    used = {*map(condition_column, columns.where), columns.by, columns.unit, columns.weights}
    return {
        "missing": columns.missing,
        "drop": [name for name in columns.drop if name not in used],
        "label": columns.label,
        "encoding": columns.encoding,
        "header": columns.header,
        "query": columns.query if is_database(source) else None,
    }


def _read_pair(pair: Any, name: str, columns: Columns) -> Dataset | RawTable:
    """The data of a pair (X, y) of samples and labels."""
    raw = read_raw(pair[0], name, replace(columns, label=None))
    try:
        labels = as_labels(pair[1])
    except InputError as error:
        raise InputError(f"In {name}: {error}", error.code) from None
    if isinstance(raw, Dataset):
        return replace(raw, labels=labels)
    if labels.shape != (raw.table.rows,):
        raise InputError(
            f"{raw.table.rows} samples came with labels of shape {labels.shape}; give one label"
            " per sample.",
            "wrong-shape",
        )
    if columns.label is not None and columns.label in raw.table:
        raise InputError(
            f"{name} has labels beside its table and the label column '{columns.label}' in it; drop"
            " that column, or leave out the labels beside the table.",
            "conflicting-options",
        )
    return replace(raw, label=None, labels=labels, whole=None, batches=None)


def _read_file(path: Path, columns: Columns) -> Dataset | RawTable:
    check_file(path, FORMATS)
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".npz"):
        return _read_columns(path, None, columns)
    try:
        if suffix == ".npz":
            content = _read_npz(path)
        else:
            content = Dataset(Measure(np.load(path, allow_pickle=False), name=str(path)))
    except InputError:
        raise
    except Exception:  # readers raise many kinds of errors, and some of their messages quote data
        raise InputError(
            f"{path} cannot be read as {path.suffix}; is it a complete file written by NumPy,"
            " without objects in it?",
            "unreadable-file",
        ) from None
    _refuse_columns(columns, str(path))
    return content


def _refuse_columns(columns: Columns, name: str) -> None:
    """Raise InputError if something is said of the columns of data whose columns have no names."""
    options = ("drop", "label", "unit", "where", "keep", "category", "number", "weights", "query")
    for option in options:
        if getattr(columns, option) not in (None, (), AUTO):
            raise InputError(
                f"{name} has no named columns; {option} is for tables.",
                "no-columns" if option in ("drop", "label") else "bad-option",
            )


def _read_npz(path: Path) -> Dataset:
    """The array X, or the only one beside labels and weights, whatever its name."""
    with zipfile.ZipFile(path) as packed:
        check_bytes(sum(member.file_size for member in packed.infolist()), path)
    with np.load(path, allow_pickle=False) as archive:
        keys = list(archive.files)

        def first_of(*names: str) -> Any:
            return next((archive[name] for name in names if name in keys), None)

        others = [key for key in keys if key not in ("y", "labels", "weights", "w")]
        points = first_of(*others) if len(others) == 1 else first_of("X", "x", "points", "data")
        if points is None:
            raise InputError(
                f"{path} holds the arrays {', '.join(keys) or '(none)'}; name the samples X"
                " and their labels, if there are any, y.",
                "wrong-format",
            )
        labels, weights = first_of("y", "labels"), first_of("weights", "w")
    measure = Measure(points, weights, name=str(path))
    # A Measure drops samples of weight zero; their labels go too.
    if labels is not None and len(measure) < len(points) and labels.shape == weights.shape:
        labels = labels[weights > 0]
    return Dataset(measure, labels)
