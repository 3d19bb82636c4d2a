"""`fedwad ledger show FILE`: for data holders, what was requested and what was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedwad._words import format_bytes
from fedwad.cli.console import exit_on_error, make_table, print_json, print_text, screen
from fedwad.cli.option_groups import Json
from fedwad.federation import Entry, Ledger, read_ledger

__all__ = ["show"]

_LATEST = 20  # entries that are shown without --all
_OUTCOMES = ("answered", "repeated", "refused", "withheld", "torn")


@exit_on_error
def show(
    file: Annotated[
        Path, typer.Argument(help="The ledger of a node, a .jsonl file.", show_default=False)
    ],
    everything: Annotated[
        bool, typer.Option("--all", help=f"Show all entries, not only the last {_LATEST}.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What was requested from a node, and what did it send?"""
    entries = read_ledger(file)
    if as_json:
        print_json({"entries": [asdict(entry) for entry in entries], **_totals(entries)})
        return
    shown = entries if everything else entries[-_LATEST:]
    screen.print(_table(shown))
    _print_reasons(shown)
    _print_totals(entries, len(shown))


def _table(entries: Sequence[Entry]) -> Table:
    """A table with one row for each entry, which fits into 80 columns."""
    titles = ("when (UTC)", "request", "outcome", "sent", "smallest cell", "reply")
    table = make_table(*titles, left=(*titles[:3], "reply"), no_wrap=True)
    for entry in entries:
        sent = entry.outcome in ("answered", "repeated")
        table.add_row(
            entry.when[:19].replace("T", " "),
            escape(entry.kind),
            entry.outcome,
            format_bytes(entry.bytes) if sent else "",
            str(entry.min_cell_size or "") if sent else "",
            entry.digest[:10],
        )
    return table


def _print_reasons(entries: Sequence[Entry]) -> None:
    reasons: Counter[tuple[str, str, str]] = Counter()
    for entry in entries:
        reasons[entry.outcome, entry.kind, entry.reason] += entry.count
    for (outcome, kind, reason), count in reasons.items():
        if reason:
            printable = "".join(character for character in reason if character.isprintable())
            print_text(f"{outcome.capitalize()} {count} x {kind}: {printable}")


def _print_totals(entries: list[Entry], shown: int) -> None:
    totals = _totals(entries)
    queries = f"{totals['queries']} quer{'y' if totals['queries'] == 1 else 'ies'}"
    print_text(
        f"{totals['requests']} requests in {len(entries)} lines ({shown} shown):"
        f" {totals['answered']} answered,"
        f" {totals['repeated']} repeated, {totals['refused']} refused,"
        f" {totals['withheld']} withheld, {totals['torn']} unreadable.\n"
        f"{queries} counted against the limit, {format_bytes(totals['bytes'])} sent in total."
    )


def _totals(entries: list[Entry]) -> dict[str, int]:
    outcomes: Counter[str] = Counter()
    for entry in entries:
        outcomes[entry.outcome] += entry.count
    totals = {name: outcomes[name] for name in _OUTCOMES}
    sent = sum(entry.bytes for entry in entries)
    # Lines "spent" and "accepted" are not requests: a private release has a line "answered" too.
    requests = sum(totals.values())
    return {**totals, "requests": requests, "queries": Ledger(entries).queries, "bytes": sent}
