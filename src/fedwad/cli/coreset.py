"""`fedwad coreset FILES...`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

import fedwad
from fedwad._matrix.api import Progress
from fedwad.cli.checkpoint import Checkpoint, journalled
from fedwad.cli.columns import Drop, LabelColumn
from fedwad.cli.console import Bar, bytes_in_words, guarded, print_json, progress_bar, screen
from fedwad.cli.engine import Ca, Connect, Engine, Resume, Timeout, run_on_engine
from fedwad.cli.scales import note_scales
from fedwad.cli.sites import find_files, read_parties
from fedwad.engines.job import Job
from fedwad.errors import InputError
from fedwad.federation import Columns, Dataset

__all__ = ["coreset"]

_FEW = 10
MethodName = Literal["union", "summary", "fedwad", "direct"]


@guarded
def coreset(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Files (.npy .npz .csv .parquet), folders of them, or patterns; names of sites with --connect.",
            show_default=False,
        ),
    ],
    size: Annotated[int, typer.Option(help="Number of points.")] = 10,
    method: Annotated[
        MethodName,
        typer.Option(
            help="All parties' data together; from one summary each; the paper's; or the coreset sent as it is."
        ),
    ] = "union",
    rounds: Annotated[int, typer.Option(help="Most rounds of union, epochs of the others.")] = 50,
    weights: Annotated[
        Literal["equal", "free"],
        typer.Option(help="Equal weights, or each point's share of the data."),
    ] = "equal",
    clients_per_round: Annotated[
        int | None,
        typer.Option(help="Random parties asked in a round; all for union, 10 for the others."),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Stop when bounds and gains are below this fraction; 1e-4 for union."),
    ] = None,
    support: Annotated[
        int, typer.Option(help="Points of FedWaD's travelling support (fedwad).")
    ] = 10,
    inner_rounds: Annotated[int, typer.Option(help="Rounds of each FedWaD (fedwad).")] = 20,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Also learn one by this method, to compare; may be repeated."),
    ] = None,
    label_column: LabelColumn = None,
    drop: Drop = None,
    shape: Annotated[
        str | None,
        typer.Option(
            help="Shape of the images that rows are, like 28x28 or 32x32x3.", metavar="HxW"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bits.")] = 0,
    save: Annotated[Path | None, typer.Option(help="Write the coreset to this .json file.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the points, as images if they are some, into a .png, .svg or .pdf file."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page to look at into this .html file.")
    ] = None,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    engine: Engine = None,
    connect: Connect = None,
    ca: Ca = None,
    timeout: Timeout = 3600.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """A few points that stand for the data of all parties, and how far they are from it.

    Each file becomes a client in this process; only what would travel between real parties is
    exchanged, and its size is reported.
    """
    _check_ending(save, ".json")
    _check_ending(report, ".html")
    image = _image(shape)
    options: dict[str, Any] = {
        "size": size,
        "method": method,
        "rounds": rounds,
        "weights": weights,
        "clients_per_round": clients_per_round,
        "tol": tol,
        "support": support,
        "inner_rounds": inner_rounds,
        "seed": seed,
    }
    others: dict[str, fedwad.CoresetResult] = {}
    columns = Columns.of(label_column, drop)
    parties: dict[str, Dataset] = {}
    with progress_bar("Asking the parties") as bar:
        if engine is not None or connect is not None:
            if checkpoint is not None:
                raise InputError(
                    "--checkpoint is for runs in this process; a deployment keeps its own."
                )
            if against:
                raise InputError(
                    "--against is for runs in this process; ask a deployment for one method at a time."
                )
            if engine is None:
                raise InputError(
                    "--connect needs to know the engine; add --engine flower or --engine flare."
                )
            names = tuple(files) if connect is not None else tuple(find_files(files))
            outcome = run_on_engine(
                engine,
                Job("coreset", names, options),
                connect,
                ca,
                timeout,
                resume,
                lambda: find_files(files),
                columns,
                bar.line,
            )
            outcome.pop("kind", None)
            result = fedwad.CoresetResult.from_dict(outcome)
        else:
            parties = read_parties(files, columns)
            with journalled(fedwad.local(parties), checkpoint, resume) as fed:
                result = _learn(fed, options, bar)
                for other in against or ():
                    others[other] = _learn(
                        fed, options | {"method": other, "weights": "equal"}, bar
                    )
    if save is not None:
        result.save(save)
    if plot is not None:
        _draw(result, others, plot, image)
    if report is not None:
        from fedwad.report import write_report

        command = shlex.join(["fedwad", *sys.argv[1:]])
        write_report(result, report, command=command, others=others, shape=image)
    if as_json:
        print_json(
            result.to_dict()
            | ({"against": {k: v.to_dict() for k, v in others.items()}} if others else {})
        )
        return
    _show(result, others)
    note_scales(parties.values())
    for kind, path in (("Report", report), ("Picture", plot)):
        if path is not None:
            screen.print(f"{kind}: {path}", markup=False)


def _learn(fed: Any, options: dict[str, Any], bar: Bar) -> fedwad.CoresetResult:
    def tell(record: fedwad.CoresetRound) -> None:
        bar.progress(
            Progress(
                f"{options['method']}, loss {record.loss:.4g}", record.number, options["rounds"]
            )
        )

    return fedwad.coreset(fed, callback=tell, **options)


def _draw(
    result: fedwad.CoresetResult,
    others: dict[str, fedwad.CoresetResult],
    path: Path,
    shape: tuple[int, ...] | None,
) -> None:
    from fedwad.report import coreset_picture

    coreset_picture({result.method: result} | others, path, shape=shape)


def _check_ending(path: Path | None, ending: str) -> None:
    if path is not None and path.suffix != ending:
        raise InputError(f"{path} ends in '{path.suffix}'; give the name of a {ending} file.")


def _image(shape: str | None) -> tuple[int, ...] | None:
    if shape is None:
        return None
    parts: Sequence[str] = shape.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(
            f"shape is {shape!r}; give rows and columns like 28x28, or 32x32x3 for colours."
        )
    return tuple(map(int, parts))


def _show(result: fedwad.CoresetResult, others: dict[str, fedwad.CoresetResult]) -> None:
    screen.print(
        f"Coreset of {len(result)} points for {len(result.clients)} parties, method {result.method}"
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in (
        "method",
        "W2 to the data",
        "certified",
        "rounds",
        "sent by parties",
        "sent to them",
    ):
        table.add_column(title, justify="left" if title in ("method", "certified") else "right")
    for name, one in ({result.method: result} | others).items():
        table.add_row(
            name,
            f"{one.value:.4g}",
            f"{one.lower:.4g} to {one.upper:.4g}",
            str(len(one.history)),
            bytes_in_words(one.traffic.up),
            bytes_in_words(one.traffic.down),
        )
    screen.print(table)
    if result.method == "union" and not result.converged:
        screen.print(
            "The tolerance was not met; more --rounds may bring the bounds closer.", soft_wrap=True
        )
    for name, reason in result.lost.items():
        screen.print(f"[bold]Without {escape(name)}:[/] {escape(reason)}", soft_wrap=True)
    if result.min_cell_size is not None and result.min_cell_size < _FEW:
        what = (
            "single samples were sent as they are"
            if result.min_cell_size == 1
            else "some sums are over few samples"
        )
        screen.print(
            f"Mind: {what}. Between real parties a node's policy keeps cells of few samples closed (smallest_group).",
            soft_wrap=True,
        )
