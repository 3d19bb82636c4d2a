"""Processes on this machine that end together with everything that they started."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import psutil

from fedwad.engines import _watchdog

__all__ = ["Process", "end_process", "free_port", "server_process", "wait_until_listening"]

_START_TIMEOUT = 60.0  # seconds for a server to start


class Process(subprocess.Popen[bytes]):
    """A process in its own session that writes its output to a file.

    The engines start further sessions, so `end` ends the whole process tree. A watchdog does the
    same if this process is killed before it can call `end`.
    """

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as output:
            super().__init__(  # a fixed command, no shell
                list(command),
                env=dict(variables),
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        watchdog = [sys.executable, "-P", _watchdog.__file__, str(self.pid)]
        self._watchdog = subprocess.Popen(  # noqa: S603 - a fixed command, no shell
            watchdog,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self, grace: float = _watchdog.GRACE) -> None:
        """End the process and everything that it started."""
        end_process(self, grace)
        if self._watchdog.poll() is None:
            pipe = cast("IO[bytes]", self._watchdog.stdin)
            with suppress(BrokenPipeError), pipe:
                pipe.write(b"done")
            self._watchdog.wait()


def end_process(process: subprocess.Popen[Any], grace: float = 0.0) -> None:
    """End a process and everything that it started; by force after `grace` seconds."""
    with suppress(psutil.NoSuchProcess):
        _watchdog.end_process_tree(psutil.Process(process.pid), grace)
    process.wait()


@contextmanager
def server_process(
    command: Sequence[str], variables: Mapping[str, str], log: Path, port: int
) -> Iterator[Process | None]:
    """Run a server during a `with` block; yields None if it does not start to listen on `port`."""
    process = Process(command, variables, log)
    try:
        yield process if wait_until_listening(process, port) else None
    finally:
        process.end()


def free_port() -> int:
    """A port of this machine on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_listening(process: subprocess.Popen[Any], port: int) -> bool:
    """Wait until a new process listens on a port of this machine.

    Returns False if the process ends first, or does not listen in time.
    """
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
        time.sleep(0.1)
    return False
