"""Lines that another process writes to its output, read until a deadline."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, cast

__all__ = ["read_lines"]

_POLL = 0.5  # seconds between two checks of the deadline


def read_lines(process: subprocess.Popen[str], deadline: float) -> Iterator[str]:
    """Yield the lines of a process's output until it ends; TimeoutError at the deadline."""
    lines: SimpleQueue[str | None] = SimpleQueue()

    def read() -> None:
        with cast("IO[str]", process.stdout) as output:
            for line in output:
                lines.put(line)
        lines.put(None)

    Thread(target=read, daemon=True).start()
    while time.monotonic() < deadline:
        with suppress(Empty):
            line = lines.get(timeout=_POLL)
            if line is None:
                return
            yield line
    raise TimeoutError
