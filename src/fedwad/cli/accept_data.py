"""`fedwad node accept-data DATA POLICY`: let a node answer about a new version of its data."""

from __future__ import annotations

from typing import Annotated

import typer

from fedwad.cli.columns import DataFile, LedgerFile, PolicyFile, TableOptions
from fedwad.cli.console import exit_on_error, print_text
from fedwad.cli.option_groups import expand_option_groups
from fedwad.errors import InputError
from fedwad.federation import FileLedger, Policy, accept_data, load_site_data

__all__ = ["accept"]


@exit_on_error
@expand_option_groups
def accept(
    data: DataFile,
    policy: PolicyFile,
    table_options: TableOptions,
    ledger: LedgerFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept without a question.")] = False,
) -> None:
    """Allow requests about data that changed since the first query.

    Whoever has replies about two versions of the data can subtract them. The sum of the records
    that joined or left is then known. If it is a single record, it is known exactly.
    """
    rules = Policy.load(policy)
    path = policy.with_suffix(".ledger.jsonl") if ledger is None else ledger
    if not path.exists():
        raise InputError(f"There is no ledger {path}, so any data can be asked about.")
    site_data = load_site_data(data, rules, table_options.columns)
    site_ledger = FileLedger(path)
    print_text(
        f"{site_ledger.queries} queries were answered about the data so far. Whoever has those"
        " replies and new ones can subtract them: the sum of the records that joined or left is"
        " then known, and a single one exactly. Under an epsilon the budget goes on over all"
        " versions."
    )
    if not yes:
        typer.confirm("Let the data as they are now be asked about?", abort=True)
    is_new = accept_data(site_data, rules, site_ledger)
    print_text("Accepted." if is_new else "These are the data that the ledger is about already.")
