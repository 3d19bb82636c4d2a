"""`fedwad budget show LEDGER`: what of a privacy budget is spent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedwad.cli.console import guarded, print_json, screen
from fedwad.federation import Ledger, Policy, read_ledger
from fedwad.privacy import check_budget, composed, epsilon_of, mu_of

__all__ = ["show_budget"]


@guarded
def show_budget(
    file: Annotated[
        Path, typer.Argument(help="A node's ledger, a .jsonl file.", show_default=False)
    ],
    policy: Annotated[
        Path | None,
        typer.Option(
            help="The node's policy; beside the ledger when left out.", show_default=False
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="For which delta to tell epsilon, if no policy tells it.")
    ] = 1e-5,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """What have private releases of a node cost, and what is left?"""
    entries = read_ledger(file)
    beside = file.with_name(file.name.removesuffix(".ledger.jsonl") + ".toml")
    place = policy or (beside if file.name.endswith(".ledger.jsonl") and beside.exists() else None)
    rules = None if place is None else Policy.load(place)
    if rules is not None:
        delta = rules.delta
    check_budget(1.0, delta)
    found = _found(Ledger(entries), rules, delta)
    if as_json:
        print_json(found)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("data", "releases", "told again", "mu", f"epsilon at delta {delta:g}"):
        table.add_column(title, justify="left" if title == "data" else "right")
    for row in found["data"]:
        told = str(row["answered"] - row["finished"])
        table.add_row(
            row["data"][:16],
            str(row["releases"]),
            told,
            f"{row['mu']:.4g}",
            f"{row['epsilon']:.4g}",
        )
    if found["data"]:
        screen.print(table)
    screen.print(_words(found), soft_wrap=True)


def _found(ledger: Ledger, rules: Policy | None, delta: float) -> dict[str, Any]:
    rows = []
    private = [entry for entry in ledger.entries if entry.kind == "private"]
    for data in dict.fromkeys(entry.data for entry in private if entry.outcome != "refused"):
        mine = [entry for entry in private if entry.data == data]
        mu = composed(entry.mu for entry in mine)
        answered = [entry.digest for entry in mine if entry.outcome == "answered"]
        releases = sum(entry.outcome == "spent" for entry in mine)
        rows.append(
            {
                "data": data,
                "releases": releases,
                "answered": len(answered),
                "finished": len(set(answered)),
                "mu": mu,
                "epsilon": epsilon_of(mu, delta),
            }
        )
    spent = composed(entry.mu for entry in private)
    granted = None if rules is None or rules.epsilon is None else rules.epsilon
    limit = None if granted is None else mu_of(granted, delta)
    left = None if limit is None else math.sqrt(max(0.0, limit**2 - spent**2))
    return {
        "data": rows,
        "delta": delta,
        "mu": spent,
        "epsilon": epsilon_of(spent, delta),
        "granted": granted,
        "left": None if left is None else epsilon_of(left, delta),
        "refused": sum(entry.outcome == "refused" for entry in private),
        "without_privacy": sum(
            entry.is_query and entry.kind != "private" for entry in ledger.entries
        ),
    }


def _words(found: dict[str, Any]) -> str:
    if not found["data"]:
        told = "No private release was made yet: nothing is spent"
    else:
        told = f"Spent in all: epsilon {found['epsilon']:.4g} (mu {found['mu']:.4g})"
    if found["granted"] is not None:
        told += f" of {found['granted']:g}; a further release can have epsilon up to {found['left']:.4g}"
    told += f". {found['refused']} requests were refused."
    if found["without_privacy"]:
        told += (
            f"\nMind: {found['without_privacy']} answers or unreadable lines are not private, so nothing is promised"
            " for these data, and no further private release is made."
        )
    return told
