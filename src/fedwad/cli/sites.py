"""From the files and folders on the command line to the data of sites."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedwad._words import to_printable
from fedwad.cli.console import stderr, use_option_names
from fedwad.errors import InputError
from fedwad.federation import (
    FORMATS,
    Columns,
    Dataset,
    RawTable,
    align_columns,
    as_dataset,
    is_readable,
    read_raw,
    schema_of_tables,
    schema_with_conflicts,
)
from fedwad.tables import Schema, check_file

__all__ = [
    "find_files",
    "find_one_file",
    "find_several",
    "read_files",
    "schema_of",
    "schema_warnings",
    "show_conflicts",
    "show_schema",
]

_MOST_WARNINGS = 10


def find_files(sources: Sequence[str]) -> dict[str, Path]:
    """Return files by the name of their site.

    A source is a file, a folder of readable files, or a pattern. A site is named after its file
    without ending; files of the same name are named by their paths.
    """
    paths = [path for source in sources for path in _files_of(source)]
    distinct = list({path.resolve(): path for path in paths}.values())
    stems = Counter(map(_stem, distinct))
    return {_stem(path) if stems[_stem(path)] == 1 else str(path): path for path in distinct}


def find_several(sources: Sequence[str], purpose: str) -> dict[str, Path]:
    """Return files by the name of their site; InputError unless they are at least two.

    `purpose` is what needs several files, such as "a matrix", for that error.
    """
    files = find_files(sources)
    if len(files) < 2:
        (path,) = files.values()
        check_file(path, FORMATS)
        repeated = sum(len(_files_of(source)) for source in sources) > 1
        problem = f"The file {path} came more than once" if repeated else f"Only {path} came"
        raise InputError(
            f"{problem}; {purpose} needs at least two different files, one for each site."
        )
    return files


def find_one_file(source: str) -> tuple[str, Path]:
    """Return the name of a site and its file; InputError if the source names several."""
    files = find_files([source])
    if len(files) != 1:
        raise InputError(f"{source} holds {len(files)} files; give one file.")
    return next(iter(files.items()))


def _stem(path: Path) -> str:
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def _files_of(source: str) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        return _files_in(path)
    if path.exists() or (is_readable(path) and not _is_pattern(source)):
        return [path]
    if _is_pattern(source):
        matches = sorted(Path(match) for match in glob.glob(source, recursive=True))  # noqa: PTH207
        if not matches:
            raise InputError(f"No file matches {source}; check the pattern.")
        return matches
    may_be_site = not path.suffix and len(path.parts) == 1
    hint = ", or add --engine and --connect if it is a site" if may_be_site else ""
    raise InputError(f"There is no file or folder {source}; check the path{hint}.")


def _files_in(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if is_readable(file))
    if not files:
        raise InputError(f"The folder {folder} has no files that end in {' '.join(FORMATS)}.")
    return files


def _is_pattern(source: str) -> bool:
    return any(sign in source for sign in "*?[")


def read_files(files: Mapping[str, str | Path], columns: Columns) -> dict[str, Dataset]:
    """Return the data of these files, encoded by one schema if they are tables.

    The function prints to standard error: a schema that the sites agree on, its conflicts, and a
    warning where a table does not fit a given schema.
    """
    raw = {name: read_raw(path, columns=columns) for name, path in files.items()}
    tables = {name: data for name, data in raw.items() if isinstance(data, RawTable)}
    for note in [note for data in tables.values() for note in data.table.notes]:
        stderr.print(f"Warning: {note}", soft_wrap=True, markup=False)
    schema = columns.schema
    if schema == "auto":
        schema = None
        if tables and len(tables) == len(raw):  # no site has an array
            schema = schema_of_tables(tables, columns)
            show_schema(schema)
    elif schema is not None:
        schema = schema_with_conflicts(schema, tables)
        show_conflicts(schema)
    return align_columns({name: as_dataset(data, schema) for name, data in raw.items()})


def show_schema(schema: Schema) -> None:
    """Print what a schema does in a few lines, and a warning for each conflict."""
    for line in schema.description_lines():
        stderr.print(to_printable(line), soft_wrap=True, markup=False)
    show_conflicts(schema)


def schema_of(data: Mapping[str, Dataset]) -> Schema | None:
    """Return the schema that encoded these data, if one did."""
    return next((dataset.schema for dataset in data.values()), None)


def schema_warnings(schema: Schema | None) -> list[str]:
    """Return a sentence for each column on which sites disagree; it names command line options."""
    conflicts = () if schema is None else schema.conflicts
    return [use_option_names(to_printable(conflict.sentence)) for conflict in conflicts]


def show_conflicts(schema: Schema) -> None:
    """Print a warning for each conflict, for at most ten of them."""
    sentences = schema_warnings(schema)
    for sentence in sentences[:_MOST_WARNINGS]:
        stderr.print(f"Warning: {sentence}", soft_wrap=True, markup=False)
    if len(sentences) > _MOST_WARNINGS:
        stderr.print(f"Warning: {len(sentences) - _MOST_WARNINGS} more conflicts.")
