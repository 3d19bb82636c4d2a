"""A federation whose clients live in this process, and the schema of tables on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from fedwad._checks import check_path
from fedwad.errors import DataWarning, FedwadError, InputError, PolicyError
from fedwad.federation.federation import Answer, Federation, NamedSites, Question
from fedwad.federation.schemas import (
    agreed_schema,
    private_schema,
    warn_conflicts,
    with_schema_text,
)
from fedwad.messages.message import Bundle, failure_of
from fedwad.privacy import check_draft
from fedwad.site.client import Client
from fedwad.site.columns import Columns
from fedwad.site.data import Dataset, align_columns
from fedwad.site.policy import Policy
from fedwad.site.raw import RawTable, as_dataset
from fedwad.site.reading import FORMATS, holder_notes, is_readable, read_raw, read_sites
from fedwad.site.store import Ledger
from fedwad.tables import HELD_ROWS, Schema, files_by_site, find_schema_conflicts, is_database


class LocalFederation(NamedSites):
    """Clients in this process. The clients of one round work in parallel threads.

    Questions bring the schema `sent` along, if the clients hold tables. `schema` is the same with
    what this side knows beside it: conflicts, and texts that stand for missing values.
    """

    in_process = True
    notes: tuple[str, ...] = ()  # what the holder of its tables should know, and no reply says

    def __init__(
        self,
        clients: Mapping[str, Client],
        features: tuple[str, ...] | None = None,
        schema: Schema | None = None,
        sent: Schema | None = None,
    ) -> None:
        if not clients:
            raise InputError("A federation needs at least one site.", "no-sites")
        self._clients = dict(clients)
        self.features = features
        self.schema = schema
        self._text = "" if sent is None else sent.to_request()
        self.schema_bytes = len(self._text)
        self.takers = frozenset(self._clients if self._text else ())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._clients)

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """Each client's own record of what was asked of it and what left it."""
        return {name: client.ledger for name, client in self._clients.items()}

    def dataset(self, name: str) -> Dataset:
        """The data of a client, for whoever holds them anyway; an algorithm has only `ask`."""
        return self._clients[name].dataset(self._text)

    def fingerprint(self, name: str) -> str:
        """A string that changes when the data of this client change."""
        return self._clients[name].fingerprint

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Ask each named client, all at the same time; return replies or failures."""
        import os
        from concurrent.futures import ThreadPoolExecutor

        clients = {name: self._clients[self[name].name] for name in requests}
        # One thread for each core: more would only wait for the interpreter.
        with ThreadPoolExecutor(max(1, min(len(clients), os.cpu_count() or 1))) as pool:
            futures: dict[str, Any] = {}
            for name, request in requests.items():
                question, client = with_schema_text(request, self._text), clients[name]
                answer: Any = client.answer_all if isinstance(question, Bundle) else client.answer
                futures[name] = pool.submit(answer, question)
        answers: dict[str, Answer] = {}
        for name, future in futures.items():
            try:
                answers[name] = future.result()
            except FedwadError as error:
                answers[name] = failure_of(error)
        return answers


def local(
    data: Mapping[str, Any] | Any,
    policy: Policy | None = None,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    schema: Schema | str | Path | None = "auto",
    missing: str | Iterable[str] | Mapping[str, Iterable[str]] = (),
    *,
    unit: str | None = "auto",
    by: str | None = None,
    where: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    category: str | Iterable[str] = (),
    number: str | Iterable[str] = (),
    weights: str | None = None,
    query: str | Mapping[str, str] | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    max_rows: int = HELD_ROWS,
) -> LocalFederation:
    """A federation of clients in this process, for trying things out and for tests.

    Parameters
    ----------
    data : mapping from site name to its data, paths of files, or with `by` one table
        A folder, or a list of files and folders, has a site for each file, which is named after
        it. In a mapping each is an array (n, d), a pair (X, y), a data frame, the path of a .npy,
        .npz, .csv, .tsv, .parquet or .xlsx file, the path of a folder whose files are one table, or
        the address of a database: "postgresql://host/name", "sqlite:///file.db" or
        "duckdb:///file.duckdb".
    policy : Policy, optional
        What all sites answer. Open by default, since the data are on this machine anyway.
    label_column : str, optional
        Column of tables that is a label and not a feature.
    drop : str or several, optional
        Columns of tables that are not read, such as a patient number.
    schema : "auto", Schema, path of a schema file, or None
        What the columns of tables (data frames, files with named columns) become. By default the
        sites agree on a schema, and a `DataWarning` names each conflict between them. With None,
        columns must be numbers, are taken as they are, and are put into alphabetical order. Arrays
        are always taken as they are.
    missing : str or several, or a mapping from columns to those, optional
        Texts that stand for a missing value, besides `?`, NA, NaN, null and nothing: in all columns
        of tables, or in the named ones, such as {"chol": ["0"]}.
    unit : str, optional
        Column that says which unit, such as a patient, a row belongs to. It is neither compared nor
        sent. By default a column that is named like an identifier and repeats; None if each row is
        a unit by itself.
    by : str, optional
        Column of one table that says to which site a row belongs. Rows of one unit stay together.
    where : str or several, optional
        Conditions that rows of tables must meet, such as "age>=18".
    keep : str or several, optional
        Columns of tables that alone are compared.
    category, number : str or several, optional
        Columns of tables that are of this kind, whatever they look like.
    weights : str, optional
        Column of tables with the weight of each row, such as that of a survey. Estimates, bounds
        and Table 1 are then about the weighted rows; no test is made of them.
    query : str, or a mapping from site names to those, optional
        The SELECT statement that databases answer, or the name of a table. It can only read.
    header : bool, optional
        Whether the first line of files names the columns. By default it does, and a first line with
        numbers or dates is refused.
    encoding, sheet : str, optional
        Of text files, and of Excel files.
    max_rows : int
        Rows that are held in memory. A file with at least twice as many is read in batches: counts,
        means, variances, levels and sums of cells are those of all rows, and everything else is
        measured on a random sample of so many rows.

    Examples
    --------
    >>> fed = local({"paris": [[0.0], [1.0]], "oslo": [[5.0], [6.0]]})
    >>> fed.names
    ('paris', 'oslo')
    >>> import pyarrow as pa
    >>> fed = local({"paris": pa.table({"age": [41, 52, 63]}), "oslo": pa.table({"age": [4.5, 7]})})
    >>> fed.schema["age"].becomes
    '(x - 33.5) / 23.715'
    """
    policy = Policy.open() if policy is None else policy
    columns = Columns.of(
        label_column,
        drop,
        missing,
        schema,
        unit=unit,
        by=by,
        where=where,
        keep=keep,
        category=category,
        number=number,
        weights=weights,
        query=None if isinstance(query, Mapping) else query,
        header=header,
        encoding=encoding,
        sheet=sheet,
        max_rows=max_rows,
    )
    paths = data if isinstance(data, list | tuple) else [data]
    if by is None and all(isinstance(one, str | Path) and not is_database(one) for one in paths):
        data = find_files(data)
    _check_arguments(data, policy, by)
    columns = replace(columns, elementwise=policy.is_private)
    site_data = read_sites(data, columns, query if isinstance(query, Mapping) else None)
    tables = [raw.table for raw in site_data.values() if isinstance(raw, RawTable)]
    for note in [note for table in tables for note in table.notes]:
        warnings.warn(note, DataWarning, stacklevel=2)
    federation = federate(site_data, columns, policy)
    federation.notes = holder_notes(site_data.values())
    if federation.schema is not None and (columns.schema == "auto" or not policy.is_private):
        warn_conflicts(federation.schema)
    return federation


def federate(
    site_data: Mapping[str, Dataset | RawTable], columns: Columns, policy: Policy
) -> LocalFederation:
    """A federation of data that were read by `columns`; the client of each site is built once.

    If all data are tables and no schema is given, the clients agree on one by messages, as the
    nodes of engines do. The schema of the federation lists the conflicts between it and the tables.
    """
    tables = {name: table for name, table in site_data.items() if isinstance(table, RawTable)}
    if columns.schema == "auto" and tables and len(tables) == len(site_data):
        clients = {name: Client(table, policy) for name, table in tables.items()}
        agreed = agreed_schema(LocalFederation(clients))
        for name, client in clients.items():
            try:
                client.dataset(agreed.to_request())
            except PolicyError:
                # A site tells a server less than its user, who may read what is wrong.
                tables[name].encode(agreed, policy.min_level_size)
                raise
        return LocalFederation(clients, agreed.feature_names, agreed, sent=agreed)
    given = columns.schema if isinstance(columns.schema, Schema) else None
    if given is not None and not policy.is_private:  # conflicts hold counts without noise
        found = [find_schema_conflicts(given, raw.table, site) for site, raw in tables.items()]
        given = replace(given, conflicts=tuple(chain.from_iterable(found)))
    min_rows = policy.min_level_size
    datasets = align_columns(
        {name: as_dataset(data, given, min_rows) for name, data in site_data.items()}
    )
    clients = {name: Client(data, policy) for name, data in datasets.items()}
    named = [data for data in datasets.values() if data.features is not None]
    return LocalFederation(clients, *((named[0].features, named[0].schema) if named else ()))


def find_files(data: Any) -> dict[str, Path]:
    """Files by the names of their sites; a folder stands for the readable files in it.

    A site is named after its file without ending; files of the same name are named by their paths.
    """
    single = isinstance(data, str | Path) or not isinstance(data, Iterable)
    paths = [check_path(path, "data") for path in ([data] if single else data)]
    files: list[Path] = []
    for path in paths:
        found = sorted(filter(is_readable, path.iterdir())) if path.is_dir() else [path]
        if not found:
            raise InputError(
                f"The folder {path} has no files that end in {' '.join(FORMATS)}.", "no-such-file"
            )
        files += found
    return files_by_site(files)


def _check_arguments(data: Any, policy: Any, by: str | None) -> None:
    if isinstance(data, Mapping) == (by is not None):
        came = "a mapping" if by is not None else f"a {type(data).__name__}"
        raise InputError(
            f"The sites came as {came}; give a mapping from names to data, or one table and the"
            " column that names the site of each row (by).",
            "bad-option",
        )
    if by is None and len({str(name) for name in data}) < len(data):
        raise InputError("Two sites have the same name; give each its own.", "repeated-site")
    if not isinstance(policy, Policy):
        raise InputError(
            f"policy is a {type(policy).__name__}; give a Policy, such as Policy.load(path).",
            "bad-option",
        )


def as_federation(source: Federation | Mapping[str, Any]) -> Federation:
    """A federation as it is, or the `local` federation of a mapping from site names to data."""
    return source if hasattr(source, "ask") else local(source)  # type: ignore[return-value]


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
    if epsilon is not None and draft is None:
        raise InputError(
            "A private schema cannot find names of levels, kinds and ranges; give a schema file"
            " that has them from public knowledge (draft).",
            "missing-option",
        )
    if epsilon is None and draft is not None:
        raise InputError("draft belongs to a private schema; add epsilon.", "missing-option")
    columns = Columns.of(label_column, drop, missing, "auto" if draft is None else draft)
    if not hasattr(data, "ask"):
        sources = data if isinstance(data, Mapping) else find_files(data)
        agreed = schema_of_tables(sources, columns, epsilon, delta)
    elif columns.label is not None or columns.drop or columns.missing:
        raise InputError(
            "label_column, drop and missing are settings of each site of a federation; leave them"
            " out.",
            "conflicting-options",
        )
    else:
        federation: Any = data
        agreed = (
            agreed_schema(federation)
            if epsilon is None
            else private_schema(federation, _draft_of(columns), epsilon, delta)
        )
    warn_conflicts(agreed)
    return agreed


def _draft_of(columns: Columns) -> Schema:
    if not isinstance(columns.schema, Schema):
        raise InputError(
            "draft must be a schema file, or a Schema that was read from one.", "bad-option"
        )
    check_draft(columns.schema)
    return columns.schema


def schema_of_tables(
    sources: Mapping[str, Any], columns: Columns, epsilon: float | None = None, delta: float = 1e-5
) -> Schema:
    """The schema that fits all tables on this machine; with an `epsilon` the private one, whose
    draft is `columns.schema`. InputError if a source is an array."""
    draft = None if epsilon is None else _draft_of(columns)
    columns = replace(columns, elementwise=draft is not None)
    tables = {str(name): read_raw(one, str(name), columns) for name, one in sources.items()}
    if epsilon is not None and draft is not None:
        policy = Policy(("describe", "private"), epsilon=epsilon, delta=delta)
        return private_schema(federate(tables, columns, policy), draft, epsilon, delta)
    for name, data in tables.items():
        if isinstance(data, Dataset):
            raise InputError(
                f"{name} is an array, without names of columns; a schema is about tables.",
                "not-a-table",
            )
    clients = {name: Client(table, Policy.open()) for name, table in tables.items()}
    return with_missing_values(agreed_schema(LocalFederation(clients)), columns)


def with_missing_values(schema: Schema, columns: Columns) -> Schema:
    """The schema with the texts that stand for missing values in one column, so that its file says
    them too."""
    texts = {column.name: columns.missing_in(column.name) for column in schema.compared_columns}
    return schema.edited({name: {"missing_values": own} for name, own in texts.items() if own})
