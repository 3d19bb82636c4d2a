"""Flower's simulation on this machine: each site is a file, and Ray runs the clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedwad.engines._site_files import absolute_path, parse_columns, select_files
from fedwad.engines.flower._control import Control, environment, need_flower
from fedwad.engines.flower._simulation_folder import FOLDER_VARIABLE, SimulationFolder
from fedwad.engines.flower.submit import job_settings, run_app, write_app
from fedwad.engines.job import SERVER_MODELS_VARIABLE, Job
from fedwad.errors import FederationError

__all__ = ["simulate"]

_PATIENCE, _SECONDS_PER_SITE = 120.0, 0.5  # seconds for Ray to start, and for each site to answer
_POLL, _STATUS_POLL = 0.1, 5.0  # seconds between two polls of the folder, and of the run's status
_CLIENT_APP = "fedwad.engines.flower.simulation_app:app"


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
    """Run a job in Flower's simulation, with the files of `data` as sites, and return its result.

    Parameters
    ----------
    job : the algorithm, its sites and its options
    data : file of each site
    policy : TOML file with the policy of all sites; when left out everything is allowed, since the
        data are on this machine
    timeout, round_timeout, on_progress : as for `submit`
    columns : label_column, drop, missing and schema of tables, as for `fedwad.local`, but a schema
        only as the path of its file
    """
    need_flower("ray")
    from fedwad.engines.flower.simulation_app import open_site

    files = select_files(job, data)
    shared_settings = {
        "policy": None if policy is None else absolute_path(policy),
        **parse_columns(columns).to_options(),
    }
    with TemporaryDirectory(prefix="fedwad-flower-") as name:
        folder = Path(name)
        sites = [
            {"name": site, "data": path, "ledger": str(folder / f"{number}.jsonl")}
            | shared_settings
            for number, (site, path) in enumerate(files.items())
        ]
        for site in sites:  # in a node, the reason why a site cannot be opened would be lost
            open_site(site)
        simulation = SimulationFolder(folder)
        simulation.write_sites(sites)
        # Flower would parse and copy these for each node if they were settings of the app.
        simulation.write_settings(job_settings(job, list(files)))
        extra = _SECONDS_PER_SITE * len(sites)
        settings = {
            "round-timeout": round_timeout + extra,
            "patience": _PATIENCE + extra,
            "resume": False,
        }
        app, _ = write_app(folder, settings, _CLIENT_APP)
        return _run(folder, app, len(sites), timeout, on_progress or (lambda _: None))


def _run(
    folder: Path, app: Path, nodes: int, timeout: float, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Run the app on a SuperLink of its own, which ends with the run."""
    from fedwad.engines._processes import free_port, server_process

    port = free_port()
    command = ["flower-superlink", "--insecure", "--simulation"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--disable-runtime-dependency-installation"]
    variables = environment(
        folder / "superlink", **{FOLDER_VARIABLE: str(folder), SERVER_MODELS_VARIABLE: "*"}
    )
    with server_process(command, variables, folder / "superlink.log", port) as superlink:
        if superlink is None:
            raise FederationError(
                "Flower's simulation did not start; check that flower-superlink runs here."
            )
        control = Control(folder, f"127.0.0.1:{port}", None, insecure=True)
        simulation = SimulationFolder(folder)
        await_outcome = partial(_await_outcome_in_folder, control, simulation, on_progress)
        options = ["--federation-config", f"num-supernodes={nodes}"]
        return run_app(control, app, timeout, await_outcome, options)


def _await_outcome_in_folder(
    control: Control,
    folder: SimulationFolder,
    on_progress: Callable[[str], None],
    run: str,
    deadline: float,
) -> dict[str, Any]:
    """Pass on the progress until the folder has the outcome; TimeoutError at the deadline."""
    finished, next_status = False, time.monotonic() + _STATUS_POLL
    while time.monotonic() < deadline:
        for sentence in folder.new_progress():
            on_progress(sentence)
        outcome = folder.outcome()
        if outcome is not None:
            return outcome
        if finished:
            raise FederationError(
                "Flower's simulation ended without a result; try fewer or smaller sites."
            )
        if time.monotonic() > next_status:
            finished = control.status(run).startswith("finished")
            next_status = time.monotonic() + _STATUS_POLL
        time.sleep(_POLL)
    raise TimeoutError
