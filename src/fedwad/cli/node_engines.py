"""`fedwad node flower` and `fedwad node flare`: put data behind a node of an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwad.cli.columns import Drop, LabelColumn
from fedwad.cli.console import guarded, screen

__all__ = ["flare", "flower"]

Data = Annotated[
    Path, typer.Option(help="The data: .npy, .npz, .csv or .parquet.", show_default=False)
]
Rules = Annotated[Path, typer.Option(help="What is answered: a .toml file.", show_default=False)]
Record = Annotated[
    Path | None,
    typer.Option(help="Where each answer is written down; beside the policy when left out."),
]


@guarded
def flower(
    data: Data,
    policy: Rules,
    superlink: Annotated[
        str, typer.Option(help="Address of the hub's SuperLink, as host:port.", show_default=False)
    ],
    key: Annotated[
        Path,
        typer.Option(
            help="Private key of this node; the hub registers its public half.", show_default=False
        ),
    ],
    root_certificates: Annotated[
        Path | None,
        typer.Option(
            "--ca",
            "--root-certificates",
            help="Certificate that signed the SuperLink's; else the system's.",
        ),
    ] = None,
    ledger: Record = None,
    label_column: LabelColumn = None,
    drop: Drop = None,
    patience: Annotated[
        float,
        typer.Option(help="Seconds to go on trying when the hub is away or refuses.", min=0.0),
    ] = 120.0,
) -> None:
    """Answer what a Flower hub asks, within the policy, until Ctrl-C.

    The node runs fedwad and nothing else: it never fetches what an analyst submits. It stays in the
    foreground and reconnects by itself; what happens is told on standard error, what left is in the
    ledger.
    """
    from fedwad.engines.flower.supernode import run

    run(
        data,
        policy,
        ledger,
        label_column,
        drop or (),
        superlink=superlink,
        root_certificates=root_certificates,
        key=key,
        patience=patience,
    )


@guarded
def flare(
    kit: Annotated[
        Path,
        typer.Argument(help="The site's startup kit, made by nvflare package.", show_default=False),
    ],
    data: Data,
    policy: Rules,
    ledger: Record = None,
    label_column: LabelColumn = None,
    drop: Drop = None,
) -> None:
    """Make a site's startup kit of NVIDIA FLARE ready to answer within the policy.

    Opens data, policy and ledger as the node will, and writes into the kit's `local` folder where
    they are, that jobs start nothing but fedwad's node, and that nobody reads files or logs.
    FLARE's own script then starts the node.
    """
    from fedwad.engines.flare.startup_kit import prepare_site

    prepare_site(kit, data, policy, ledger, label_column, drop or ())
    screen.print(
        f"{kit} is ready; start the node with {kit / 'startup' / 'start.sh'}",
        soft_wrap=True,
        markup=False,
    )
