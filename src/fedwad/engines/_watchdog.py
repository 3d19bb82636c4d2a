"""End a process together with everything that it started.

As a script, `python _watchdog.py PID` waits until its standard input closes. If nothing was written
there, the process that started the watchdog died without cleaning up. The watchdog then ends the
process PID and its descendants.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress

import psutil

__all__ = ["GRACE", "end_process_tree"]

GRACE = 10.0  # seconds in which processes may end by themselves
_POLL = 0.2  # seconds between two checks of which processes are alive


def end_process_tree(process: psutil.Process, grace: float = GRACE) -> None:
    """Terminate a process, wait until its descendants have ended too, and kill those that remain.

    Descendants are found even if they run in sessions of their own or start in the meantime.
    """
    tree = _with_descendants({process})
    with suppress(psutil.NoSuchProcess):
        process.terminate()
    tree = _survivors(tree, grace)
    for member in tree:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    _survivors(tree, GRACE)


def _survivors(tree: set[psutil.Process], seconds: float) -> set[psutil.Process]:
    """Members of a process tree that are still alive after `seconds`; returns early if none are."""
    deadline = time.monotonic() + seconds
    while (tree := _with_descendants(tree)) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return tree


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
