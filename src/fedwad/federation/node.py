"""How a node of an engine opens a client beside its data."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from fedwad.federation.accountant import guarantee_warning
from fedwad.federation.client import Client
from fedwad.federation.columns import Columns
from fedwad.federation.ledger import FileLedger
from fedwad.federation.policy import Policy
from fedwad.federation.reading import read

__all__ = ["open_client"]


def open_client(
    data: str | Path,
    policy: str | Path,
    ledger: str | Path | None = None,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
) -> Client:
    """A client for the data in a file, with its policy and its ledger in two other files.

    Parameters
    ----------
    data : path of a .npy, .npz, .csv or .parquet file; named features are taken in alphabetical
        order
    policy : path of a TOML file, see `Policy.load`
    ledger : path of the ledger; by default beside the policy: `paris.toml` has
        `paris.ledger.jsonl`
    label_column : column of a table that is a label and not a feature
    drop : column or columns of a table that are not read
    """
    rules = Policy.load(policy)
    place = Path(policy).with_suffix(".ledger.jsonl") if ledger is None else Path(ledger)
    held = read(data, columns=Columns.of(label_column, drop)).by_name()
    record = FileLedger(place)
    if warning := guarantee_warning(record, rules):
        logging.getLogger("fedwad.client").warning("%s", warning)
    return Client(held, rules, record)
