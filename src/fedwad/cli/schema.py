"""`fedwad schema SITES...`: what the columns of sites' tables become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedwad.cli.columns import Drop, LabelColumn, Missing
from fedwad.cli.console import exit_on_error, print_json, print_text, progress_bar, stderr
from fedwad.cli.engine import EngineOptions
from fedwad.cli.option_groups import Json, Sources, check_ending, expand_option_groups
from fedwad.cli.sites import find_files, show_conflicts
from fedwad.errors import InputError
from fedwad.federation import Columns, private_schema_of_tables, read_raw, schema_of_tables
from fedwad.privacy import check_draft
from fedwad.tables import Schema

__all__ = ["schema"]

_PRIVACY = "Differential privacy"


@exit_on_error
@expand_option_groups
def schema(
    files: Sources,
    engine_options: EngineOptions,
    out: Annotated[
        Path | None, typer.Option(help="Write the schema to this .toml file.", show_default=False)
    ] = None,
    label_column: LabelColumn = None,
    drop: Drop = None,
    missing: Missing = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Make the schema under differential privacy; needs --draft.",
            show_default=False,
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Delta of that guarantee.", rich_help_panel=_PRIVACY)
    ] = 1e-5,
    draft: Annotated[
        Path | None,
        typer.Option(
            help="Schema file with kinds, ranges and levels from public knowledge.",
            show_default=False,
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """How are the columns of the sites' tables encoded?

    The sites agree on a schema through one message each. It is a file to read, edit and keep:
    other commands take it as `--schema FILE`. Conflicts between the sites are printed as warnings.
    With --epsilon, each site makes one noisy release instead.
    """
    check_ending(out, ".toml", "--out")
    columns = Columns.of(label_column, drop, missing, _choose_schema(epsilon, draft))
    if engine_options.uses_engine:
        options = {} if epsilon is None else {"epsilon": epsilon, "delta": delta}
        result = _on_engine(files, columns, options, engine_options)
    else:
        result = _in_process(find_files(files), columns, epsilon, delta)
    if out is not None:
        result.save(out)
    if as_json:
        print_json(_content(result))
    else:
        print_text(repr(result))
    show_conflicts(result)
    if out is not None:
        stderr.print(f"Schema: {out}", markup=False)


def _choose_schema(epsilon: float | None, draft: Path | None) -> Path | str:
    """Return the option `schema` with which tables are read: the draft of a private schema."""
    if epsilon is None and draft is None:
        return "auto"
    if draft is None:
        raise InputError(
            "--epsilon needs --draft FILE: names of levels, kinds and ranges cannot be found"
            " privately, so write them from public knowledge into a schema file."
        )
    if epsilon is None:
        raise InputError("--draft belongs to a private schema; add --epsilon.")
    return draft


def _in_process(
    paths: Mapping[str, Path], columns: Columns, epsilon: float | None, delta: float
) -> Schema:
    if epsilon is not None:
        return private_schema_of_tables(paths, columns, epsilon, delta)
    return schema_of_tables({n: read_raw(p, columns=columns) for n, p in paths.items()}, columns)


def _on_engine(
    files: list[str], columns: Columns, options: dict[str, Any], engine_options: EngineOptions
) -> Schema:
    if options and isinstance(columns.schema, Schema):
        check_draft(columns.schema)
        options["draft"] = columns.schema.to_toml()
        if engine_options.connect is not None:
            columns = replace(columns, schema="auto", schema_path="")
    with progress_bar("Asking the sites") as bar:
        return Schema.from_dict(engine_options.run("schema", files, options, columns, bar.line))


def _content(schema: Schema) -> dict[str, object]:
    """Return what --json prints."""
    return {
        **schema.to_dict(),
        "columns": [
            {"name": c.name, "kind": c.kind, "becomes": c.becomes, "encoded": list(c.encoded_names)}
            for c in schema.columns
        ],
    }
