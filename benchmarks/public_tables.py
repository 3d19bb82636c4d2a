"""Raw public tables, split into sites by a natural column and compared without preparation."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import fedwad
import ot
from fedwad.datasets._heart import HEART_LABEL, heart_files
from fedwad.tables import Table, agree, profile, read_table

#: Name, package, file, the column that says the site.
TABLES = (
    ("penguins", "palmerpenguins", "data/penguins-raw.csv", "Island"),
    ("lung cancer", "lifelines", "datasets/lung.csv", "inst"),
    ("breast cancer GBSG2", "lifelines", "datasets/gbsg2.csv", "tgrade"),
    ("AIDS trial ACTG175", "lifelines", "datasets/ACTG175.csv", "race"),
    ("governments", "lifelines", "datasets/dd.csv", "un_continent_name"),
    ("senators", "lifelines", "datasets/canadian_senators.csv", "Province / Territory"),
    ("free light chains", "sksurv", "datasets/data/flchain.arff", "sample.yr"),
    ("cars", "vega_datasets", "_data/cars.json", "Origin"),
    ("weather", "vega_datasets", "_data/seattle-weather.csv", "weather"),
)
_LEAST_ROWS, _MOST_ROWS, _MOST_SITES = 15, 1000, 6


def measure(packages: str | None) -> list[dict[str, Any]]:
    """One row per table: what was found in it, and how far the estimate is from the exact one."""
    if packages:
        sys.path.append(packages)
    sites = {site: read_table(path, site) for site, path in heart_files().items()}
    rows = [_compared("heart disease", sites, HEART_LABEL)]
    for name, package, inside, column in TABLES:
        rows.append(_compared(name, split(raw(package, inside), column)))
    return rows


def raw(package: str, inside: str) -> Table:
    """The table as its package has it; formats that are not tables become frames as they are."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"There is no package {package}; see benchmarks/tables.py.")
    path = Path(spec.submodule_search_locations[0]) / inside
    if path.suffix == ".json":
        import pandas as pd

        return read_table(pd.read_json(path, convert_dates=False), path.name)
    if path.suffix == ".arff":
        import pandas as pd

        names = [line.split()[1] for line in path.open() if line.startswith("@attribute")]
        return read_table(pd.read_csv(path, names=names, comment="@", dtype=str), path.name)
    return read_table(path, path.name)


def split(table: Table, column: str) -> dict[str, Table]:
    """The rows of each value of a column as a site, the largest first, without that column."""
    by = table[column]
    codes = np.unique(by.values, return_inverse=True)[1] if by.kind == "number" else by.values
    codes = np.where(by.missing, -1, codes)
    counts = Counter(codes[codes >= 0].tolist())
    sites = {}
    for code, count in counts.most_common(_MOST_SITES):
        if count >= _LEAST_ROWS:
            places = np.flatnonzero(codes == code)
            name = by.levels[code] if by.levels else f"{column} {by.values[places[0]]:g}"
            rows = np.random.default_rng(0).permutation(places)[:_MOST_ROWS]
            sites[name] = read_table(table.take(np.sort(rows)), drop=column)
    return sites


def _compared(name: str, sites: dict[str, Table], label: str | None = None) -> dict[str, Any]:
    schema = agree({s: profile(t, label=label) for s, t in sites.items()})
    for conflict in schema.conflicts:
        print(f"{name}: {conflict}", file=sys.stderr)
    for column, reason in schema.ignored.items():
        print(f"{name}: ignored '{column}': {reason}", file=sys.stderr)
    kinds = Counter(column.kind for column in schema.columns)
    problems = Counter(conflict.problem for conflict in schema.conflicts)
    encoded = {site: schema.encode(table) for site, table in sites.items()}
    errors = [_error(encoded[a], encoded[b]) for a, b in itertools.combinations(encoded, 2)]
    held = sum(inside for _, inside in errors)
    relative = np.array([error for error, _ in errors])
    return {
        "table": name,
        "sites": str(len(sites)),
        "rows": str(sum(map(len, sites.values()))),
        "columns": str(len(schema)),
        "encoded": str(schema.width),
        "kinds": ", ".join(f"{number} {kind}" for kind, number in kinds.most_common()),
        "warnings": ", ".join(f"{n} {problem}" for problem, n in problems.items()),
        "pairs": str(len(errors)),
        "value: mean error": float(relative.mean()),
        "value: largest": float(relative[np.abs(relative).argmax()]),
        "interval holds": f"{held} of {len(errors)}",
    }


def _error(x: Any, y: Any) -> tuple[float, bool]:
    """Relative error of the one-message estimate, and whether its interval holds the truth."""
    a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
    exact = float(np.sqrt(ot.emd2(a, b, ot.dist(x, y), numItermax=10**7)))
    found = fedwad.distance(x, y, method="summary")
    inside = found.lower <= exact * (1 + 1e-9) and exact <= found.upper * (1 + 1e-9)
    return found.value / exact - 1.0, inside
