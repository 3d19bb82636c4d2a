"""More than chance: every claim about calibration, populations and the test, measured.

`python -m benchmarks.chance NAME [--runs N] [--jobs N]` prints a Markdown table. Data other than
the bundled ones are read from FEDWAD_DATA. Names: overlap, disjoint, rounds, otdd, ranks,
population, coverage, unequal, clustered, limit, level, power, splits, planted, cost, audit,
private_test.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
#: Each table: what to do (one tuple of arguments for each run), how, and what rows that makes.
Table = tuple[
    Callable[[int], list[tuple[Any, ...]]],
    Callable[..., Any],
    Callable[[list[tuple[Any, ...]], list[Any]], list[Row]],
]


def tables() -> dict[str, Table]:
    from benchmarks import (
        chance_cost,
        chance_estimates,
        chance_population,
        chance_private,
        chance_test,
    )

    return {
        **chance_estimates.TABLES,
        **chance_population.TABLES,
        **chance_test.TABLES,
        **chance_cost.TABLES,
        **chance_private.TABLES,
    }


def _work(name: str, arguments: tuple[Any, ...]) -> Any:
    return tables()[name][1](*arguments)


def measure(name: str, runs: int = 0, jobs: int = 1) -> list[Row]:
    """The rows of a table, computed by so many processes."""
    tasks, work, collect = tables()[name]
    listed = tasks(runs)
    if jobs == 1:
        return collect(listed, [work(*arguments) for arguments in listed])
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(_work, [name] * len(listed), listed))
    return collect(listed, found)


def markdown(rows: list[Row]) -> str:
    """A Markdown table of these rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [
        names,
        ["---"] * len(names),
        *([_cell(row.get(name)) for name in names] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=list(tables()), metavar="NAME")
    parser.add_argument("--runs", type=int, default=0, help="runs of each case; usual number if 0")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    for name in options.names:
        start = time.perf_counter()
        print(f"\n### {name}\n\n{markdown(measure(name, options.runs, options.jobs))}")
        print(f"\n{time.perf_counter() - start:.0f} s with {options.jobs} jobs", flush=True)


if __name__ == "__main__":
    main()
