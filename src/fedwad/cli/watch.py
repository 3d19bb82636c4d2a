"""`fedwad watch NEW --reference REF`: have the data drifted since the reference?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import fedwad
from fedwad._drift.prometheus import metrics
from fedwad._files import write_atomically
from fedwad.cli.columns import Drop, LabelColumn, Missing
from fedwad.cli.console import (
    EXIT_DIFFERENT,
    command_line,
    exit_on_error,
    print_json,
    print_text,
)
from fedwad.cli.explain import Explain, explanation_in_json, show_explanation
from fedwad.cli.option_groups import FILE_TYPES, Output, Seed, check_ending, expand_option_groups
from fedwad.cli.sites import find_one_file
from fedwad.errors import InputError

__all__ = ["watch"]


@exit_on_error
@expand_option_groups
def watch(
    new: Annotated[str, typer.Argument(help=f"The new data: {FILE_TYPES}.", show_default=False)],
    reference: Annotated[
        Path, typer.Option(help="A file of `fedwad reference`.", show_default=False)
    ],
    output: Output,
    alpha: Annotated[
        float,
        typer.Option(
            help="Probability of a false alarm; with --history over all comparisons together."
        ),
    ] = 0.01,
    history: Annotated[
        Path | None,
        typer.Option(
            help="Add the comparison to this .jsonl file, and count those before.",
            show_default=False,
        ),
    ] = None,
    prometheus: Annotated[
        Path | None,
        typer.Option(
            help="Write a .prom file for the textfile collector of Prometheus.", show_default=False
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the history into a .png, .svg or .pdf file.", show_default=False),
    ] = None,
    label_column: LabelColumn = None,
    drop: Drop = None,
    missing: Missing = None,
    explain: Explain = False,
    seed: Seed = 0,
) -> None:
    """Have the data drifted since the reference was made? The exit code is 3 if so.

    The new data stay here. They are encoded as the reference was. --history divides alpha between
    all comparisons with the reference, so repeated comparisons raise no more false alarms.
    """
    output.check()
    check_ending(history, ".jsonl", "--history")
    if not 0 < alpha < 1:
        raise InputError(f"--alpha is {alpha:g}; give a number between 0 and 1, such as 0.01.")
    saved = fedwad.Reference.load(reference)
    name, path = find_one_file(new)
    result = saved.compare(
        path,
        alpha,
        name=name,
        history=history,
        seed=seed,
        label_column=label_column,
        drop=drop or (),
        missing=missing or (),
    )
    entries = [result.line()] if history is None else saved.history(history)
    if output.save is not None:
        result.save(output.save)
    _draw(result, entries, plot, output.report)
    content = _content(result)
    if prometheus is not None:
        write_atomically(prometheus, metrics(content, result.distance.sites[0], name))
    if output.as_json:
        print_json(content)
    else:
        _show(result, history is not None, explain)
        output.print_report()
    if result.drift:
        raise typer.Exit(EXIT_DIFFERENT)


def _draw(
    result: fedwad.DriftResult, entries: list[Any], plot: Path | None, report: Path | None
) -> None:
    """Write the picture and the report; `entries` are those of the history."""
    if plot is not None:
        from fedwad.report import drift_history

        drift_history(entries, plot)
    if report is not None:
        from fedwad.report import write_drift

        write_drift(result, entries, report, command=command_line())


def _content(result: fedwad.DriftResult) -> dict[str, Any]:
    """Return what --json prints."""
    content = result.line() | {"alpha": result.alpha, "judged": result.judged}
    content["distance"] = content.pop("value")
    content |= {
        "sentence": result.sentence,
        "sites": list(result.distance.sites),
        "blocks": list(result.blocks),
        "smallest": result.smallest,
    }
    return content | explanation_in_json(result.explain())


def _show(result: fedwad.DriftResult, with_history: bool, all_columns: bool) -> None:
    print_text(result.sentence)
    if result.drift:
        show_explanation(result.explain(), all_columns)
    if with_history:
        print_text(
            f"Comparison {result.test} with this reference: false alarms over all of them have"
            f" probability {result.alpha:g} at most."
        )
    if not result.judged:
        print_text(
            f"The smallest p-value that is possible here is {result.smallest:.2g}. Compare more"
            " rows at a time, or make a new reference."
        )
