"""`fedwad node check DATA POLICY`: for data holders, before a node starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from fedwad._words import format_bytes
from fedwad.cli.columns import DataFile, LedgerFile, PolicyFile, TableOptions
from fedwad.cli.console import exit_on_error, make_table, print_json, print_text, screen
from fedwad.cli.option_groups import Json, expand_option_groups
from fedwad.cli.policy_check import (
    TRAINING_WARNING,
    Trial,
    reply_limits,
    try_requests,
    untried_kinds,
)
from fedwad.errors import InputError
from fedwad.federation import Client, Ledger, Policy, guarantee_warning, load_site_data, read_ledger

__all__ = ["check"]


@exit_on_error
@expand_option_groups
def check(
    data: DataFile,
    policy: PolicyFile,
    table_options: TableOptions,
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Which requests would a node with this data and this policy answer, and which refuse?

    The check tries all kinds of requests except training, on this machine; a schema only if the
    table waits for one. It sends nothing and does not change the ledger.
    """
    rules = Policy.load(policy)
    site_data = load_site_data(data, rules, table_options.columns)
    site_ledger = _read_ledger(policy.with_suffix(".ledger.jsonl") if ledger is None else ledger)
    warning = guarantee_warning(site_ledger, rules)
    trials = try_requests(Client(site_data, rules))
    if as_json:
        print_json(
            {
                "policy": asdict(rules),
                "queries": site_ledger.queries,
                "epsilon": rules.epsilon,
                "delta": rules.delta,
                "requests": [asdict(trial) for trial in trials],
                "warning": warning,
                "untried": untried_kinds(rules),
            }
        )
        return
    screen.print(f"Node [bold]{escape(rules.name)}[/] with {data} under {policy}", soft_wrap=True)
    screen.print(_table(trials))
    _print_refusals(trials)
    _print_limits(rules, site_ledger)
    if warning:
        screen.print(f"[bold red]Warning:[/] {escape(warning)}", soft_wrap=True)


def _read_ledger(path: Path) -> Ledger:
    """The ledger at `path`; empty if the file does not exist yet."""
    if not path.parent.is_dir():
        raise InputError(
            f"There is no folder {path.parent} for the ledger {path.name}; create it first."
        )
    return Ledger(read_ledger(path) if path.exists() else [])


def _table(trials: Sequence[Trial]) -> Table:
    titles = ("request", "", "smallest cell", "sends")
    table = make_table(*titles, left=("request", ""), no_wrap=True)
    for trial in trials:
        if trial.outcome == "answered":
            cell = str(trial.min_cell_size or "")
            table.add_row(trial.request, "[green]answered[/]", cell, format_bytes(trial.bytes))
        else:
            table.add_row(trial.request, "[red]refused[/]")
    return table


def _print_refusals(trials: Sequence[Trial]) -> None:
    for reason in dict.fromkeys(trial.reason for trial in trials if trial.reason):
        refused = ", ".join(trial.request for trial in trials if trial.reason == reason)
        print_text(f"Refused {refused}: {reason}")


def _print_limits(policy: Policy, site_ledger: Ledger) -> None:
    if untried_kinds(policy):
        print_text(f"Allowed and not tried: {', '.join(untried_kinds(policy))}. {TRAINING_WARNING}")
    for kind, most in reply_limits(policy).items():
        replies = f"{most} distinct repl{'y' if most == 1 else 'ies'}"
        print_text(f"Of {kind} at most {replies} will ever be sent; others are withheld.")
    limit = "no limit" if policy.max_queries is None else f"limit {policy.max_queries}"
    print_text(f"Queries answered so far: {site_ledger.queries} ({limit}).")
    if policy.epsilon is not None:
        print_text(_guarantee(policy, site_ledger))
    elif "private" not in policy.allow:
        print_text(
            "A policy is a precaution, not a privacy guarantee: it limits how many queries a"
            " server gets answered and how many samples each number averages."
        )


def _guarantee(policy: Policy, site_ledger: Ledger) -> str:
    """What differential privacy guarantees under this policy, and what is left of its budget."""
    from fedwad.privacy import epsilon_of

    if math.isinf(site_ledger.spent):
        return "Differential privacy: the guarantee has ended, see the warning."
    spent = epsilon_of(site_ledger.spent, policy.delta) if site_ledger.spent else 0.0
    return (
        f"Differential privacy: all releases together keep epsilon {policy.epsilon:g} at delta"
        f" {policy.delta:g} for each record, over the life of the data, if the clip norm and"
        f" the schema were chosen without the data. Spent so far: epsilon {spent:.3g}."
    )
