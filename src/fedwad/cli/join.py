"""`fedwad join NEW --matrix MATRIX`: is a new site like the others?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import fedwad
from fedwad._matrix.newcomers import add_replies, join_options
from fedwad._words import format_bytes
from fedwad.cli.columns import Drop, LabelColumn, Missing
from fedwad.cli.console import (
    EXIT_DIFFERENT,
    exit_on_error,
    print_json,
    print_text,
    progress_bar,
)
from fedwad.cli.engine import EngineOptions
from fedwad.cli.explain import Explain, explanation_in_json, show_explanation
from fedwad.cli.option_groups import Output, expand_option_groups
from fedwad.cli.sites import conflict_sentences, find_one_file
from fedwad.federation import Columns, local

__all__ = ["join"]

_NEIGHBOURS = 3  # sites that are printed as the nearest


@exit_on_error
@expand_option_groups
def join(
    new: Annotated[
        str,
        typer.Argument(
            help="The new site's data: .npy, .npz, .csv or .parquet; its name with --connect."
        ),
    ],
    matrix: Annotated[
        Path, typer.Option(help="A matrix saved by `fedwad matrix --save`.", show_default=False)
    ],
    output: Output,
    engine_options: EngineOptions,
    label_column: LabelColumn = None,
    drop: Drop = None,
    missing: Missing = None,
    explain: Explain = False,
) -> None:
    """Is a new site like the others? Only the new site is asked.

    Its own messages place it among the sites of a saved matrix, which keeps what they sent if their
    policies allow that. The exit code is 3 if the new site is unlike all of them. On an engine, the
    policy of the new site must allow its replies to be kept, too.
    """
    output.check([new])
    saved = fedwad.MatrixResult.load(matrix)
    schema = None if saved.evidence is None else saved.evidence.schema
    # In a simulation a table waits ("auto") for the schema of the matrix, which the job brings;
    # without one, its columns are numbers. A real site has its own settings instead.
    waits = schema is not None or engine_options.connect is not None
    columns = Columns.of(label_column, drop, missing, "auto" if waits else None)
    if engine_options.uses_engine:
        result = _on_engine(saved, new, columns, engine_options)
    else:
        name, path = find_one_file(new)
        fed = local({name: path}, None, label_column, drop or (), schema, missing or ())
        result = saved.add(fed[name])
    name = result.sites[-1]
    placement = result.placement(name)
    output.write(result, schema=schema, newcomer=name, warnings=conflict_sentences(schema))
    if output.as_json:
        traffic = {"up": result.traffic.up, "messages": result.traffic.messages}
        extra = {"traffic": traffic, "sites": list(result.sites)}
        print_json(placement.to_dict() | extra | explanation_in_json(placement.explanation))
    else:
        _show(placement, result, explain)
    if placement.stranger:
        raise typer.Exit(EXIT_DIFFERENT)


def _on_engine(
    matrix: fedwad.MatrixResult, new: str, columns: Columns, engine_options: EngineOptions
) -> fedwad.MatrixResult:
    """Ask the new site on an engine, and place it here."""
    name = new if engine_options.connect is not None else find_one_file(new)[0]
    with progress_bar(f"Asking {name}") as bar:
        content = engine_options.run("join", [new], join_options(matrix), columns, bar.line)
    return add_replies(matrix, name, content["replies"])


def _show(placement: fedwad.Placement, result: fedwad.MatrixResult, all_columns: bool) -> None:
    print_text(placement.sentence)
    nearest = placement.nearest[:_NEIGHBOURS]
    names = ", ".join(f"{neighbour.site} ({neighbour.value:.4g})" for neighbour in nearest)
    print_text(f"Nearest populations: {names}")
    if placement.stranger or all_columns:
        show_explanation(placement.explanation, all_columns)
    if not placement.tested:
        print_text(
            "The p-value is from errors of distances; a matrix made with --test keeps block means"
            " for an exact one."
        )
    sent = format_bytes(result.traffic.up)
    print_text(f"Sent: {sent} by {placement.site} alone, in {result.traffic.messages} messages.")
