"""Running a command on an engine instead of in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedwad.engines.job import Job
from fedwad.errors import InputError
from fedwad.federation import Columns

__all__ = ["Ca", "Connect", "Engine", "Resume", "Timeout", "run_on_engine"]

EngineName = Literal["flower", "flare"]

Engine = Annotated[
    EngineName | None,
    typer.Option(
        help="Run on Flower or NVIDIA FLARE instead of in this process: with --connect on the sites of a deployment,"
        " without it in the engine's simulation on this machine.",
        rich_help_panel="Engines",
    ),
]
Connect = Annotated[
    str | None,
    typer.Option(
        help="Where the deployment is: the SuperLink's host:port (flower), or the folder of the analyst's startup kit"
        " (flare). Parties are then named by their sites.",
        rich_help_panel="Engines",
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        help="Certificate that signed the SuperLink's (flower).", rich_help_panel="Engines"
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        help="Seconds to wait for the result; the run is then stopped.", rich_help_panel="Engines"
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on with what an interrupted run has kept.", rich_help_panel="Resuming"
    ),
]


def run_on_engine(
    engine: EngineName,
    job: Job,
    connect: str | None,
    ca: Path | None,
    timeout: float,
    resume: bool,
    files: Callable[[], Mapping[str, Path]],
    columns: Columns,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Run a job on the sites of a deployment, or on files in the engine's simulation, and return
    its result."""
    if connect is None:
        if resume or ca is not None:
            raise InputError("--resume and --ca belong to a deployment; add --connect.")
        if engine == "flower":
            from fedwad.engines.flower import simulate
        else:
            from fedwad.engines.flare import simulate
        return simulate(job, files(), **columns.words(), timeout=timeout, on_line=tell)
    if columns.words():
        raise InputError(
            "--label-column and --drop are for files; at a site its node's settings name them."
        )
    if engine == "flower":
        from fedwad.engines.flower import submit

        return submit(
            job, connect=connect, root_certificates=ca, timeout=timeout, on_line=tell, resume=resume
        )
    if ca is not None:
        raise InputError("--ca is for flower; FLARE's startup kit holds its certificates.")
    from fedwad.engines.flare import submit as submit_to_flare

    return submit_to_flare(job, connect=connect, timeout=timeout, on_line=tell, resume=resume)
