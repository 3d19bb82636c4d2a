"""A week in fast motion: three nodes that are killed again and again, and two analysts.

    python -m benchmarks.soak [flower|flare] [MINUTES] [PAUSE]

Two analysts ask, with about PAUSE seconds between two questions. Each minute a node is killed and
started again. A line of the table says, for the time since the start, how many answers came, how
many had other digits than in process, how many matrices went on without a site and said so, how
many questions ended with an error, the memory of the server and of each node, and how many
processes there were. Processes are found by a variable in their environment, also those that were
left by their parents; after the end none may be left.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tests.engines.deployments import SITES

import fedwad
from fedwad.engines.job import Job, run
from fedwad.errors import FedwadError

NAMES = ("oslo", "paris", "rome")
_MARK, _TOKEN = "FEDWAD_SOAK", secrets.token_hex(8)
_COUNTED = ("right", "wrong", "partial", "errors", "kills")
_POLICY = """\
name = "{}"
allow = ["describe", "columns", "summary", "transport", "cells"]
min_cell_size = 1
rounding = 0.0
"""


def main() -> None:
    """Run for the given minutes and print a table of what happened."""
    engine, minutes, pause = [*sys.argv[1:], *("flower", "10", "3")[len(sys.argv) - 1 :]]
    os.environ[_MARK] = _TOKEN  # all processes that start from here on inherit it
    with TemporaryDirectory(prefix="fedwad-soak-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        data = {site: folder / f"{site}.npy" for site in NAMES}
        policies = {site: folder / f"{site}.toml" for site in NAMES}
        rng = np.random.default_rng(0)
        for number, site in enumerate(NAMES):
            np.save(data[site], rng.normal(number, 1.0, (100, 3)))
            policies[site].write_text(_POLICY.format(site), encoding="utf-8")
        with SITES[engine](folder / "engine", data, policies) as sites:
            _soak(sites, data, 60 * float(minutes), float(pause))
    deadline = time.monotonic() + 30
    while (left := [*_processes()]) and time.monotonic() < deadline:
        time.sleep(1.0)
    print(f"\nprocesses left: {len(left)}")
    for process in left:
        with suppress(Exception):
            print(process.pid, process.ppid(), " ".join(process.cmdline())[:200])


def _soak(sites: Any, data: dict[str, Path], seconds: float, pause: float) -> None:
    jobs = [
        Job("distance", NAMES[:2], {"cells": 5}),
        Job("matrix", NAMES, {"cells": 5}),
        Job("distance", NAMES[1:], {"method": "fedwad", "support": 5, "rounds": 3}),
    ]
    expected = [
        run(job, fedwad.local({site: data[site] for site in job.clients}))["value"] for job in jobs
    ]
    began = time.monotonic()
    end = began + seconds
    counts, codes, slowest = Counter[str](), Counter[str](), 0.0

    def ask(seed: int) -> None:
        nonlocal slowest
        choice = random.Random(seed)  # noqa: S311
        while time.monotonic() < end:
            k, started = choice.randrange(len(jobs)), time.monotonic()
            try:
                result = sites.submit(jobs[k], timeout=600.0, round_timeout=120.0)
                kind = "right" if result["value"] == expected[k] else "wrong"
                counts["partial" if result.get("failed") else kind] += 1
                slowest = max(slowest, time.monotonic() - started)
            except FedwadError as error:
                counts["errors"] += 1
                codes[error.code] += 1
                print(f"error: {error}", file=sys.stderr, flush=True)
            time.sleep(choice.uniform(0.5, 1.5) * pause)

    def report() -> None:
        sizes = map(_megabytes, (sites.server, *(partial(sites.processes, one) for one in NAMES)))
        cells = [round((time.monotonic() - began) / 60), *(counts[key] for key in _COUNTED)]
        cells += [*sizes, len([*_processes()])]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

    names = ", MB | ".join(NAMES)
    print(f"| minute | {' | '.join(_COUNTED)} | server, MB | {names}, MB | processes |")
    print("|" + "---|" * 11)
    analysts = [threading.Thread(target=ask, args=(seed,)) for seed in (1, 2)]
    for analyst in analysts:
        analyst.start()
    choice = random.Random(0)  # noqa: S311
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(60.0, left))
        report()
        site = choice.choice(NAMES)
        sites.kill(site)
        sites.start(site)
        counts["kills"] += 1
    for analyst in analysts:
        analyst.join()
    report()
    print(f"\nslowest answer: {slowest:.0f} s; errors by code: {dict(codes)}")


def _processes() -> Iterator[Any]:
    """The processes that this one started, also through others that have ended since."""
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(_MARK) == _TOKEN:
                yield process


def _megabytes(processes: Callable[[], list[Any]]) -> int:
    """The memory of the process of a participant that stays."""
    import psutil

    with suppress(psutil.Error, IndexError):
        return int(processes()[0].memory_info().rss / 1e6)
    return 0


if __name__ == "__main__":
    main()
