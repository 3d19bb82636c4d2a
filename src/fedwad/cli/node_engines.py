"""`fedwad node flower` runs a site's node, and `fedwad node flare` prepares one for FLARE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwad.cli.columns import LedgerFile, TableOptions
from fedwad.cli.console import exit_on_error, print_text
from fedwad.cli.option_groups import FILE_TYPES, expand_option_groups

__all__ = ["flare", "flower"]

DataOption = Annotated[Path, typer.Option(help=f"The data: {FILE_TYPES}.", show_default=False)]
PolicyOption = Annotated[Path, typer.Option(help="The policy, a .toml file.", show_default=False)]


@exit_on_error
@expand_option_groups
def flower(
    data: DataOption,
    policy: PolicyOption,
    table_options: TableOptions,
    superlink: Annotated[
        str, typer.Option(help="Address of the SuperLink, as host:port.", show_default=False)
    ],
    key: Annotated[
        Path,
        typer.Option(
            help="Private key of this node, whose public key must be registered with the"
            " SuperLink (`flwr supernode register`).",
            show_default=False,
        ),
    ],
    root_certificates: Annotated[
        Path | None,
        typer.Option(
            "--ca",
            "--root-certificates",
            help="CA certificate of the SuperLink; the system's when left out.",
        ),
    ] = None,
    ledger: LedgerFile = None,
    patience: Annotated[
        float,
        typer.Option(
            help="Seconds to keep trying while the SuperLink does not answer or refuses this node.",
            min=0.0,
        ),
    ] = 120.0,
) -> None:
    """Answer the requests of a Flower SuperLink, within the policy, until Ctrl-C.

    The node runs fedwad and nothing else: it never fetches an app that an analyst submits. It stays
    in the foreground and reconnects by itself. Events are reported on standard error. The ledger
    records each request and what became of it.
    """
    from fedwad.engines.flower.supernode import run

    run(
        data,
        policy,
        ledger,
        superlink=superlink,
        root_certificates=root_certificates,
        key=key,
        patience=patience,
        **table_options.columns.to_options(),
    )


@exit_on_error
@expand_option_groups
def flare(
    kit: Annotated[
        Path,
        typer.Argument(
            help="The site's startup kit, a folder that `nvflare package` wrote.",
            show_default=False,
        ),
    ],
    data: DataOption,
    policy: PolicyOption,
    table_options: TableOptions,
    ledger: LedgerFile = None,
) -> None:
    """Prepare a site's startup kit of NVIDIA FLARE to answer requests within the policy.

    The command opens data, policy and ledger as the node will, and writes their paths into the
    kit's `local` folder. It also writes rules there: jobs start nothing but fedwad, and nobody
    reads files or logs of the site. FLARE's own script, startup/start.sh, then starts the node.
    """
    from fedwad.engines.flare.startup_kit import prepare_site

    prepare_site(kit, data, policy, ledger, **table_options.columns.to_options())
    print_text(f"{kit} is ready; start the node with {kit / 'startup' / 'start.sh'}")
