"""`fedwad join NEW --matrix MATRIX`: is a new site like the others?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import fedwad
from fedwad._matrix.newcomers import add_replies, join_options
from fedwad._words import format_bytes
from fedwad.cli.columns import Drop, LabelColumn, Missing
from fedwad.cli.console import exit_on_error, print_json, print_text, progress_bar
from fedwad.cli.engine import Deployment
from fedwad.cli.explain import Explain, explanation_in_json, show_explanation
from fedwad.cli.groups import Output, expand_groups
from fedwad.cli.sites import conflict_sentences, find_one_file
from fedwad.federation import Columns, local

__all__ = ["join"]

_STRANGER = 3  # exit code
_NEIGHBOURS = 3


@exit_on_error
@expand_groups
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
    deployment: Deployment,
    label_column: LabelColumn = None,
    drop: Drop = None,
    missing: Missing = None,
    explain: Explain = False,
) -> None:
    """Is a new site like the others? Only the new site is asked.

    It is placed by its own message among the sites of a saved matrix, which has kept what they
    sent if their policies allow it. The exit code is 3 if the new site is unlike all of them. On an
    engine, the policy of the new site must allow its replies to be kept, too.
    """
    output.check([new])
    known = fedwad.MatrixResult.load(matrix)
    schema = None if known.evidence is None else known.evidence.schema
    agreed = "auto" if schema is not None or deployment.connect is not None else None
    columns = Columns.of(label_column, drop, missing, agreed)
    if deployment.used:
        result = _on_engine(known, new, columns, deployment)
    else:
        name, path = find_one_file(new)
        fed = local({name: path}, None, label_column, drop or (), schema, missing or ())
        result = known.add(fed[name])
    name = result.sites[-1]
    placement = result.placement(name)
    output.write(result, schema=schema, newcomer=name, warnings=conflict_sentences(schema))
    if output.as_json:
        sent = {"up": result.traffic.up, "messages": result.traffic.messages}
        more = {"traffic": sent, "sites": list(result.sites)}
        print_json(placement.to_dict() | more | explanation_in_json(placement.explanation))
    else:
        _show(placement, result, explain)
    if placement.stranger:
        raise typer.Exit(_STRANGER)


def _on_engine(
    known: fedwad.MatrixResult, new: str, columns: Columns, deployment: Deployment
) -> fedwad.MatrixResult:
    """Ask the new site on an engine, and place it here."""
    name = new if deployment.connect is not None else find_one_file(new)[0]
    with progress_bar(f"Asking {name}") as bar:
        outcome = deployment.run("join", [new], join_options(known), columns, bar.line)
    return add_replies(known, name, outcome["replies"])


def _show(placement: fedwad.Placement, result: fedwad.MatrixResult, all_columns: bool) -> None:
    print_text(placement.sentence)
    near = [f"{one.site} ({one.value:.4g})" for one in placement.nearest[:_NEIGHBOURS]]
    print_text(f"Nearest populations: {', '.join(near)}")
    if placement.stranger or all_columns:
        show_explanation(placement.explanation, all_columns)
    if not placement.tested:
        print_text(
            "The p-value is from errors of distances; a matrix made with --test keeps block means"
            " for an exact one."
        )
    sent = format_bytes(result.traffic.up)
    print_text(f"Sent: {sent} by {placement.site} alone, in {result.traffic.messages} messages.")
