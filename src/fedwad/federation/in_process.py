"""A federation whose clients live in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedwad.errors import FedwadError, InputError
from fedwad.federation.batch import answer_batch
from fedwad.federation.bundle import Bundle
from fedwad.federation.client import Client
from fedwad.federation.columns import Columns
from fedwad.federation.data import Dataset, align_columns
from fedwad.federation.failures import failure_of
from fedwad.federation.federation import Answer, Federation, NamedSites, Question
from fedwad.federation.ledger import Ledger
from fedwad.federation.policy import Policy
from fedwad.federation.raw import RawTable, as_dataset, schema_with_conflicts
from fedwad.federation.reading import read_raw
from fedwad.federation.schemas import agreed_schema, send_schema, warn_conflicts
from fedwad.tables import Schema

__all__ = ["LocalFederation", "as_federation", "local"]


class LocalFederation(NamedSites):
    """Clients in this process. The clients of one round work in parallel threads."""

    in_process = True

    def __init__(
        self,
        clients: Mapping[str, Client],
        features: tuple[str, ...] | None = None,
        schema: Schema | None = None,
    ) -> None:
        if not clients:
            raise InputError("A federation needs at least one site.")
        self._clients = dict(clients)
        self.features = features
        self.schema = schema

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._clients)

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """Each client's own record of what was asked of it and what left it."""
        return {name: client.ledger for name, client in self._clients.items()}

    def fingerprint(self, name: str) -> str:
        """A string that changes when the data of this client change."""
        return self._clients[name].fingerprint

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Ask each named client, all at the same time; return replies or failures."""
        import os
        from concurrent.futures import ThreadPoolExecutor

        clients = {name: self._clients[self[name].name] for name in requests}
        can_batch = {getattr(type(request), "can_batch", False) for request in requests.values()}
        if len(requests) > 1 and can_batch == {True}:
            return dict(answer_batch(clients, requests))  # type: ignore[arg-type]
        # One thread for each core: more would only wait for the interpreter.
        with ThreadPoolExecutor(max(1, min(len(clients), os.cpu_count() or 1))) as pool:
            futures: dict[str, Future[Any]] = {}
            for name, request in requests.items():
                client = clients[name]
                answer = client.answer_all if isinstance(request, Bundle) else client.answer
                futures[name] = pool.submit(answer, request)  # type: ignore[arg-type]
        return {name: _reply_or_failure(future) for name, future in futures.items()}


def _reply_or_failure(future: Future[Any]) -> Answer:
    """The reply of a client, or the failure that its error stands for."""
    try:
        return future.result()  # type: ignore[no-any-return]
    except FedwadError as error:
        return failure_of(error)


def local(
    data: Mapping[str, Any],
    policy: Policy | None = None,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    schema: Schema | str | Path | None = "auto",
    missing: str | Iterable[str] | Mapping[str, Iterable[str]] = (),
) -> LocalFederation:
    """A federation of clients in this process, for trying things out and for tests.

    Parameters
    ----------
    data : mapping from site name to its data
        Each an array (n, d), a pair (X, y), a data frame, or the path of a .npy, .npz, .csv, .tsv,
        .parquet or .xlsx file.
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
    _check_arguments(data, policy)
    columns = replace(
        Columns.of(label_column, drop, missing, schema), elementwise=policy.is_private
    )
    site_data = {str(name): read_raw(source, str(name), columns) for name, source in data.items()}
    tables = {name: table for name, table in site_data.items() if isinstance(table, RawTable)}
    if columns.schema == "auto" and tables and len(tables) == len(site_data):
        federation = _with_agreed_schema(tables, policy)
        warn_conflicts(federation.schema or Schema(()))
        return federation
    given = columns.schema if isinstance(columns.schema, Schema) else None
    if given is not None and not policy.is_private:  # conflicts hold counts without noise
        given = schema_with_conflicts(given, tables)
        warn_conflicts(given)
    return _with_given_schema(site_data, given, policy)


def _check_arguments(data: Any, policy: Any) -> None:
    if not isinstance(data, Mapping):
        raise InputError(
            f"The sites came as a {type(data).__name__}; give a mapping from names to data."
        )
    if len({str(name) for name in data}) < len(data):
        raise InputError("Two sites have the same name; give each its own.")
    if not isinstance(policy, Policy):
        raise InputError(
            f"policy is a {type(policy).__name__}; give a Policy, such as Policy.load(path)."
        )


def _with_agreed_schema(tables: Mapping[str, RawTable], policy: Policy) -> LocalFederation:
    """Clients that agree on a schema by messages, as the nodes of engines do."""
    clients = {name: Client(table, policy) for name, table in tables.items()}
    federation = LocalFederation(clients)
    schema = agreed_schema(federation)
    send_schema(federation, schema)
    return LocalFederation(clients, schema.feature_names, schema)


def _with_given_schema(
    site_data: Mapping[str, Dataset | RawTable], schema: Schema | None, policy: Policy
) -> LocalFederation:
    """Clients whose tables are encoded by the schema, or without one are numbers as they are."""
    min_rows = policy.min_level_size
    datasets = align_columns(
        {name: as_dataset(data, schema, min_rows) for name, data in site_data.items()}
    )
    clients = {name: Client(data, policy) for name, data in datasets.items()}
    for data in datasets.values():
        if data.features is not None:
            return LocalFederation(clients, data.features, data.schema)
    return LocalFederation(clients)


def as_federation(source: Federation | Mapping[str, Any]) -> Federation:
    """A federation as it is, or the `local` federation of a mapping from site names to data."""
    return source if hasattr(source, "ask") else local(source)  # type: ignore[return-value]
