"""`fedwad matrix FILES...` and `fedwad cluster MATRIX`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import typer

import fedwad
from fedwad.cli.columns import TableOptions
from fedwad.cli.console import exit_on_error, print_json, progress_bar
from fedwad.cli.engine import ResumableEngineOptions
from fedwad.cli.matrix_table import heterogeneity_in_json, show_clusters, show_matrix
from fedwad.cli.option_groups import (
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
    expand_option_groups,
    parse_image_shape,
    parse_number_of_clusters,
)
from fedwad.cli.private import PrivacyOptions
from fedwad.cli.scales import warn_dominant_column
from fedwad.cli.sites import find_several, read_files, schema_of, schema_warnings
from fedwad.federation import Dataset
from fedwad.methods import MATRIX_METHODS

__all__ = ["MatrixOptions", "cluster", "matrix"]


class MatrixOptions(MethodOptions):
    """Options of the methods of a matrix."""

    methods: ClassVar[Any] = MATRIX_METHODS


@exit_on_error
@expand_option_groups
def matrix(
    files: Sources,
    options: MatrixOptions,
    table_options: TableOptions,
    output: Output,
    privacy: PrivacyOptions,
    engine_options: ResumableEngineOptions,
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
    image_shape = parse_image_shape(shape)
    n_clusters = parse_number_of_clusters(k)
    keywords = options.keywords() | privacy.keywords(table_options.columns.schema)
    keywords |= {"p": p, "seed": seed, "labels": labels, "class_covariance": class_covariance}
    keywords |= {"test": True} if test else {}
    data: dict[str, Dataset] = {}
    paths = {} if engine_options.connect else find_several(files, "a matrix")
    check_clusters(n_clusters, paths or files)
    with progress_bar("Asking the sites") as bar:
        if engine_options.uses_engine:
            content = engine_options.run("matrix", files, keywords, table_options.columns, bar.line)
            result = fedwad.MatrixResult.from_dict(content)
        else:
            data = read_files(paths, table_options.columns)
            with engine_options.local(data) as fed:
                result = fedwad.matrix(fed, n_jobs=n_jobs, callback=bar.progress, **keywords)
    clusters = (
        None if n_clusters is None else _cluster(result, n_clusters, affinity, n_neighbors, seed)
    )
    _write(result, clusters, output, schema_of(data), image_shape)
    if not output.as_json:
        warn_dominant_column(result.evidence)


@exit_on_error
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
    n_clusters = parse_number_of_clusters(k) or "auto"
    result = fedwad.MatrixResult.load(file)
    clusters = _cluster(result, n_clusters, affinity, n_neighbors, seed)
    if plot is not None:
        from fedwad.report import eigengap

        eigengap(result.suggest(), plot)
    _write(result, clusters, Output(report=report, as_json=as_json))


def _cluster(
    result: fedwad.MatrixResult,
    k: int | Literal["auto"],
    affinity: Any,
    n_neighbors: int,
    seed: int,
) -> dict[str, Any]:
    """Return clusters in the form that --json prints."""
    suggestion = result.suggest()
    number = suggestion.k if k == "auto" else k
    return {
        "k": number,
        "labels": result.cluster(number, affinity, n_neighbors, seed).tolist(),
        "suggested": suggestion.k,
        "suggested_by_distance": suggestion.by_distance,
        "eigenvalues": suggestion.eigenvalues.tolist(),
        "too_small": list(suggestion.too_small),
        "stability": result.stability(number, affinity, n_neighbors, seed=seed),
        "affinity": affinity,
    }


def _write(
    result: fedwad.MatrixResult,
    clusters: dict[str, Any] | None,
    output: Output,
    schema: fedwad.Schema | None = None,
    image_shape: tuple[int, ...] | None = None,
) -> None:
    """Write a matrix and its clusters to files, and print them."""
    labels = None if clusters is None else np.array(clusters["labels"])
    warnings = schema_warnings(schema)
    output.write(result, clusters=labels, schema=schema, shape=image_shape, warnings=warnings)
    if output.as_json:
        content = result.to_dict() | heterogeneity_in_json(result)
        content.pop("kept")  # for --save
        print_json(content if clusters is None else content | {"clusters": clusters})
        return
    show_matrix(result, labels)
    if clusters is not None:
        show_clusters(result, clusters)
    output.print_report()
