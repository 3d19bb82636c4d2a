"""Embed many small sites through Flower's simulation, as real messages, and in process.

`python -m benchmarks.simulation [SITES]` prints the progress with seconds, and at last whether both
give the same bits. 10,000 sites take minutes; 100 by default.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fedwad.engines.flower import simulate
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


def main() -> None:
    """Measure both ways."""
    count, job = int(sys.argv[1]) if len(sys.argv) > 1 else 100, Job("embed")
    with TemporaryDirectory(prefix="fedwad-") as name:
        data = write_sites(Path(name), count)
        began = time.perf_counter()

        def say(sentence: str) -> None:
            print(f"{time.perf_counter() - began:.0f} s: {sentence[:150]}", flush=True)

        here = run(job, local(data))
        say("embedded in process")
        there = simulate(job, data, timeout=4 * 3600.0, on_progress=say)
        same = here["embedding"] == there["embedding"]
        say(f"simulated; {'the same bits' if same else 'OTHER BITS'}")


if __name__ == "__main__":
    main()
