"""`python -m contrib.pot.bench`: the offered module beside `ot.emd`, milliseconds of one processor, dense plans."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ot
from threadpoolctl import threadpool_limits

from contrib.pot.make import module


def seconds(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The least processor time of some runs, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return min(times), result


def main() -> None:
    """Print a row for each problem; warm: the points moved by 1% of their spread."""
    offered: dict[str, Any] = {"__name__": "small_support"}
    source = module().replace('"cache": True', '"cache": False')  # nothing is on disk
    exec(compile(source, "small_support.py", "exec"), offered)  # noqa: S102 - our own source
    solve = offered["emd_small_support"]
    rng = np.random.default_rng(0)
    solve([], [], rng.random((50, 5)))  # compiles
    solve([], [], rng.random((5000, 300)))
    print("| problem | POT | this | ratio | POT warm | this warm | ratio | costs differ by |")
    print("|---|---|---|---|---|---|---|---|")
    shapes = [(100, 10), (100, 100), (1000, 10), (1000, 1000), (10000, 10), (10000, 100)]
    for n, m in [*shapes, (10000, 1000)]:
        x, z = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
        cost, moved = ot.dist(x, z), ot.dist(x, z + 0.01 * rng.normal(size=z.shape))
        row, difference = [], 0.0
        start = None
        for one in (cost, moved):
            given = {} if start is None else {"potentials_init": start}

            def pot(one: Any = one, given: Any = given) -> Any:
                return ot.emd([], [], one, numItermax=10**8, log=True, **given)

            def ours(one: Any = one, given: Any = given) -> Any:
                return solve([], [], one, log=True, **given)

            theirs, (_, log) = seconds(pot)
            mine, (_, found) = seconds(ours)
            start = log["u"], log["v"]
            difference = max(difference, abs(found["cost"] / log["cost"] - 1))
            row += [f"{1e3 * theirs:.3g}", f"{1e3 * mine:.3g}", f"**{theirs / mine:.2g}**"]
        print(f"| {n} x {m} | {' | '.join(row)} | {difference:.0e} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
