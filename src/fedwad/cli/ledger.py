"""`fedwad ledger` and `fedwad budget`: what was requested, what left, and what was spent."""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fedwad._files import write_atomically
from fedwad._words import format_bytes, pluralize, to_printable
from fedwad.cli.console import make_table, print_json, print_text, screen
from fedwad.cli.options import Json
from fedwad.federation import Entry, Policy, open_view
from fedwad.privacy import check_budget, compose, epsilon_of, mu_of
from fedwad.statistics.blocking import SMALLEST

#: What a reply of each kind holds, by the fields of its message, in words.
WHAT_LEAVES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("what_leaves.toml").read_text(encoding="utf-8")
)


_SENT = ("answered", "repeated")

LedgerArgument = Annotated[Path, "The ledger of a node, a .sqlite file."]


def show(
    file: LedgerArgument,
    *,
    everything: Annotated[bool, typer.Option("--all")] = False,
    receipt: bool = False,
    as_json: Json = False,
) -> None:
    """What was requested from a node, by whom and what for, and what did it send?

    Example: `fedwad ledger show paris.ledger.sqlite`

    Parameters
    ----------
    everything : show all entries, not only the last 20
    receipt : say of each reply what left, in words and numbers
    """
    ledger = open_view(file)
    entries = list(ledger.entries)
    outcomes: Counter[str] = Counter()
    for entry in entries:
        outcomes[entry.outcome] += entry.count
    # Other outcomes are no requests: a private release that was "spent" is "answered" too.
    totals = {name: outcomes[name] for name in ("answered", "repeated", "refused", "withheld")}
    totals |= {"requests": sum(totals.values()), "queries": ledger.queries}
    totals["bytes"] = sum(entry.bytes for entry in entries)
    if as_json:
        print_json({"entries": [asdict(entry) for entry in entries], **totals})
        return
    shown = entries if everything else entries[-20:]
    if receipt:
        _print_receipt(shown)
    else:
        screen.print(_table(shown))
        reasons: Counter[tuple[str, str, str]] = Counter()
        for entry in shown:
            reasons[entry.outcome, entry.kind, entry.reason] += entry.count
        for (outcome, kind, reason), count in reasons.items():
            if reason:
                print_text(to_printable(f"{outcome.capitalize()} {count} x {kind}: {reason}"))
    print_text(
        f"{totals['requests']} requests in {pluralize(len(entries), 'entry', 'entries')}"
        f" ({len(shown)} shown): {totals['answered']} answered, {totals['repeated']} repeated,"
        f" {totals['refused']} refused, {totals['withheld']} withheld.\n"
        f"{pluralize(ledger.queries, 'query', 'queries')} counted against the limit,"
        f" {format_bytes(totals['bytes'])} sent in total."
    )
    if ledger.totals.revoked:
        print_text("All answers are stopped (`fedwad node revoke`).")


def export(file: LedgerArgument, *, out: Path | None = None) -> None:
    """Write all entries as JSON lines, with the seals that chain them.

    Example: `fedwad ledger export paris.ledger.sqlite`

    Parameters
    ----------
    out : the file to write; standard output when left out
    """
    text = "".join(json.dumps(row) + "\n" for row in open_view(file).rows())
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(out, text)


def verify(file: LedgerArgument, *, as_json: Json = False) -> None:
    """Is every entry as it was written, and is none missing?

    `LEDGER.head` beside the file names the last entry; without it, missing last ones are not found.
    The seals find accidents and careless edits, not an operator who writes the whole file anew.

    Example: `fedwad ledger verify paris.ledger.sqlite`
    """
    ledger = open_view(file)
    ledger.check_chain()
    if as_json:
        print_json({"entries": len(ledger), "intact": True})
    else:
        print_text(f"{pluralize(len(ledger), 'entry', 'entries')}, each as it was written.")


def _table(entries: Sequence[Entry]) -> Table:
    """A table with one row for each entry, which fits into 80 columns."""
    titles = ["when (UTC)", "request", "outcome", "sent", "smallest cell"]
    by_whom = [name for name in ("requester", "purpose") if any(getattr(e, name) for e in entries)]
    table = make_table(*titles, *by_whom, left=(*titles[:3], *by_whom), no_wrap=True)
    for entry in entries:
        sent = entry.outcome in _SENT
        table.add_row(
            entry.when[:19].replace("T", " "),
            escape(to_printable(entry.kind)),
            entry.outcome,
            format_bytes(entry.bytes) if sent else "",
            str(entry.min_cell_size or "") if sent else "",
            *(escape(to_printable(getattr(entry, name))) for name in by_whom),
        )
    return table


def _print_receipt(entries: Sequence[Entry]) -> None:
    """A line for each reply that left: when, to whom, what for, and what was in it."""
    for entry in entries:
        if entry.outcome not in _SENT or not entry.values:
            continue
        words = WHAT_LEAVES.get(entry.kind, {})
        content = "; ".join(
            f"{words.get(part.split()[0], '') or part.split()[0]}: {part.partition(' ')[2]}"
            for part in entry.content.split("; ")
        )
        to = f" to {entry.requester}" if entry.requester else ""
        purpose = f" for {entry.purpose}" if entry.purpose else ""
        least, sent = "", {part.split()[0] for part in entry.content.split("; ")}
        if entry.min_cell_size:
            groups = "means and levels" if entry.kind == "columns" else "cells"
            groups = "labels" if entry.kind == "labels" else groups
            least = f"; {groups} have at least {entry.min_cell_size} records"
            least += f", blocks at least {SMALLEST}" if "blocks" in sent else ""
        again = ", as sent before" if entry.outcome == "repeated" else ""
        print_text(
            to_printable(
                f"{entry.when[:19].replace('T', ' ')} {entry.kind}{to}{purpose}{again}:"
                f" {pluralize(entry.values, 'value')}{least}. {content}."
            )
        )


def show_budget(
    file: LedgerArgument, *, policy: Path | None = None, delta: float = 1e-5, as_json: Json = False
) -> None:
    """Show the privacy budget that a node's releases have spent, and what is left.

    Example: `fedwad budget show paris.ledger.sqlite`

    Parameters
    ----------
    policy : the node's policy; by default the one beside the ledger
    delta : the delta at which epsilon is shown, if no policy has one
    """
    # A policy is beside its ledger.
    beside = file.with_name(file.name.removesuffix(".ledger.sqlite") + ".toml")
    if policy is None and file.name.endswith(".ledger.sqlite") and beside.exists():
        policy = beside
    granted = None
    if policy is not None:
        rules = Policy.load(policy)
        delta, granted = rules.delta, rules.epsilon
    check_budget(1.0, delta)
    ledger = open_view(file)
    private = [entry for entry in ledger.entries if entry.kind == "private"]
    spent, left = compose(entry.mu for entry in private), None
    if granted is not None:
        # What the ledger spent is infinite, and nothing is left, if replies without noise were
        # sent too.
        left = epsilon_of(math.sqrt(max(0.0, mu_of(granted, delta) ** 2 - ledger.spent**2)), delta)
    budget: dict[str, Any] = {
        "releases": sum(entry.outcome == "spent" for entry in private),
        "delta": delta,
        "mu": spent,
        "epsilon": epsilon_of(spent, delta),
        "granted": granted,
        "left": left,
        "refused": sum(entry.count for entry in private if entry.outcome == "refused"),
        "without_privacy": sum(
            entry.count for entry in ledger.entries if entry.is_query and entry.kind != "private"
        ),
    }
    if as_json:
        print_json(budget)
        return
    print_text(_summarize(budget))


def _summarize(budget: dict[str, Any]) -> str:
    """The budget in one or two sentences, and a warning if other replies have left the node."""
    text = "No private release was made yet: nothing is spent"
    if budget["releases"]:
        text = (
            f"{pluralize(budget['releases'], 'release')} spent, over all versions of the data, at"
            f" delta {budget['delta']:g}: epsilon {budget['epsilon']:.4g} (mu {budget['mu']:.4g})"
        )
    if budget["granted"] is not None:
        text += (
            f" of {budget['granted']:g}; a further release can have epsilon up to"
            f" {budget['left']:.4g}"
        )
    text += f". {budget['refused']} requests were refused."
    if budget["without_privacy"]:
        text += (
            f"\nWarning: {budget['without_privacy']} replies are not private,"
            " so there is no guarantee for these data, and no further private release is made."
        )
    return text
