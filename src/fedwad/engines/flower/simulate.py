"""Flower's simulation on this machine: each site is a file, and Ray runs the clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedwad.engines._simulation import Simulation, simulator
from fedwad.engines.flower._control import Control, environment
from fedwad.engines.flower.submit import write_app
from fedwad.engines.job import Job
from fedwad.errors import FederationError


@contextmanager
def _start(simulation: Simulation, job: Job, seconds: float) -> Iterator[Callable[[], bool]]:
    from fedwad.engines._processes import Process, free_port, wait_until_listening

    folder, port = simulation.folder, free_port()
    sites = len(simulation.names())
    app, _ = write_app(folder, job, round_timeout=seconds, patience=120.0 + 0.5 * sites)
    command = ["flower-superlink", "--insecure", "--simulation"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--disable-runtime-dependency-installation"]
    variables = environment(folder / "superlink", **simulation.variables)
    with Process(command, variables, folder / "superlink.log") as superlink:
        if not wait_until_listening(superlink, port):
            raise FederationError(
                "Flower's simulation did not start; check that flower-superlink runs here.",
                "run-failed",
            )
        control = Control(folder, f"127.0.0.1:{port}", None, insecure=True)
        run = control.start(app, ["--federation-config", f"num-supernodes={sites}"])
        yield lambda: not control.status(run).startswith("finished")


simulate = simulator(_start, "flower", "ray")
