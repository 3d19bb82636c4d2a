"""`fedwad budget show LEDGER`: how much of a privacy budget is spent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from fedwad.cli.console import exit_on_error, make_table, print_json, print_text, screen
from fedwad.cli.option_groups import Json
from fedwad.federation import Entry, Ledger, Policy, read_ledger
from fedwad.privacy import check_budget, compose, epsilon_of, mu_of

__all__ = ["show_budget"]


@exit_on_error
def show_budget(
    file: Annotated[
        Path, typer.Argument(help="A node's ledger, a .jsonl file.", show_default=False)
    ],
    policy: Annotated[
        Path | None,
        typer.Option(
            help="The node's policy; by default the one beside the ledger.", show_default=False
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="The delta at which epsilon is shown, if no policy has one.")
    ] = 1e-5,
    as_json: Json = False,
) -> None:
    """Show the privacy budget that a node's releases have spent, and what is left."""
    entries = read_ledger(file)
    rules = _policy_of(file, policy)
    if rules is not None:
        delta = rules.delta
    check_budget(1.0, delta)
    budget = _compute_budget(Ledger(entries), rules, delta)
    if as_json:
        print_json(budget)
    else:
        _show(budget)


def _policy_of(ledger: Path, policy: Path | None) -> Policy | None:
    """The given policy, or the one beside the ledger if there is one."""
    beside = ledger.with_name(ledger.name.removesuffix(".ledger.jsonl") + ".toml")
    if policy is None and ledger.name.endswith(".ledger.jsonl") and beside.exists():
        policy = beside
    return None if policy is None else Policy.load(policy)


def _show(budget: dict[str, Any]) -> None:
    titles = ("data", "releases", "repeated", "mu", f"epsilon at delta {budget['delta']:g}")
    table = make_table(*titles, left=("data",))
    for row in budget["data"]:
        table.add_row(
            row["data"][:16],
            str(row["releases"]),
            str(row["answered"] - row["finished"]),
            f"{row['mu']:.4g}",
            f"{row['epsilon']:.4g}",
        )
    if budget["data"]:
        screen.print(table)
    print_text(_summarize(budget))


def _compute_budget(ledger: Ledger, rules: Policy | None, delta: float) -> dict[str, Any]:
    """What was spent on each version of the data and in all, and what the policy leaves."""
    private = [entry for entry in ledger.entries if entry.kind == "private"]
    spent = compose(entry.mu for entry in private)
    return {
        "data": _spent_by_data(private, delta),
        "delta": delta,
        "mu": spent,
        "epsilon": epsilon_of(spent, delta),
        **_remaining(None if rules is None else rules.epsilon, ledger.spent, delta),
        "refused": sum(entry.count for entry in private if entry.outcome == "refused"),
        "without_privacy": sum(
            entry.count for entry in ledger.entries if entry.is_query and entry.kind != "private"
        ),
    }


def _spent_by_data(private: list[Entry], delta: float) -> list[dict[str, Any]]:
    """A row for each version of the data, whose digest is `data`.

    A release has a line "answered" each time that it is sent; `finished` counts it once.
    """
    rows = []
    for data in dict.fromkeys(entry.data for entry in private if entry.outcome != "refused"):
        entries = [entry for entry in private if entry.data == data]
        mu = compose(entry.mu for entry in entries)
        answered = [entry.digest for entry in entries if entry.outcome == "answered"]
        rows.append(
            {
                "data": data,
                "releases": sum(entry.outcome == "spent" for entry in entries),
                "answered": len(answered),
                "finished": len(set(answered)),
                "mu": mu,
                "epsilon": epsilon_of(mu, delta),
            }
        )
    return rows


def _remaining(granted: float | None, spent: float, delta: float) -> dict[str, float | None]:
    """The policy's epsilon, and the largest epsilon of a further release.

    `spent` is infinite, and nothing is left, if replies without noise were sent too.
    """
    if granted is None:
        return {"granted": None, "left": None}
    left = math.sqrt(max(0.0, mu_of(granted, delta) ** 2 - spent**2))
    return {"granted": granted, "left": epsilon_of(left, delta)}


def _summarize(budget: dict[str, Any]) -> str:
    """The budget in one or two sentences, and a warning if other replies have left the node."""
    if not budget["data"]:
        text = "No private release was made yet: nothing is spent"
    else:
        text = f"Spent in all: epsilon {budget['epsilon']:.4g} (mu {budget['mu']:.4g})"
    if budget["granted"] is not None:
        text += (
            f" of {budget['granted']:g}; a further release can have epsilon up to"
            f" {budget['left']:.4g}"
        )
    text += f". {budget['refused']} requests were refused."
    if budget["without_privacy"]:
        text += (
            f"\nWarning: {budget['without_privacy']} replies or unreadable lines are not private,"
            " so there is no guarantee for these data, and no further private release is made."
        )
    return text
