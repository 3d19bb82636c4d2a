"""`fedwad distance A B`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

import fedwad
from fedwad.cli.checkpoint import Checkpoint, journalled
from fedwad.cli.columns import Drop, LabelColumn
from fedwad.cli.console import (
    bytes_in_words,
    guarded,
    note_few,
    print_json,
    progress_bar,
    round_progress,
    screen,
)
from fedwad.cli.engine import Ca, Connect, Engine, Resume, Timeout, run_on_engine
from fedwad.cli.private import Delta, Epsilon, Radius, promise
from fedwad.cli.scales import note_scales
from fedwad.cli.sites import find_files
from fedwad.engines.job import Job
from fedwad.errors import CertificateError, InputError
from fedwad.federation import Columns, Dataset, align_columns, read

__all__ = ["distance"]


@guarded
def distance(
    a: Annotated[
        str,
        typer.Argument(
            help="One party's data: .npy, .npz, .csv or .parquet; the name of a site with --connect.",
            show_default=False,
        ),
    ],
    b: Annotated[str, typer.Argument(help="The other party's data, or site.", show_default=False)],
    method: Annotated[
        Literal["fedwad", "summary"] | None,
        typer.Option(
            help="The paper's rounds (fedwad), or one message from each party; with --epsilon always summary.",
            show_default="fedwad",
        ),
    ] = None,
    support: Annotated[
        int | None,
        typer.Option(
            help="Points that travel (100), or cells of a summary (10).", show_default=False
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Most rounds of method fedwad.")] = 20,
    p: Annotated[float, typer.Option("--p", help="Order of the distance, at least 1.")] = 2.0,
    t: Annotated[
        str,
        typer.Option(
            "--t", help="Place on the geodesic, in (0, 1), or 'random'. It protects no data."
        ),
    ] = "0.5",
    interpolant: Annotated[
        Literal["barycentric", "exact"],
        typer.Option(help="'exact' gives every sample away to the server."),
    ] = "barycentric",
    tol: Annotated[
        float,
        typer.Option(help="Stop when the running estimate changes by less than this fraction."),
    ] = 0.0,
    covariance_type: Annotated[
        Literal["auto", "full", "lowrank", "diag", "spherical"],
        typer.Option(help="What the parties tell of the covariance within cells."),
    ] = "auto",
    label_column: LabelColumn = None,
    drop: Drop = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels", help="Dataset distance: compare classes too. Needs labels in the data."
        ),
    ] = False,
    covariance: Annotated[
        Literal["diag", "full"],
        typer.Option(help="What classes are compared by besides their means."),
    ] = "diag",
    seed: Annotated[int, typer.Option(help="The same seed gives the same bits.")] = 0,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Compute the exact distance beside it (brings both files together)."
        ),
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Write the result to this .json file.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the rounds into a .png, .svg or .pdf file; distances are then told every round."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page to look at into this .html file.")
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    clip_norm: Radius = None,
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
    """How far apart are the data in A and B?

    Each file becomes a client in this process; only what would travel between real parties is
    exchanged, and its size is reported. The answer is an estimate inside a certified interval.
    """
    method = method or ("fedwad" if epsilon is None else "summary")
    if save is not None and (save.suffix != ".json" or str(save) in (a, b)):
        raise InputError(f"--save is {save}; give the name of a .json file.")
    if report is not None and report.suffix != ".html":
        raise InputError(f"--report is {report}; give the name of a .html file.")
    if plot is not None and method == "summary":
        raise InputError(
            "Method summary has no rounds to plot; leave out --plot or take --method fedwad."
        )
    options: dict[str, Any] = {
        "method": method,
        "support": support,
        "rounds": rounds,
        "p": p,
        "t": _place(t),
        "interpolant": interpolant,
        "seed": seed,
        "tol": tol,
        "covariance_type": covariance_type,
        "labels": labels,
        "covariance": covariance,
        "reveal": "every" if plot is not None or report is not None else "last",
    }
    options |= promise(epsilon, delta, clip_norm)
    reference, data = None, dict[str, Dataset]()
    columns = Columns.of(label_column, drop)
    if engine is not None or connect is not None:
        if exact or checkpoint is not None:
            raise InputError(
                "--exact and --checkpoint are for files in this process; leave them out with an engine."
            )
        if engine is None:
            raise InputError(
                "--connect needs to know the engine; add --engine flower or --engine flare."
            )
        with progress_bar("Asking both parties") as bar:
            result = _on_engine(
                engine, (a, b), options, connect, ca, timeout, resume, columns, bar.line
            )
    else:
        first, second = Path(a), Path(b)
        names = (a, b) if first.stem == second.stem else (first.stem, second.stem)
        data = align_columns(
            {name: read(path, columns=columns) for name, path in zip(names, (a, b), strict=True)}
        )
        pair = names[0], names[0] if first.resolve() == second.resolve() else names[1]
        with round_progress("Asking both parties", rounds if method == "fedwad" else None) as show:
            with journalled(fedwad.local(data), checkpoint, resume) as fed:
                result = fedwad.distance(fed[pair[0]], fed[pair[1]], callback=show, **options)
            reference = _exact(data[pair[0]], data[pair[1]], result) if exact else None
    if save is not None:
        result.save(save)
    if plot is not None:
        from fedwad.report import convergence

        convergence(result, plot, exact=reference)
    if report is not None:
        from fedwad.report import write_report

        write_report(result, report, command=shlex.join(["fedwad", *sys.argv[1:]]), exact=reference)
    if as_json:
        print_json(result.to_dict() | ({} if reference is None else {"exact": reference}))
    else:
        _show(result, reference)
        note_scales(data.values())


def _place(t: str) -> float | Literal["random"]:
    if t == "random":
        return "random"
    try:
        return float(t)
    except ValueError:
        raise InputError(f"--t is {t!r}; give a number between 0 and 1, or 'random'.") from None


def _on_engine(
    engine: Literal["flower", "flare"],
    parties: tuple[str, str],
    options: dict[str, Any],
    connect: str | None,
    ca: Path | None,
    timeout: float,
    resume: bool,
    columns: Columns,
    tell: Callable[[str], None],
) -> fedwad.DistanceResult:
    names = parties if connect is not None else tuple(find_files(parties))
    outcome = run_on_engine(
        engine,
        Job("distance", names, options),
        connect,
        ca,
        timeout,
        resume,
        lambda: find_files(parties),
        columns,
        tell,
    )
    outcome.pop("kind", None)
    return fedwad.DistanceResult.from_dict(outcome)


def _exact(mu: Dataset, nu: Dataset, result: fedwad.DistanceResult) -> float:
    """The exact distance, which must lie in the certified interval."""
    classes: Any = result.classes
    exact = fedwad.ot.solve(mu.view(classes), nu.view(classes), result.p).distance
    if result.certified and not result.lower * (1 - 1e-9) <= exact <= result.upper * (1 + 1e-9):
        raise CertificateError(
            f"The exact distance {exact:.6g} lies outside the certified {result.lower:.6g} to {result.upper:.6g};"
            " please report the data."
        )
    return exact


def _show(result: fedwad.DistanceResult, exact: float | None) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_row("estimate", f"[bold]{result.value:.6g}[/]")
    table.add_row(
        "certified" if result.certified else "likely", f"{result.lower:.6g} to {result.upper:.6g}"
    )
    if result.privacy is not None:
        kept = f"epsilon {result.privacy['epsilon']:g}, delta {result.privacy['delta']:g}"
        table.add_row("privacy", f"{kept} for each party's one release")
    if exact is not None:
        table.add_row("exact", f"{exact:.6g}")
    if result.fedwad is not None:
        table.add_row("paper's estimate", f"{result.fedwad:.6g}")
    if result.history:
        table.add_row("rounds", str(len(result.history)))
    traffic = result.traffic
    sent = f"{bytes_in_words(traffic.up)} by the parties in {traffic.messages} messages"
    table.add_row("sent", f"{sent}, {bytes_in_words(traffic.down)} to them")
    what = f"W{result.p:g}" if result.classes == "ignored" else "Dataset distance"
    a, b = map(escape, result.clients)
    screen.print(f"{what} between {a} and {b}, method {result.method}")
    if result.min_cell_size is not None:
        table.add_row(
            "smallest cell",
            f"{result.min_cell_size} sample{'s' if result.min_cell_size > 1 else ''}",
        )
    screen.print(table)
    note_few(result.min_cell_size, result.method)
