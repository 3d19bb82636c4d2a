"""Embed many small sites in an engine's simulation, as real messages, and in process.

    python -m benchmarks.simulation flower 10 50 200 1000

prints a row for each number of sites: seconds, messages, the most memory that all processes of the
simulation had and how many they were, and whether the bits are those of this process. The other
engine is flare.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import numpy as np

from fedwad.engines.job import Job, run
from fedwad.federation import local

ROWS, FEATURES, GROUPS = 60, 8, 5


def write_sites(folder: Path, count: int) -> dict[str, Path]:
    """A file for each site; sites of a group share one mean."""
    rng = np.random.default_rng(0)
    data = {f"s{k}": folder / f"s{k}.npy" for k in range(count)}
    for k, path in enumerate(data.values()):
        shift = (k % GROUPS) * (np.arange(FEATURES) == k % GROUPS)
        np.save(path, rng.standard_normal((ROWS, FEATURES)) + shift)
    return data


class Memory:
    """The most memory that this process and all that it started had, in a `with` block."""

    def __enter__(self) -> Memory:
        self.megabytes, self.processes, self._end = 0.0, 0, Event()
        Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()

    def _watch(self) -> None:
        import psutil

        while not self._end.wait(1.0):
            sizes = []
            for process in psutil.Process().children(recursive=True):
                try:
                    sizes.append(process.memory_full_info().pss)  # pages that are shared count once
                except psutil.Error:
                    continue
            self.megabytes = max(self.megabytes, sum(sizes) / 1e6)
            self.processes = max(self.processes, len(sizes))


def main() -> None:
    """Print a row of the table for each number of sites."""
    name, *counts = sys.argv[1:] or ["flower", "10"]
    simulate, job = import_module(f"fedwad.engines.{name}").simulate, Job("embed")
    print("| engine | sites | seconds | messages | MB | processes | bits |")
    print("|---|---|---|---|---|---|---|")
    for count in map(int, counts):
        with TemporaryDirectory(prefix="fedwad-") as folder:
            data = write_sites(Path(folder), count)
            here = run(job, local(data))
            began = time.perf_counter()
            with Memory() as memory:
                there = simulate(job, data, timeout=4 * 3600.0)
            seconds = time.perf_counter() - began
        same = "those of this process" if here["embedding"] == there["embedding"] else "OTHERS"
        cells = [name, count, f"{seconds:.0f}", there["traffic"]["messages"]]
        cells += [f"{memory.megabytes:.0f}", memory.processes, same]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
