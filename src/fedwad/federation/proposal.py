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

__all__ = ["schema"]


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
    column  kind    becomes               missing
    age     number  (x - 33.5) / 23.8474  refuse
    """
    columns = Columns.of(label_column, drop, missing, "auto")
    agreed = agreed_schema(_federation(data, columns))
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
    clients = {}
    for name, source in sources.items():
        held: Dataset | RawTable = read_raw(source, str(name), columns)
        if isinstance(held, Dataset):
            raise InputError(
                f"{name} is an array, without names of columns; a schema is about tables."
            )
        clients[str(name)] = Client(held, Policy.open())
    return LocalFederation(clients)
