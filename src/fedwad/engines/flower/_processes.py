"""Flower's processes on this machine: started on a free port, and gone at the end with all that
they started."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from fedwad.engines.flower import _watch

__all__ = ["Process", "free_port", "is_up", "running"]

_START = 60.0  # seconds for a server to come up


class Process(subprocess.Popen[bytes]):
    """A process in a session of its own, with its output in a file, that does not outlive the one
    that started it.

    Flower puts what it starts into further sessions, so `end` looks for the whole family. Should
    this process be killed before it gets there, a watcher does it.
    """

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as sink:
            super().__init__(  # words of our own, no shell
                list(command),
                env=dict(variables),
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        watcher = [sys.executable, "-I", "-S", _watch.__file__, str(self.pid)]
        self._watcher = subprocess.Popen(  # noqa: S603 - words of our own, no shell
            watcher,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        """End the process and all that it started."""
        _watch.end_family(self.pid)
        self.wait()
        if self._watcher.poll() is None:
            leash = cast("IO[bytes]", self._watcher.stdin)
            with suppress(BrokenPipeError), leash:
                leash.write(b"done")
            self._watcher.wait()


@contextmanager
def running(
    command: Sequence[str], variables: Mapping[str, str], log: Path, port: int
) -> Iterator[bool]:
    """A server on this machine for the time of a block; whether it came up."""
    process = Process(command, variables, log)
    try:
        yield is_up(process, port)
    finally:
        process.end()


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_up(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether a process that was just started listens on a port of this machine."""
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
        time.sleep(0.1)
    return False
