"""Processes on this machine that end together with everything that they started.

As a script, `python _processes.py PID` waits until its standard input closes. If nothing was
written there, the process that started it died without cleaning up. It then ends the process PID
and its descendants.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import TIMEOUT_MAX, Timer
from typing import IO, Any, cast

import psutil

_POLL = 0.2  # seconds between two checks of which processes are alive, or of a deadline


class Process(subprocess.Popen[bytes]):
    """A process in its own session that writes its output to a file.

    The engines start further sessions, so `end`, or the end of a `with` block, ends the whole
    process tree, by force after `grace` seconds. A watchdog does the same if this process is killed
    before it can call `end`.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], log: Path, grace: float = 10.0
    ) -> None:
        self._grace = grace
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
        self._watchdog = subprocess.Popen(  # noqa: S603 - a fixed command, no shell
            [sys.executable, "-P", __file__, str(self.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process and everything that it started."""
        with suppress(psutil.NoSuchProcess):
            end_process_tree(psutil.Process(self.pid), self._grace)
        self.wait()
        if self._watchdog.poll() is None:
            pipe = cast("IO[bytes]", self._watchdog.stdin)
            with suppress(BrokenPipeError), pipe:
                pipe.write(b"done")
            self._watchdog.wait()


def end_process_tree(process: psutil.Process, grace: float = 10.0) -> None:
    """Terminate a process, wait until its descendants have ended too, and kill those that remain.

    Descendants are found even if they run in sessions of their own or start in the meantime.
    """
    tree = _with_descendants({process})
    with suppress(psutil.NoSuchProcess):
        process.terminate()
    for seconds, is_last in ((grace, False), (10.0, True)):
        deadline = time.monotonic() + seconds
        while (tree := _with_descendants(tree)) and time.monotonic() < deadline:
            time.sleep(_POLL)
        for member in () if is_last else tree:
            with suppress(psutil.NoSuchProcess):
                member.kill()


def _with_descendants(tree: set[psutil.Process]) -> set[psutil.Process]:
    """The living members of a process tree and their descendants."""
    members = set(filter(_is_alive, tree))
    for member in list(members):
        with suppress(psutil.NoSuchProcess):
            members.update(member.children(recursive=True))
    return set(filter(_is_alive, members))


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def read_lines(
    process: subprocess.Popen[str], deadline: float, stop: Callable[[], None]
) -> Iterator[str]:
    """Yield the lines of a process's output until it ends.

    At the deadline `stop` is called, which must end the process, and TimeoutError is raised.
    """
    timer = Timer(min(max(0.0, deadline - time.monotonic()), TIMEOUT_MAX), stop)
    timer.daemon = True
    timer.start()
    try:
        with cast("IO[str]", process.stdout) as output:
            yield from output
    finally:
        timer.cancel()
    if time.monotonic() >= deadline:
        raise TimeoutError


def free_port() -> int:
    """A port of this machine on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_listening(process: subprocess.Popen[Any], port: int, seconds: float = 60.0) -> bool:
    """Wait until a new process listens on a port of this machine.

    Returns False if the process ends first, or does not listen in time.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
        time.sleep(_POLL)
    return False


def _watch(pid: int) -> None:
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    # `is_running` is False if another process has the same PID by now.
    if not sys.stdin.read() and process.is_running():
        end_process_tree(process)


if __name__ == "__main__":
    _watch(int(sys.argv[1]))
