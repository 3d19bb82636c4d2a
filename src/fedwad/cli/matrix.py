"""`fedwad matrix FILES...` and `fedwad cluster MATRIX`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

import fedwad
from fedwad.cli.checkpoint import Checkpoint, journalled
from fedwad.cli.columns import Drop, LabelColumn
from fedwad.cli.console import bytes_in_words, guarded, note_few, print_json, progress_bar, screen
from fedwad.cli.engine import Ca, Connect, Engine, Resume, Timeout, run_on_engine
from fedwad.cli.private import Delta, Epsilon, Radius, promise
from fedwad.cli.scales import note_scales
from fedwad.cli.sites import find_files, read_parties
from fedwad.engines.job import Job
from fedwad.errors import InputError
from fedwad.federation import Columns, Dataset

__all__ = ["cluster", "matrix"]

_WIDEST = 12
Affinity = Annotated[
    Literal["kernel", "linear", "knn"],
    typer.Option(
        help="Weights between all clients, sharp (kernel) or the paper's (precomputed), or its graph of nearest"
        " neighbours (knn)."
    ),
]
Neighbors = Annotated[
    int, typer.Option(help="Neighbours of each client in the graph (affinity knn).")
]
Report = Annotated[Path | None, typer.Option(help="Write a page to look at into this .html file.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same bits.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Clusters = Annotated[
    str | None, typer.Option("--cluster", help="Number of clusters, or 'auto'.", metavar="K|auto")
]


@guarded
def matrix(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Files (.npy .npz .csv .parquet), folders of them, or patterns; names of sites with --connect.",
            show_default=False,
        ),
    ],
    method: Annotated[
        Literal["summary", "hub", "pairs"],
        typer.Option(
            help="One message from each party; rounds with one shared support; or the paper's, pair by pair."
        ),
    ] = "summary",
    support: Annotated[int, typer.Option(help="Cells of a summary, or points of a support.")] = 10,
    rounds: Annotated[int, typer.Option(help="Rounds of methods hub and pairs.")] = 5,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels", help="Dataset distance: compare classes too. Needs labels in the data."
        ),
    ] = False,
    label_column: LabelColumn = None,
    drop: Drop = None,
    covariance: Annotated[
        Literal["diag", "full"],
        typer.Option(help="What classes are compared by besides their means."),
    ] = "diag",
    covariance_type: Annotated[
        Literal["auto", "full", "lowrank", "diag", "spherical"],
        typer.Option(help="What the parties tell of the covariance within cells."),
    ] = "auto",
    p: Annotated[float, typer.Option("--p", help="Order of the distance, at least 1.")] = 2.0,
    clusters: Clusters = None,
    affinity: Affinity = "kernel",
    n_neighbors: Neighbors = 3,
    seed: Seed = 0,
    n_jobs: Annotated[
        int | None, typer.Option(help="Threads; as many as cores when left out.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the matrix to this .json file.")] = None,
    report: Report = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    clip_norm: Radius = None,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    engine: Engine = None,
    connect: Connect = None,
    ca: Ca = None,
    timeout: Timeout = 3600.0,
    as_json: Json = False,
) -> None:
    """Whose data resembles whose? All distances between many parties.

    Each file becomes a client in this process; only what would travel between real parties is
    exchanged, and its size is reported. A .csv needs --label-column for --labels; a .npz holds
    labels as y.
    """
    _check_ending(save, ".json")
    _check_ending(report, ".html")
    wanted = _wanted(clusters)
    options: dict[str, Any] = {
        "method": method,
        "support": support,
        "rounds": rounds,
        "labels": labels,
        "covariance": covariance,
        "covariance_type": covariance_type,
        "p": p,
        "seed": seed,
    }
    options |= promise(epsilon, delta, clip_norm)
    columns = Columns.of(label_column, drop)
    parties: dict[str, Dataset] = {}
    with progress_bar("Asking the parties") as bar:
        if engine is not None or connect is not None:
            if checkpoint is not None:
                raise InputError(
                    "--checkpoint is for runs in this process; a deployment keeps its own."
                )
            names = tuple(files) if connect is not None else tuple(find_files(files))
            outcome = run_on_engine(
                engine or _engine_missing(),
                Job("matrix", names, options),
                connect,
                ca,
                timeout,
                resume,
                lambda: find_files(files),
                columns,
                bar.line,
            )
            outcome.pop("kind", None)
            result = fedwad.MatrixResult.from_dict(outcome)
        else:
            parties = read_parties(files, columns)
            with journalled(fedwad.local(parties), checkpoint, resume) as fed:
                result = fedwad.matrix(fed, n_jobs=n_jobs, callback=bar.progress, **options)
    found = None if wanted is None else _clustered(result, wanted, affinity, n_neighbors, seed)
    if save is not None:
        result.save(save)
    _finish(result, found, report, as_json)
    if not as_json:
        note_scales(parties.values())


@guarded
def cluster(
    file: Annotated[
        Path, typer.Argument(help="A matrix saved by `fedwad matrix --save`.", show_default=False)
    ],
    clusters: Annotated[
        str, typer.Option("--k", help="Number of clusters, or 'auto'.", metavar="K|auto")
    ] = "auto",
    affinity: Affinity = "kernel",
    n_neighbors: Neighbors = 3,
    seed: Seed = 0,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the eigenvalues that suggest a number into a .png, .svg or .pdf file."
        ),
    ] = None,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Which parties belong together? Clusters of a saved matrix, and how sure they are."""
    _check_ending(report, ".html")
    result = fedwad.MatrixResult.load(file)
    found = _clustered(result, _wanted(clusters) or "auto", affinity, n_neighbors, seed)
    if plot is not None:
        from fedwad.report import eigengap

        eigengap(result.suggest(), plot)
    _finish(result, found, report, as_json)


def _engine_missing() -> Literal["flower", "flare"]:
    raise InputError("--connect needs to know the engine; add --engine flower or --engine flare.")


def _check_ending(path: Path | None, ending: str) -> None:
    if path is not None and path.suffix != ending:
        raise InputError(f"{path} ends in '{path.suffix}'; give the name of a {ending} file.")


def _wanted(clusters: str | None) -> int | Literal["auto"] | None:
    if clusters is None or clusters == "auto":
        return clusters  # type: ignore[return-value]
    try:
        return int(clusters)
    except ValueError:
        raise InputError(
            f"The number of clusters is {clusters!r}; give a whole number or 'auto'."
        ) from None


def _clustered(
    result: fedwad.MatrixResult,
    k: int | Literal["auto"],
    affinity: Any,
    n_neighbors: int,
    seed: int,
) -> dict[str, Any]:
    """Clusters as --json prints them."""
    suggestion = result.suggest()
    number = suggestion.k if k == "auto" else k
    found = result.cluster(number, affinity, n_neighbors, seed)
    return {
        "k": number,
        "labels": found.tolist(),
        "suggested": suggestion.k,
        "eigenvalues": suggestion.eigenvalues.tolist(),
        "stability": result.stability(number, affinity, n_neighbors, seed=seed),
        "affinity": affinity,
    }


def _finish(
    result: fedwad.MatrixResult, clusters: dict[str, Any] | None, report: Path | None, as_json: bool
) -> None:
    found = None if clusters is None else np.array(clusters["labels"])
    if report is not None:
        from fedwad.report import write_report

        write_report(result, report, clusters=found, command=shlex.join(["fedwad", *sys.argv[1:]]))
    if as_json:
        print_json(result.to_dict() | ({} if clusters is None else {"clusters": clusters}))
        return
    _show(result, found)
    if clusters is not None:
        _show_clusters(result, clusters)
    if report is not None:
        screen.print(f"Report: {report}", markup=False)


def _show(result: fedwad.MatrixResult, clusters: NDArray[np.int64] | None) -> None:
    what = "Dataset distances" if result.labels else f"W{result.p:g} distances"
    screen.print(f"{what} between {len(result)} parties, method {result.method}")
    headings, rows = _headings(result, clusters is not None)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    if clusters is not None:
        table.add_column("cluster", justify="right")
    if headings:
        for name in headings:
            table.add_column(escape(name), justify="right", no_wrap=True)
    else:
        for title in ("nearest", "distance", "certified", "farthest", "distance"):
            table.add_column(
                title, justify="left" if title in ("nearest", "farthest", "certified") else "right"
            )
    for row, name in enumerate(result.sites):
        cells = [escape(rows[row])] + ([] if clusters is None else [str(clusters[row])])
        if headings:
            cells += [
                "" if row == col else f"{result.value[row, col]:.4g}" for col in range(len(result))
            ]
        else:
            near, *_, far = result.nearest(name)
            interval = f"{near.lower:.4g} to {near.upper:.4g}"
            cells += [
                escape(near.id),
                f"{near.value:.4g}",
                interval,
                escape(far.id),
                f"{far.value:.4g}",
            ]
        table.add_row(*cells)
    screen.print(table)
    pairs = np.triu_indices(len(result), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.nan_to_num((result.upper - result.lower) / result.value, posinf=0.0)[pairs]
    traffic = result.traffic
    kind = "certified" if result.certified else "likely (not certified)"
    min_cell_size = f"; smallest cell {result.min_cell_size}" if result.privacy is None else ""
    if result.privacy is not None:
        kept = f"epsilon {result.privacy['epsilon']:g} and delta {result.privacy['delta']:g}"
        screen.print(f"Under differential privacy: {kept} for each party's one release.")
    screen.print(
        f"Estimates; {kind} intervals are {np.median(width):.0%} of them wide in the median (--save, --report).\n"
        f"Sent: {bytes_in_words(traffic.up)} by the parties in {traffic.messages} messages,"
        f" {bytes_in_words(traffic.down)} to them{min_cell_size}.",
        soft_wrap=True,
    )
    for name, reason in result.lost.items():
        screen.print(f"[bold]Without {escape(name)}:[/] {escape(reason)}", soft_wrap=True)
    note_few(result.min_cell_size, result.method)


def _headings(
    result: fedwad.MatrixResult, clusters: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of columns and rows: those of the parties, or numbers where these do not fit; no
    columns if nothing does.

    A matrix whose rows lost their names would be of no use to anybody.
    """
    if len(result) > _WIDEST:
        return (), result.sites
    cell = max(len(f"{number:.4g}") for number in result.value.flat)
    numbers = tuple(str(k + 1) for k in range(len(result)))
    numbered = tuple(f"{number} {name}" for number, name in zip(numbers, result.sites, strict=True))
    for columns, rows in ((result.sites, result.sites), (numbers, numbered)):
        width = (
            max(map(len, rows))
            + 2
            + 9 * clusters
            + sum(max(len(name), cell) + 2 for name in columns)
        )
        if width <= screen.width:
            return columns, rows
    return (), result.sites


def _show_clusters(result: fedwad.MatrixResult, clusters: dict[str, Any]) -> None:
    for number in range(clusters["k"]):
        members = [
            name
            for name, label in zip(result.sites, clusters["labels"], strict=True)
            if label == number
        ]
        screen.print(f"Cluster {number}: {', '.join(members)}", markup=False, soft_wrap=True)
    screen.print(
        f"The eigengap suggests {clusters['suggested']}. With errors of 5% in the distances the"
        f" clusters agree to {clusters['stability']:.2f} (adjusted Rand index, 1 is perfect).",
        soft_wrap=True,
    )
