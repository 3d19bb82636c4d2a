"""`fedwad.schema`: what the columns of sites' tables become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedwad.errors import InputError
from fedwad.federation.client import Client
from fedwad.federation.columns import Columns
from fedwad.federation.data import Dataset
from fedwad.federation.federation import Federation
from fedwad.federation.local import LocalFederation
from fedwad.federation.policy import Policy
from fedwad.federation.raw import RawTable
from fedwad.federation.reading import is_readable, read_raw
from fedwad.federation.schemas import agreed_schema, warn_conflicts
from fedwad.tables import Schema

__all__ = ["agreed_between", "schema"]


def schema(
    data: Federation | Mapping[str, Any] | str | Path | Iterable[str | Path],
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    missing: str | Iterable[str] | Mapping[str, Iterable[str]] | None = None,
) -> Schema:
    """The schema that sites agree on, from one message of each.

    Each site sends the names and kinds of its columns, counts, the number of missing values, means
    and sums of squares, and counts of levels; a level with fewer than `min_cell_size` rows at a
    site leaves it only as "other". A `DataWarning` names each conflict between the sites; they are
    also in `conflicts` of the result.

    Parameters
    ----------
    data : a federation, a mapping from site names to tables, or files or folders of them
    label_column : column that is a label and not a feature; nodes have their own setting
    drop : columns that are not read, such as a patient number; nodes have their own setting
    missing : texts that stand for a missing value, in all columns or, by a mapping, in some; nodes
        have their own setting

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema({"paris": pa.table({"age": [41, 52, 63]}), "oslo": pa.table({"age": [4.5, 7]})})
    Schema of 1 columns, encoded as 1 numbers per row
    column  kind    becomes              missing
    age     number  (x - 33.5) / 23.715  refuse
    """
    columns = Columns.of(label_column, drop, missing, "auto")
    agreed = _marked(agreed_schema(_federation(data, columns)), columns)
    warn_conflicts(agreed)
    return agreed


def _federation(data: Any, columns: Columns) -> Federation:
    if not hasattr(data, "ask"):
        return _raw_federation(data if isinstance(data, Mapping) else _files(data), columns)
    if columns != Columns(schema="auto"):
        raise InputError(
            "label_column, drop and missing are settings of each site of a federation; leave them"
            " out."
        )
    federation: Federation = data
    return federation


def _files(data: str | Path | Iterable[str | Path]) -> dict[str, Path]:
    """Files by the names of their sites, folders replaced by what is in them."""
    paths = [Path(data)] if isinstance(data, str | Path) else [Path(path) for path in data]
    found: list[Path] = []
    for path in paths:
        found += sorted(filter(is_readable, path.iterdir())) if path.is_dir() else [path]
    return {path.name.partition(".")[0]: path for path in found}


def _raw_federation(sources: Mapping[str, Any], columns: Columns) -> LocalFederation:
    held = {str(name): read_raw(source, str(name), columns) for name, source in sources.items()}
    return _of_tables(held)


def agreed_between(held: Mapping[str, Dataset | RawTable], columns: Columns) -> Schema:
    """The schema of tables that were read as `columns` says; InputError if one is an array."""
    return _marked(agreed_schema(_of_tables(held)), columns)


def _marked(schema: Schema, columns: Columns) -> Schema:
    """The schema with the values that stand for missing ones, so that its file says them too."""
    marks = {column.name: columns.missing_in(column.name) for column in schema.used}
    return schema.edited(
        {name: {"missing_values": found} for name, found in marks.items() if found}
    )


def _of_tables(held: Mapping[str, Dataset | RawTable]) -> LocalFederation:
    for name, data in held.items():
        if isinstance(data, Dataset):
            raise InputError(
                f"{name} is an array, without names of columns; a schema is about tables."
            )
    return LocalFederation({name: Client(data, Policy.open()) for name, data in held.items()})
