"""Living with a federation, measured: `python -m benchmarks.living health|odd|join|watch ...`.

Each table takes --runs and --jobs; processes share the runs.
"""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks import living_health
from benchmarks.__main__ import show

TABLES = {
    "health": living_health.dirichlet,
    "odd": living_health.odd,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", choices=list(TABLES))
    parser.add_argument("--runs", type=int, default=0, help="repetitions; each table has a default")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    found = {}
    for name in given.tables:
        found[name] = TABLES[name](given.runs, given.jobs)
        if not given.json:
            show(f"{name}: {(TABLES[name].__doc__ or '').splitlines()[0]}", found[name])
    if given.json:
        json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
