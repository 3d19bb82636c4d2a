"""Why sites differ, on the command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

import fedwad
from fedwad._explain.text import change_in_words, percent
from fedwad.cli.console import make_table, print_text, screen

__all__ = ["Explain", "explanation_in_json", "show_explanation"]

Explain = Annotated[
    bool,
    typer.Option("--explain", help="Print each column's contribution to the squared distance."),
]

_MAX_COLUMNS = 3  # without --explain


def explanation_in_json(explanation: fedwad.Explanation) -> dict[str, Any]:
    """Return what `--json` adds to a result: columns, the largest excess first, and dependence."""
    content = explanation.to_dict()
    return {name: content[name] for name in ("columns", "dependence", "notes")} | {
        "explanation": content["text"]
    }


def show_explanation(explanation: fedwad.Explanation, all_columns: bool) -> None:
    """Print the three columns that matter most, or all columns."""
    if all_columns:
        _show_all(explanation)
        return
    causes = explanation.causes[:_MAX_COLUMNS]
    if not causes or explanation.only_dependence:
        print_text(explanation.text)
        return
    print_text("Columns that differ most, and their part of the difference beyond chance:")
    table = Table.grid(padding=(0, 2))
    for name in causes:
        index = explanation.names.index(name)
        excess = percent(float(explanation.excess[index]))
        table.add_row("", escape(name), excess, escape(change_in_words(explanation, index)))
    screen.print(table)
    more = len(explanation.causes) - len(causes)
    if more:
        print_text(f"  and {more} more; --explain prints all.")


def _show_all(explanation: fedwad.Explanation) -> None:
    print_text(explanation.text)
    titles = ("column", "excess", "mean", "spread", "rest", "of samples", "change")
    table = make_table(*titles, left=("column", "change"))
    numbers = (explanation.location, explanation.scale, explanation.rest, explanation.share)
    for index in explanation.order:
        excess, error = explanation.excess[index], explanation.excess_std[index]
        table.add_row(
            escape(explanation.names[index]),
            f"{percent(excess)} ± {percent(error)}",
            *(percent(float(part[index])) for part in numbers),
            escape(change_in_words(explanation, index)),
            style=None if explanation.significant[index] else "dim",
        )
    screen.print(table)
    for pair in explanation.dependence:
        print_text(
            f"Correlation of {pair.first} and {pair.second}: {pair.here:.2f} and {pair.there:.2f}."
        )
