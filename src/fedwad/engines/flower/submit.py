"""Ask for a job from the analyst's machine: submit it to a SuperLink, follow it, and bring the
result back.

What is submitted is an app without code: it names the two apps of the fedwad that is installed on
the other side.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedwad.engines.flower._control import Control, need_flower
from fedwad.engines.flower._lines import Reader
from fedwad.engines.job import Job
from fedwad.errors import CertificateError, FederationError, FedwadError, InputError, PolicyError

__all__ = ["NODE_APP", "follow", "submit", "write_app"]

NODE_APP = "fedwad.engines.flower.node:app"
_SERVER_APP = "fedwad.engines.flower.server:app"
_LARGEST_JOB = 900_000  # bytes; Flower takes files of a megabyte
_PAUSE = 2.0  # seconds before the SuperLink is asked once more
_ERRORS: dict[str, type[FedwadError]] = {
    "input": InputError,
    "policy": PolicyError,
    "certificate": CertificateError,
}


def submit(
    job: Job,
    *,
    connect: str,
    root_certificates: str | Path | None = None,
    timeout: float = 3600.0,
    round_timeout: float = 600.0,
    patience: float = 60.0,
    on_line: Callable[[str], None] | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Run a job on the sites behind a SuperLink and return its result.

    Parameters
    ----------
    job : what to compute, on which sites
    connect : address of the SuperLink as host:port
    root_certificates : file with the certificate that signed the SuperLink's; the system's own when
        left out
    timeout : seconds to wait for the result; the run is stopped after that
    round_timeout : seconds that a site may take for one answer
    patience : seconds to wait for all sites to show up
    on_line : called with each sentence about the progress of the run
    resume : go on from the last round that the SuperLink kept (its operator sets
        FEDWAD_CHECKPOINTS)

    Raises
    ------
    FederationError, or the error that the run met, always with one sentence. Ctrl-C stops the run.
    """
    need_flower()
    with TemporaryDirectory(prefix="fedwad-flower-") as name:
        folder = Path(name)
        control = Control(folder, connect, root_certificates)
        settings = {
            "round-timeout": float(round_timeout),
            "patience": float(patience),
            "resume": bool(resume),
        }
        app = write_app(folder, job, job.clients, settings)
        return follow(control, app, timeout, on_line)


def write_app(
    folder: Path, job: Job, sites: Sequence[str], settings: dict[str, Any], node_app: str = NODE_APP
) -> tuple[Path, str]:
    """Write the app to submit; its folder, and the mark that the run's own lines in the log begin
    with."""
    from fedwad import __version__

    mark = f"fedwad-{secrets.token_hex(8)}"
    content = {"job": job.to_json(), "sites": json.dumps(list(sites)), "mark": mark, **settings}
    text = "\n".join(
        [
            "[project]",
            f'name = "fedwad-run"\nversion = "{__version__}"',
            'description = "Names the apps of an installed fedwad."\nlicense = "Apache-2.0"\ndependencies = []',
            '[tool.flwr.app]\npublisher = "fedwad"',
            f'[tool.flwr.app.components]\nserverapp = "{_SERVER_APP}"\nclientapp = "{node_app}"',
            "[tool.flwr.app.config]",
            *(
                f"{key} = {json.dumps(value)}" for key, value in content.items()
            ),  # plain values are the same in TOML
        ]
    )
    if len(text.encode()) > _LARGEST_JOB:
        raise InputError(
            "The job is too large for Flower, which takes a megabyte; give a smaller support."
        )
    app = folder / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(text + "\n", encoding="utf-8")
    return app, mark


def follow(
    control: Control,
    app: tuple[Path, str],
    timeout: float,
    on_line: Callable[[str], None] | None = None,
    options: Sequence[str] = (),
) -> dict[str, Any]:
    """Start a run and wait for its result; stop it when that takes too long or is interrupted."""
    deadline = time.monotonic() + timeout
    folder, mark = app
    run = control.start(folder, options)
    try:
        result = _awaited(control, run, Reader(mark), deadline, on_line)
    except TimeoutError:
        control.stop(run)
        raise FederationError(
            f"Run {run} gave no result within {timeout:g} seconds and was stopped."
        ) from None
    except BaseException:
        control.stop(run)
        raise
    if "error" in result:
        raise _ERRORS.get(str(result["error"]), FederationError)(
            str(result.get("sentence", "The run failed."))
        )
    return result


def _awaited(
    control: Control,
    run: str,
    reader: Reader,
    deadline: float,
    on_line: Callable[[str], None] | None,
) -> dict[str, Any]:
    """Read the log until it holds the result. A stream that breaks off is taken up again."""
    finished = False
    while True:
        with closing(control.log(run, deadline)) as log:
            for line in log:
                sentence = reader.read(line)
                if sentence is not None and on_line is not None:
                    on_line(sentence)
                if reader.result is not None:
                    return reader.result
        if finished:  # and the log has been read to its end since
            raise FederationError(
                f"Run {run} ended without a result; the SuperLink's log says more."
            )
        finished = _has_finished(control, run, deadline)


def _has_finished(control: Control, run: str, deadline: float) -> bool:
    """Whether the run is over; FederationError when the SuperLink stays away."""
    for last in (False, False, True):
        if time.monotonic() > deadline:
            raise TimeoutError
        try:
            return control.status(run).startswith("finished")
        except FederationError:
            if last:
                break
            time.sleep(_PAUSE)
    raise FederationError(
        f"The SuperLink at {control.address} stopped answering during run {run}; see whether it runs."
    )
