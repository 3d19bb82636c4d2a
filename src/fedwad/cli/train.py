"""`fedwad train`: who should learn together? One model for all against one for each cluster."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.table import Table

import fedwad
from fedwad.cli.columns import Drop, LabelColumn
from fedwad.cli.console import (
    Bar,
    bytes_in_words,
    errors,
    guarded,
    print_json,
    progress_bar,
    screen,
)
from fedwad.cli.engine import Ca, Connect, Engine, Timeout, run_on_engine
from fedwad.cli.sites import find_files, read_parties
from fedwad.engines.job import Job
from fedwad.errors import InputError
from fedwad.federation import Columns
from fedwad.learning import TrainingResult
from fedwad.learning import train as learn

__all__ = ["train"]

_TOGETHER, _APART = "all together", "in clusters"


@guarded
def train(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files (.npz .csv .parquet) with labels, folders of them, or patterns; names of sites with --connect.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="The same as an option; can be given several times."),
    ] = None,
    algorithm: Annotated[
        Literal["fedavg", "fedrep", "fedper"],
        typer.Option(
            help="One model a cluster; or a last layer that stays with each party, trained first or along."
        ),
    ] = "fedavg",
    model: Annotated[
        str, typer.Option(help="mlp, cnn, or 'package.module:function' that makes a network.")
    ] = "mlp",
    clusters: Annotated[
        str,
        typer.Option(
            "--cluster", help="Number of clusters by dataset distance.", metavar="auto|K|none"
        ),
    ] = "auto",
    rounds: Annotated[int, typer.Option(help="Rounds of training.")] = 10,
    fraction_train: Annotated[
        float, typer.Option(help="Part of a cluster that trains in a round.")
    ] = 0.1,
    epochs: Annotated[int, typer.Option(help="Passes over a party's samples in a round.")] = 5,
    batch_size: Annotated[int, typer.Option(help="Samples of a step.")] = 10,
    learning_rate: Annotated[float, typer.Option(help="Learning rate.")] = 0.01,
    momentum: Annotated[float, typer.Option(help="Momentum.")] = 0.5,
    test_size: Annotated[
        float, typer.Option(help="Part of its samples that a party tests with.")
    ] = 0.2,
    label_column: LabelColumn = None,
    drop: Drop = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    save: Annotated[
        Path | None, typer.Option(help="Folder for the models, one .npz a cluster, and results.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page to look at into this .html file.")
    ] = None,
    engine: Engine = None,
    connect: Connect = None,
    ca: Ca = None,
    timeout: Timeout = 3600.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """Train a classifier on data that stay where they are: all parties together, and in clusters of
    alike ones.

    Distances between the parties' labelled data come from one message each; then the same algorithm
    runs once for all and once inside each cluster. Weights trained on data tell about the data: no
    privacy is promised.
    """
    if report is not None and report.suffix != ".html":
        raise InputError(f"{report} ends in '{report.suffix}'; give the name of a .html file.")
    if save is not None and not save.parent.is_dir():
        raise InputError(
            f"There is no folder {save.parent} to write {save.name} into; create it first."
        )
    sources = [*(files or ()), *(data or ())]
    if not sources:
        raise InputError("No data were named; give files or folders of them: fedwad train sites/.")
    wanted = _wanted(clusters)
    options: dict[str, Any] = {
        "algorithm": algorithm,
        "model": model,
        "rounds": rounds,
        "fraction_train": fraction_train,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "momentum": momentum,
        "test_size": test_size,
        "seed": seed,
    }
    columns = Columns.of(label_column, drop)
    here = engine is None and connect is None
    with progress_bar("Asking the parties") as bar, _clean_interrupt() if here else nullcontext():
        if here:
            runner: _Runner = _Here(sources, columns, bar)
        else:
            runner = _There(sources, columns, bar, engine, connect, ca, timeout)
        results = {_TOGETHER: runner.train(options)}
        if wanted is not None:
            matrix = runner.matrix(seed)
            k = matrix.suggest().k if wanted == "auto" else wanted
            if k > 1:
                found = matrix.cluster(k, "kernel", seed=seed)
                groups = {name: int(label) for name, label in zip(matrix.sites, found, strict=True)}
                results[_APART] = runner.train(
                    options | {"groups": groups, "clients": list(matrix.sites)}
                )
    if save is not None:
        _save(results, save)
    if report is not None:
        from fedwad.report import write_training

        write_training(results, report, command=shlex.join(["fedwad", *sys.argv[1:]]))
    if as_json:
        print_json(
            {key.replace(" ", "_"): _without_weights(result) for key, result in results.items()}
        )
        return
    _show(results, wanted)
    if save is not None:
        screen.print(f"Models: {save}", markup=False, soft_wrap=True)
    if report is not None:
        screen.print(f"Report: {report}", markup=False)


@contextmanager
def _clean_interrupt() -> Iterator[None]:
    """Leave at once on Ctrl-C: threads of PyTorch that still work would abort the process on its
    way out."""
    try:
        yield
    except KeyboardInterrupt:
        errors.print("Interrupted; no result was written.")
        sys.stdout.flush()
        os._exit(130)


class _Runner:
    def train(self, options: dict[str, Any]) -> TrainingResult:
        raise NotImplementedError

    def matrix(self, seed: int) -> fedwad.MatrixResult:
        raise NotImplementedError


class _Here(_Runner):
    """Each file is a client of this process."""

    def __init__(self, data: list[str], columns: Columns, bar: Bar) -> None:
        self._federation = fedwad.local(read_parties(data, columns))
        self._bar = bar

    def train(self, options: dict[str, Any]) -> TrainingResult:
        return learn(self._federation, callback=self._bar.progress, **options)

    def matrix(self, seed: int) -> fedwad.MatrixResult:
        return fedwad.matrix(self._federation, labels=True, seed=seed, callback=self._bar.progress)


class _There(_Runner):
    """The sites of a deployment, or files in an engine's simulation."""

    def __init__(
        self,
        data: list[str],
        columns: Columns,
        bar: Bar,
        engine: Any,
        connect: str | None,
        ca: Path | None,
        timeout: float,
    ) -> None:
        if engine is None:
            raise InputError(
                "--connect needs to know the engine; add --engine flower or --engine flare."
            )
        self._names = tuple(data) if connect is not None else tuple(find_files(data))
        self._rest = (connect, ca, timeout, False, lambda: find_files(data), columns, bar.line)
        self._engine = engine

    def train(self, options: dict[str, Any]) -> TrainingResult:
        names = tuple(options.pop("clients", self._names))
        return TrainingResult.from_dict(self._ask(Job("train", names, options)))

    def matrix(self, seed: int) -> fedwad.MatrixResult:
        return fedwad.MatrixResult.from_dict(
            self._ask(Job("matrix", self._names, {"labels": True, "seed": seed}))
        )

    def _ask(self, job: Job) -> dict[str, Any]:
        outcome = run_on_engine(self._engine, job, *self._rest)
        outcome.pop("kind", None)
        return outcome


def _wanted(clusters: str) -> int | Literal["auto"] | None:
    if clusters in ("auto", "none"):
        return "auto" if clusters == "auto" else None
    if not clusters.isdecimal() or int(clusters) < 1:
        raise InputError(
            f"--cluster is {clusters!r}; give a positive whole number, 'auto' or 'none'."
        )
    return int(clusters)


def _without_weights(result: TrainingResult) -> dict[str, Any]:
    return {key: value for key, value in result.to_dict().items() if key != "weights"}


def _save(results: Mapping[str, TrainingResult], folder: Path) -> None:
    """Each result as JSON, and the model of each cluster as named arrays."""
    import io

    from fedwad._files import write_atomically

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"{folder} cannot be made a folder; choose another place.") from None
    for key, result in results.items():
        word = "all" if key == _TOGETHER else "cluster"
        result.save(folder / f"{word}.json")
        for group in result.weights:
            content = io.BytesIO()
            np.savez(
                content,
                **{
                    name: value.numpy()
                    for name, value in result.network(group).state_dict().items()
                },
            )
            write_atomically(
                folder / (f"{word}.npz" if word == "all" else f"{word}{group}.npz"),
                content.getvalue(),
            )


def _show(results: Mapping[str, TrainingResult], wanted: int | str | None) -> None:
    first = results[_TOGETHER]
    screen.print(
        f"{first.algorithm}, model {first.model}, {first.rounds} rounds, {len(first.sites)} parties"
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("", "models", "mean accuracy", "worst party", "sent by parties"):
        table.add_column(title, justify="left" if not title else "right")
    for key, result in results.items():
        worst = float(result.accuracy.min())
        sent = bytes_in_words(result.traffic.up)
        table.add_row(key, str(len(result.weights)), f"{result.mean:.1%}", f"{worst:.1%}", sent)
    screen.print(table)
    if _APART in results:
        apart = results[_APART]
        for group in apart.weights:
            members = [
                name
                for name, label in zip(apart.sites, apart.groups, strict=True)
                if label == group
            ]
            screen.print(f"Cluster {group}: {', '.join(members)}", markup=False, soft_wrap=True)
    elif wanted is not None:
        screen.print("The distances suggest one cluster: all parties learn together.")
    for result in results.values():
        for name, reason in result.lost.items():
            screen.print(f"Without {name}: {reason}", markup=False, soft_wrap=True)
    screen.print("Weights trained on data tell about the data; no privacy is promised.")
