"""A FLARE federation on this machine, of real processes with mutual TLS: to try things out, for
tests and for timing.

`python -m fedwad.engines.flare.loopback` provisions it in a temporary folder, asks for a distance
and a matrix through `submit`, compares them with those in one process, and takes it down again.
`--time` measures the seconds of a round instead. All ports are on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from fedwad.engines.flare._processes import free_port, running_in
from fedwad.engines.flare.kit import prepare_server, prepare_site
from fedwad.engines.flare.simulate import simulate
from fedwad.engines.flare.submit import need_flare, sites, submit
from fedwad.engines.job import Job, run
from fedwad.errors import FederationError, FedwadError
from fedwad.federation import local

__all__ = ["ANALYST", "Loopback", "main"]

ANALYST = "analyst@fedwad.test"
_UP = 60.0  # seconds for all parties to find each other

_PROJECT = """\
api_version: 3
name: fedwad
description: a federation on one machine
participants:
  - {{name: localhost, type: server, org: lab, fed_learn_port: {port}, admin_port: {port}, default_host: 127.0.0.1, \
host_names: [127.0.0.1]}}
  - {{name: "{analyst}", type: admin, org: lab, role: lead}}
{sites}
builders:
  - {{path: nvflare.lighter.impl.workspace.WorkspaceBuilder, args: {{template_file: [master_template.yml]}}}}
  - {{path: nvflare.lighter.impl.static_file.StaticFileBuilder, args: {{config_folder: config}}}}
  - {{path: nvflare.lighter.impl.cert.CertBuilder}}
  - {{path: nvflare.lighter.impl.signature.SignatureBuilder}}
"""


class Loopback:
    """Server, sites and the analyst's kit in `folder`; started at the beginning of a `with` block,
    gone at its end.

    Parameters
    ----------
    folder : an empty folder for certificates, kits and logs
    data : file of each site
    policy : TOML file with the policy of each site
    """

    def __init__(self, folder: Path, data: Mapping[str, Path], policy: Mapping[str, Path]) -> None:
        self.folder, self.port = folder.resolve(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.names = tuple(data)
        self._provision()
        prepare_server(self.kit("localhost"))
        for name in self.names:
            prepare_site(
                self.kit(name), data[name], policy[name], self.folder / f"{name}.ledger.jsonl"
            )

    def kit(self, party: str) -> Path:
        """The startup kit of the server ("localhost"), of a site, or of the analyst."""
        return self.folder / "fedwad" / "prod_00" / party

    @property
    def connect(self) -> Path:
        return self.kit(ANALYST)

    def __enter__(self) -> Loopback:
        try:
            self.start("localhost")
            self.await_server()
            for name in self.names:
                self.start(name)
            self.await_sites(self.names)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, party: str, **variables: str) -> None:
        """Start the node of a party as its operator would, but in the foreground of a process group
        of its own."""
        here = str(Path(sys.executable).parent)
        path = os.pathsep.join([here, os.environ.get("PATH", os.defpath)])
        with (self.folder / f"{party}.log").open("ab") as log:
            self._processes[party] = subprocess.Popen(  # noqa: S603 - words of our own, no shell
                ["bash", str(self.kit(party) / "startup" / "sub_start.sh"), "--once"],  # noqa: S607
                env={**os.environ, "PATH": path, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def processes(self, party: str) -> list[Any]:
        """All processes that run out of the kit of a party, those of jobs included."""
        return running_in(str(self.kit(party)))

    def kill(self, party: str) -> None:
        """As if the machine of that party lost its power."""
        for process in self.processes(party):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if party in self._processes:
            self._processes.pop(party).wait()

    def stop(self) -> None:
        for party in (*self.names, "localhost"):
            self.kill(party)

    def await_server(self) -> None:
        deadline = time.monotonic() + _UP
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                return
            time.sleep(0.2)
        raise FederationError(
            f"The FLARE server did not start; {self.folder / 'localhost.log'} says why."
        )

    def await_sites(self, names: Sequence[str]) -> None:
        """Wait until the server knows these sites."""
        deadline = time.monotonic() + _UP
        while time.monotonic() < deadline:
            with suppress(FederationError):
                if set(names) <= set(sites(self.connect)):
                    return
        raise FederationError(
            f"Not all of {', '.join(names)} came up; their logs are in {self.folder}."
        )

    def _provision(self) -> None:
        need_flare()
        listed = "\n".join(
            f'  - {{name: "{name}", type: client, org: "{name}"}}' for name in self.names
        )
        project = self.folder / "project.yml"
        project.write_text(
            _PROJECT.format(port=self.port, analyst=ANALYST, sites=listed), encoding="utf-8"
        )
        command = [
            sys.executable,
            "-m",
            "nvflare.cli",
            "provision",
            "-p",
            str(project),
            "-w",
            str(self.folder),
        ]
        done = subprocess.run(  # noqa: S603 - words of our own, no shell
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode or not self.connect.is_dir():
            raise FederationError(
                f"FLARE's provisioning failed: {(done.stderr or done.stdout).strip()[-300:]}"
            )


def _files(
    folder: Path, samples: int, features: int, names: Sequence[str]
) -> tuple[dict[str, Path], dict[str, Path]]:
    """Gaussian data and a policy for each site."""
    import numpy as np

    rng, data, policy = np.random.default_rng(0), {}, {}
    for shift, name in enumerate(names):
        data[name], policy[name] = folder / f"{name}.npy", folder / f"{name}.toml"
        np.save(data[name], rng.normal(shift, 1.0, (samples, features)))
        words = ["describe", "moments", "summary", "transport", "cells"]
        policy[name].write_text(
            f'name = "{name}"\nallow = {words}\nsmallest_cell = 1\n', encoding="utf-8"
        )
    return data, policy


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _try(folder: Path) -> bool:
    """A distance and a matrix over the federation and in this process; whether they agree to the
    last bit."""
    data, policy = _files(folder, 300, 2, ("paris", "oslo", "rome"))
    jobs = (
        Job("distance", ("paris", "oslo"), {"support": 10, "rounds": 20}),
        Job("matrix", ("paris", "oslo", "rome"), {"support": 10}),
    )
    here = [run(job, local(data)) for job in jobs]
    with Loopback(folder, data, policy) as federation:
        _show(f"up on 127.0.0.1:{federation.port}: {', '.join(sites(federation.connect))}")
        there = [
            submit(job, connect=federation.connect, timeout=300.0, on_line=_show) for job in jobs
        ]
    same = [
        all(a[key] == b[key] for key in ("value", "lower", "upper"))
        for a, b in zip(here, there, strict=True)
    ]
    for job, result, agrees in zip(jobs, there, same, strict=True):
        _show(
            f"{job.algorithm}: {result['value']}, {'the same' if agrees else 'NOT the same'} as in one process"
        )
    return all(same)


def _time(folder: Path) -> None:
    """Median seconds of a round of FedWaD between two sites, in this process, in the simulator, and
    over mutual TLS."""
    for samples, features, support, rounds in ((300, 2, 10, 40), (1000, 784, 1000, 10)):
        place = folder / str(features)
        place.mkdir()
        data, policy = _files(place, samples, features, ("paris", "oslo"))
        job = Job("distance", ("paris", "oslo"), {"support": support, "rounds": rounds})
        seconds = {"in process": run(job, local(data)), "simulator": simulate(job, data)}
        with Loopback(place, data, policy) as federation:
            seconds["mutual TLS"] = submit(job, connect=federation.connect)
        medians = (
            f"{key} {median(r['seconds'] for r in result['history']):.3f}"
            for key, result in seconds.items()
        )
        _show(
            f"support {support} x {features}, {samples} samples a site, seconds a round: {', '.join(medians)}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 when the numbers differ, 2 with a sentence when something fails."""
    parser = argparse.ArgumentParser(
        prog="python -m fedwad.engines.flare.loopback", description=__doc__
    )
    parser.add_argument(
        "--time", action="store_true", help="measure the seconds of a round instead"
    )
    given = parser.parse_args(arguments)
    try:
        with TemporaryDirectory(prefix="fedwad-flare-", ignore_cleanup_errors=True) as place:
            if given.time:
                _time(Path(place))
                return 0
            return 0 if _try(Path(place)) else 1
    except FedwadError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
