"""`fedwad matrix FILES...` and `fedwad cluster MATRIX`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import typer

import fedwad
from fedwad.cli.checkpoint import journalled
from fedwad.cli.columns import TableOptions
from fedwad.cli.console import guarded, print_json, progress_bar, screen
from fedwad.cli.engine import EngineOptions
from fedwad.cli.groups import (
    Affinity,
    ClassCovariance,
    ImageShape,
    Json,
    Labels,
    MethodOptions,
    Neighbors,
    NumberOfClusters,
    Order,
    Output,
    Report,
    Seed,
    Sources,
    check_clusters,
    check_ending,
    grouped,
    image_shape,
    number_of_clusters,
)
from fedwad.cli.health import health_in_json
from fedwad.cli.matrix_table import show_clusters, show_matrix
from fedwad.cli.private import PrivacyOptions
from fedwad.cli.scales import warn_dominant_column
from fedwad.cli.sites import conflict_sentences, find_several, read_files, schema_of
from fedwad.federation import Dataset
from fedwad.methods import MATRIX_METHODS

__all__ = ["MatrixOptions", "cluster", "matrix"]


class MatrixOptions(MethodOptions):
    """Options of the methods of a matrix."""

    methods: ClassVar[Any] = MATRIX_METHODS


@guarded
@grouped
def matrix(
    files: Sources,
    options: MatrixOptions,
    tables: TableOptions,
    output: Output,
    privacy: PrivacyOptions,
    engine_options: EngineOptions,
    labels: Labels = False,
    class_covariance: ClassCovariance = "diag",
    p: Order = 2.0,
    test: Annotated[
        bool,
        typer.Option(
            "--test", help="Permutation test of each pair; every site sends one more message."
        ),
    ] = False,
    k: NumberOfClusters = None,
    affinity: Affinity = "kernel",
    n_neighbors: Neighbors = 3,
    shape: ImageShape = None,
    seed: Seed = 0,
    n_jobs: Annotated[int | None, typer.Option(help="Threads; one per core when left out.")] = None,
) -> None:
    """Which sites have similar data? All distances between many sites.

    Each file becomes a site in this process. Only what would travel between real sites is
    exchanged, and its size is reported. A .csv needs --label-column for --labels; a .npz holds
    labels as y.
    """
    output.check(files)
    image = image_shape(shape)
    wanted = number_of_clusters(k)
    keywords = options.keywords() | privacy.keywords(tables.columns.schema)
    keywords |= {"p": p, "seed": seed, "labels": labels, "class_covariance": class_covariance}
    keywords |= {"test": True} if test else {}
    data: dict[str, Dataset] = {}
    found_files = {} if engine_options.connect else find_several(files, "a matrix")
    check_clusters(wanted, found_files or files)
    with progress_bar("Asking the sites") as bar:
        if engine_options.used:
            outcome = engine_options.run("matrix", files, keywords, tables.columns, bar.line)
            result = fedwad.MatrixResult.from_dict(outcome)
        else:
            data = read_files(found_files, tables.columns)
            with journalled(
                fedwad.local(data), engine_options.checkpoint, engine_options.resume
            ) as fed:
                result = fedwad.matrix(fed, n_jobs=n_jobs, callback=bar.progress, **keywords)
    found = None if wanted is None else _clustered(result, wanted, affinity, n_neighbors, seed)
    if output.save is not None:
        result.save(output.save)
    _finish(result, found, output.report, output.as_json, schema_of(data), image)
    if not output.as_json:
        warn_dominant_column(result.evidence)


@guarded
def cluster(
    file: Annotated[
        Path, typer.Argument(help="A matrix saved by `fedwad matrix --save`.", show_default=False)
    ],
    k: NumberOfClusters = "auto",
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
    """Which sites belong together? Clusters of a saved matrix, and how stable they are."""
    check_ending(report, ".html", "--report")
    wanted = number_of_clusters(k) or "auto"
    result = fedwad.MatrixResult.load(file)
    found = _clustered(result, wanted, affinity, n_neighbors, seed)
    if plot is not None:
        from fedwad.report import eigengap

        eigengap(result.suggest(), plot)
    _finish(result, found, report, as_json)


def _clustered(
    result: fedwad.MatrixResult,
    k: int | Literal["auto"],
    affinity: Any,
    n_neighbors: int,
    seed: int,
) -> dict[str, Any]:
    """Return clusters in the form that --json prints."""
    suggestion = result.suggest()
    number = suggestion.k if k == "auto" else k
    found = result.cluster(number, affinity, n_neighbors, seed)
    return {
        "k": number,
        "labels": found.tolist(),
        "suggested": suggestion.k,
        "suggested_by_distance": suggestion.by_distance,
        "eigenvalues": suggestion.eigenvalues.tolist(),
        "too_small": list(suggestion.too_small),
        "stability": result.stability(number, affinity, n_neighbors, seed=seed),
        "affinity": affinity,
    }


def _finish(
    result: fedwad.MatrixResult,
    clusters: dict[str, Any] | None,
    report: Path | None,
    as_json: bool,
    schema: fedwad.Schema | None = None,
    image: tuple[int, ...] | None = None,
) -> None:
    found = None if clusters is None else np.array(clusters["labels"])
    if report is not None:
        from fedwad.report import write_report

        write_report(
            result,
            report,
            clusters=found,
            command=shlex.join(["fedwad", *sys.argv[1:]]),
            schema=schema,
            shape=image,
            warnings=conflict_sentences(schema),
        )
    if as_json:
        found_clusters = {} if clusters is None else {"clusters": clusters}
        content = result.to_dict() | health_in_json(result) | found_clusters
        content.pop("kept")  # for --save
        print_json(content)
        return
    show_matrix(result, found)
    if clusters is not None:
        show_clusters(result, clusters)
    if report is not None:
        screen.print(f"Report: {report}", markup=False)
