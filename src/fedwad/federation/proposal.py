"""`fedwad.schema`: how the columns of the sites' tables are encoded."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedwad._checks import check_path
from fedwad.errors import DataWarning, InputError
from fedwad.federation.client import Client
from fedwad.federation.columns import Columns
from fedwad.federation.data import Dataset
from fedwad.federation.federation import Federation
from fedwad.federation.in_process import LocalFederation, local
from fedwad.federation.policy import Policy
from fedwad.federation.raw import RawTable
from fedwad.federation.reading import is_readable, read_raw
from fedwad.federation.schemas import agreed_schema, private_schema, warn_conflicts
from fedwad.privacy import check_budget, check_draft
from fedwad.tables import Schema

__all__ = ["private_schema_of_tables", "schema", "schema_of_tables"]


def schema(
    data: Federation | Mapping[str, Any] | str | Path | Iterable[str | Path],
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    missing: str | Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    draft: Schema | str | Path | None = None,
) -> Schema:
    """The schema that sites agree on, from one message of each.

    Each site sends the names and kinds of its columns, counts, the number of missing values, means
    and sums of squares, and counts of levels; a level with fewer than `min_cell_size` rows at a
    site is sent only as "other". A `DataWarning` names each conflict between the sites; `conflicts`
    of the result lists them.

    Parameters
    ----------
    data : a federation, a mapping from site names to tables, or files or folders of them
    label_column : column that is a label and not a feature; nodes have their own setting
    drop : columns that are not read, such as a patient number; nodes have their own setting
    missing : texts that stand for a missing value, in all columns or, by a mapping, in some; nodes
        have their own setting
    epsilon, delta : make the schema under differential privacy, by one release of each site, which
        its budget pays for; the schema may then be used as if it were public
    draft : schema file, or Schema read from one, with the names and kinds of columns, the `range`
        of each number and the levels of each category, all from public knowledge; needed with
        `epsilon`, because noise cannot find them. The sites of a federation must have been given
        it as their schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema({"paris": pa.table({"age": [41, 52, 63]}), "oslo": pa.table({"age": [4.5, 7]})})
    Schema of 1 columns, encoded as 1 numbers per row
    column  kind    becomes              missing
    age     number  (x - 33.5) / 23.715  refuse
    """
    if epsilon is not None or draft is not None:
        _check_private(epsilon, draft)
        columns = Columns.of(label_column, drop, missing, draft)
        return _private_schema(data, columns, epsilon, delta)
    columns = Columns.of(label_column, drop, missing, "auto")
    agreed = _with_missing_values(agreed_schema(_federation(data, columns)), columns)
    warn_conflicts(agreed)
    return agreed


def _check_private(epsilon: Any, draft: Any) -> None:
    if draft is None:
        raise InputError(
            "A private schema cannot find names of levels, kinds and ranges; give a schema file"
            " that has them from public knowledge (draft)."
        )
    if epsilon is None:
        raise InputError("draft belongs to a private schema; add epsilon.")


def _private_schema(data: Any, columns: Columns, epsilon: Any, delta: float) -> Schema:
    if hasattr(data, "ask"):
        _refuse_settings(columns)
        agreed = private_schema(data, _draft_of(columns), epsilon, delta)
    else:
        sources = data if isinstance(data, Mapping) else _files(data)
        agreed = private_schema_of_tables(sources, columns, epsilon, delta)
    warn_conflicts(agreed, stacklevel=4)
    return agreed


def private_schema_of_tables(
    sources: Mapping[str, Any], columns: Columns, epsilon: float, delta: float
) -> Schema:
    """The private schema of tables on this machine; `columns.schema` is its draft."""
    draft = _draft_of(columns)
    check_draft(draft)
    check_budget(epsilon, delta)
    policy = Policy(("describe", "private"), epsilon=epsilon, delta=delta)
    with warnings.catch_warnings():  # a draft need not fit the data, so its conflicts are no news
        warnings.simplefilter("ignore", DataWarning)
        federation = local(sources, policy, columns.label, columns.drop, draft, columns.missing)
    return private_schema(federation, draft, epsilon, delta)


def _draft_of(columns: Columns) -> Schema:
    if not isinstance(columns.schema, Schema):
        raise InputError("draft must be a schema file, or a Schema that was read from one.")
    return columns.schema


def _federation(data: Any, columns: Columns) -> Federation:
    if hasattr(data, "ask"):
        _refuse_settings(columns)
        federation: Federation = data
        return federation
    sources = data if isinstance(data, Mapping) else _files(data)
    return _federation_of_tables(
        {str(name): read_raw(source, str(name), columns) for name, source in sources.items()}
    )


def _refuse_settings(columns: Columns) -> None:
    if columns.label is not None or columns.drop or columns.missing:
        raise InputError(
            "label_column, drop and missing are settings of each site of a federation; leave them"
            " out."
        )


def _files(data: Any) -> dict[str, Path]:
    """Files by the names of their sites; a folder stands for the readable files in it.

    A site is named after its file without ending; files of the same name are named by their paths.
    """
    single = isinstance(data, str | Path) or not isinstance(data, Iterable)
    paths = [check_path(path, "data") for path in ([data] if single else data)]
    files: list[Path] = []
    for path in paths:
        files += sorted(filter(is_readable, path.iterdir())) if path.is_dir() else [path]
    stems = [path.name.partition(".")[0] for path in files]
    return {
        stem if stems.count(stem) == 1 else str(path): path
        for stem, path in zip(stems, files, strict=True)
    }


def schema_of_tables(tables: Mapping[str, Dataset | RawTable], columns: Columns) -> Schema:
    """The schema that fits all these tables, which were read by `columns`; InputError if one is an
    array."""
    return _with_missing_values(agreed_schema(_federation_of_tables(tables)), columns)


def _with_missing_values(schema: Schema, columns: Columns) -> Schema:
    """The schema with the texts that stand for missing values in one column, so that its file says
    them too."""
    texts = {column.name: columns.missing_in(column.name) for column in schema.compared_columns}
    return schema.edited({name: {"missing_values": own} for name, own in texts.items() if own})


def _federation_of_tables(tables: Mapping[str, Dataset | RawTable]) -> LocalFederation:
    for name, data in tables.items():
        if isinstance(data, Dataset):
            raise InputError(
                f"{name} is an array, without names of columns; a schema is about tables."
            )
    return LocalFederation({name: Client(data, Policy.open()) for name, data in tables.items()})
