"""`fedwad coreset` and `fedwad train`: what is learned from the data of all sites."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

import fedwad
from fedwad._files import write_arrays
from fedwad._words import format_bytes
from fedwad.cli.console import (
    Bar,
    describe_traffic,
    make_table,
    print_facts,
    print_failed,
    print_json,
    print_text,
    progress_bar,
    screen,
    warn_small_cells,
)
from fedwad.cli.options import (
    ImageShape,
    MethodOptions,
    OptionGroup,
    Output,
    SavedOutput,
    Seed,
    Sources,
    TableOptions,
    check_clusters,
    parameters_of_fields,
    parse_image_shape,
    parse_number_of_clusters,
)
from fedwad.cli.sites import (
    PreviewEngineOptions,
    ResumableEngineOptions,
    open_sites,
    page_of_sites,
)
from fedwad.compare import Progress
from fedwad.errors import InputError
from fedwad.federation import LocalFederation
from fedwad.learning import TrainingOptions, TrainingResult
from fedwad.learning import train as run_training
from fedwad.learning.comparison import ALL_SITES, ALONE, IN_CLUSTERS, Comparison, compare_trainings
from fedwad.methods import CORESET_METHODS


class CoresetOptions(MethodOptions):
    """Options of the methods of a coreset."""

    methods: ClassVar[Any] = CORESET_METHODS


def coreset(
    files: Sources,
    *,
    options: CoresetOptions,
    table_options: TableOptions,
    output: SavedOutput,
    engine_options: ResumableEngineOptions,
    size: int = 10,
    shape: ImageShape = None,
    seed: Seed = 0,
) -> None:
    """A few points that represent the data of all sites, and how far they are from it.

    Each file becomes a site in this process. Only what would travel between real sites is
    exchanged, and its size is reported.

    Example: `fedwad coreset sites/ --size 4 --report points.html`

    Parameters
    ----------
    size : number of points
    """
    output.check(files)
    image_shape = parse_image_shape(shape)
    keywords = {"size": size, "seed": seed} | options.keywords()
    sources = engine_options.find(files, table_options)

    def here(_: LocalFederation, fed: Any, bar: Bar) -> fedwad.CoresetResult:
        total = keywords.get("rounds", 1 if options.method == "summary" else 50)

        def show(record: fedwad.CoresetRound) -> None:
            stage = f"{options.method}, loss {record.loss:.4g}"
            bar.progress(Progress(stage, record.number, total))

        return fedwad.coreset(fed, callback=show, **keywords)

    kind = fedwad.CoresetResult
    result, page = engine_options.ask(
        "coreset", files, keywords, table_options, sources, kind, here, output
    )
    output.write(result, shape=image_shape, **page)
    if output.as_json:
        print_json(result.to_dict() | ({"rows": list(result.rows)} if result.rows else {}))
        return
    _show_coreset(result)
    output.print_report()


def _show_coreset(result: fedwad.CoresetResult) -> None:
    print_text(
        f"Coreset of {len(result)} points for {len(result.sites)} sites, method {result.method}"
    )
    interval = f"certified {result.lower:.4g} to {result.upper:.4g}"
    facts = [
        ("W2 to the data", f"{result.value:.4g}, {interval}"),
        ("rounds", str(len(result.history))),
        ("sent", describe_traffic(result.traffic)),
    ]
    print_facts(facts)
    if result.schema is not None:
        heaviest = np.argsort(-result.weights, kind="stable")[:6].tolist()  # --json has all
        points = make_table("", *(f"{result.weights[k]:.0%}" for k in heaviest), left=("",))
        for name in result.rows[0]:
            points.add_row(escape(name), *(escape(result.rows[k][name]) for k in heaviest))
        print_text("The heaviest points, by their weights, in the columns' own units and levels:")
        screen.print(points)
    if result.method == "union" and not result.converged:
        print_text("The tolerance was not met; more --rounds may bring the bounds closer.")
    print_failed(result.failed)
    warn_small_cells(result.min_cell_size)


class TrainingArguments(OptionGroup):
    """The fields of `TrainingOptions` as options of the command."""

    def __init__(self, personal: list[str] | None, **options: Any) -> None:
        self.options = TrainingOptions(personal=tuple(personal) if personal else None, **options)

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        return parameters_of_fields(TrainingOptions, changed={"personal": list[str] | None})


def train(
    files: Sources,
    *,
    training: TrainingArguments,
    table_options: TableOptions,
    engine_options: PreviewEngineOptions,
    output: Output,
    k: str = "auto",
    seeds: Annotated[int, typer.Option(min=1)] = 3,
    save: Path | None = None,
) -> None:
    """Train a classifier without pooling the data: on all sites together, in clusters of similar
    sites, and at each site alone.

    Clusters come from the distances between the sites' labelled data, which need one message from
    each. All sites together and clusters send equally many models. Trained weights reveal something
    about the data: there is no privacy guarantee.

    Example: `fedwad train sites/ --label-column diagnosis`

    Parameters
    ----------
    k : number of clusters by dataset distance, 'auto', or 'none'
    seeds : repetitions with seeds one apart, for intervals
    save : folder for the models (.npz, one per cluster) and results
    """
    output.check()
    if save is not None and not save.parent.is_dir():
        raise InputError(
            f"There is no folder {save.parent} to write {save.name} into; create it first.",
            "no-such-file",
        )
    n_clusters = None if k == "none" else parse_number_of_clusters(k, " or 'none'")
    options, columns = training.options, table_options.columns
    if engine_options.connect is None:
        _find_models_here(options.model)
    sites = engine_options.find(files, table_options)
    check_clusters(n_clusters, sites or files)
    with progress_bar("Asking the sites") as bar:
        here = None
        if not engine_options.uses_engine:
            here = open_sites(sites, columns, engine_options.site_policy, bar)

        def trainer(
            options: TrainingOptions, groups: dict[str, int] | None, test_every_round: bool
        ) -> TrainingResult:
            given: dict[str, Any] = {"test_every_round": test_every_round}
            given |= {} if groups is None else {"groups": groups}
            names = tuple(groups or ())
            if here is not None:
                return run_training(
                    here, options, clients=names or None, callback=bar.progress, **given
                )
            given |= options.to_dict()
            found = engine_options.run("train", files, given, columns, bar.line, names=names)
            return TrainingResult.from_dict(found)

        def matrix() -> fedwad.MatrixResult:
            given: dict[str, Any] = {"labels": True, "seed": options.seed}
            if here is not None:
                return fedwad.matrix(here, callback=bar.progress, **given)
            found = engine_options.run("matrix", files, given, columns, bar.line)
            return fedwad.MatrixResult.from_dict(found)

        comparison = compare_trainings(trainer, matrix, options, n_clusters, seeds)
    results = comparison.first
    if save is not None:
        _save(results, save)
    page = {} if here is None else page_of_sites(here, here, results, engine_options.policy)
    output.write(results, **page)
    if output.as_json:
        shown: dict[str, Any] = {}
        for key, result in results.items():
            content = result.to_dict()
            shown[key.replace(" ", "_")] = content
            del content["weights"]
        print_json(shown | {"comparison": comparison.to_dict()})
    else:
        _show_training(comparison, n_clusters)
        if save is not None:
            print_text(f"Models: {save}")
        output.print_report()


def _find_models_here(model: str) -> None:
    """Let this process, and those of a simulation, import a model from the current folder."""
    module = model.partition(":")[0].partition(".")[0]
    here = Path.cwd()
    if ":" in model and ((here / f"{module}.py").is_file() or (here / module).is_dir()):
        sys.path.insert(0, str(here))
        paths = [str(here), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def _save(results: Mapping[str, TrainingResult], folder: Path) -> None:
    """Write each result as JSON, and the model of each cluster as named arrays."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(
            f"{folder} cannot be made a folder; choose a different path.", "cannot-write"
        ) from None
    for key, result in results.items():
        if key == ALONE:
            continue
        word = "all" if key == ALL_SITES else "cluster"
        result.save(folder / f"{word}.json")
        for group in result.weights:
            layers = result.network(group).state_dict().items()
            file = f"{word}.npz" if word == "all" else f"{word}{group + 1}.npz"
            write_arrays(folder / file, {name: value.numpy() for name, value in layers})


def _show_training(comparison: Comparison, n_clusters: int | str | None) -> None:
    results = comparison.first
    first = results[ALL_SITES]
    print_text(
        f"{first.algorithm}, model {first.model}, {first.rounds} rounds, {len(first.sites)} sites"
    )
    screen.print(_table(comparison))
    for sentence in comparison.sentences:
        print_text(sentence)
    if IN_CLUSTERS in results:
        apart = results[IN_CLUSTERS]
        for group in apart.weights:
            of_groups = zip(apart.sites, apart.groups, strict=True)
            members = ", ".join(site for site, own in of_groups if own == group)
            print_text(f"Cluster {group + 1}: {members}")
    elif n_clusters == "auto":
        print_text("The distances suggest one cluster: all sites learn together.")
    for result in results.values():
        print_failed(result.failed)
    print_text("Trained weights reveal something about the data; there is no privacy guarantee.")


def _table(comparison: Comparison) -> Table:
    """A row for each training, under the baseline that always predicts the majority class.

    Numbers are means over sites, with half the width of the 95% interval over seeds.
    """
    titles = ("", "models", "accuracy", "balanced", "worst site", "sent by sites")
    table = make_table(*titles, left=("",))
    results, content = comparison.first, comparison.to_dict()["rows"]
    for row, numbers in content.items():
        cells = [_percent(**numbers[name]) for name in ("accuracy", "balanced")]
        worst = f"{numbers['worst']:.1%}" if "worst" in numbers else ""
        models = str(len(results[row].weights)) if row in results else ""
        sent = format_bytes(numbers["sent"]) if numbers["sent"] else "nothing"
        table.add_row(row, models, *cells, worst, sent if row in results else "")
    return table


def _percent(mean: float, half_width: float, values: list[float]) -> str:  # noqa: ARG001
    if np.isnan(mean):
        return "unknown"
    return f"{mean:.1%}" if np.isnan(half_width) else f"{mean:.1%} ± {100 * half_width:.1f}"
