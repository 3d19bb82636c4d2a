"""`fedwad embed FILES...`: a map of thousands of sites."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import fedwad
from fedwad._embedding.groups import describe
from fedwad._words import format_bytes, pluralize
from fedwad.cli.checkpoint import journalled
from fedwad.cli.columns import TableOptions
from fedwad.cli.console import guarded, print_failed, print_json, progress_bar, screen
from fedwad.cli.console import warn_small_cells as warn
from fedwad.cli.engine import EngineOptions
from fedwad.cli.groups import (
    ClassCovariance,
    Labels,
    NumberOfClusters,
    Output,
    Seed,
    Sources,
    check_clusters,
    grouped,
    number_of_clusters,
)
from fedwad.cli.sites import conflict_sentences, find_several, read_files, schema_of
from fedwad.errors import InputError
from fedwad.federation import Dataset

__all__ = ["embed"]

_MOST_FAILED = 10


@guarded
@grouped
def embed(
    files: Sources,
    tables: TableOptions,
    output: Output,
    engine_options: EngineOptions,
    support: Annotated[int, typer.Option(help="Points of the shared support.")] = 10,
    rounds: Annotated[int, typer.Option(help="Rounds in which sites shape the support.")] = 3,
    clients_per_round: Annotated[
        int, typer.Option(help="Random sites that shape the support; others send one message.")
    ] = 200,
    dimension: Annotated[
        int | None, typer.Option(help="Largest number of coordinates; 256 when left out.")
    ] = None,
    labels: Labels = False,
    class_covariance: ClassCovariance = "diag",
    k: NumberOfClusters = "auto",
    nearest: Annotated[
        str | None, typer.Option(help="Name of a site whose ten most similar sites are printed.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Which of thousands of sites have similar data? Each site becomes a point.

    Near points mean similar data. Time grows with the number of sites, not of pairs; for up to a
    few hundred sites, `fedwad matrix` says more about each pair.
    """
    output.check(files)
    wanted = number_of_clusters(k)
    keywords: dict[str, Any] = {
        "support": support,
        "rounds": rounds,
        "clients_per_round": clients_per_round,
        "dimension": dimension,
        "labels": labels,
        "class_covariance": class_covariance,
        "seed": seed,
    }
    data: dict[str, Dataset] = {}
    found_files = {} if engine_options.connect else find_several(files, "an embedding")
    check_clusters(wanted, found_files or files)
    _check_nearest(nearest, tuple(found_files or files))
    with progress_bar("Asking the sites") as bar:
        if engine_options.used:
            outcome = engine_options.run("embed", files, keywords, tables.columns, bar.line)
            result = fedwad.EmbeddingResult.from_dict(outcome)
        else:
            data = read_files(found_files, tables.columns)
            with journalled(
                fedwad.local(data), engine_options.checkpoint, engine_options.resume
            ) as fed:
                result = fedwad.embed(fed, callback=bar.progress, **keywords)
    found = _clustered(result, wanted, seed)
    if nearest is not None:
        result.nearest(nearest, 1)  # before files are written: the name may be wrong
    if output.save is not None:
        result.save(output.save)
    if output.report is not None:
        from fedwad.report import write_report

        write_report(
            result,
            output.report,
            clusters=None if found is None else found["labels"],
            command=shlex.join(["fedwad", *sys.argv[1:]]),
            warnings=conflict_sentences(schema_of(data)),
        )
    if output.as_json:
        print_json(result.to_dict() | _extra(result, found, nearest))
        return
    _show(result, found, nearest)
    if output.report is not None:
        screen.print(f"Report: {output.report}", markup=False)


def _check_nearest(nearest: str | None, names: Sequence[str]) -> None:
    """Raise InputError for a site that is not among these, before they are asked."""
    if names and nearest is not None and nearest not in names:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise InputError(f"There is no site '{nearest}' for --nearest; the sites are {shown}.")


def _clustered(
    result: fedwad.EmbeddingResult, k: int | Literal["auto"] | None, seed: int
) -> dict[str, Any] | None:
    """Return clusters in the form that --json prints."""
    if k is None:
        return None
    suggestion = result.suggest()
    number = suggestion.k if k == "auto" else k
    return {
        "k": number,
        "labels": result.cluster(number, seed).tolist(),
        "suggested": suggestion.k,
        "eigenvalues": suggestion.eigenvalues.tolist(),
    }


def _extra(
    result: fedwad.EmbeddingResult, clusters: dict[str, Any] | None, nearest: str | None
) -> dict[str, Any]:
    found: dict[str, Any] = {} if clusters is None else {"clusters": clusters}
    if nearest is not None:
        found["nearest"] = [vars(one) for one in result.nearest(nearest)]
    return found


def _show(
    result: fedwad.EmbeddingResult, clusters: dict[str, Any] | None, nearest: str | None
) -> None:
    if clusters is not None:
        _show_clusters(result, clusters)
    if nearest is not None:
        _show_nearest(result, nearest)
    traffic = result.traffic
    screen.print(
        f"Sent: {format_bytes(traffic.up)} by the sites in {traffic.messages} messages,"
        f" {format_bytes(traffic.down)} to them.",
        soft_wrap=True,
    )
    for name, reason in list(result.failed.items())[:_MOST_FAILED]:
        print_failed(name, reason)
    if len(result.failed) > _MOST_FAILED:
        screen.print(f"Without {len(result.failed) - _MOST_FAILED} more sites; --json names them.")
    warn(result.min_cell_size, "embed")


def _show_clusters(result: fedwad.EmbeddingResult, clusters: dict[str, Any]) -> None:
    groups = describe(result.embedding, np.array(clusters["labels"]), result.sites)
    suggested = clusters["suggested"]
    note = "" if suggested == len(groups) else f" ({suggested} suggested)"
    sentence = f"{len(result)} sites in {pluralize(len(groups), 'cluster')}{note}."
    screen.print(Text(sentence, style="bold"), soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("cluster", "sites", "most central site", "radius", "nearest", "distance"):
        table.add_column(title, justify="left" if title.startswith("most") else "right")
    for one in groups:
        near = ("", "") if one.nearest is None else (str(one.nearest + 1), f"{one.distance:.4g}")
        numbers = (str(one.label + 1), str(one.size))
        table.add_row(*numbers, escape(one.central), f"{one.radius:.4g}", *near)
    screen.print(table)


def _show_nearest(result: fedwad.EmbeddingResult, name: str) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(f"nearest to {escape(name)}")
    table.add_column("of points", justify="right")
    table.add_column("estimated distance", justify="right")
    for one in result.nearest(name):
        value = "" if one.value is None else f"{one.value:.4g}"
        table.add_row(escape(one.site), f"{one.embedded:.4g}", value)
    screen.print(table)
