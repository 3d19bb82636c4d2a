"""Submit a job to a SuperLink from the analyst's machine, follow it, and return its result.

The submitted app contains no code. It names the ServerApp and the ClientApp of the fedwad that is
installed at the SuperLink and at the sites. The outcome of a run is its result or its error.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fedwad._files import to_toml
from fedwad.engines.flower._control import Control
from fedwad.engines.job import Job, need_engine, result_of
from fedwad.errors import FederationError, InputError

if TYPE_CHECKING:
    from fedwad.engines.flower._messages import LogReader

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
serverapp = "fedwad.engines.flower.server_app:app"
clientapp = "fedwad.engines.flower.client_app:app"
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
    need_engine("flower")
    from fedwad.engines.flower._messages import LogReader

    with TemporaryDirectory(prefix="fedwad-flower-") as name:
        folder = Path(name)
        control = Control(folder, connect, root_certificates)
        app, marker = write_app(folder, job, round_timeout, patience, resume)
        say = on_progress or (lambda _: None)
        deadline = time.monotonic() + timeout
        run = control.start(app)
        try:
            outcome = _read_outcome(control, run, LogReader(marker), say, deadline)
        except BaseException as error:
            control.stop(run)
            if not isinstance(error, TimeoutError):
                raise
            raise FederationError(
                f"Run {run} gave no result within {timeout:g} seconds and was stopped.", "timed-out"
            ) from None
        return result_of(outcome)


def write_app(
    folder: Path, job: Job, round_timeout: float, patience: float, resume: bool = False
) -> tuple[Path, str]:
    """Write the app to submit; returns its folder and the marker of its lines in the log."""
    from fedwad import __version__

    for name, seconds in (("round_timeout", round_timeout), ("patience", patience)):
        if not math.isfinite(seconds):
            raise InputError(f"{name} is {seconds}; give a finite number.", "bad-option")
    marker = f"fedwad-{secrets.token_hex(8)}"
    config = {
        "marker": marker,
        "job": job.to_json(),
        "round-timeout": float(round_timeout),
        "patience": float(patience),
        "resume": bool(resume),
    }
    text = _PYPROJECT.format(version=__version__) + to_toml(config)
    if len(text.encode()) > 900_000:  # Flower accepts files up to a megabyte
        raise InputError(
            "The job is too large for Flower, which accepts a megabyte; shorten its longest option,"
            " such as the points of init.",
            "too-large",
        )
    app = folder / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(text, encoding="utf-8")
    return app, marker


def _read_outcome(
    control: Control,
    run: str,
    reader: LogReader,
    on_progress: Callable[[str], None],
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
            raise FederationError(
                f"Run {run} ended without a result; see the SuperLink's log.", "run-failed"
            )
        for _ in range(3):
            if time.monotonic() > deadline:
                raise TimeoutError
            with suppress(FederationError):
                finished = control.status(run).startswith("finished")
                break
            time.sleep(2.0)
        else:
            raise FederationError(
                f"The SuperLink at {control.address} stopped answering during run {run};"
                " check that it is running.",
                "cannot-connect",
            )
