"""Ends a process and all that it started, and does so too when the one who started it is gone.

    python _watch.py PID

waits for its input to end. If nothing was written, its starter died without tidying up, and PID
ends with its family. It needs nothing but Python, so that it starts at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

__all__ = ["end_family"]

_GENTLE = 10.0  # seconds for processes to go by themselves


def end_family(pid: int) -> None:
    """End a process and all that it, or one of them, started: asked first, then told."""
    family = _grown({pid})
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    family = _left(family, _GENTLE)
    for member in family:
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    _left(family, _GENTLE)


def _left(family: set[int], seconds: float) -> set[int]:
    """Who of a family is left after so many seconds, or as soon as nobody is; those born meanwhile
    included."""
    deadline = time.monotonic() + seconds
    while (family := _grown(family)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return family


def _grown(family: set[int]) -> set[int]:
    """The living of a family, with those that they started."""
    processes = _processes()
    family = family & set(processes)
    while more := {child for child, (parent, _) in processes.items() if parent in family} - family:
        family |= more
    return family


def _processes() -> dict[int, tuple[int, str]]:
    """Parent and time of birth of each process of this machine that is not dead."""
    command = ["ps", "-A", "-o", "pid=,ppid=,stat=,lstart="]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    rows = (line.split(maxsplit=3) for line in listing.splitlines())
    return {int(row[0]): (int(row[1]), row[3]) for row in rows if not row[2].startswith("Z")}


def _watch(pid: int) -> None:
    born = _processes().get(pid)
    if sys.stdin.read():
        return
    now = _processes().get(pid)
    if born is not None and now is not None and now[1] == born[1]:  # still the same one
        end_family(pid)


if __name__ == "__main__":
    _watch(int(sys.argv[1]))
