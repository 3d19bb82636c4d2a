"""Where `fedwad train` runs: on files in this process, or on an engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import fedwad
from fedwad.cli.console import Bar, errors
from fedwad.cli.engine import run_on_engine, shown
from fedwad.cli.sites import find_files, read_sites
from fedwad.engines.job import Job
from fedwad.errors import InputError
from fedwad.federation import Columns
from fedwad.learning import TrainingOptions, TrainingResult, train

__all__ = ["EngineRunner", "LocalRunner", "Runner", "clean_interrupt"]


class Runner(Protocol):
    """Trains on all sites, or in groups of them, and measures their distances."""

    def train(
        self, options: TrainingOptions, groups: dict[str, int] | None = None
    ) -> TrainingResult:
        """One training; `groups` also names the sites that take part."""

    def matrix(self, seed: int) -> fedwad.MatrixResult:
        """Distances between the labelled data of all sites."""


class LocalRunner:
    """Each file is a client of this process."""

    def __init__(self, data: Sequence[str], columns: Columns, bar: Bar) -> None:
        self._federation = fedwad.local(read_sites(list(data), columns))
        self._bar = bar

    def train(
        self, options: TrainingOptions, groups: dict[str, int] | None = None
    ) -> TrainingResult:
        clients = None if groups is None else list(groups)
        return train(
            self._federation,
            options,
            groups=groups,
            clients=clients,
            callback=self._bar.progress,
        )

    def matrix(self, seed: int) -> fedwad.MatrixResult:
        return fedwad.matrix(self._federation, labels=True, seed=seed, callback=self._bar.progress)


@dataclass(frozen=True)
class EngineRunner:
    """The sites of a deployment, or files in an engine's simulation."""

    data: Sequence[str]
    columns: Columns
    bar: Bar
    engine: Any
    connect: str | None
    ca: Path | None
    timeout: float

    def __post_init__(self) -> None:
        if self.engine is None:
            raise InputError(
                "--connect needs to know the engine; add --engine flower or --engine flare."
            )

    def train(
        self, options: TrainingOptions, groups: dict[str, int] | None = None
    ) -> TrainingResult:
        names = self._names() if groups is None else tuple(groups)
        more = {} if groups is None else {"groups": groups}
        return TrainingResult.from_dict(self._run(Job("train", names, options.to_dict() | more)))

    def matrix(self, seed: int) -> fedwad.MatrixResult:
        job = Job("matrix", self._names(), {"labels": True, "seed": seed})
        return fedwad.MatrixResult.from_dict(self._run(job))

    def _names(self) -> tuple[str, ...]:
        return tuple(self.data if self.connect is not None else self._files())

    def _files(self) -> Any:
        return find_files(list(self.data))

    def _run(self, job: Job) -> dict[str, Any]:
        return shown(
            run_on_engine(
                self.engine,
                job,
                self.connect,
                self.ca,
                self.timeout,
                False,
                self._files,
                self.columns,
                self.bar.line,
            )
        )


@contextmanager
def clean_interrupt() -> Iterator[None]:
    """Leave at once on Ctrl-C: running threads of PyTorch would abort the process at exit."""
    try:
        yield
    except KeyboardInterrupt:
        errors.print("Interrupted; no result was written.")
        sys.stdout.flush()
        os._exit(130)
