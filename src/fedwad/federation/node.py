"""How a node of an engine opens a client beside its data."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from fedwad.federation._ledger_file import FileLedger
from fedwad.federation.accountant import guarantee_warning
from fedwad.federation.client import Client
from fedwad.federation.columns import Columns
from fedwad.federation.context import ClientContext
from fedwad.federation.data import Dataset
from fedwad.federation.ledger import Ledger
from fedwad.federation.policy import Policy
from fedwad.federation.raw import RawTable, as_dataset
from fedwad.federation.reading import read_raw
from fedwad.tables import Schema

__all__ = ["accept_data", "load_site_data", "open_client"]


def open_client(
    data: str | Path,
    policy: str | Path,
    ledger: str | Path | None = None,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    missing: str | Iterable[str] = (),
    schema: str | Path | None = "auto",
) -> Client:
    """A client for the data in a file, with its policy and its ledger in two other files.

    Parameters
    ----------
    data : path of a .npy, .npz, .csv, .tsv, .parquet or .xlsx file
    policy : path of a TOML file, see `Policy.load`
    ledger : path of the ledger; by default beside the policy: `paris.toml` has
        `paris.ledger.jsonl`
    label_column : column of a table that is a label and not a feature
    drop : column or columns of a table that are not read
    missing : text or texts that stand for a missing value, in all columns or in one ("chol=0")
    schema : path of the site's own schema file; "none" for columns of numbers as they are. By
        default a table takes the schema that the sites agree on, if the policy allows "schema" and
        "encode", and is otherwise read as numbers
    """
    loaded_policy = Policy.load(policy)
    path = Path(policy).with_suffix(".ledger.jsonl") if ledger is None else Path(ledger)
    columns = Columns.of(label_column, drop, missing, schema)
    site_data = load_site_data(data, loaded_policy, columns)
    file_ledger = FileLedger(path)
    if warning := guarantee_warning(file_ledger, loaded_policy):
        logging.getLogger("fedwad.client").warning("%s", warning)
    return Client(site_data, loaded_policy, file_ledger)


def accept_data(data: Dataset | RawTable, policy: Policy, ledger: Ledger) -> bool:
    """Let these data be asked about under a ledger with replies about an earlier version.

    Return whether they are a new version. Whoever has replies about both versions can subtract
    them: the difference reveals the sum of the records that joined or left, and a single such
    record exactly.
    """
    digest = ClientContext(data, policy, Ledger()).digest
    with ledger.lock():
        if ledger.data_version in ("", digest):
            return False
        ledger.accept_data(digest)
    return True


def load_site_data(source: str | Path, policy: Policy, columns: Columns) -> Dataset | RawTable:
    """The data of a node: a table if sites may agree on its schema, otherwise encoded data."""
    data = read_raw(source, columns=replace(columns, elementwise=policy.is_private))
    takes_schema = columns.schema == "auto" and {"schema", "encode"} <= set(policy.allow)
    if isinstance(data, RawTable) and takes_schema:
        return data
    own_schema = columns.schema if isinstance(columns.schema, Schema) else None
    return as_dataset(data, own_schema, policy.min_level_size).sort_features()
