"""`fedwad distance A B`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from rich.markup import escape
from rich.table import Table

import fedwad
from fedwad._matrix.api import Progress
from fedwad.cli.columns import TableOptions
from fedwad.cli.console import (
    describe_traffic,
    exit_on_error,
    print_json,
    progress_bar,
    screen,
    warn_small_cells,
)
from fedwad.cli.engine import ResumableEngineOptions
from fedwad.cli.explain import Explain, explanation_in_json, show_explanation
from fedwad.cli.option_groups import (
    FILE_TYPES,
    ClassCovariance,
    ImageShape,
    Labels,
    MethodOptions,
    Order,
    Output,
    Seed,
    expand_option_groups,
    parse_image_shape,
)
from fedwad.cli.private import PrivacyOptions
from fedwad.cli.scales import warn_dominant_column
from fedwad.cli.sites import read_files, schema_of, schema_warnings
from fedwad.errors import CertificateError, InputError
from fedwad.federation import Dataset
from fedwad.methods import DISTANCE_METHODS, FedWaD

__all__ = ["DistanceOptions", "distance"]


#: A result, the data of both sites if they are in this process, and the exact distance for --exact.
Answer = tuple[fedwad.DistanceResult, dict[str, Dataset], float | None]


class DistanceOptions(MethodOptions):
    """Options of the methods of a distance."""

    methods: ClassVar[Any] = DISTANCE_METHODS


@exit_on_error
@expand_option_groups
def distance(
    a: Annotated[
        str,
        typer.Argument(
            help=f"One site's data: {FILE_TYPES}; the name of a site with --connect.",
            show_default=False,
        ),
    ],
    b: Annotated[str, typer.Argument(help="The other site's data, or name.", show_default=False)],
    options: DistanceOptions,
    table_options: TableOptions,
    output: Output,
    privacy: PrivacyOptions,
    engine_options: ResumableEngineOptions,
    p: Order = 2.0,
    labels: Labels = False,
    class_covariance: ClassCovariance = "diag",
    seed: Seed = 0,
    explain: Explain = False,
    shape: ImageShape = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compute the exact distance too (pools both files).")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the rounds into a .png, .svg or .pdf file; sites then send their distance"
            " in every round."
        ),
    ] = None,
) -> None:
    """How far apart are the data in A and B?

    Each file becomes a site in this process. Only what would travel between real sites is
    exchanged, and its size is reported. The first answer is the distance between the populations
    behind the samples, with a 95% confidence interval; certified bounds of the samples' own
    distance come second.
    """
    output.check((a, b))
    image_shape = parse_image_shape(shape)
    if explain and p != 2:
        raise InputError(f"--explain is for p = 2, and --p is {p:g}; leave one of them out.")
    keywords = options.keywords() | privacy.keywords(table_options.columns.schema)
    keywords |= {"p": p, "seed": seed, "labels": labels, "class_covariance": class_covariance}
    if options.method == FedWaD.name and (plot or output.report):
        keywords.setdefault("reveal", "every")
    elif plot is not None:
        raise InputError(f"Method {options.method} has no rounds to plot; take --method fedwad.")
    ask = _on_engine if engine_options.uses_engine else _in_process
    result, data, exact_distance = ask((a, b), table_options, engine_options, keywords, exact)
    if plot is not None:
        from fedwad.report import convergence

        convergence(result, plot, exact=exact_distance)
    schema = schema_of(data)
    warnings = schema_warnings(schema)
    output.write(result, exact=exact_distance, schema=schema, shape=image_shape, warnings=warnings)
    if output.as_json:
        print_json(_content(result, exact_distance))
    else:
        _show(result, exact_distance, explain)


def _content(result: fedwad.DistanceResult, exact: float | None) -> dict[str, Any]:
    """Return what --json prints: the result, with an explanation instead of the evidence."""
    content = result.to_dict()
    del content["evidence"]
    if result.evidence is not None:
        content |= explanation_in_json(result.explain())
    return content if exact is None else content | {"exact": exact}


def _on_engine(
    names: tuple[str, str],
    table_options: TableOptions,
    engine_options: ResumableEngineOptions,
    keywords: dict[str, Any],
    exact: bool,
) -> Answer:
    if exact:
        raise InputError("--exact needs both files in this process; leave out the engine.")
    with progress_bar("Asking both sites") as bar:
        content = engine_options.run("distance", names, keywords, table_options.columns, bar.line)
    return fedwad.DistanceResult.from_dict(content), {}, None


def _in_process(
    paths: tuple[str, str],
    table_options: TableOptions,
    engine_options: ResumableEngineOptions,
    keywords: dict[str, Any],
    exact: bool,
) -> Answer:
    data, (first, second) = _read(paths, table_options)
    rounds = keywords.get("rounds", FedWaD.rounds)
    with progress_bar("Asking both sites") as bar:

        def show(record: fedwad.Round) -> None:
            stage = f"Asking both sites, running estimate {record.running:.4g}"
            bar.progress(Progress(stage, record.number, rounds))

        with engine_options.local(data) as fed:
            result = fedwad.distance(fed[first], fed[second], callback=show, **keywords)
        exact_distance = _exact(data[first], data[second], result) if exact else None
    return result, data, exact_distance


def _read(
    paths: tuple[str, str], table_options: TableOptions
) -> tuple[dict[str, Dataset], tuple[str, str]]:
    """Return the data by name, and the names of both sites, which are equal for the same file."""
    first, second = map(Path, paths)
    names = paths if first.stem == second.stem else (first.stem, second.stem)
    data = read_files(dict(zip(names, paths, strict=True)), table_options.columns)
    return data, (names[0], names[0] if first.resolve() == second.resolve() else names[1])


def _exact(mu: Dataset, nu: Dataset, result: fedwad.DistanceResult) -> float:
    """Return the exact distance; CertificateError unless it lies between the certified bounds."""
    classes: Any = result.class_covariance or "ignored"
    exact = fedwad.ot.solve(mu.view(classes), nu.view(classes), result.p).distance
    if result.certified and not result.lower * (1 - 1e-9) <= exact <= result.upper * (1 + 1e-9):
        raise CertificateError(
            f"The exact distance {exact:.6g} lies outside the certified {result.lower:.6g} to"
            f" {result.upper:.6g}; please report the data."
        )
    return exact


def _show(result: fedwad.DistanceResult, exact: float | None, all_columns: bool) -> None:
    what = f"W{result.p:g}" if result.class_covariance is None else "Dataset distance"
    a, b = map(escape, result.sites)
    screen.print(f"{what} between {a} and {b}, method {result.method}")
    table = Table.grid(padding=(0, 2))
    for term, text in _population_rows(result):
        table.add_row(term, text)
    table.add_row("samples", f"[bold]{result.value:.6g}[/], estimated distance of these samples")
    bounds = "certified bounds of that" if result.certified else "likely, without a proof"
    table.add_row("", f"{result.lower:.6g} to {result.upper:.6g}, {bounds}")
    for term, text in _detail_rows(result, exact):
        table.add_row(term, text)
    screen.print(table)
    warn_small_cells(result.min_cell_size, result.method)
    if result.evidence is not None:
        show_explanation(result.explain(), all_columns)
    warn_dominant_column(result.evidence)


def _population_rows(result: fedwad.DistanceResult) -> list[tuple[str, str]]:
    """Return the distance between populations, the noise, and what they mean."""
    if result.population is None or result.population_interval is None:
        reason = (
            "under differential privacy, for p other than 2, for labels with method 'fedwad', or"
            " where a site has few rows or withholds its splits"
        )
        return [("populations", f"unknown ({reason})")]
    low, high = result.population_interval
    verdict = "different" if result.differs else "no evidence of a difference"
    return [
        ("verdict", f"[bold]{verdict}[/]"),
        ("populations", f"[bold]{result.population:.4g}[/] (95% interval {low:.4g} to {high:.4g})"),
        ("noise", f"{result.noise:.4g}, what two samples of one population are apart"),
    ]


def _detail_rows(result: fedwad.DistanceResult, exact: float | None) -> list[tuple[str, str]]:
    rows = []
    if result.fedwad is not None:
        rows.append(("paper's estimate", f"{result.fedwad:.6g}"))
    if exact is not None:
        rows.append(("exact", f"{exact:.6g}"))
    if result.privacy is not None:
        guarantee = f"epsilon {result.privacy['epsilon']:g}, delta {result.privacy['delta']:g}"
        rows.append(("privacy", f"{guarantee} for the one release of each site"))
    if result.history:
        rows.append(("rounds", str(len(result.history))))
    rows.append(("sent", describe_traffic(result.traffic)))
    size = result.min_cell_size
    if size is not None:
        rows.append(("smallest cell", f"{size} sample{'s' if size > 1 else ''}"))
    return rows
