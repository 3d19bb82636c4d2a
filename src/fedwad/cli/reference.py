"""`fedwad reference SITE`: write a reference of a site's data, to watch for drift."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import fedwad
from fedwad.cli.columns import LedgerFile, TableOptions
from fedwad.cli.console import exit_on_error, print_json, print_text
from fedwad.cli.option_groups import FILE_TYPES, Json, Seed, check_ending, expand_option_groups
from fedwad.cli.sites import find_one_file, show_conflicts
from fedwad.errors import InputError
from fedwad.federation import AgreedFederation, LocalFederation, Site, ensure_schema, open_client

__all__ = ["reference"]


@exit_on_error
@expand_option_groups
def reference(
    site: Annotated[
        str,
        typer.Argument(help=f"The site's data: {FILE_TYPES}.", show_default=False),
    ],
    table_options: TableOptions,
    out: Annotated[
        Path, typer.Option(help="Write the reference to this .json file.", show_default=False)
    ],
    policy: Annotated[
        Path | None,
        typer.Option(
            help="The site's policy, which must allow summary and blocks and have keep = true;"
            " everything is answered when left out.",
            show_default=False,
        ),
    ] = None,
    ledger: LedgerFile = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """What are a site's data like now? A reference for `fedwad watch`, without rows.

    It holds a summary, means over blocks of rows and the schema. Both messages pass through the
    site's policy and ledger like any other.
    """
    check_ending(out, ".json", "--out")
    if ledger is not None and policy is None:
        raise InputError("--ledger was given without --policy; give both, or neither.")
    name, path = find_one_file(site)
    if policy is None:
        result = fedwad.Reference.from_data(
            path, name, seed=seed, **table_options.columns.to_options()
        )
    else:
        result = fedwad.Reference.from_data(_site(path, policy, ledger, table_options), seed=seed)
    result.save(out)
    if result.schema is not None:
        show_conflicts(result.schema)
    if as_json:
        print_json({"site": result.site, "out": str(out), "digest": result.digest})
        return
    print_text(f"Wrote {result!r} to {out}; it has no rows.")
    print_text(f"Next: fedwad watch NEW --reference {out} --history log.jsonl")


def _site(path: Path, policy: Path, ledger: Path | None, table_options: TableOptions) -> Site:
    """Return the site behind its policy and ledger, with a schema that fits later tables too."""
    client = open_client(path, policy, ledger, **table_options.columns.to_options())
    name = client.policy.name or path.stem
    federation = LocalFederation({name: client})
    prepared = ensure_schema(federation)
    if isinstance(prepared, AgreedFederation):
        return AgreedFederation(federation, prepared.schema.for_new_data(), [name])[name]
    return LocalFederation({name: client}, client.data.features, client.data.schema)[name]
