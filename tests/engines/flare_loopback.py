"""A FLARE federation of real processes with mutual TLS on this machine, for tests and benchmarks.

All ports are on 127.0.0.1.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from fedwad.engines._processes import free_port
from fedwad.engines.flare.startup_kit import prepare_server, prepare_site
from fedwad.engines.flare.submit import sites
from fedwad.engines.job import need_engine
from fedwad.errors import FederationError

__all__ = ["ANALYST", "Loopback"]

ANALYST = "analyst@fedwad.test"
_UP = 180.0  # seconds for the sites to connect to the server; many start at once

_PROJECT = """\
api_version: 3
name: fedwad
description: a federation on one machine
participants:
  - {{name: localhost, type: server, org: lab, fed_learn_port: {port}, admin_port: {port}, \
default_host: 127.0.0.1, host_names: [127.0.0.1]}}
  - {{name: "{analyst}", type: admin, org: lab, role: lead}}
{sites}
builders:
  - {{path: nvflare.lighter.impl.workspace.WorkspaceBuilder, \
args: {{template_file: [master_template.yml]}}}}
  - {{path: nvflare.lighter.impl.static_file.StaticFileBuilder, args: {{config_folder: config}}}}
  - {{path: nvflare.lighter.impl.cert.CertBuilder}}
  - {{path: nvflare.lighter.impl.signature.SignatureBuilder}}
"""


class Loopback:
    """A server, sites and the analyst's kit in `folder`, which run during a `with` block.

    Parameters
    ----------
    folder : an empty folder for certificates, kits and logs
    data : file of each site
    policy : TOML file with the policy of each site
    columns : what the columns of a site's table are, as for `open_client`, where they need words
    """

    def __init__(
        self,
        folder: Path,
        data: Mapping[str, Path],
        policy: Mapping[str, Path],
        columns: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.folder, self.port = folder.resolve(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.names = tuple(data)
        self._provision()
        prepare_server(self.kit("localhost"))
        for name in self.names:
            prepare_site(
                self.kit(name),
                data[name],
                policy[name],
                self.folder / f"{name}.ledger.sqlite",
                **(columns or {}).get(name, {}),
            )

    def kit(self, participant: str) -> Path:
        """The startup kit of the server ("localhost"), of a site, or of the analyst."""
        return self.folder / "fedwad" / "prod_00" / participant

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

    def start(self, participant: str, **variables: str) -> None:
        """Start a participant as its operator would, but as a process in its own session."""
        here = str(Path(sys.executable).parent)
        path = os.pathsep.join([here, os.environ.get("PATH", os.defpath)])
        with (self.folder / f"{participant}.log").open("ab") as log:
            self._processes[participant] = subprocess.Popen(
                ["bash", str(self.kit(participant) / "startup" / "sub_start.sh"), "--once"],  # noqa: S607
                env={**os.environ, "PATH": path, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def processes(self, participant: str) -> list[Any]:
        """All processes, including those of jobs, that have a file of this kit on their command
        line."""
        folder = str(self.kit(participant))
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                if any(word == folder or word.startswith(f"{folder}/") for word in words):
                    found.append(process)
        return found

    def kill(self, participant: str) -> None:
        """End all processes of a participant at once, as a power cut would."""
        for process in self.processes(participant):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if participant in self._processes:
            self._processes.pop(participant).wait()

    def stop(self) -> None:
        for participant in (*self.names, "localhost"):
            self.kill(participant)

    def await_server(self) -> None:
        deadline = time.monotonic() + _UP
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                return
            time.sleep(0.2)
        raise FederationError(
            f"The FLARE server did not start; see {self.folder / 'localhost.log'}."
        )

    def await_sites(self, names: Sequence[str]) -> None:
        """Wait until these sites are connected to the server."""
        deadline = time.monotonic() + _UP
        while time.monotonic() < deadline:
            with suppress(FederationError):
                if set(names) <= set(sites(self.connect)):
                    return
        raise FederationError(
            f"Not all of {', '.join(names)} started; see their logs in {self.folder}."
        )

    def _provision(self) -> None:
        need_engine("flare")
        listed = "\n".join(
            f'  - {{name: "{name}", type: client, org: "{name}"}}' for name in self.names
        )
        project = self.folder / "project.yml"
        project.write_text(
            _PROJECT.format(port=self.port, analyst=ANALYST, sites=listed), encoding="utf-8"
        )
        command = [sys.executable, "-m", "nvflare.cli", "provision"]
        command += ["-p", str(project), "-w", str(self.folder)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode or not self.connect.is_dir():
            raise FederationError(
                f"FLARE's provisioning failed: {(done.stderr or done.stdout).strip()[-300:]}"
            )
