"""`fedwad train`: one model for all sites against one model for each cluster of similar sites."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.table import Table

from fedwad._files import write_atomically
from fedwad._words import format_bytes
from fedwad.cli._training import EngineRunner, LocalRunner, Runner, TrainingArguments
from fedwad.cli.columns import TableOptions
from fedwad.cli.console import (
    command_line,
    exit_on_error,
    make_table,
    print_failed,
    print_json,
    print_path,
    print_text,
    progress_bar,
    screen,
)
from fedwad.cli.engine import EngineOptions
from fedwad.cli.option_groups import (
    Json,
    Report,
    check_clusters,
    check_ending,
    expand_option_groups,
)
from fedwad.cli.sites import find_files
from fedwad.errors import InputError
from fedwad.learning import TrainingOptions, TrainingResult

__all__ = ["train"]

_ALL_SITES, _IN_CLUSTERS = "all together", "in clusters"

ClusterCount = int | Literal["auto"] | None


@exit_on_error
@expand_option_groups
def train(
    training: TrainingArguments,
    table_options: TableOptions,
    engine_options: EngineOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files with labels, folders of them, or patterns; names of sites with --connect.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="The same as an option; can be given several times."),
    ] = None,
    clusters: Annotated[
        str,
        typer.Option("--k", help="Number of clusters by dataset distance.", metavar="auto|K|none"),
    ] = "auto",
    save: Annotated[
        Path | None, typer.Option(help="Folder for the models (.npz, one per cluster) and results.")
    ] = None,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Train a classifier without pooling the data: on all sites together, and in clusters of
    similar sites.

    The same algorithm runs once for all sites and once inside each cluster. Clusters come from the
    distances between the sites' labelled data, which need one message from each. Trained weights
    reveal something about the data: there is no privacy guarantee.
    """
    _check_outputs(save, report)
    sources = _sources(files, data)
    n_clusters = _parse_n_clusters(clusters)
    check_clusters(n_clusters, sources if engine_options.connect else find_files(sources))
    options, columns = training.options, table_options.columns
    with progress_bar("Asking the sites") as bar:
        if engine_options.uses_engine:
            runner: Runner = EngineRunner(sources, columns, bar, engine_options)
        else:
            runner = LocalRunner(sources, columns, bar)
        results = _compare(runner, options, n_clusters)
    _write(results, save, report)
    if as_json:
        print_json(
            {key.replace(" ", "_"): _without_weights(result) for key, result in results.items()}
        )
    else:
        _show(results, n_clusters)
        print_path("Models", save)
        print_path("Report", report)


def _sources(files: list[str] | None, data: list[str] | None) -> list[str]:
    sources = [*(files or ()), *(data or ())]
    if not sources:
        raise InputError("No data were named; give files or folders of them: fedwad train sites/.")
    return sources


def _check_outputs(save: Path | None, report: Path | None) -> None:
    check_ending(report, ".html", "--report")
    if save is not None and not save.parent.is_dir():
        raise InputError(
            f"There is no folder {save.parent} to write {save.name} into; create it first."
        )


def _parse_n_clusters(k: str) -> ClusterCount:
    if k in ("auto", "none"):
        return "auto" if k == "auto" else None
    if not k.isdecimal() or int(k) < 1:
        raise InputError(f"--k is {k!r}; give a positive integer, 'auto' or 'none'.")
    return int(k)


def _compare(
    runner: Runner, options: TrainingOptions, n_clusters: ClusterCount
) -> dict[str, TrainingResult]:
    """Train on all sites together and, if there are clusters, inside each."""
    results = {_ALL_SITES: runner.train(options)}
    if n_clusters is None:
        return results
    matrix = runner.matrix(options.seed)
    k = matrix.suggest().k if n_clusters == "auto" else n_clusters
    if k > 1:
        labels = matrix.cluster(k, "kernel", seed=options.seed)
        groups = {name: int(label) for name, label in zip(matrix.sites, labels, strict=True)}
        results[_IN_CLUSTERS] = runner.train(options, groups)
    return results


def _write(results: Mapping[str, TrainingResult], save: Path | None, report: Path | None) -> None:
    if save is not None:
        _save(results, save)
    if report is not None:
        from fedwad.report import write_training

        write_training(results, report, command=command_line())


def _save(results: Mapping[str, TrainingResult], folder: Path) -> None:
    """Write each result as JSON, and the model of each cluster as named arrays."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"{folder} cannot be made a folder; choose a different path.") from None
    for key, result in results.items():
        word = "all" if key == _ALL_SITES else "cluster"
        result.save(folder / f"{word}.json")
        for group in result.weights:
            arrays = {
                name: value.numpy() for name, value in result.network(group).state_dict().items()
            }
            content = io.BytesIO()
            np.savez(content, **arrays)
            file = f"{word}.npz" if word == "all" else f"{word}{group + 1}.npz"
            write_atomically(folder / file, content.getvalue())


def _without_weights(result: TrainingResult) -> dict[str, Any]:
    """The result without the weights."""
    return {key: value for key, value in result.to_dict().items() if key != "weights"}


def _show(results: Mapping[str, TrainingResult], n_clusters: ClusterCount) -> None:
    first = results[_ALL_SITES]
    print_text(
        f"{first.algorithm}, model {first.model}, {first.rounds} rounds, {len(first.sites)} sites"
    )
    screen.print(_table(results))
    if _IN_CLUSTERS in results:
        _show_clusters(results[_IN_CLUSTERS])
    elif n_clusters == "auto":
        print_text("The distances suggest one cluster: all sites learn together.")
    for result in results.values():
        for name, reason in result.failed.items():
            print_failed(name, reason)
    print_text("Trained weights reveal something about the data; there is no privacy guarantee.")


def _table(results: Mapping[str, TrainingResult]) -> Table:
    """Accuracies of the trainings, under the baseline that always predicts the majority class."""
    titles = ("", "models", "mean accuracy", "worst site", "sent by sites")
    table = make_table(*titles, left=("",))
    first = results[_ALL_SITES]
    table.add_row(
        "majority class", "", f"{first.mean_baseline:.1%}", f"{first.baseline.min():.1%}", ""
    )
    for key, result in results.items():
        table.add_row(
            key,
            str(len(result.weights)),
            f"{result.mean:.1%}",
            f"{result.accuracy.min():.1%}",
            format_bytes(result.traffic.up),
        )
    return table


def _show_clusters(result: TrainingResult) -> None:
    for group in result.weights:
        members = (
            name for name, own in zip(result.sites, result.groups, strict=True) if own == group
        )
        print_text(f"Cluster {group + 1}: {', '.join(members)}")
