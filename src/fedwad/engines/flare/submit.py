"""Run a job on a provisioned FLARE federation, and bring the result back."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedwad.engines.job import Job
from fedwad.errors import CertificateError, FederationError, FedwadError, InputError, PolicyError

__all__ = ["need_flare", "raised", "sites", "submit"]

_STARTS = 60.0  # seconds that the sites' processes may take to start
_ABORT = 20.0  # seconds to abort a job
_ERRORS: dict[str, type[FedwadError]] = {
    "input": InputError,
    "policy": PolicyError,
    "certificate": CertificateError,
}


def submit(
    job: Job,
    *,
    connect: str | Path,
    timeout: float = 3600.0,
    round_timeout: float = 600.0,
    on_line: Callable[[str], None] | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Run a job on the sites of a FLARE federation and return its result.

    Parameters
    ----------
    job : what to compute, on which sites; the sites go by the names in their certificates
    connect : the analyst's startup kit, a folder made by provisioning; it holds the server's
        address and certificates
    timeout : seconds to wait for the result; the job is aborted after that
    round_timeout : seconds that a site may take for one answer
    on_line : called with each line about the progress of the run
    resume : go on from the answers that an earlier run of the same job left at the server

    Raises
    ------
    FederationError, or the error that the run met, always with one sentence. Ctrl-C aborts the job.
    """
    settings = {"timeout": float(round_timeout), "start": _STARTS, "resume": bool(resume)}
    order = {"job": job.to_json(), "settings": settings}
    for said in _session(connect, order, timeout):
        if "line" in said and on_line is not None:
            on_line(str(said["line"]))
        if "outcome" in said:
            return raised(said["outcome"])
    raise FederationError("The session with the FLARE server ended without a result; try again.")


def sites(connect: str | Path, timeout: float = 60.0) -> tuple[str, ...]:
    """Names of the sites that are connected to the server of the analyst's startup kit
    `connect`."""
    for said in _session(connect, {}, timeout):
        if "sites" in said:
            return tuple(said["sites"])
    raise FederationError("The session with the FLARE server ended without an answer; try again.")


def need_flare() -> None:
    """FederationError unless FLARE is installed."""
    if find_spec("nvflare") is None:
        raise FederationError("NVIDIA FLARE is not installed; run: pip install 'fedwad[flare]'.")


def raised(outcome: dict[str, Any]) -> dict[str, Any]:
    """The result in an outcome, or its error raised."""
    if "error" in outcome:
        kind = _ERRORS.get(str(outcome["error"]), FederationError)
        raise kind(str(outcome.get("sentence", "The run failed.")))
    return outcome


def _read_kit(kit: Path) -> dict[str, str]:
    """Where the analyst's startup kit is, for whom, and for which server."""
    place = kit.expanduser().resolve()
    try:
        admin = json.loads((place / "startup" / "fed_admin.json").read_text(encoding="utf-8"))[
            "admin"
        ]
        return {
            "kit": str(place),
            "user": admin["username"],
            "address": f"{admin['host']}:{admin['port']}",
        }
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{kit} is not an analyst's startup kit of FLARE; name the folder that holds startup/fed_admin.json."
        ) from None


def _session(
    connect: str | Path, order: dict[str, Any], timeout: float
) -> Iterator[dict[str, Any]]:
    """Give the order to a courier, and bring what it says. However this ends, the courier ends
    too."""
    need_flare()
    order = _read_kit(Path(connect)) | order
    process = subprocess.Popen(
        [sys.executable, "-m", "fedwad.engines.flare.admin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is for us; the courier hears of it by its standard input
    )
    try:
        yield from _heard(process, json.dumps(order), timeout)
    finally:
        _ended(process)


def _heard(process: subprocess.Popen[str], order: str, timeout: float) -> Iterator[dict[str, Any]]:
    """What the courier says until it ends or the time is up; FederationError when it says that it
    failed."""
    deadline = time.monotonic() + timeout
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read_out, args=(process, lines), daemon=True).start()
    if process.stdin is not None:
        with suppress(OSError):  # a courier that is gone already says nothing, which is heard below
            process.stdin.write(order + "\n")
            process.stdin.flush()
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise FederationError(
                f"No result came within {timeout:g} seconds; the job was aborted."
            ) from None
        if line is None:
            return
        said = json.loads(line)
        if "failed" in said:
            raise FederationError(str(said["failed"]))
        yield said


def _read_out(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    if process.stdout is not None:
        with process.stdout as out:
            for line in out:
                lines.put(line)
    lines.put(None)


def _ended(process: subprocess.Popen[str]) -> None:
    """Let the courier abort its job, if that has not ended, and go."""
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(_ABORT)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        process.wait()
