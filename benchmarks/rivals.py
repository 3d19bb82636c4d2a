"""Beside what people would use instead: `python -m benchmarks rivals [GROUP ...]`.

Each group has tables of its own, which docs/comparison.md shows. Packages that have to be in
environments of their own are named with `--peer NAME=PYTHON`; what is not there is left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from typing import Any, NamedTuple

Row = dict[str, Any]


class Given(NamedTuple):
    """What the command line asked for."""

    runs: int
    peers: Mapping[str, str]
    jobs: int = 1


Table = Callable[[Given], list[Row]]


def shared(task: Callable[[Any], Any], tasks: Sequence[Any], jobs: int) -> list[Any]:
    """Results of all tasks, by so many processes."""
    if jobs == 1:
        return [task(one) for one in tasks]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(task, tasks))


def _of(module: str, function: str) -> Table:
    def table(given: Given) -> list[Row]:
        found: list[Row] = getattr(import_module(f"benchmarks.{module}"), function)(given)
        return found

    return table


#: The tables of each group, by their titles.
GROUPS: dict[str, dict[str, Table]] = {
    "distances": {
        "error": _of("rivals_distances", "errors"),
        "records of 200 reconstructed exactly": _of("rivals_distances", "attacks"),
        "all pairs of twelve sites": _of("rivals_distances", "ranks"),
    },
    "datasets": {
        "and transfer": _of("rivals_datasets", "measure"),
        "microsoft/otdd itself": _of("rivals_otdd", "measure"),
    },
    "drift": {"flagged in halves of one hospital": _of("rivals_drift", "measure")},
    "clusters": {"before training": _of("rivals_clusters", "measure")},
}


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rivals", description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="all when left out")
    parser.add_argument("--runs", type=int, default=0, help="repetitions; each table has a default")
    parser.add_argument("--jobs", type=int, default=1, help="processes, where draws are shared")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--keep", action="store_true", help="also into benchmarks/kept")
    parser.add_argument("--markdown", action="store_true", help="print tables for a page")
    options = parser.parse_args(words)
    peers = dict(one.split("=", 1) for one in options.peer)
    given = Given(options.runs, peers, options.jobs)
    found = {
        f"{group}: {title}": table(given)
        for group in options.groups or GROUPS
        for title, table in GROUPS[group].items()
    }
    from benchmarks.__main__ import keep, machine, show

    if options.keep:
        for title, rows in found.items():
            keep("rivals-" + title.replace(":", "").replace(" ", "-"), rows)
    if options.json:
        print(json.dumps({"machine": machine(), **found}, indent=1))
        return
    for title, rows in found.items():
        if options.markdown:
            print(f"{title}\n\n{markdown(rows)}\n")
        else:
            show(title, rows)


def markdown(rows: list[Row]) -> str:
    """The rows as a table of a page; a value that a row lacks is an empty cell."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, ["---"] * len(names)]
    cells += [[_text(row.get(name, "")) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
