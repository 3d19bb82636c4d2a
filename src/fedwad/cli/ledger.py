"""`fedwad ledger show FILE`: for those who hold data, what was asked and what left."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedwad.cli.console import bytes_in_words, guarded, print_json, screen
from fedwad.cli.node import Json
from fedwad.federation import Entry, read_ledger

__all__ = ["show"]

_LATEST = 20


@guarded
def show(
    file: Annotated[
        Path, typer.Argument(help="A node's ledger, a .jsonl file.", show_default=False)
    ],
    everything: Annotated[
        bool, typer.Option("--all", help=f"Show all entries, not only the last {_LATEST}.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What was asked of a node, and what left it?"""
    entries = read_ledger(file)
    if as_json:
        print_json({"entries": [asdict(entry) for entry in entries], **_totals(entries)})
        return
    shown = entries if everything else entries[-_LATEST:]
    table = Table(
        box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold"
    )  # fits into 80 columns
    for title in ("when (UTC)", "request", "outcome", "sent", "smallest cell", "reply"):
        table.add_column(
            title, justify="right" if title in ("sent", "smallest cell") else "left", no_wrap=True
        )
    for entry in shown:
        left = entry.outcome in ("answered", "repeated")
        table.add_row(
            entry.when[:19].replace("T", " "),
            escape(entry.kind),
            entry.outcome,
            bytes_in_words(entry.bytes) if left else "",
            str(entry.min_cell_size) if left and entry.min_cell_size else "",
            entry.digest[:10],
        )
    screen.print(table)
    for (outcome, kind, reason), count in Counter(
        (entry.outcome, entry.kind, entry.reason) for entry in shown if entry.reason
    ).items():
        told = "".join(letter for letter in reason if letter.isprintable())
        screen.print(
            f"{outcome.capitalize()} {count} x {kind}: {told}", soft_wrap=True, markup=False
        )
    totals = _totals(entries)
    screen.print(
        f"{len(entries)} requests ({len(shown)} shown): {totals['answered']} answered, {totals['repeated']} repeated,"
        f" {totals['refused']} refused, {totals['withheld']} withheld, {totals['torn']} cut by a crash.\n"
        f"{totals['queries']} look{'' if totals['queries'] == 1 else 's'} at the data,"
        f" {bytes_in_words(totals['bytes'])} sent in all.",
        soft_wrap=True,
    )


def _totals(entries: list[Entry]) -> dict[str, int]:
    outcomes = Counter(entry.outcome for entry in entries)
    return {
        **{
            name: outcomes[name] for name in ("answered", "repeated", "refused", "withheld", "torn")
        },
        "queries": sum(entry.is_look for entry in entries),
        "bytes": sum(entry.bytes for entry in entries),
    }
