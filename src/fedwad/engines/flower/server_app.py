"""The ServerApp that a SuperLink runs: it finds the sites, runs the job, reports the outcome."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedwad.engines._outcome import error_outcome, internal_outcome
from fedwad.engines.flower._discovery import find_sites
from fedwad.engines.flower._log_codec import encode_outcome, encode_progress
from fedwad.engines.flower._simulation_folder import SimulationFolder
from fedwad.engines.flower._waits import search_only_addressed_nodes, shorten_pauses
from fedwad.engines.flower.grid import GridFederation
from fedwad.engines.job import CHECKPOINTS_VARIABLE, Job, run
from fedwad.errors import FedwadError, InputError
from fedwad.federation import Description

__all__ = ["app", "journal_path"]

_WINDOW = 64  # messages under way in a simulation, which keeps all of them in memory
_MAX_NAMED = 20  # of more sites the progress gives the number instead of their names

app = ServerApp()


class LogReport:
    """Reports progress and outcome as marked lines of the run's log."""

    def __init__(self, marker: str) -> None:
        self._marker, self._numbers = marker, count()

    def progress(self, sentence: str) -> None:
        sys.stdout.write(encode_progress(self._marker, next(self._numbers), sentence) + "\n")

    def finish(self, outcome: dict[str, Any]) -> None:
        for line in encode_outcome(self._marker, outcome):
            sys.stdout.write(line + "\n")  # one call per line: Flower does not split a call's text
        sys.stdout.flush()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one job. The caller always receives a result or one sentence."""
    shorten_pauses()
    settings: dict[str, Any] = dict(context.run_config)
    folder = SimulationFolder.current()
    report = folder or LogReport(str(settings["marker"]))
    if folder is not None:
        settings |= folder.settings()
        search_only_addressed_nodes(grid)
    window = None if folder is None else _WINDOW
    report.finish(_outcome(grid, settings, report.progress, window))


def _outcome(
    grid: Grid,
    settings: Mapping[str, Any],
    on_progress: Callable[[str], None],
    window: int | None,
) -> dict[str, Any]:
    try:
        job = Job.from_json(str(settings["job"]))
        names = json.loads(str(settings["sites"]))
        descriptions: dict[str, Description] = {}
        patience, timeout = float(settings["patience"]), float(settings["round-timeout"])
        nodes = find_sites(grid, names, patience, on_progress, descriptions, window)
        few = len(nodes) <= _MAX_NAMED
        on_progress(f"Found {', '.join(nodes)}." if few else f"Found {len(nodes)} sites.")

        def callback(replies: int, messages: int, seconds: float) -> None:
            on_progress(f"{replies} of {messages} sites answered in {seconds:.1f} s.")

        federation = GridFederation(grid, nodes, timeout, callback, window)
        federation.descriptions = descriptions
        resume = bool(settings["resume"])
        journal = journal_path(job, resume)
        result = run(job, federation, checkpoint=journal, resume=resume)
        if journal is not None:
            journal.unlink(missing_ok=True)  # it holds replies of sites, which nobody needs now
        return result
    except FedwadError as error:
        return error_outcome(error)
    except Exception as error:
        traceback.print_exc()
        return internal_outcome(error)


def journal_path(job: Job, resume: bool) -> Path | None:
    """The path of this job's journal; None if the operator of the SuperLink set no folder for it.

    Unless the run resumes, an old journal of the same job is deleted.
    """
    folder = os.environ.get(CHECKPOINTS_VARIABLE)
    digest = hashlib.sha256(job.to_json().encode()).hexdigest()[:24]
    path = Path(folder) / f"{digest}.journal" if folder else None
    if resume and (path is None or not path.exists()):
        raise InputError("The SuperLink has no journal of this job; start it without resume.")
    if path is not None and not resume:
        path.unlink(missing_ok=True)
    return path
