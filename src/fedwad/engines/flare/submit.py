"""Run a job on a provisioned FLARE federation and return its result."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedwad.engines._lines import read_lines
from fedwad.engines._outcome import result_of
from fedwad.engines.job import Job
from fedwad.errors import FederationError, InputError

__all__ = ["need_flare", "sites", "submit"]

_START_TIMEOUT = 60.0  # seconds that FLARE may take to start the process of the job at a site
_ABORT_TIMEOUT = 20.0  # seconds to abort a job


def submit(
    job: Job,
    *,
    connect: str | Path,
    timeout: float = 3600.0,
    round_timeout: float = 600.0,
    on_progress: Callable[[str], None] | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Run a job on the sites of a FLARE federation and return its result.

    Parameters
    ----------
    job : the algorithm, its sites (by the names in their certificates) and its options
    connect : the analyst's startup kit, a folder from provisioning; it contains the server's
        address and certificates
    timeout, round_timeout, on_progress : as for `fedwad.engines.flower.submit`
    resume : continue from the journal that an interrupted run of the same job left at the server

    Raises
    ------
    FederationError or the error of the run, with one sentence. Ctrl-C aborts the job.
    """
    settings = {
        "round_timeout": float(round_timeout),
        "start_timeout": _START_TIMEOUT,
        "resume": bool(resume),
    }
    for report in _reports(connect, {"job": job.to_json(), "settings": settings}, timeout):
        if "line" in report and on_progress is not None:
            on_progress(str(report["line"]))
        if "outcome" in report:
            return result_of(report["outcome"])
    raise FederationError("The session with the FLARE server ended without a result; try again.")


def sites(connect: str | Path, timeout: float = 60.0) -> tuple[str, ...]:
    """Names of the sites that are connected to the server of the startup kit `connect`."""
    for report in _reports(connect, {}, timeout):  # without a job, the sites are listed
        if "sites" in report:
            return tuple(report["sites"])
    raise FederationError("The session with the FLARE server ended without an answer; try again.")


def need_flare() -> None:
    """Raise FederationError unless FLARE is installed."""
    if find_spec("nvflare") is None:
        raise FederationError("NVIDIA FLARE is not installed; run: pip install 'fedwad[flare]'.")


def _read_kit(kit: Path) -> dict[str, str]:
    """Folder, user and server address of the analyst's startup kit."""
    folder = kit.expanduser().resolve()
    try:
        text = (folder / "startup" / "fed_admin.json").read_text(encoding="utf-8")
        admin = json.loads(text)["admin"]
        return {
            "kit": str(folder),
            "user": admin["username"],
            "address": f"{admin['host']}:{admin['port']}",
        }
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{kit} is not an analyst's startup kit of FLARE;"
            " give the folder that contains startup/fed_admin.json."
        ) from None


def _reports(
    connect: str | Path, order: dict[str, Any], timeout: float
) -> Iterator[dict[str, Any]]:
    """Start the process of an admin session, send it an order and yield its reports.

    `fedwad.engines.flare.admin` describes orders and reports. The process ends with this generator.
    """
    need_flare()
    order = _read_kit(Path(connect)) | order
    process = subprocess.Popen(
        [sys.executable, "-m", "fedwad.engines.flare.admin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C ends this process only, which then ends that one
    )
    try:
        yield from _exchange(process, order, timeout)
    finally:
        _end_admin(process)


def _exchange(
    process: subprocess.Popen[str], order: dict[str, Any], timeout: float
) -> Iterator[dict[str, Any]]:
    """Send an order and yield the reports; FederationError if one says so or the time is over."""
    deadline = time.monotonic() + timeout
    if process.stdin is not None:
        with suppress(OSError):  # if the process has ended, there are no reports below
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
    try:
        for line in read_lines(process, deadline):
            report = json.loads(line)
            if "failed" in report:
                raise FederationError(str(report["failed"]))
            yield report
    except TimeoutError:
        raise FederationError(
            f"No result came within {timeout:g} seconds; the job was aborted."
        ) from None


def _end_admin(process: subprocess.Popen[str]) -> None:
    """Close the input of an admin session, which then aborts a job that still runs, and end it."""
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(_ABORT_TIMEOUT)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        process.wait()
