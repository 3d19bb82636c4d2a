"""`fedwad schema SITES...`: what the columns of sites' tables become."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwad.cli.columns import Drop, LabelColumn, Missing
from fedwad.cli.console import errors, guarded, print_json, progress_bar, screen
from fedwad.cli.engine import Ca, Connect, Engine, Timeout, run_on_engine
from fedwad.cli.groups import Json, Sources, check_ending
from fedwad.cli.sites import find_files, show_conflicts
from fedwad.engines.job import Job
from fedwad.errors import InputError
from fedwad.federation import Columns, agreed_between, read_raw
from fedwad.tables import Schema

__all__ = ["schema"]


@guarded
def schema(
    files: Sources,
    out: Annotated[
        Path | None, typer.Option(help="Write the schema to this .toml file.", show_default=False)
    ] = None,
    label_column: LabelColumn = None,
    drop: Drop = None,
    missing: Missing = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Make the schema under differential privacy.", show_default=False),
    ] = None,
    engine: Engine = None,
    connect: Connect = None,
    ca: Ca = None,
    timeout: Timeout = 3600.0,
    as_json: Json = False,
) -> None:
    """What do the columns of the sites' tables become when they are compared?

    The sites agree on a schema through one message each. It is a file to read, edit and keep:
    `--schema FILE` of the other commands takes it. Conflicts between the sites are printed as
    warnings.
    """
    check_ending(out, ".toml", "--out")
    if epsilon is not None:
        raise InputError(
            "--epsilon is not offered for a schema yet; write one from public knowledge (ranges and"
            " levels that the columns can have) and give it to the other commands with --schema."
        )
    columns = Columns.of(label_column, drop, missing, "auto")
    if engine is not None or connect is not None:
        found = _on_engine(files, columns, engine, connect, ca, timeout)
    else:
        paths = find_files(files)
        found = agreed_between({n: read_raw(p, columns=columns) for n, p in paths.items()}, columns)
    if out is not None:
        found.save(out)
    if as_json:
        print_json(_content(found))
    else:
        screen.print(repr(found), soft_wrap=True, markup=False)
    show_conflicts(found)
    if out is not None:
        errors.print(f"Schema: {out}", markup=False)


def _on_engine(
    files: list[str],
    columns: Columns,
    engine: str | None,
    connect: str | None,
    ca: Path | None,
    timeout: float,
) -> Schema:
    if engine not in ("flower", "flare"):
        raise InputError("--connect needs an engine; add --engine flower or --engine flare.")
    with progress_bar("Asking the sites") as bar:
        paths = find_files(files) if connect is None else {}
        job = Job("schema", tuple(paths or files), {})
        outcome = run_on_engine(
            engine,  # type: ignore[arg-type]
            job,
            connect,
            ca,
            timeout,
            False,
            lambda: paths,
            columns,
            bar.line,
        )
    return Schema.from_dict(outcome)


def _content(found: Schema) -> dict[str, object]:
    return {
        **found.to_dict(),
        "columns": [
            {"name": c.name, "kind": c.kind, "becomes": c.becomes, "encoded": list(c.encoded_names)}
            for c in found.columns
        ],
    }
