"""Parts of columns on real tables."""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fedwad
from benchmarks.public_tables import TABLES as PUBLIC
from benchmarks.public_tables import raw, split
from fedwad.datasets._heart import HEART_LABEL, heart_files
from fedwad.ot import Floats, Measure, plan_columns, solve
from fedwad.tables import Schema, Table, agree, profile, read_table

Row = dict[str, Any]
#: Kinds of a covariance, and rows that are drawn again from the same sites.
TYPES = ("full", "diag", "again")
_COVARIANCES = TYPES[:2]
_MOST_PAIRS, _MOST_ROWS = 6, 400


def cosine_tasks(runs: int) -> list[tuple[str, str]]:
    names = ["heart disease", *(name for name, *_ in PUBLIC)]
    return [(name, kind) for name in names[: runs or len(names)] for kind in TYPES]


def cosines(name: str, kind: str) -> list[float]:
    """Cosines of shares with those of the exact plan, for some pairs of sites of a table."""
    return pair_cosines(*_sites(name), kind, _MOST_PAIRS)


def pair_cosines(
    sites: dict[str, Table], schema: Schema, kind: str, most_pairs: int
) -> list[float]:
    """The same for these sites; "again" compares with the exact plan of rows drawn again."""
    encoded = {site: schema.encode(table)[:_MOST_ROWS] for site, table in sites.items()}
    found = []
    for a, b in list(itertools.combinations(encoded, 2))[:most_pairs]:
        x, y = encoded[a], encoded[b]
        other = _again(x, y, schema) if kind == "again" else _estimated(x, y, schema, kind)
        found.append(cosine(_exact(x, y, schema), other))
    return found


def _exact(x: Floats, y: Floats, schema: Schema) -> Floats:
    return _by_source(plan_columns(solve(Measure(x), Measure(y))), schema)


def _again(x: Floats, y: Floats, schema: Schema) -> Floats:
    """Exact shares of as many rows, drawn with replacement."""
    rng = np.random.default_rng(0)
    return _exact(*(z[rng.integers(len(z), size=len(z))] for z in (x, y)), schema)


def _estimated(x: Floats, y: Floats, schema: Schema, covariance_type: Any) -> Floats:
    result = fedwad.distance(x, y, covariance_type=covariance_type)
    assert result.evidence is not None
    # As for tables that the sites encode by this schema themselves.
    result = replace(result, evidence=replace(result.evidence, schema=schema))
    return result.explain().share


def cosine(a: Floats, b: Floats) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def _by_source(values: Floats, schema: Schema) -> Floats:
    return np.array(
        [values[schema.feature_slice(column.name)].sum() for column in schema.compared_columns]
    )


def _sites(name: str) -> tuple[dict[str, Table], Schema]:
    if name == "heart disease":
        sites = {site: read_table(path, site) for site, path in heart_files().items()}
        label: str | None = HEART_LABEL
    else:
        _, package, inside, column = next(row for row in PUBLIC if row[0] == name)
        sites, label = split(raw(package, inside), column), None
    return sites, agree({site: profile(t, label=label) for site, t in sites.items()})


def cosine_rows(tasks: list[tuple[Any, ...]], found: list[list[float]]) -> list[Row]:
    rows: dict[str, Row] = {}
    for (name, kind), values in zip(tasks, found, strict=True):
        row = rows.setdefault(name, {"table": name, "pairs": len(values)})
        row |= {f"{kind}: mean": float(np.mean(values)), f"{kind}: least": min(values)}
    return list(rows.values())


def heart_tasks(_: int) -> list[tuple[()]]:
    return [()]


def heart() -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedwad.DataWarning)
        fed = fedwad.local(dict(heart_files()), label_column=HEART_LABEL)
    found = fedwad.matrix(fed).explain()
    return [
        {"pair": " - ".join(pair)}
        | {
            f"{place + 1}": f"{e.names[k]} {e.excess[k]:.2f} ± {e.excess_std[k]:.2f}"
            for place, k in enumerate(e.order[:4])
        }
        for pair, e in found.items()
    ]


def wax_tasks(runs: int) -> list[tuple[str, int]]:
    return [(name, run) for name in ("wisconsin", "wine") for run in range(runs or 20)]


def wax_gains(name: str, run: int) -> dict[str, float]:
    """Symmetric relevance gain of several orders of columns, the higher the better."""
    import wax
    from wax.coupling import exact as coupling
    from wax.metrics import srg

    x, y = _pair(name)
    rng = np.random.default_rng(run)
    x, y = (z[rng.permutation(len(z))[:200]] for z in (x, y))
    orders = {"wax-ot, pooled rows": wax.explain(x, y).R_i}
    for kind in _COVARIANCES:
        e = fedwad.distance(x, y, covariance_type=kind).explain()
        orders[f"share, {kind}"] = e.share
        orders[f"excess, {kind}"] = e.excess + 1e-6 * e.share
    orders["random"] = rng.random(x.shape[1])
    return {key: srg(x, y, 2, 2, values, coupling) for key, values in orders.items()}


def _pair(name: str) -> tuple[Floats, Floats]:
    from wax.datasets import preprocess_tabular

    if name == "wisconsin":
        from sklearn.datasets import load_breast_cancer

        data = load_breast_cancer()
        return preprocess_tabular(data.data[data.target == 1], data.data[data.target == 0])
    folder = os.environ.get("FEDWAD_WINE")
    if not folder:
        sys.exit("Give --wine, the folder with the two files of UCI Wine Quality.")
    files = [Path(folder) / f"winequality-{colour}.csv" for colour in ("white", "red")]
    both = [
        np.loadtxt(file.read_text().replace(";", ",").splitlines(), delimiter=",", skiprows=1)
        for file in files
    ]
    return preprocess_tabular(both[0], both[1])


def wax_rows(tasks: list[tuple[Any, ...]], found: list[dict[str, float]]) -> list[Row]:
    rows = []
    for name in dict.fromkeys(task[0] for task in tasks):
        gains = [gain for task, gain in zip(tasks, found, strict=True) if task[0] == name]
        theirs = np.array([gain["wax-ot, pooled rows"] for gain in gains])
        for key in gains[0]:
            ours = np.array([gain[key] for gain in gains])
            error = float((ours - theirs).std() / np.sqrt(len(ours)))
            rows.append(
                {
                    "data": name,
                    "order by": key,
                    "gain": float(ours.mean()),
                    "less wax-ot": float((ours - theirs).mean()),
                    "standard error": error,
                    "runs": len(ours),
                }
            )
    return rows


TABLES = {
    "cosine": (cosine_tasks, cosines, cosine_rows),
    "heart": (heart_tasks, heart, lambda _, found: found[0]),
    "wax": (wax_tasks, wax_gains, wax_rows),
}
