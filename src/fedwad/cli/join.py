"""`fedwad join NEW --matrix MATRIX`: is a new site like the others?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import fedwad
from fedwad._matrix.newcomers import add_replies, join_options
from fedwad._words import format_bytes, pluralize
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
from fedwad.cli.option_groups import FILE_TYPES, Output, expand_option_groups
from fedwad.cli.sites import find_one_file, schema_warnings
from fedwad.federation import Columns, local

__all__ = ["join"]

_NEIGHBOURS = 3  # sites that are printed as the nearest


@exit_on_error
@expand_option_groups
def join(
    new: Annotated[
        str,
        typer.Argument(
            help=f"The new site's data: {FILE_TYPES}; with --connect, the name of the new site."
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

    The other sites are those of a saved matrix. It holds their replies, which their policies must
    allow (keep = true). With --engine, so must the policy of the new site.

    The exit code is 3 if the new site differs by more than chance from every site of the nearest
    cluster, and, if these are at least three, by more than they differ from each other.
    """
    output.check([new])
    saved = fedwad.MatrixResult.load(matrix)
    # `evidence` holds what explains distances by columns, such as the schema that encoded them.
    schema = None if saved.evidence is None else saved.evidence.schema
    # These columns matter on an engine only. With "auto", the new site encodes its table by the
    # schema of the matrix, which the job sends; without a schema, all columns are numbers. With
    # --connect, the new site uses the settings of its own node instead.
    expects_schema = schema is not None or engine_options.connect is not None
    columns = Columns.of(label_column, drop, missing, "auto" if expects_schema else None)
    if engine_options.uses_engine:
        result = _on_engine(saved, new, columns, engine_options)
    else:
        name, path = find_one_file(new)
        fed = local({name: path}, None, label_column, drop or (), schema, missing or ())
        result = saved.add(fed[name])
    name = result.sites[-1]
    placement = result.placement(name)
    output.write(result, schema=schema, newcomer=name, warnings=schema_warnings(schema))
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
    """Ask the new site through an engine, and add its replies to the matrix in this process."""
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
            "The p-value follows from the standard errors of the distances. A permutation test"
            " needs a matrix that was saved with --test, which keeps block means."
        )
    sent = format_bytes(result.traffic.up)
    messages = pluralize(result.traffic.messages, "message")
    print_text(f"Sent: {sent} by {placement.site} alone, in {messages}.")
