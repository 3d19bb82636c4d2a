"""FLARE's simulator on this machine: each site is a file, and each client a process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedwad._files import to_toml
from fedwad.engines._lines import read_lines
from fedwad.engines._outcome import result_of
from fedwad.engines._site_files import absolute_path, parse_columns, select_files
from fedwad.engines.flare._job_folder import write_job_folder
from fedwad.engines.flare._protocol import (
    CONTROLLER,
    EXECUTOR,
    OUTCOME_FILE,
    PROGRESS_PREFIX,
    SITE_VARIABLE,
)
from fedwad.engines.flare.site_config import read_config
from fedwad.engines.flare.submit import need_flare
from fedwad.engines.job import SERVER_MODELS_VARIABLE, Job
from fedwad.errors import FederationError, InputError
from fedwad.federation import Policy

__all__ = ["simulate"]

_START_TIMEOUT = 120.0  # seconds that the processes of all sites may take to start


def simulate(
    job: Job,
    data: Mapping[str, str | Path],
    policy: str | Path | None = None,
    *,
    timeout: float = 3600.0,
    round_timeout: float = 600.0,
    on_progress: Callable[[str], None] | None = None,
    **columns: Any,
) -> dict[str, Any]:
    """Run a job in FLARE's simulator, with the files of `data` as sites, and return its result.

    Parameters are those of `fedwad.engines.flower.simulate`. Names of sites consist of letters,
    digits, hyphens and underscores, start with a letter or digit, and are not "server".
    """
    need_flare()
    files = select_files(job, data)
    _check_names(files)
    options = parse_columns(columns).to_options()
    with TemporaryDirectory(prefix="fedwad-flare-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "sites").mkdir()
        for site, path in files.items():
            config = _write_site(folder / "sites", site, policy, {"data": path, **options})
            # In a simulated site, the reason why it cannot be opened would be lost.
            read_config(config).open()
        job_folder = write_job_folder(
            folder / f"fedwad-{job.algorithm}",
            job,
            list(files),
            round_timeout=float(round_timeout),
            start_timeout=_START_TIMEOUT,
            collect=False,
        )
        return _run(folder, job_folder, list(files), timeout, on_progress)


def _check_names(names: Iterable[str]) -> None:
    for name in names:  # FLARE joins names with dots
        if name == "server" or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
            raise InputError(
                f"FLARE does not accept {name!r} as the name of a site;"
                " use letters, digits, hyphens and underscores, a letter or digit first, and not"
                " 'server'."
            )


def _write_site(
    folder: Path, name: str, policy: str | Path | None, settings: dict[str, Any]
) -> Path:
    """Write the site's own file, and a policy that allows everything if none is given."""
    if policy is None:
        policy = folder / f"{name}.policy.toml"
        Policy.open(name).save(policy)
    paths = {"policy": absolute_path(policy), "ledger": str(folder / f"{name}.ledger.jsonl")}
    path = folder / f"{name}.toml"
    path.write_text(to_toml(settings | paths), encoding="utf-8")
    return path


def _write_resources(local: Path) -> None:
    """Write the server's `resources.json`, which lists the classes that a job may start."""
    local.mkdir(parents=True)
    resources = {
        "format_version": 2,
        "class_allow_list": [CONTROLLER, EXECUTOR],
        "allow_log_streaming": False,
    }
    (local / "resources.json").write_text(json.dumps(resources), encoding="utf-8")


def _run(
    folder: Path,
    job_folder: Path,
    names: Sequence[str],
    timeout: float,
    on_progress: Callable[[str], None] | None,
) -> dict[str, Any]:
    """Run the job of a job folder in the simulator and return its result."""
    workspace = folder / "workspace"
    _write_resources(workspace / "local")
    command = [sys.executable, "-m", "nvflare.cli", "simulator", str(job_folder)]
    command += ["-w", str(workspace), "-c", ",".join(names), "-t", str(len(names))]
    variables = {**os.environ, SITE_VARIABLE: str(folder / "sites" / "{name}.toml")}
    variables[SERVER_MODELS_VARIABLE] = "*"  # whoever simulates operates the server
    outcome = workspace / "server" / "simulate_job" / OUTCOME_FILE
    is_in_time = _run_until_exists(outcome, command, variables, timeout, on_progress)
    if outcome.is_file():
        return result_of(json.loads(outcome.read_text(encoding="utf-8")))
    if not is_in_time:
        raise FederationError(
            f"No result came within {timeout:g} seconds; the simulation was ended."
        )
    raise FederationError("FLARE's simulator ended without a result; try fewer or smaller sites.")


def _run_until_exists(
    file: Path,
    command: list[str],
    variables: Mapping[str, str],
    timeout: float,
    on_progress: Callable[[str], None] | None,
) -> bool:
    """Run a command until it writes a file or ends, and pass on its progress.

    Returns False if it takes longer than `timeout` seconds.
    """
    from fedwad.engines._processes import end_process

    process = subprocess.Popen(  # noqa: S603 - a fixed command, no shell
        command,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        for line in read_lines(process, time.monotonic() + timeout):
            if PROGRESS_PREFIX in line and on_progress is not None:
                on_progress(line.rstrip().partition(PROGRESS_PREFIX)[2])
            if file.exists():  # FLARE needs seconds to shut down
                break
    except TimeoutError:
        return False
    finally:
        end_process(process)
    return True
