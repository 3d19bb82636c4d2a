"""Run a job on a provisioned FLARE federation and return its result."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from fedwad.engines.job import AWAY_SECONDS, Job, need_engine, result_of
from fedwad.errors import FederationError, InputError


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
    FederationError or the error of the run, with one sentence. Ctrl-C aborts the job. A run that a
    site left goes on from its journal if all its sites are connected again in time.
    """
    deadline, returns_left, goes_on = time.monotonic() + timeout, 3, False
    say = on_progress or (lambda _: None)
    settings: dict[str, Any] = {
        "round_timeout": float(round_timeout),
        "start_timeout": 60.0,  # that FLARE may take to start the process of the job at a site
    }
    names = set(job.clients)  # of a job of all sites, those that the session finds

    def hear(report: dict[str, Any]) -> None:
        names.update(report.get("sites", ()))
        say(str(report["line"]))

    while True:
        order = {"job": job.to_json(), "settings": settings | {"resume": resume or goes_on}}
        try:
            report = _carry_out(order, connect, deadline - time.monotonic(), hear)
            return result_of(report["outcome"])
        except InputError as error:
            if not goes_on or error.code != "no-journal":
                raise
            goes_on = resume = False  # the run was lost before its first message
        except FederationError as error:
            # FLARE stops a run when the process of the job ends at one site.
            lost = returns_left and error.code in ("run-failed", "site-gone")
            if not lost or not _have_returned(names, connect, min(round_timeout, AWAY_SECONDS)):
                raise
            say(f"All sites are back after: {error} The run goes on from its journal.")
            goes_on, returns_left = True, returns_left - 1


def _have_returned(names: set[str], connect: str | Path, seconds: float) -> bool:
    """Whether all sites of a run are connected, or are so within these seconds."""
    deadline = time.monotonic() + seconds
    while names:
        with suppress(FederationError):
            if names <= set(sites(connect)):
                return True
        if time.monotonic() > deadline:
            break
        time.sleep(5.0)
    return False


def sites(connect: str | Path, timeout: float = 60.0) -> tuple[str, ...]:
    """Names of the sites that are connected to the server of the startup kit `connect`."""
    return tuple(_carry_out({}, connect, timeout, lambda _: None)["sites"])  # there is no job


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
            " give the folder that contains startup/fed_admin.json.",
            "bad-config",
        ) from None


def _carry_out(
    order: dict[str, Any],
    connect: str | Path,
    timeout: float,
    hear: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Give an order to an admin session in a process of its own, and return its last report.

    `fedwad.engines.flare.admin` describes orders and reports. `hear` gets those of progress.
    """
    need_engine("flare")
    from fedwad.engines._processes import read_lines

    deadline = time.monotonic() + timeout
    order = _read_kit(Path(connect)) | order
    process = subprocess.Popen(
        [sys.executable, "-m", "fedwad.engines.flare.admin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C ends this process only, which then ends that one
    )
    stdin = cast("IO[str]", process.stdin)

    def end() -> None:
        """Close the input of the session, which then aborts a job that still runs, and end it."""
        with suppress(OSError):
            stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20.0)
        process.kill()
        process.wait()

    try:
        with suppress(OSError):  # if the process has ended, there are no reports below
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()
        for line in read_lines(process, deadline, end):
            report: dict[str, Any] = json.loads(line)
            if "line" in report:
                hear(report)
            elif "failed" not in report:
                return report
            elif time.monotonic() >= deadline:  # the job was aborted
                raise TimeoutError
            else:
                raise FederationError(str(report["failed"]), "run-failed")
        raise FederationError(
            "The session with the FLARE server ended without a result; try again.", "run-failed"
        )
    except TimeoutError:
        raise FederationError(
            f"No result came within {timeout:.0f} seconds; the job was aborted.", "timed-out"
        ) from None
    finally:
        end()
