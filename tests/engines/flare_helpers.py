"""Helpers of the FLARE tests: sites on disk, fakes of FLARE's network, background runs, foreign
jobs."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from engines.flare_loopback import ANALYST, Loopback
from fedwad.engines.flare import submit
from fedwad.engines.flare._job_folder import OPEN, READY
from fedwad.engines.job import Job

EVERYTHING = ("describe", "columns", "summary", "transport", "cells")


def write_data(
    folder: Path, name: str, shift: float = 0.0, samples: int = 300, features: int = 2
) -> Path:
    rng = np.random.default_rng(sum(map(ord, name)))
    path = folder / f"{name}.npy"
    np.save(path, rng.normal(shift, 1.0, (samples, features)))
    return path


def with_identifiers(data: dict[str, Path]) -> dict[str, Path]:
    """The same data as tables that also hold a number and the name of each person, where one is
    known."""
    made = {name: path.with_suffix(".csv") for name, path in data.items()}
    for name, path in data.items():
        rows = [
            f"{k + 10**6},{u!r},{v!r},{'Ada' if k % 2 else ''}"
            for k, (u, v) in enumerate(np.load(path).tolist())
        ]
        made[name].write_text("\n".join(["id,u,v,name", *rows, ""]), encoding="utf-8")
    return made


def write_policy(folder: Path, name: str, allow: tuple[str, ...] = EVERYTHING) -> Path:
    path = folder / f"{name}.policy.toml"
    path.write_text(
        f'name = "{name}"\nallow = {list(allow)}\nrounding = 0.0\nmax_schemas = inf\n',
        encoding="utf-8",
    )
    return path


def silence() -> Any:
    """The answer of a site that never answers."""
    return silence


def there() -> bytes:
    """The answer of a site to the question whether it is ready."""
    return OPEN


class FakeEngine:
    """Sites as functions from a message to an answer, in place of FLARE's engine, cell and abort
    signal.

    An answer is bytes, FLARE's name of an error, or a function that is called until it gives one of
    them.
    """

    def __init__(self, **sites: Callable[[bytes], Any]) -> None:
        self.sites, self.triggered = sites, False
        self.ready: dict[str, Callable[[], Any]] = dict.fromkeys(sites, there)

    def get_cell(self) -> FakeEngine:
        return self

    def get_clients(self) -> list[Any]:
        return [SimpleNamespace(name=name, get_fqcn=lambda name=name: name) for name in self.sites]

    def send_request(
        self, *, topic: str, target: str, request: Any, abort_signal: Any, **settings: Any
    ) -> Any:
        from nvflare.fuel.f3.cellnet.defs import ReturnCode
        from nvflare.fuel.f3.cellnet.utils import make_reply

        assert settings["channel"] == "fedwad"
        name, job = target.split(".")
        assert job == "job-1"
        answer = self.ready[name]() if topic == READY else self.sites[name](request.payload)
        while callable(answer):
            if abort_signal.triggered:
                return make_reply(ReturnCode.TIMEOUT)
            time.sleep(0.01)
            answer = answer()
        return (
            make_reply(answer)
            if isinstance(answer, str)
            else make_reply(ReturnCode.OK, body=answer)
        )


class FakeSite:
    """A started executor whose FLARE context, engine, workspace and cell are this object."""

    def __init__(self, folder: Path) -> None:
        from nvflare.apis.event_type import EventType

        from fedwad.engines.flare.executor import ClientExecutor

        self._folder, self._handlers, self._executor = folder, {}, ClientExecutor()
        self._executor.handle_event(EventType.START_RUN, self)

    def close(self) -> None:
        from nvflare.apis.event_type import EventType

        self._executor.handle_event(EventType.END_RUN, self)

    def get_prop(self, _: str) -> Any:
        return SimpleNamespace(get_site_config_dir=lambda: str(self._folder))

    def get_job_id(self) -> str:
        return "job-1"

    def get_identity_name(self) -> str:
        return "paris"

    def get_engine(self) -> Any:
        return SimpleNamespace(get_cell=lambda: self)

    def register_request_cb(self, *, channel: str, topic: str, cb: Callable[[Any], Any]) -> None:
        assert channel == "fedwad"
        self._handlers[topic] = cb

    def ask(self, topic: str, payload: Any, origin: str | None = "server.job-1") -> tuple[str, Any]:
        """Return code and content of the executor's reply to a message."""
        from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
        from nvflare.fuel.f3.message import Message

        reply = self._handlers[topic](Message({MessageHeaderKey.ORIGIN: origin}, payload))
        return reply.get_header(MessageHeaderKey.RETURN_CODE), reply.payload


class Running:
    """A run in a thread of its own: its lines so far, and in the end its result or its error."""

    def __init__(self, job: Job, federation: Loopback, **options: Any) -> None:
        self.lines: list[str] = []
        self.result: dict[str, Any] | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(job, federation.connect, options))
        self._thread.start()

    def _run(self, job: Job, connect: Path, options: dict[str, Any]) -> None:
        try:
            self.result = submit(job, connect=connect, on_progress=self.lines.append, **options)
        except BaseException as error:
            self.error = error

    def await_rounds(self, number: int, seconds: float = 240.0) -> None:
        deadline = time.monotonic() + seconds
        while sum("answered" in line for line in self.lines) < number:
            assert time.monotonic() < deadline, f"only {self.lines}"
            assert self._thread.is_alive(), f"ended with {self.error!r} after {self.lines}"
            time.sleep(0.05)

    def end(self, seconds: float) -> float:
        """Wait for the end, which must come within `seconds`; how many it took."""
        start = time.monotonic()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"still running after {seconds} s: {self.lines}"
        return time.monotonic() - start


_FOREIGN = """
import os, sys, time
from nvflare.fuel.flare_api.flare_api import new_secure_session
user, kit, folder = sys.argv[1:]
session = new_secure_session(user, kit)
job = session.submit_job(folder)
for _ in range(600):
    status = str(session.get_job_meta(job).get("status"))
    if status.startswith("FINISHED"):
        break
    time.sleep(0.3)
print("STATUS " + status, flush=True)
os._exit(0)
"""


def submit_foreign(federation: Loopback, folder: Path) -> str:
    """Submit a job folder as it is, and return how it ended."""
    command = [sys.executable, "-c", _FOREIGN, ANALYST, str(federation.connect), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("STATUS ")]
    assert lines, done.stderr
    return lines[0].removeprefix("STATUS ")


def holds(folder: Path, word: str) -> list[str]:
    """Files in a folder that hold a word."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [str(path.relative_to(folder)) for path in files if word.encode() in path.read_bytes()]


def received(connection: Any) -> bytes:
    try:
        return bytes(connection.recv(1000))
    except OSError:
        return b""
