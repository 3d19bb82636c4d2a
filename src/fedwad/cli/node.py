"""`fedwad node`: check what a node would answer, run one, and stop its answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.markup import escape

from fedwad._words import format_bytes
from fedwad.cli.console import Bar, make_table, print_json, print_text, progress_bar, screen
from fedwad.cli.options import Data, Json, LedgerFile, OptionGroup, PolicyFile, SiteOptions
from fedwad.errors import FedwadError, InputError
from fedwad.federation import (
    AtomsRequest,
    CellsRequest,
    Client,
    ColumnsRequest,
    DescribeRequest,
    FileLedger,
    LabelsRequest,
    Ledger,
    Policy,
    PrivateRequest,
    PrototypesRequest,
    RawTable,
    Request,
    SummaryRequest,
    TransportRequest,
    accept_data,
    load_site_data,
    open_view,
)
from fedwad.privacy import DP, epsilon_of
from fedwad.site.client import ledger_beside
from fedwad.site.reading import holder_notes
from fedwad.site.store import guarantee_warning
from fedwad.tables import agree, redact
from fedwad.transport import Measure

TRAINING_WARNING = (
    "What the weights of a trained network reveal about your records is not limited: a server that"
    " chooses the weights can read records from one update, or by counting right answers. Allow it"
    " only to a server to which you would show your data; fedwad audit --method training shows"
    " what comes back."
)
_SENT = ("answered", "repeated")


#: One request in words, the kind, outcome, smallest cell, values and bytes of its ledger entry, and
#: why it was refused, which is empty otherwise.
Trial = dict[str, Any]


def try_requests(client: Client, bar: Bar) -> list[Trial]:
    """Try one request of each kind except training, and several of some kinds that are allowed.

    Some are requests that no policy should allow. Each is tried with a copy of the client's ledger,
    as if it were the next, which then says what became of it. Requests about a table bring the
    schema on which sites with the same table agree.
    """
    text = ""
    if client.table is None:
        features = client.data.measure.dimension
    else:
        schema = agree({"this site": client.table.profile(client.policy.min_cell_size)})
        text, features = schema.to_toml(), schema.width
    trials = []
    for name, request in _requests(client.policy, features):
        bar.line(f"Trying: {name}")
        reason, copy = "", client.with_copied_ledger()
        try:
            copy.answer(replace(request, schema=text if request.needs_encoding else ""))
        except FedwadError as error:
            reason = str(error)
        last = asdict(copy.ledger.entries[-1])
        of_entry = ("kind", "outcome", "min_cell_size", "values", "bytes")
        trials.append({"request": name, **{key: last[key] for key in of_entry}, "reason": reason})
    return trials


def untried_kinds(policy: Policy) -> list[str]:
    """The kinds of requests that a policy allows and that `try_requests` does not try."""
    return [kind for kind in ("train", "evaluate") if kind in policy.allow]


def _requests(policy: Policy, features: int) -> Iterator[tuple[str, Request]]:
    """The requests to try, in words and as messages; of kinds that are refused, a single one."""
    rng = np.random.default_rng(0)
    supports = {size: Measure(rng.standard_normal((size, features))) for size in (1, 10, 100)}

    def sizes(kind: str) -> list[int]:
        return [*supports] if kind in policy.allow else [10]

    def transport(
        support: Measure, interpolant: Literal["barycentric", "exact"]
    ) -> TransportRequest:
        return TransportRequest("check", support, 2.0, 0.5, interpolant, False)

    yield "describe", DescribeRequest()
    yield "columns", ColumnsRequest()
    for size in sizes("summary"):
        yield f"summary, {size} cell{'s' if size > 1 else ''}", SummaryRequest(size, "auto", 2.0, 0)
    if "summary" in policy.allow:
        yield "summary by class", SummaryRequest(1, "auto", 2.0, 0, "diag")
        yield "summary of order 10", SummaryRequest(1, "auto", 10.0, 0)
    epsilon = min(1.0, policy.epsilon or 1.0)
    guarantee = DP(epsilon, delta=policy.delta, clip_norm=1.0)
    yield f"private, epsilon {epsilon:g}", PrivateRequest.of(guarantee)
    for size in sizes("transport"):
        yield f"round, {size} points", transport(supports[size], "barycentric")
    if "transport" in policy.allow:
        unequal = Measure(supports[10].points, np.arange(1, 11))
        yield "round, unequal weights", transport(unequal, "barycentric")
        yield "round, exact interpolant", transport(supports[1], "exact")
    for size in sizes("cells"):
        yield f"cells, {size} points", CellsRequest("check", supports[size], 2.0, "auto")
    yield "sums of cells, 10 atoms", AtomsRequest(supports[10].points, np.zeros(10), 0.0)
    yield "names of labels", LabelsRequest()
    yield "10 prototypes", PrototypesRequest(10, "class", "equal", 0)


def check(
    data: Data,
    policy: PolicyFile,
    *,
    table_options: SiteOptions,
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Which requests would a node with this data and this policy answer, and which refuse?

    The check tries all kinds of requests except training, on this machine, each as if it were the
    next one after those in the ledger; a schema only if the table waits for one. It sends nothing
    and does not change the ledger.

    Example: `fedwad node check paris.csv paris.toml`
    """
    rules = Policy.load(policy)
    with progress_bar("Reading the table"):
        site_data = load_site_data(data, rules, table_options.columns)
    path = ledger_beside(policy) if ledger is None else ledger
    if not path.parent.is_dir():
        raise InputError(
            f"There is no folder {path.parent} for the ledger {path.name}; create it first.",
            "no-such-file",
        )
    site_ledger = open_view(path) if path.exists() else Ledger()
    site_ledger.check_chain()
    closed = ""  # why the node would answer nothing, whatever its policy allows
    if site_ledger.totals.revoked:
        closed = "The node answers nothing: its operator revoked all answers."
    elif site_ledger.totals.data_version not in ("", Client(site_data, rules).data_version):
        closed = (
            "The node does not start: the data changed since the first query; decide with"
            " `fedwad node accept-data`."
        )
    warning = closed or guarantee_warning(site_ledger, rules)
    # The schema of these trials stands for the one in which the sites agreed to ask.
    schemas = rules.max_schemas and rules.max_schemas + 1
    tried = replace(rules, max_schemas=schemas)
    with progress_bar("Trying the requests") as bar:
        trials = try_requests(Client(site_data, tried, None if closed else site_ledger), bar)
    for trial in trials:
        if closed and trial["outcome"] in _SENT:
            trial.update(outcome="refused", values=0, bytes=0, reason=closed)
    if as_json:
        print_json(
            {
                "policy": asdict(rules),
                "queries": site_ledger.queries,
                "epsilon": rules.epsilon,
                "delta": rules.delta,
                "requests": trials,
                "warning": warning,
                "untried": untried_kinds(rules),
            }
        )
        return
    screen.print(
        f"Node [bold]{escape(rules.name)}[/] with {escape(redact(data))} under {policy}",
        soft_wrap=True,
    )
    titles = ("request", "", "smallest cell", "values", "sends")
    table = make_table(*titles, left=("request", ""), no_wrap=True)
    for trial in trials:
        if trial["outcome"] in _SENT:
            numbers = str(trial["min_cell_size"] or ""), f"{trial['values']:,}"
            sent = f"[green]{trial['outcome']}[/]"
            table.add_row(trial["request"], sent, *numbers, format_bytes(trial["bytes"]))
        else:
            table.add_row(trial["request"], f"[red]{trial['outcome']}[/]")
    screen.print(table)
    if isinstance(site_data, RawTable):
        rows, columns = site_data.rows, len(site_data.table.columns)
    else:
        rows, columns = len(site_data.measure), site_data.measure.dimension
    print_text(f"Your data: {rows:,} rows of {columns:,} columns, {rows * columns:,} values.")
    refused: dict[tuple[str, str], list[str]] = {}
    for trial in trials:
        if trial["reason"]:
            refused.setdefault((trial["outcome"], trial["reason"]), []).append(trial["request"])
    for (outcome, reason), alike in refused.items():
        print_text(f"{outcome.capitalize()} {', '.join(alike)}: {reason}")
    _print_limits(rules, site_ledger)
    for note in holder_notes([site_data]):
        print_text(f"Warning: {note}")
    if warning:
        screen.print(f"[bold red]Warning:[/] {escape(warning)}", soft_wrap=True)


def _print_limits(policy: Policy, site_ledger: Ledger) -> None:
    if untried_kinds(policy):
        print_text(f"Allowed and not tried: {', '.join(untried_kinds(policy))}. {TRAINING_WARNING}")
    limits = policy.max_distinct_replies
    if isinstance(limits, int):
        limits = {"each kind except describe and private": limits}
    else:
        limits = {f"kind '{kind}'": number for kind, number in dict(limits or {}).items()}
    for kind, most in limits.items():
        replies = f"{most} distinct repl{'y' if most == 1 else 'ies'}"
        print_text(f"Of {kind} at most {replies} will ever be sent; others are withheld.")
    limit = "no limit" if policy.max_queries is None else f"limit {policy.max_queries}"
    print_text(f"Queries counted so far, withheld ones too: {site_ledger.queries} ({limit}).")
    if policy.epsilon is not None and math.isinf(site_ledger.spent):
        print_text("Differential privacy: the guarantee has ended, see the warning.")
    elif policy.epsilon is not None:
        spent = epsilon_of(site_ledger.spent, policy.delta) if site_ledger.spent else 0.0
        print_text(
            f"Differential privacy: all releases together keep epsilon {policy.epsilon:g} at delta"
            f" {policy.delta:g} for each record, over the life of the data, if the clip norm and"
            f" the schema were chosen without the data. Spent so far: epsilon {spent:.3g}."
        )
    elif "private" not in policy.allow:
        print_text(
            "A policy is a precaution, not a privacy guarantee: it limits how many queries a"
            " server gets answered and how many samples each number averages."
        )


def accept(
    data: Data,
    policy: PolicyFile,
    *,
    table_options: SiteOptions,
    ledger: LedgerFile = None,
    yes: bool = False,
) -> None:
    """Allow requests about data that changed since the first query.

    Whoever has replies about two versions of the data can subtract them. The sum of the records
    that joined or left is then known. If it is a single record, it is known exactly.

    Example: `fedwad node accept-data paris.csv paris.toml`

    Parameters
    ----------
    yes : accept without a question
    """
    rules = Policy.load(policy)
    path = ledger_beside(policy) if ledger is None else ledger
    if not path.exists():
        raise InputError(
            f"There is no ledger {path}, so any data can be asked about.", "no-such-file"
        )
    site_data = load_site_data(data, rules, table_options.columns)
    site_ledger = FileLedger(path)
    print_text(
        f"{site_ledger.queries} queries were counted about the data so far, withheld ones too."
        " Whoever has the replies and new ones can subtract them: the sum of the records that"
        " joined or left is then known, and a single one exactly. Under an epsilon the budget goes"
        " on over all versions."
    )
    if not yes:
        typer.confirm("Let the data as they are now be asked about?", abort=True)
    is_new = accept_data(site_data, rules, site_ledger)
    print_text("Accepted." if is_new else "These are the data that the ledger is about already.")


def revoke(
    policy: PolicyFile,
    *,
    ledger: LedgerFile = None,
    reason: str = "",
    undo: bool = False,
) -> None:
    """Stop all answers of the nodes with this ledger. One that runs refuses from its next request
    on.

    What left before cannot be taken back; `fedwad ledger show --receipt --all` lists it.

    Example: `fedwad node revoke paris.toml --ledger paris.ledger.sqlite`

    Parameters
    ----------
    reason : why, for the ledger
    undo : let the node answer again
    """
    # A mistyped name must not look as if its node were stopped, nor may a ledger of no node; a
    # policy with a mistake in it may be stopped.
    path = ledger_beside(policy) if ledger is None else ledger
    for file in (policy, path):
        if not file.is_file():
            raise InputError(
                f"There is no file at {file}, so nothing was stopped; give the policy and, with"
                " --ledger, the ledger of the node.",
                "no-such-file",
            )
    site_ledger = FileLedger(path)
    if undo:
        site_ledger.resume(reason)
        print_text(f"The nodes with the ledger {path} answer again, within their policy.")
    else:
        site_ledger.revoke(reason)
        print_text(
            f"All answers of the nodes with the ledger {path} are stopped; `fedwad node revoke"
            " --undo` lets them go on."
        )


Port = Annotated[int | None, typer.Option(min=1, max=65535)]


@dataclass(frozen=True)
class FlowerOptions(OptionGroup):
    """How a node of Flower is reached.

    Parameters
    ----------
    superlink : address of the SuperLink, as host:port
    key : private key of this node, whose public key must be registered with the SuperLink
        (`flwr supernode register`)
    root_certificates : CA certificate of the SuperLink; the system's when left out
    patience : seconds to keep trying while the SuperLink does not answer or refuses this node
    log_format : lines of the log: text, or one JSON object each
    metrics : answer /healthz and /metrics (Prometheus) at this port of this machine
    """

    superlink: str
    key: Path
    root_certificates: Annotated[Path | None, typer.Option("--ca")] = None
    patience: Annotated[float, typer.Option(min=0.0)] = 120.0
    log_format: Literal["text", "json"] = "text"
    metrics: Port = None


def flower(
    *,
    data: Data,
    policy: PolicyFile,
    options: FlowerOptions,
    table_options: SiteOptions,
    ledger: LedgerFile = None,
) -> None:
    """Answer the requests of a Flower SuperLink, within the policy, until Ctrl-C.

    The node runs fedwad and nothing else: it never fetches an app that an analyst submits. It stays
    in the foreground and reconnects by itself. Events are reported on standard error. The ledger
    records each request and what became of it.

    Example: `fedwad node flower --data a.csv --policy a.toml --superlink HOST:9092 --key K`
    """
    from fedwad.engines.flower.supernode import run

    run(data, policy, ledger, **asdict(options), **table_options.columns.to_options())


def flare(
    kit: Path,
    *,
    data: Data,
    policy: PolicyFile,
    table_options: SiteOptions,
    ledger: LedgerFile = None,
    metrics: Port = None,
) -> None:
    """Prepare a site's startup kit of NVIDIA FLARE to answer requests within the policy.

    The command opens data, policy and ledger as the node will, and writes their paths into the
    kit's `local` folder. It also writes rules there: jobs start nothing but fedwad, and nobody
    reads files or logs of the site. FLARE's own script, startup/start.sh, then starts the node.

    Example: `fedwad node flare KIT --data paris.csv --policy paris.toml`

    Parameters
    ----------
    kit : the site's startup kit, a folder that `nvflare package` wrote
    metrics : let the node answer /healthz and /metrics (Prometheus) at this port of this machine
    """
    from fedwad.engines.flare.startup_kit import prepare_site

    prepare_site(kit, data, policy, ledger, metrics, **table_options.columns.to_options())
    print_text(f"{kit} is ready; start the node with {kit / 'startup' / 'start.sh'}")
