"""Why sites differ, on the command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

import fedwad
from fedwad._explain.text import change_in_words, percent
from fedwad.cli.console import screen

__all__ = ["Explain", "explained_json", "show_explanation"]

Explain = Annotated[
    bool,
    typer.Option("--explain", help="Print each column's contribution to the squared distance."),
]

_MAX_NAMED = 3


def explained_json(found: fedwad.Explanation) -> dict[str, Any]:
    """Return what `--json` adds to a result: columns, the largest excess first, and dependence."""
    content = found.to_dict()
    return {name: content[name] for name in ("columns", "dependence", "notes")} | {
        "explanation": content["text"]
    }


def show_explanation(found: fedwad.Explanation, everything: bool) -> None:
    """Print the three columns that matter most, or all."""
    if everything:
        _show_all(found)
        return
    causes = found.causes[:_MAX_NAMED]
    if not causes or found.only_dependence:
        screen.print(found.text, markup=False, soft_wrap=True)
        return
    screen.print("Columns that differ most, and their part of the difference beyond chance:")
    table = Table.grid(padding=(0, 2))
    for name in causes:
        index = found.names.index(name)
        part = f"{percent(float(found.excess[index]))}"
        table.add_row("", escape(name), part, escape(change_in_words(found, index)))
    screen.print(table)
    more = len(found.causes) - len(causes)
    if more:
        screen.print(f"  and {more} more; --explain prints all.")


def _show_all(found: fedwad.Explanation) -> None:
    screen.print(found.text, markup=False, soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("column", "excess", "mean", "spread", "rest", "of samples", "change"):
        table.add_column(name, justify="left" if name in ("column", "change") else "right")
    for index in found.order:
        parts = [getattr(found, part)[index] for part in ("location", "scale", "rest", "share")]
        excess = f"{percent(found.excess[index])} ± {percent(found.excess_std[index])}"
        change = change_in_words(found, index)
        row = [found.names[index], excess, *(percent(float(part)) for part in parts), change]
        table.add_row(*map(escape, row), style=None if found.significant[index] else "dim")
    screen.print(table)
    for one in found.dependence:
        screen.print(
            f"Correlation of {one.first} and {one.second}: {one.here:.2f} and {one.there:.2f}.",
            markup=False,
            soft_wrap=True,
        )
