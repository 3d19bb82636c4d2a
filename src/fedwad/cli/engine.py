"""Running a command on an engine instead of in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedwad.cli.checkpoint import Checkpoint
from fedwad.cli.groups import Group
from fedwad.cli.sites import find_files, show_schema
from fedwad.engines.job import Job
from fedwad.errors import InputError
from fedwad.federation import Columns
from fedwad.tables import Schema

__all__ = [
    "Ca",
    "Connect",
    "Engine",
    "EngineOptions",
    "Resume",
    "Timeout",
    "run_on_engine",
    "shown",
]

_SCHEMA = "agreed_schema"
EngineName = Literal["flower", "flare"]

Engine = Annotated[
    EngineName | None,
    typer.Option(
        help="Run on Flower or NVIDIA FLARE: on the sites of a deployment with --connect, in the"
        " engine's simulation on this machine without it.",
        rich_help_panel="Engines",
    ),
]
Connect = Annotated[
    str | None,
    typer.Option(
        help="Address of the deployment: the SuperLink's host:port (flower), or the folder of the"
        " analyst's startup kit (flare). Name sites instead of files then.",
        rich_help_panel="Engines",
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(help="CA certificate of the SuperLink (flower).", rich_help_panel="Engines"),
]
Timeout = Annotated[
    float,
    typer.Option(
        help="Seconds to wait for the result; the run is then stopped.", rich_help_panel="Engines"
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue an interrupted run.", rich_help_panel="Resuming"),
]


@dataclass(frozen=True)
class EngineOptions(Group):
    """Where a command runs, and how an interrupted run continues."""

    checkpoint: Checkpoint = None
    resume: Resume = False
    engine: Engine = None
    connect: Connect = None
    ca: Ca = None
    timeout: Timeout = 3600.0

    @property
    def used(self) -> bool:
        """Whether the command runs on an engine."""
        return self.engine is not None or self.connect is not None

    def run(
        self,
        algorithm: str,
        sources: Sequence[str],
        options: Mapping[str, Any],
        columns: Columns,
        on_progress: Callable[[str], None],
    ) -> dict[str, Any]:
        """Run an algorithm on the engine and return the content of its result."""
        if self.checkpoint is not None:
            raise InputError(
                "--checkpoint is for runs in this process; a deployment keeps its own."
            )
        if self.engine is None:
            raise InputError("--connect needs an engine; add --engine flower or --engine flare.")
        files = find_files(sources) if self.connect is None else {}
        names = tuple(files or sources)
        outcome = run_on_engine(
            self.engine,
            Job(algorithm, names, options),
            self.connect,
            self.ca,
            self.timeout,
            self.resume,
            lambda: files,
            columns,
            on_progress,
        )
        return shown(outcome)


def shown(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a result, and print the schema that the sites agreed on, if any."""
    content = {key: value for key, value in outcome.items() if key not in ("kind", _SCHEMA)}
    if _SCHEMA in outcome:
        show_schema(Schema.from_dict(outcome[_SCHEMA]))
    return content


def run_on_engine(
    engine: EngineName,
    job: Job,
    connect: str | None,
    ca: Path | None,
    timeout: float,
    resume: bool,
    files: Callable[[], Mapping[str, Path]],
    columns: Columns,
    on_progress: Callable[[str], None],
) -> dict[str, Any]:
    """Run a job on a deployment's sites, or on files in the engine's simulation."""
    if connect is None:
        if resume or ca is not None:
            raise InputError("--resume and --ca belong to a deployment; add --connect.")
        if engine == "flower":
            from fedwad.engines.flower import simulate
        else:
            from fedwad.engines.flare import simulate
        return simulate(
            job, files(), **columns.to_options(), timeout=timeout, on_progress=on_progress
        )
    if columns.to_options():
        raise InputError(
            "--label-column, --drop, --missing and --schema are for files; a site's own settings"
            " say what its columns are."
        )
    if engine == "flower":
        from fedwad.engines.flower import submit

        return submit(
            job,
            connect=connect,
            root_certificates=ca,
            timeout=timeout,
            on_progress=on_progress,
            resume=resume,
        )
    if ca is not None:
        raise InputError("--ca is for flower; FLARE's startup kit holds its certificates.")
    from fedwad.engines.flare import submit as submit_to_flare

    return submit_to_flare(
        job, connect=connect, timeout=timeout, on_progress=on_progress, resume=resume
    )
