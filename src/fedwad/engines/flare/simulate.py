"""FLARE's simulator on this machine: each site is a file, and a few processes answer for all."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedwad.engines._simulation import Simulation, simulator
from fedwad.engines.flare._job_folder import CONTROLLER, EXECUTOR, write_job_folder
from fedwad.engines.job import Job


@contextmanager
def _start(
    simulation: Simulation, job: Job, seconds: float, processes: int = 4
) -> Iterator[Callable[[], bool]]:
    """At most so many processes, and one for each core, answer; each takes half a gigabyte."""
    from fedwad.engines._processes import Process

    folder = simulation.folder
    count = min(len(simulation.names()), os.cpu_count() or 1, processes)
    hosts = [f"host-{k}" for k in range(count)]
    name = folder / f"fedwad-{job.algorithm}"
    job_folder = write_job_folder(name, job, hosts, round_timeout=seconds, start_timeout=120.0)
    local = folder / "workspace" / "local"
    local.mkdir(parents=True)
    resources = {
        "format_version": 2,
        "class_allow_list": [CONTROLLER, EXECUTOR],
        "allow_log_streaming": False,
    }
    (local / "resources.json").write_text(json.dumps(resources), encoding="utf-8")
    command = [sys.executable, "-m", "nvflare.cli", "simulator", str(job_folder)]
    command += ["-w", str(local.parent), "-c", ",".join(hosts), "-t", str(len(hosts))]
    variables, log = os.environ | simulation.variables, folder / "simulator.log"
    with Process(command, variables, log, grace=0.0) as process:
        yield lambda: process.poll() is None


simulate = simulator(_start, "flare")
