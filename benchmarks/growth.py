"""How processor time grows with n, d, S, cells and the number N of sites, with slopes on log axes.

`python -m benchmarks.growth PICTURE.svg` draws what `python -m benchmarks slopes` prints.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import fedwad
from benchmarks.speed import problem
from fedwad.statistics import summarise
from fedwad.transport import Measure, solve

AXES: dict[str, tuple[int, ...]] = {
    "n, samples (S=10, d=2)": (1000, 10_000, 100_000, 1_000_000),
    "S, support (n=10000, d=2)": (10, 32, 100, 316, 1000),
    "d, features (n=10000, S=100)": (2, 8, 32, 128, 512),
    "N, sites embedded (60 x 8 each)": (100, 316, 1000, 3162, 10_000),
    "cells of a summary (n=10000, d=20)": (10, 32, 100, 316),
}
#: The exponent that the operations grow with at the end of an axis, by its first letter, and why.
THEORY = {
    "n": "1: one pass over n S costs; the excess that moves depends on S",
    "S": "1 to 2: n S costs, and searches over S^2 edges",
    "d": "1: products of n d and S d numbers",
    "N": "1: each site answers, and embedding takes transports to one support",
    "c": "1: n d products for each cell, in each pass",
}


def _seconds(work: Callable[[], Any], repeats: int) -> float:
    """Least processor time of several runs."""
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def _work(axis: str, value: int) -> Callable[[], Any]:
    if axis[0] == "N":
        rng = np.random.default_rng(value)
        sites = {f"s{k}": rng.normal(size=(60, 8)) + 2 * (k % 5) for k in range(value)}
        return lambda: fedwad.embed(sites).cluster(5)
    if axis[0] == "c":
        one = Measure(np.random.default_rng(0).normal(size=(10_000, 20)))
        return lambda: summarise(one, value)
    n, size, d = {"n": (value, 10, 2), "S": (10_000, value, 2), "d": (10_000, 100, value)}[axis[0]]
    mu, nu, _ = problem(n, size, d)
    return lambda: solve(mu, nu)


def measure() -> Iterator[tuple[str, list[float]]]:
    """Seconds for each value of each axis."""
    with threadpool_limits(1):
        for axis, values in AXES.items():
            _work(axis, values[0])()
            repeats = 1 if axis[0] == "N" else 3
            yield axis, [_seconds(_work(axis, value), repeats) for value in values]


def slopes(found: dict[str, list[float]] | None = None) -> list[dict[str, Any]]:
    """One row for each axis: the slope between the first and the last value, and the last two."""
    rows = []
    for axis, seconds in (found or dict(measure())).items():
        x, y = np.log(AXES[axis]), np.log(seconds)
        rows.append(
            {
                "grows with": axis,
                "from s": seconds[0],
                "to s": seconds[-1],
                "slope": float((y[-1] - y[0]) / (x[-1] - x[0])),
                "slope at the end": float((y[-1] - y[-2]) / (x[-1] - x[-2])),
                "theory": THEORY[axis[0]],
            }
        )
    return rows


def draw(path: str) -> None:
    """Four panels with log axes, all but that of cells."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "growth"
    found = dict(measure())
    figure, panels = plt.subplots(2, 2, figsize=(8, 6), layout="constrained")
    for panel, row in zip(panels.flat, slopes(found)[:4], strict=True):
        axis = row["grows with"]
        panel.loglog(AXES[axis], found[axis], "o-", color="#1f5fa8")
        panel.set_xlabel(axis)
        panel.set_ylabel("processor seconds")
        panel.set_title(f"slope {row['slope']:.2f}, at the end {row['slope at the end']:.2f}")
        panel.grid(visible=True, alpha=0.3)
        print(row, flush=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(sys.argv[1])
