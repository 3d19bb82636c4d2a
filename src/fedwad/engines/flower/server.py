"""The app that the SuperLink runs: reads the job, finds the sites, runs the algorithm, writes the
result to the log."""

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

from fedwad.engines.flower._lines import lines, told
from fedwad.engines.flower.grid import GridFederation, find_sites
from fedwad.engines.job import Job, run
from fedwad.errors import CertificateError, FederationError, FedwadError, InputError, PolicyError

__all__ = ["CODES", "app", "journal_of"]

#: What an error is called on its way to the caller.
CODES: dict[type[FedwadError], str] = {
    InputError: "input",
    PolicyError: "policy",
    CertificateError: "certificate",
    FederationError: "federation",
}

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one job. Whatever happens, the caller gets a result or one sentence."""
    settings = context.run_config
    mark, numbers = str(settings["mark"]), count()

    def say(sentence: str) -> None:
        sys.stdout.write(told(mark, next(numbers), sentence) + "\n")

    for line in lines(mark, _result(grid, settings, say)):
        sys.stdout.write(
            line + "\n"
        )  # one call a line: Flower ships what each call writes in one piece
    sys.stdout.flush()


def _result(grid: Grid, settings: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    try:
        job = Job.from_json(str(settings["job"]))
        nodes = find_sites(
            grid, json.loads(str(settings["sites"])), float(settings["patience"]), say
        )
        say(f"Found {', '.join(nodes)}.")
        seconds = float(settings["round-timeout"])

        def callback(answered: int, asked: int, took: float) -> None:
            say(f"{answered} of {asked} sites answered in {took:.1f} s.")

        federation = GridFederation(grid, nodes, seconds, callback)
        resume = bool(settings["resume"])
        journal = journal_of(job, resume)
        result = run(job, federation, checkpoint=journal, resume=resume)
        if journal is not None:
            journal.unlink(missing_ok=True)  # it holds what sites sent, and is of no more use
        return result
    except FedwadError as error:
        code = next((code for kind, code in CODES.items() if isinstance(error, kind)), "federation")
        return {"error": code, "sentence": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {
            "error": "internal",
            "sentence": f"The server side failed with {type(error).__name__}; the SuperLink's log says more.",
        }


def journal_of(job: Job, resume: bool) -> Path | None:
    """Where this job keeps its rounds, if the SuperLink's operator named a folder for that."""
    folder = os.environ.get("FEDWAD_CHECKPOINTS")
    path = (
        Path(folder) / f"{hashlib.sha256(job.to_json().encode()).hexdigest()[:24]}.journal"
        if folder
        else None
    )
    if resume and (path is None or not path.exists()):
        raise InputError("The SuperLink keeps no rounds of this job; start it without resuming.")
    if path is not None and not resume:
        path.unlink(missing_ok=True)
    return path
