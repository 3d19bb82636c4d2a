"""`fedwad train`: one model for all sites against one model for each cluster of similar sites."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.table import Table

from fedwad._files import write_atomically
from fedwad._words import bytes_in_words
from fedwad.cli._training import EngineRunner, LocalRunner, Runner, clean_interrupt
from fedwad.cli.columns import Drop, LabelColumn, Missing, SchemaFile
from fedwad.cli.console import guarded, print_failed, print_json, progress_bar, screen
from fedwad.cli.engine import Ca, Connect, Engine, Timeout
from fedwad.cli.groups import Json
from fedwad.errors import InputError
from fedwad.federation import Columns
from fedwad.learning import Algorithm, TrainingOptions, TrainingResult

__all__ = ["train"]

_TOGETHER, _APART = "all together", "in clusters"
_DEFAULT = TrainingOptions()

Wanted = int | Literal["auto"] | None


@guarded
def train(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files (.npz .csv .parquet) with labels, folders of them, or patterns;"
            " names of sites with --connect.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="The same as an option; can be given several times."),
    ] = None,
    algorithm: Annotated[
        Algorithm,
        typer.Option(
            help="fedavg: one model per cluster. fedper, fedrep: the last layer stays with each"
            " site, and fedrep trains it first."
        ),
    ] = _DEFAULT.algorithm,
    model: Annotated[
        str, typer.Option(help="mlp, cnn, or 'package.module:function' that makes a network.")
    ] = _DEFAULT.model,
    clusters: Annotated[
        str,
        typer.Option("--k", help="Number of clusters by dataset distance.", metavar="auto|K|none"),
    ] = "auto",
    rounds: Annotated[int, typer.Option(help="Rounds of training.")] = _DEFAULT.rounds,
    fraction_train: Annotated[
        float, typer.Option(help="Fraction of a cluster that trains in a round.")
    ] = _DEFAULT.fraction_train,
    epochs: Annotated[
        int, typer.Option(help="Passes of a site over its samples in a round.")
    ] = _DEFAULT.epochs,
    batch_size: Annotated[int, typer.Option(help="Samples per step.")] = _DEFAULT.batch_size,
    learning_rate: Annotated[
        float, typer.Option(help="Learning rate of SGD.")
    ] = _DEFAULT.learning_rate,
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = _DEFAULT.momentum,
    test_size: Annotated[
        float, typer.Option(help="Fraction of its samples that a site keeps for tests.")
    ] = _DEFAULT.test_size,
    personal: Annotated[
        list[str] | None,
        typer.Option(
            help="Layer that stays with each site, for fedrep and fedper; can be given several"
            " times. The last layer by default."
        ),
    ] = None,
    last_epochs: Annotated[
        int | None,
        typer.Option(help="Passes over the own layers in the end, for fedrep and fedper [10]."),
    ] = None,
    body_epochs: Annotated[
        int | None, typer.Option(help="Epochs of the shared layers in a round, for fedrep [1].")
    ] = None,
    label_column: LabelColumn = None,
    drop: Drop = None,
    missing: Missing = None,
    schema: SchemaFile = "auto",
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = _DEFAULT.seed,
    save: Annotated[
        Path | None, typer.Option(help="Folder for the models (.npz, one per cluster) and results.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    engine: Engine = None,
    connect: Connect = None,
    ca: Ca = None,
    timeout: Timeout = 3600.0,
    as_json: Json = False,
) -> None:
    """Train a classifier without pooling the data: on all sites together, and in clusters of
    similar sites.

    Distances between the sites' labelled data need one message from each. The same algorithm then
    runs once for all sites and once inside each cluster. Trained weights reveal something about the
    data: there is no privacy guarantee.
    """
    _check_outputs(save, report)
    sources = _sources(files, data)
    wanted = _wanted(clusters)
    options = TrainingOptions(
        algorithm=algorithm,
        model=model,
        rounds=rounds,
        fraction_train=fraction_train,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        momentum=momentum,
        test_size=test_size,
        seed=seed,
        personal=tuple(personal) if personal else None,
        last_epochs=last_epochs,
        body_epochs=body_epochs,
    )
    columns = Columns.of(label_column, drop, missing, schema)
    here = engine is None and connect is None
    with progress_bar("Asking the sites") as bar, clean_interrupt() if here else nullcontext():
        if here:
            runner: Runner = LocalRunner(sources, columns, bar)
        else:
            runner = EngineRunner(sources, columns, bar, engine, connect, ca, timeout)
        results = _compare(runner, options, wanted)
    _write(results, save, report)
    if as_json:
        print_json({key.replace(" ", "_"): _brief(result) for key, result in results.items()})
    else:
        _show(results, wanted)
        for title, path in (("Models", save), ("Report", report)):
            if path is not None:
                screen.print(f"{title}: {path}", markup=False, soft_wrap=True)


def _sources(files: list[str] | None, data: list[str] | None) -> list[str]:
    sources = [*(files or ()), *(data or ())]
    if not sources:
        raise InputError("No data were named; give files or folders of them: fedwad train sites/.")
    return sources


def _check_outputs(save: Path | None, report: Path | None) -> None:
    if report is not None and report.suffix != ".html":
        raise InputError(f"{report} ends in '{report.suffix}'; give the name of a .html file.")
    if save is not None and not save.parent.is_dir():
        raise InputError(
            f"There is no folder {save.parent} to write {save.name} into; create it first."
        )


def _wanted(clusters: str) -> Wanted:
    if clusters in ("auto", "none"):
        return "auto" if clusters == "auto" else None
    if not clusters.isdecimal() or int(clusters) < 1:
        raise InputError(f"--k is {clusters!r}; give a positive integer, 'auto' or 'none'.")
    return int(clusters)


def _compare(runner: Runner, options: TrainingOptions, wanted: Wanted) -> dict[str, TrainingResult]:
    """Train on all sites together and, if there are clusters, inside each."""
    results = {_TOGETHER: runner.train(options)}
    if wanted is None:
        return results
    matrix = runner.matrix(options.seed)
    k = matrix.suggest().k if wanted == "auto" else wanted
    if k > 1:
        labels = matrix.cluster(k, "kernel", seed=options.seed)
        groups = {name: int(label) for name, label in zip(matrix.sites, labels, strict=True)}
        results[_APART] = runner.train(options, groups)
    return results


def _write(results: Mapping[str, TrainingResult], save: Path | None, report: Path | None) -> None:
    if save is not None:
        _save(results, save)
    if report is not None:
        from fedwad.report import write_training

        write_training(results, report, command=shlex.join(["fedwad", *sys.argv[1:]]))


def _save(results: Mapping[str, TrainingResult], folder: Path) -> None:
    """Write each result as JSON, and the model of each cluster as named arrays."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"{folder} cannot be made a folder; choose a different path.") from None
    for key, result in results.items():
        word = "all" if key == _TOGETHER else "cluster"
        result.save(folder / f"{word}.json")
        for group in result.weights:
            arrays = {
                name: value.numpy() for name, value in result.network(group).state_dict().items()
            }
            content = io.BytesIO()
            np.savez(content, **arrays)
            file = f"{word}.npz" if word == "all" else f"{word}{group + 1}.npz"
            write_atomically(folder / file, content.getvalue())


def _brief(result: TrainingResult) -> dict[str, Any]:
    """The result without the weights."""
    return {key: value for key, value in result.to_dict().items() if key != "weights"}


def _show(results: Mapping[str, TrainingResult], wanted: Wanted) -> None:
    first = results[_TOGETHER]
    screen.print(
        f"{first.algorithm}, model {first.model}, {first.rounds} rounds, {len(first.sites)} sites"
    )
    screen.print(_table(results))
    if _APART in results:
        _show_clusters(results[_APART])
    elif wanted is not None:
        screen.print("The distances suggest one cluster: all sites learn together.")
    for result in results.values():
        for name, reason in result.failed.items():
            print_failed(name, reason)
    screen.print("Trained weights reveal something about the data; there is no privacy guarantee.")


def _table(results: Mapping[str, TrainingResult]) -> Table:
    """Accuracies of the trainings, under the baseline that always predicts the majority class."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("", "models", "mean accuracy", "worst site", "sent by sites"):
        table.add_column(title, justify="left" if not title else "right")
    first = results[_TOGETHER]
    table.add_row(
        "majority class", "", f"{first.mean_baseline:.1%}", f"{first.baseline.min():.1%}", ""
    )
    for key, result in results.items():
        table.add_row(
            key,
            str(len(result.weights)),
            f"{result.mean:.1%}",
            f"{result.accuracy.min():.1%}",
            bytes_in_words(result.traffic.up),
        )
    return table


def _show_clusters(result: TrainingResult) -> None:
    for group in result.weights:
        members = (
            name for name, own in zip(result.sites, result.groups, strict=True) if own == group
        )
        screen.print(f"Cluster {group + 1}: {', '.join(members)}", markup=False, soft_wrap=True)
