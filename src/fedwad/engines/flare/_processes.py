"""Processes of this machine: found by the folder they run in, ended with all that they started."""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress
from importlib import import_module
from typing import Any

__all__ = ["end_all", "free_port", "running_in"]


def running_in(place: str) -> list[Any]:
    """The processes, as psutil's, that have `place` or a file below it on their command line."""
    psutil = _psutil()
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(word == place or word.startswith(f"{place}/") for word in process.cmdline()):
                found.append(process)
    return found


def end_all(process: subprocess.Popen[Any]) -> None:
    """End a process and those that it started: FLARE gives them sessions of their own, so their
    group is not enough."""
    psutil = _psutil()
    with suppress(psutil.Error):
        started = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in started:
            with suppress(psutil.Error):
                child.kill()
    process.wait()


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _psutil() -> Any:
    """The library, which comes with FLARE and without types."""
    return import_module("psutil")
