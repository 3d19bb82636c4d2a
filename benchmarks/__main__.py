"""Print all tables, or with --json one object. `rivals [GROUP]` compares other tools and papers."""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import fedwad
from benchmarks.catalogue import TABLES

KEPT = Path(__file__).with_name("kept")


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    packages = {name: version(name) for name in ("numpy", "scipy", "POT", "numba")}
    return {
        "fedwad": fedwad.__version__,
        "python": platform.python_version(),
        "cpu": platform.machine(),
        **packages,
    }


def show(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    columns = {name: value for row in reversed(rows) for name, value in row.items()}
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        table.add_column(name, justify="right" if isinstance(columns[name], float) else "left")
    for row in rows:
        table.add_row(*(_cell(name, row.get(name, math.nan)) for name in names))
    Console(width=200).print(table)


def _cell(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return ""
    relative = name.startswith(("paper", "lower", "upper", "value", "one message"))
    return f"{100 * value:+.2f}%" if relative else f"{value:.3g}"


def keep(name: str, rows: list[dict[str, Any]]) -> None:
    """Write the rows of a table to where the pages take them from."""
    KEPT.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine(), "rows": rows}, indent=1)
    (KEPT / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def measured(name: str, full: bool = False) -> list[dict[str, Any]]:
    """The rows of a table, each reported to the standard error with the seconds since the start."""
    began, rows = time.perf_counter(), []

    def report(what: str) -> None:
        print(f"{name}, {time.perf_counter() - began:.0f} s: {what}", file=sys.stderr, flush=True)

    report("started")
    for row in TABLES[name].rows(full):
        rows.append(row)
        report(", ".join(f"{key} {_cell(key, value)}" for key, value in row.items()))
    report("done")
    return rows


def every(names: list[str], full: bool, jobs: int) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table; `jobs` tables at a time, each in a process of its own."""
    if jobs == 1:
        return {name: measured(name, full) for name in names}
    with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        return dict(zip(names, pool.map(partial(measured, full=full), names), strict=True))


def listing() -> str:
    """The tables with their seconds, for --help."""
    lines = ["tables, with about how many seconds they take on one core (with --full):"]
    for name, table in TABLES.items():
        larger = "" if table.full is None else f" ({table.full})"
        lines.append(f"  {name:<19}{table.seconds:>4}{larger:<8} {table.about}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    found = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument(
        "tables",
        nargs="*",
        choices=[*TABLES, []],
        metavar="TABLE",
        help="which tables of the list below; all when left out",
    )
    found.add_argument("--full", action="store_true", help="the larger sizes, which the docs quote")
    found.add_argument("--jobs", type=int, default=1, metavar="K", help="K tables at a time")
    found.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    found.add_argument(
        "--keep",
        action="store_true",
        help="also into benchmarks/kept, from which scripts/refresh_docs.py writes the pages",
    )
    return found


def main() -> None:
    if sys.argv[1:2] == ["rivals"]:
        from benchmarks import rivals

        rivals.main(sys.argv[2:])
        return
    options = parser().parse_args()
    results = every(options.tables or [*TABLES], options.full, options.jobs)
    if options.keep:
        for name, rows in results.items():
            keep(name, rows)
    if options.json:
        print(json.dumps({"machine": machine(), **results}, indent=1))
        return
    for name, rows in results.items():
        show(name, rows)


if __name__ == "__main__":
    main()
