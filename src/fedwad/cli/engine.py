"""Running a command on an engine instead of in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import fedwad
from fedwad.cli.console import stderr
from fedwad.cli.option_groups import OptionGroup
from fedwad.cli.sites import find_files, show_schema
from fedwad.engines.job import Job
from fedwad.errors import InputError
from fedwad.federation import Columns, Dataset, Journal, LocalFederation
from fedwad.tables import Schema

__all__ = ["EngineOptions", "ResumableEngineOptions"]

_PANEL = "Engines"


@dataclass(frozen=True)
class EngineOptions(OptionGroup):
    """Where a command runs: in this process, in an engine's simulation, or on real sites."""

    engine: Annotated[
        Literal["flower", "flare"] | None,
        typer.Option(
            help="Run on Flower or NVIDIA FLARE: on the sites of a deployment with --connect, in"
            " the engine's simulation on this machine without it.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    connect: Annotated[
        str | None,
        typer.Option(
            help="Address of the deployment: the SuperLink's host:port (flower), or the folder of"
            " the analyst's startup kit (flare). Name sites instead of files then.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    ca: Annotated[
        Path | None,
        typer.Option(help="CA certificate of the SuperLink (flower).", rich_help_panel=_PANEL),
    ] = None
    timeout: Annotated[
        float,
        typer.Option(
            help="Seconds to wait for the result; the run is then stopped.", rich_help_panel=_PANEL
        ),
    ] = 3600.0

    @property
    def uses_engine(self) -> bool:
        """Whether the command runs on an engine."""
        return self.engine is not None or self.connect is not None

    def run(
        self,
        algorithm: str,
        sources: Sequence[str],
        options: Mapping[str, Any],
        columns: Columns,
        on_progress: Callable[[str], None],
        *,
        names: Sequence[str] = (),
        resume: bool = False,
    ) -> dict[str, Any]:
        """Run an algorithm on the engine and return its result as the dict that `from_dict` takes.

        `sources` are names of sites, or files for a simulation. `options` are those of a `Job`.
        `names` are the sites that take part, if not all of them. If the sites agree on a schema,
        it is printed.
        """
        if self.engine is None:
            raise InputError("--connect needs an engine; add --engine flower or --engine flare.")
        files = find_files(sources) if self.connect is None else {}
        job = Job(algorithm, tuple(names or files or sources), options)
        if self.connect is None:
            content = self._simulate(job, files, columns, on_progress, resume)
        elif columns.to_options():
            raise InputError(
                "--label-column, --drop, --missing and --schema are for files; a site's own"
                " settings say what its columns are."
            )
        else:
            content = self._submit(job, self.connect, on_progress, resume)
        schema = content.pop("agreed_schema", None)
        if schema is not None:
            show_schema(Schema.from_dict(schema))
        content.pop("kind", None)
        return content

    def _simulate(
        self,
        job: Job,
        files: Mapping[str, Path],
        columns: Columns,
        on_progress: Callable[[str], None],
        resume: bool,
    ) -> dict[str, Any]:
        if resume or self.ca is not None:
            raise InputError("--resume and --ca belong to a deployment; add --connect.")
        if self.engine == "flower":
            from fedwad.engines.flower import simulate
        else:
            from fedwad.engines.flare import simulate
        return simulate(
            job, files, **columns.to_options(), timeout=self.timeout, on_progress=on_progress
        )

    def _submit(
        self, job: Job, connect: str, on_progress: Callable[[str], None], resume: bool
    ) -> dict[str, Any]:
        common: dict[str, Any] = {
            "connect": connect,
            "timeout": self.timeout,
            "on_progress": on_progress,
            "resume": resume,
        }
        if self.engine == "flower":
            from fedwad.engines.flower import submit

            return submit(job, root_certificates=self.ca, **common)
        if self.ca is not None:
            raise InputError("--ca is for flower; FLARE's startup kit holds its certificates.")
        from fedwad.engines.flare import submit as submit_to_flare

        return submit_to_flare(job, **common)


@dataclass(frozen=True)
class ResumableEngineOptions(EngineOptions):
    """Where a command runs, and how an interrupted run continues."""

    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Keep every reply in this file; --resume continues with it.",
            rich_help_panel="Resuming",
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted run.", rich_help_panel="Resuming"),
    ] = False

    def run(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """Run an algorithm as `EngineOptions.run` does; --resume continues an interrupted run."""
        if self.checkpoint is not None:
            raise InputError(
                "--checkpoint is for runs in this process; a deployment keeps its own."
            )
        return super().run(*arguments, resume=self.resume, **keywords)

    @contextmanager
    def local(self, data: Mapping[str, Dataset]) -> Iterator[LocalFederation | Journal]:
        """Provide a federation of these data in this process, with a journal for --checkpoint."""
        federation = fedwad.local(data)
        if self.checkpoint is None:
            if self.resume:
                raise InputError(
                    "--resume needs the file of the interrupted run; add --checkpoint FILE."
                )
            yield federation
            return
        with Journal(federation, self.checkpoint, self.resume) as journal:
            try:
                yield journal
            except KeyboardInterrupt:
                stderr.print(
                    f"Replies are kept in {self.checkpoint};"
                    " the same command with --resume continues."
                )
                raise
