"""`fedwad coreset FILES...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

import fedwad
from fedwad._checks import check_choice
from fedwad._matrix.api import Progress
from fedwad._words import format_bytes
from fedwad.cli.columns import TableOptions
from fedwad.cli.console import (
    Bar,
    exit_on_error,
    make_table,
    print_failed,
    print_json,
    print_path,
    print_text,
    progress_bar,
    screen,
    warn_small_cells,
)
from fedwad.cli.engine import ResumableEngineOptions
from fedwad.cli.option_groups import (
    ImageShape,
    MethodOptions,
    Output,
    Seed,
    Sources,
    expand_option_groups,
    parse_image_shape,
)
from fedwad.cli.scales import warn_dominant_variance
from fedwad.cli.sites import find_files, read_files
from fedwad.errors import InputError
from fedwad.federation import Dataset
from fedwad.methods import CORESET_METHODS

__all__ = ["CoresetOptions", "coreset"]

Results = dict[str, fedwad.CoresetResult]


class CoresetOptions(MethodOptions):
    """Options of the methods of a coreset."""

    methods: ClassVar[Any] = CORESET_METHODS

    def keywords_of(self, method: str) -> dict[str, Any]:
        """Return the keywords for a method of --against: those of the given options that it has.

        Weights are left at their default, so that coresets are comparable.
        """
        methods = {each.name: each for each in CORESET_METHODS}
        names = methods[check_choice(method, "--against", list(methods))].option_names()
        given = {k: v for k, v in self.given.items() if k in names and k != "weights"}
        return {"method": method, **given}


@exit_on_error
@expand_option_groups
def coreset(
    files: Sources,
    options: CoresetOptions,
    table_options: TableOptions,
    output: Output,
    engine_options: ResumableEngineOptions,
    size: Annotated[int, typer.Option(help="Number of points.")] = 10,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Also compute a coreset by this method, to compare; may be repeated."),
    ] = None,
    shape: ImageShape = None,
    seed: Seed = 0,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the points, or images, into a .png, .svg or .pdf file."),
    ] = None,
) -> None:
    """A few points that represent the data of all sites, and how far they are from it.

    Each file becomes a site in this process. Only what would travel between real sites is
    exchanged, and its size is reported.
    """
    output.check(files)
    image_shape = parse_image_shape(shape)
    shared = {"size": size, "seed": seed}
    others: Results = {}
    data: dict[str, Dataset] = {}
    with progress_bar("Asking the sites") as bar:
        if engine_options.uses_engine:
            if against:
                raise InputError(
                    "--against is for runs in this process; take one method at a time."
                )
            keywords = shared | options.keywords()
            content = engine_options.run(
                "coreset", files, keywords, table_options.columns, bar.line
            )
            result = fedwad.CoresetResult.from_dict(content)
        else:
            data = read_files(find_files(files), table_options.columns)
            with engine_options.local(data) as fed:
                result = _learn(fed, shared | options.keywords(), bar)
                for other in against or ():
                    if other == result.method:
                        raise InputError(
                            f"--against is '{other}', the method of the coreset itself; give"
                            " another."
                        )
                    others[other] = _learn(fed, shared | options.keywords_of(other), bar)
    if plot is not None:
        from fedwad.report import coreset_picture

        coreset_picture({result.method: result} | others, plot, shape=image_shape)
    output.write(result, others=others, shape=image_shape)
    if output.as_json:
        compared = {"against": {name: one.to_dict() for name, one in others.items()}}
        print_json(result.to_dict() | (compared if others else {}))
        return
    _show(result, others)
    warn_dominant_variance(data.values())
    output.print_report()
    print_path("Picture", plot)


def _learn(fed: Any, keywords: dict[str, Any], bar: Bar) -> fedwad.CoresetResult:
    total = keywords.get("rounds", 1 if keywords["method"] == "summary" else 50)

    def show(record: fedwad.CoresetRound) -> None:
        bar.progress(
            Progress(f"{keywords['method']}, loss {record.loss:.4g}", record.number, total)
        )

    return fedwad.coreset(fed, callback=show, **keywords)


def _show(result: fedwad.CoresetResult, others: Results) -> None:
    print_text(
        f"Coreset of {len(result)} points for {len(result.sites)} sites, method {result.method}"
    )
    titles = ("method", "W2 to the data", "certified", "rounds", "sent by sites", "to them")
    table = make_table(*titles, left=("method", "certified"))
    for name, one in ({result.method: result} | others).items():
        table.add_row(
            name,
            f"{one.value:.4g}",
            f"{one.lower:.4g} to {one.upper:.4g}",
            str(len(one.history)),
            format_bytes(one.traffic.up),
            format_bytes(one.traffic.down),
        )
    screen.print(table)
    if result.method == "union" and not result.converged:
        print_text("The tolerance was not met; more --rounds may bring the bounds closer.")
    for name, reason in result.failed.items():
        print_failed(name, reason)
    warn_small_cells(result.min_cell_size, "coreset")
