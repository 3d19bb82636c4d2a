"""Submit a job to a SuperLink from the analyst's machine, follow it, and return its result.

The submitted app contains no code. It names the ServerApp and the ClientApp of the fedwad that is
installed at the SuperLink and at the sites. The outcome of a run is its result or its error.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedwad._files import to_toml
from fedwad.engines._outcome import result_of
from fedwad.engines.flower._control import Control, need_flower
from fedwad.engines.flower._log_codec import LogReader
from fedwad.engines.job import Job
from fedwad.errors import FederationError, InputError

__all__ = ["job_settings", "run_app", "submit", "write_app"]

_CLIENT_APP = "fedwad.engines.flower.client_app:app"
_SERVER_APP = "fedwad.engines.flower.server_app:app"
_MAX_JOB = 900_000  # bytes; Flower accepts files up to a megabyte
_RETRY = 2.0  # seconds before the SuperLink is asked again
_PYPROJECT = """\
[project]
name = "fedwad-run"
version = "{version}"
description = "Names the apps of an installed fedwad."
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "fedwad"
[tool.flwr.app.components]
serverapp = "{server}"
clientapp = "{client}"
[tool.flwr.app.config]
"""


def submit(
    job: Job,
    *,
    connect: str,
    root_certificates: str | Path | None = None,
    timeout: float = 3600.0,
    round_timeout: float = 600.0,
    patience: float = 60.0,
    on_progress: Callable[[str], None] | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Run a job on the sites behind a SuperLink and return its result.

    Parameters
    ----------
    job : the algorithm, its sites and its options
    connect : address of the SuperLink as host:port
    root_certificates : file with the CA certificate of the SuperLink; the system's
        certificates when left out
    timeout : seconds to wait for the result; after that the run is stopped
    round_timeout : seconds that a site may take for one reply
    patience : seconds that the run waits at its start until the sites of the job are connected
    on_progress : called with each sentence about the progress of the run
    resume : continue an interrupted run of the same job from the replies in its journal. The
        SuperLink writes one if its operator names a folder in FEDWAD_CHECKPOINTS.

    Raises
    ------
    InputError, FederationError or the error of the run, with one sentence. Ctrl-C stops the run.
    """
    need_flower()
    with TemporaryDirectory(prefix="fedwad-flower-") as name:
        folder = Path(name)
        control = Control(folder, connect, root_certificates)
        settings = {
            **job_settings(job, job.clients),
            "round-timeout": float(round_timeout),
            "patience": float(patience),
            "resume": bool(resume),
        }
        app, marker = write_app(folder, settings)
        say = on_progress or (lambda _: None)
        await_outcome = partial(_await_outcome_in_log, control, LogReader(marker), say)
        return run_app(control, app, timeout, await_outcome)


def job_settings(job: Job, sites: Sequence[str]) -> dict[str, str]:
    """The settings that tell the ServerApp the job and its sites, both as JSON."""
    return {"job": job.to_json(), "sites": json.dumps(list(sites))}


def write_app(
    folder: Path, settings: dict[str, Any], client_app: str = _CLIENT_APP
) -> tuple[Path, str]:
    """Write the app to submit; returns its folder and the marker of its lines in the log.

    `settings` become the run configuration of the app.
    """
    from fedwad import __version__

    marker = f"fedwad-{secrets.token_hex(8)}"
    text = _PYPROJECT.format(version=__version__, server=_SERVER_APP, client=client_app)
    for key, value in {"marker": marker, **settings}.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{key.replace('-', '_')} is {value}; give a finite number.")
        text += to_toml({key: value})
    if len(text.encode()) > _MAX_JOB:
        raise InputError(
            "The job is too large for Flower, which accepts a megabyte; shorten its longest option,"
            " such as the points of init."
        )
    app = folder / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(text, encoding="utf-8")
    return app, marker


def run_app(
    control: Control,
    app: Path,
    timeout: float,
    await_outcome: Callable[[str, float], dict[str, Any]],
    options: Sequence[str] = (),
) -> dict[str, Any]:
    """Start a run and return its result; stop the run if it takes too long or is interrupted.

    `await_outcome` is called with the ID of the run and with the deadline, and returns the outcome.
    It raises TimeoutError at the deadline.
    """
    deadline = time.monotonic() + timeout
    run = control.start(app, options)
    try:
        outcome = await_outcome(run, deadline)
    except TimeoutError:
        control.stop(run)
        raise FederationError(
            f"Run {run} gave no result within {timeout:g} seconds and was stopped."
        ) from None
    except BaseException:
        control.stop(run)
        raise
    return result_of(outcome)


def _await_outcome_in_log(
    control: Control,
    reader: LogReader,
    on_progress: Callable[[str], None],
    run: str,
    deadline: float,
) -> dict[str, Any]:
    """Read the log of a run until the outcome has come, and return the outcome.

    If the stream of lines breaks off, the log is read again from its first line.
    """
    finished = False
    while True:
        with closing(control.log(run, deadline)) as log:
            for line in log:
                sentence = reader.read(line)
                if sentence is not None:
                    on_progress(sentence)
                if reader.outcome is not None:
                    return reader.outcome
        if finished:  # the whole log has been read since the run finished
            raise FederationError(f"Run {run} ended without a result; see the SuperLink's log.")
        finished = _has_finished(control, run, deadline)


def _has_finished(control: Control, run: str, deadline: float) -> bool:
    """Whether the run has finished.

    Raises FederationError if the SuperLink does not answer three times in a row, and TimeoutError
    at the deadline.
    """
    for is_last_try in (False, False, True):
        if time.monotonic() > deadline:
            raise TimeoutError
        try:
            return control.status(run).startswith("finished")
        except FederationError:
            if is_last_try:
                break
            time.sleep(_RETRY)
    raise FederationError(
        f"The SuperLink at {control.address} stopped answering during run {run};"
        " check that it is running."
    )
