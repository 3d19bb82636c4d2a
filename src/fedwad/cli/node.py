"""`fedwad node check DATA POLICY`: for those who hold data, before anybody asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from fedwad.cli.columns import Drop, LabelColumn
from fedwad.cli.console import bytes_in_words, guarded, print_json, screen
from fedwad.errors import FedwadError, InputError
from fedwad.federation import (
    AtomsRequest,
    CellsRequest,
    Client,
    Columns,
    DescribeRequest,
    LabelsRequest,
    Ledger,
    MomentsRequest,
    Policy,
    PrivateRequest,
    PrototypesRequest,
    Request,
    SummaryRequest,
    TransportRequest,
    guarantee_warning,
    read,
    read_ledger,
)
from fedwad.ot import Measure
from fedwad.privacy import DP

__all__ = ["UNTRIED", "Json", "check", "untried"]

UNTRIED = "What the weights of a trained network give away of your records is neither limited nor audited."

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


@guarded
def check(
    data: Annotated[
        Path, typer.Argument(help="The data: .npy, .npz, .csv or .parquet.", show_default=False)
    ],
    policy: Annotated[Path, typer.Argument(help="The policy, a .toml file.", show_default=False)],
    label_column: LabelColumn = None,
    drop: Drop = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="The node's ledger; beside the policy when left out. It is only read."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What would a node with this data and this policy answer, and what would it refuse?

    Asks the client everything that fedwad can ask but to train, here on this machine. Nothing is
    sent and the ledger stays as it is.
    """
    rules = Policy.load(policy)
    dataset = read(data, columns=Columns.of(label_column, drop)).by_name()
    client = Client(dataset, rules)
    place = policy.with_suffix(".ledger.jsonl") if ledger is None else ledger
    if not place.parent.is_dir():
        raise InputError(
            f"There is no folder {place.parent} for the ledger {place.name}; create it first."
        )
    record = Ledger(read_ledger(place) if place.exists() else [])
    warning = guarantee_warning(record, rules)
    trials = [
        _tried(client, name, request)
        for name, request in _questions(rules, dataset.measure.dimension)
    ]
    if as_json:
        facts = {
            "policy": asdict(rules),
            "queries": record.queries,
            "requests": trials,
            "warning": warning,
        }
        print_json(facts | {"untried": untried(rules)})
        return
    screen.print(f"Node [bold]{escape(rules.name)}[/] with {data} under {policy}", soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("request", "", "smallest cell", "sends"):
        table.add_column(
            title, justify="right" if title in ("smallest cell", "sends") else "left", no_wrap=True
        )
    for trial in trials:
        if trial["outcome"] == "answered":
            min_cell_size = str(trial["min_cell_size"]) if trial["min_cell_size"] else ""
            table.add_row(
                trial["request"],
                "[green]answered[/]",
                min_cell_size,
                bytes_in_words(trial["bytes"]),
            )
        else:
            table.add_row(trial["request"], "[red]refused[/]")
    screen.print(table)
    for reason in dict.fromkeys(trial["reason"] for trial in trials if trial["reason"]):
        refused = [trial["request"] for trial in trials if trial["reason"] == reason]
        screen.print(f"Refused {', '.join(refused)}: {reason}", soft_wrap=True, markup=False)
    if untried(rules):
        screen.print(
            f"Allowed and not tried: {', '.join(untried(rules))}. {UNTRIED}", soft_wrap=True
        )
    for kind, most in _different(rules).items():
        different = f"{most} different repl{'y' if most == 1 else 'ies'}"
        screen.print(
            f"Of {kind} only {different} will ever be told, the first asked for; others are withheld.",
            soft_wrap=True,
        )
    cap = "no cap" if rules.max_queries is None else f"of {rules.max_queries}"
    screen.print(
        f"Looks at the data so far: {record.queries}, {cap}.\n"
        "A policy is hygiene, no privacy guarantee: it limits how many looks a server gets and how many samples each"
        " number averages.",
        soft_wrap=True,
    )
    if warning:
        screen.print(f"[bold red]Mind:[/] {warning}", soft_wrap=True)


def untried(rules: Policy) -> list[str]:
    """Kinds that a policy allows and that no check and no attack tries."""
    return [kind for kind in ("train", "evaluate") if kind in rules.allow]


def _different(rules: Policy) -> Mapping[str, int]:
    """How many replies may differ from each other, by the words for their kind."""
    rule = rules.max_distinct_replies
    if rule is None:
        return {}
    return (
        {f"kind '{kind}'": most for kind, most in rule.items()}
        if isinstance(rule, Mapping)
        else {"each kind but describe and private": rule}
    )


def _questions(rules: Policy, features: int) -> Iterator[tuple[str, Request]]:
    """One question of each kind, and of kinds that are answered at all more, up to what no policy
    should allow."""
    rng = np.random.default_rng(0)
    support = {size: Measure(rng.standard_normal((size, features))) for size in (1, 10, 100)}
    uneven = Measure(support[10].points, np.arange(1, 11))

    def sizes(kind: str) -> tuple[int, ...]:
        return (1, 10, 100) if kind in rules.allow else (10,)

    yield "describe", DescribeRequest()
    yield "moments", MomentsRequest()
    for size in sizes("summary"):
        yield f"summary, {size} cell{'s' if size > 1 else ''}", SummaryRequest(size, "auto", 2.0, 0)
    if "summary" in rules.allow:
        yield "summary by class", SummaryRequest(1, "auto", 2.0, 0, "diag")
        yield "summary of order 10", SummaryRequest(1, "auto", 10.0, 0)
    epsilon = min(1.0, rules.epsilon or 1.0)
    yield f"private, epsilon {epsilon:g}", PrivateRequest.of(DP(epsilon, rules.delta, 1.0))
    for size in sizes("transport"):
        request = TransportRequest("check", support[size], 0.5, 2.0, "barycentric", False)
        yield f"round, {size} points", request
    if "transport" in rules.allow:
        yield (
            "round, unequal weights",
            TransportRequest("check", uneven, 0.5, 2.0, "barycentric", False),
        )
        yield (
            "round, exact interpolant",
            TransportRequest("check", support[1], 0.5, 2.0, "exact", False),
        )
    for size in sizes("cells"):
        yield f"cells, {size} points", CellsRequest("check", support[size], 2.0, "auto")
    yield "sums of cells, 10 atoms", AtomsRequest(support[10].points, np.zeros(10), 0.0)
    yield "names of labels", LabelsRequest()
    yield "10 prototypes", PrototypesRequest(10, "class", "equal", 0)


def _tried(client: Client, name: str, request: Request) -> dict[str, Any]:
    reason, before = "", len(client.ledger.entries)
    try:
        client.answer(request)
    except FedwadError as error:
        reason = str(error)
    entry = client.ledger.entries[-1]
    del client.ledger.entries[before:]  # each question is tried as if it were the next
    return {
        "request": name,
        "kind": entry.kind,
        "outcome": entry.outcome,
        "min_cell_size": entry.min_cell_size,
        "bytes": entry.bytes,
        "reason": reason,
    }
