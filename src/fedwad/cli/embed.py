"""`fedwad embed FILES...`: a map of thousands of sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.markup import escape
from rich.text import Text

import fedwad
from fedwad._embedding.groups import describe_clusters
from fedwad._embedding.result import EmbeddedNeighbour
from fedwad._words import pluralize
from fedwad.cli.columns import TableOptions
from fedwad.cli.console import (
    describe_traffic,
    exit_on_error,
    make_table,
    print_failed,
    print_json,
    print_text,
    progress_bar,
    screen,
    warn_small_cells,
)
from fedwad.cli.engine import ResumableEngineOptions
from fedwad.cli.option_groups import (
    ClassCovariance,
    Labels,
    NumberOfClusters,
    Output,
    Seed,
    Sources,
    check_clusters,
    expand_option_groups,
    parse_number_of_clusters,
)
from fedwad.cli.sites import find_several, read_files, schema_of, schema_warnings
from fedwad.errors import InputError
from fedwad.federation import Dataset

__all__ = ["embed"]

_MOST_FAILED = 10  # sites whose reasons are printed


@exit_on_error
@expand_option_groups
def embed(
    files: Sources,
    table_options: TableOptions,
    output: Output,
    engine_options: ResumableEngineOptions,
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
    n_clusters = parse_number_of_clusters(k)
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
    paths = {} if engine_options.connect else find_several(files, "an embedding")
    check_clusters(n_clusters, paths or files)
    _check_nearest(nearest, tuple(paths or files))
    with progress_bar("Asking the sites") as bar:
        if engine_options.uses_engine:
            content = engine_options.run("embed", files, keywords, table_options.columns, bar.line)
            result = fedwad.EmbeddingResult.from_dict(content)
        else:
            data = read_files(paths, table_options.columns)
            with engine_options.local(data) as fed:
                result = fedwad.embed(fed, callback=bar.progress, **keywords)
    clusters = {} if n_clusters is None else _cluster(result, n_clusters, seed)
    # Before files are written, since the name may be wrong.
    neighbours = [] if nearest is None else result.nearest(nearest)
    warnings = schema_warnings(schema_of(data))
    output.write(result, clusters=clusters.get("labels"), warnings=warnings)
    if output.as_json:
        print_json(result.to_dict() | _extra_json(clusters, neighbours))
        return
    _show_clusters(result, clusters)
    _show_nearest(nearest, neighbours)
    _show_traffic(result)
    output.print_report()


def _check_nearest(nearest: str | None, names: Sequence[str]) -> None:
    """Raise InputError for a site that is not among these, before they are asked."""
    if nearest is not None and nearest not in names:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise InputError(f"There is no site '{nearest}' for --nearest; the sites are {shown}.")


def _cluster(result: fedwad.EmbeddingResult, k: int | Literal["auto"], seed: int) -> dict[str, Any]:
    """Return clusters in the form that --json prints."""
    suggestion = result.suggest()
    number = suggestion.k if k == "auto" else k
    return {
        "k": number,
        "labels": result.cluster(number, seed).tolist(),
        "suggested": suggestion.k,
        "eigenvalues": suggestion.eigenvalues.tolist(),
    }


def _extra_json(
    clusters: dict[str, Any], neighbours: Sequence[EmbeddedNeighbour]
) -> dict[str, Any]:
    """Return what --json adds to the result: clusters and neighbours, unless they are empty."""
    extra = {"clusters": clusters, "nearest": [vars(neighbour) for neighbour in neighbours]}
    return {key: value for key, value in extra.items() if value}


def _show_traffic(result: fedwad.EmbeddingResult) -> None:
    """Print what was sent, and which sites failed."""
    print_text(f"Sent: {describe_traffic(result.traffic)}.")
    for name, reason in list(result.failed.items())[:_MOST_FAILED]:
        print_failed(name, reason)
    if len(result.failed) > _MOST_FAILED:
        print_text(f"Without {len(result.failed) - _MOST_FAILED} more sites; --json names them.")
    warn_small_cells(result.min_cell_size, "embed")


def _show_clusters(result: fedwad.EmbeddingResult, clusters: dict[str, Any]) -> None:
    if not clusters:
        return
    groups = describe_clusters(result.embedding, np.array(clusters["labels"]), result.sites)
    suggested = clusters["suggested"]
    note = "" if suggested == len(groups) else f" ({suggested} suggested)"
    sentence = f"{len(result)} sites in {pluralize(len(groups), 'cluster')}{note}."
    screen.print(Text(sentence, style="bold"), soft_wrap=True)
    titles = ("cluster", "sites", "most central site", "radius", "nearest", "distance")
    table = make_table(*titles, left=("most central site",))
    for group in groups:
        near = ("", "")
        if group.nearest is not None:
            near = (str(group.nearest + 1), f"{group.distance:.4g}")
        numbers = (str(group.label + 1), str(group.size))
        table.add_row(*numbers, escape(group.central), f"{group.radius:.4g}", *near)
    screen.print(table)


def _show_nearest(name: str | None, neighbours: Sequence[EmbeddedNeighbour]) -> None:
    if name is None:
        return
    title = f"nearest to {escape(name)}"
    table = make_table(title, "of points", "estimated distance", left=(title,))
    for neighbour in neighbours:
        value = "" if neighbour.value is None else f"{neighbour.value:.4g}"
        table.add_row(escape(neighbour.site), f"{neighbour.embedded:.4g}", value)
    screen.print(table)
