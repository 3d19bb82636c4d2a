"""Living with a federation, measured: `python -m benchmarks.living NAME [--runs N] [--jobs N]`.

Names: health, odd, false_odd, join, speed, alarms, delay, peers; `watch` is the last four.
Peers need environments of their own: `--peer Evidently=/path/to/python`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import living_health, living_join, living_watch
from benchmarks.__main__ import show

TABLES = {
    "health": living_health.dirichlet,
    "odd": living_health.odd,
    "false_odd": living_health.false_odd,
    "join": living_join.join,
    "speed": living_watch.speed,
    "alarms": living_watch.alarms,
    "delay": living_watch.delay,
    "peers": living_watch.peers,
}
WATCH = ("speed", "alarms", "delay", "peers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", choices=[*TABLES, "watch"])
    parser.add_argument("--runs", type=int, default=0, help="repetitions; each table has a default")
    parser.add_argument("--data", nargs="+", choices=["digits", "mnist"], help="of `odd`")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    given = parser.parse_args()
    pythons = dict(one.split("=", 1) for one in given.peer)
    found: dict[str, Any] = {}
    for name in [part for one in given.tables for part in (WATCH if one == "watch" else (one,))]:
        table: Callable[..., Any] = TABLES[name]
        if name == "peers":
            table = partial(table, pythons=pythons)
        if name == "odd" and given.data:
            table = partial(table, names=given.data)
        found[name] = table(given.runs, given.jobs)
        if not given.json:
            show(f"{name}: {(TABLES[name].__doc__ or '').splitlines()[0]}", found[name])
    if given.json:
        json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
