"""Which columns make the difference: wax-ot with rows in one place, ours from one summary.

`pip install --no-deps wax-ot` into this environment; without it there is no table.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from typing import Any

from benchmarks.explain_real import wax_gains, wax_rows
from benchmarks.living_health import shared
from benchmarks.rivals import Given

Row = dict[str, Any]


def measure(given: Given) -> list[Row]:
    """Symmetric relevance gain on the two classes of Wisconsin breast cancer, 200 rows each."""
    try:
        theirs = version("wax-ot")
    except ImportError:
        print("wax-ot is not installed: pip install --no-deps wax-ot", file=sys.stderr)
        return []
    tasks = [("wisconsin", run) for run in range(given.runs or 10)]
    begin = time.perf_counter()
    rows = wax_rows(tasks, shared(_gains, tasks, given.jobs))
    seconds = (time.perf_counter() - begin) / len(tasks)
    return [row | {"wax-ot": theirs, "s a run, all rows": seconds} for row in rows]


def _gains(task: tuple[str, int]) -> dict[str, float]:
    return wax_gains(*task)
