"""Distances under differential privacy on real tables: order, error, coverage, and the plan.

    python -m benchmarks.private_columns                  # three releases of each table and epsilon
    python -m benchmarks.private_columns --releases 10 --only fair

Each table is split into sites by one of its columns. The reference is the distance by columns of
the rows themselves, less what a bootstrap of the rows adds. (Expected order statistics, which sites
send without privacy, are a lower bound, and far below it where many rows have one value.)
The baseline is a Gaussian histogram of each column at the
same epsilon and delta: negative counts are set to 0, and nothing is taken off for noise. The plan
gets the schema, the harmonic mean of the rows of the nearest pair, and the distances of the nearest
and the farthest pair of the reference.
Tables whose package is not installed are left out. The number of bins was
chosen on `heart` and `fair`; which rows the plan is given was chosen on all five.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import fedwad
from fedwad.datasets.loading import HEART_LABEL, heart_files
from fedwad.privacy import BinnedColumn, bin_columns, mu_of, plan, release_columns
from fedwad.privacy.columns import _shape, _squares
from fedwad.tables import Schema, agree, profile, read_table
from fedwad.transport import Floats

EPSILONS = (1.0, 3.0, 10.0)


def _groups(frame: Any, column: str, least: int = 60) -> dict[str, Any]:
    parts = {str(name): part.drop(columns=column) for name, part in frame.groupby(column)}
    return {name: part for name, part in parts.items() if len(part) >= least}


def sources() -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Names of tables, their sites, and the label column."""
    yield "heart", dict(heart_files()), HEART_LABEL
    if importlib.util.find_spec("statsmodels"):
        from statsmodels.datasets import fair, randhie

        yield "fair", _groups(fair.load_pandas().data, "religious"), None
        visits = randhie.load_pandas().data.sample(6000, random_state=0)
        visits["lncoins"] = visits["lncoins"].round(0).astype(str)
        yield "randhie", _groups(visits, "lncoins"), None
    if importlib.util.find_spec("sklearn"):
        from sklearn.datasets import load_diabetes

        table = load_diabetes(as_frame=True, scaled=False).frame
        table["age"] = (table["age"] // 15).astype(int).astype(str)
        yield "diabetes", _groups(table, "age"), None
    if importlib.util.find_spec("vega_datasets"):
        from vega_datasets import data

        yield "cars", _groups(data.cars().drop(columns="Name"), "Origin"), None


def baseline(points: Sequence[Floats], columns: Sequence[BinnedColumn], mu: float) -> Floats:
    """Distances from noisy histograms as they are."""
    ends = np.cumsum([column.size for column in columns])[:-1]
    shapes = []
    for x in points:
        parts = np.split(np.maximum(release_columns(x, columns, mu).counts, 0.0), ends)
        shares = [part / part.sum() if part.sum() > 0 else part + 1 / len(part) for part in parts]
        shapes.append([_shape(p[None], c) for p, c in zip(shares, columns, strict=True)])
    found = [
        math.sqrt(sum(float(_squares(p, q, c)[0]) for p, q, c in zip(a, b, columns, strict=True)))
        for a, b in combinations(shapes, 2)
    ]
    return np.array(found)


def by_columns(x: Floats, y: Floats, schema: Schema) -> float:
    """The squared distance between rows by columns; flags of missing values count for themselves.

    An indicator, which is 0 or s, has s^2 times the difference of its two shares.
    """
    levels, total = (np.arange(4000) + 0.5) / 4000, 0.0
    for column in schema.compared_columns:
        a, b = (one[:, schema.feature_slice(column.name)] for one in (x, y))
        if column.kind != "category":
            ends = (np.quantile(one[:, 0], levels, method="inverted_cdf") for one in (a, b))
            total += float(np.mean(np.subtract(*ends) ** 2))
            a, b = a[:, 1:], b[:, 1:]
        step = column.on_value if column.kind == "category" else 1.0
        total += step * float(np.abs(a.mean(axis=0) - b.mean(axis=0)).sum())
    return total


def reference(points: Sequence[Floats], schema: Schema, draws: int = 20) -> Floats:
    """Distances by columns between the populations, without privacy."""
    rng, found = np.random.default_rng(0), []
    for pair in combinations(points, 2):
        first = by_columns(*pair, schema)
        again = [
            by_columns(*(x[rng.integers(0, len(x), len(x))] for x in pair), schema)
            for _ in range(draws)
        ]
        found.append(math.sqrt(max(2 * first - float(np.mean(again)), 0.0)))
    return np.array(found)


def measure(releases: int, only: str) -> Iterator[dict[str, Any]]:
    """One row for each table and epsilon."""
    for name, sites, label in sources():
        if only not in name:
            continue
        tables = {site: read_table(source, site) for site, source in sites.items()}
        agreed = agree({site: profile(table, label=label) for site, table in tables.items()})
        schema = replace(agreed, public=True)  # as if it came from public knowledge
        points = {site: schema.encode(table) for site, table in tables.items()}
        truth = reference(list(points.values()), schema)
        columns = bin_columns(schema, schema.width)
        sizes = [len(x) for x in points.values()]
        near, far = int(truth.argmin()), int(truth.argmax())
        a, b = list(combinations(sizes, 2))[near]
        for epsilon in EPSILONS:
            said = plan(
                round(2 / (1 / a + 1 / b)),
                schema,
                epsilon,
                nearest=float(max(truth[near], 1e-3)),
                farthest=float(truth[far]),
            )
            ranks, plain, errors, kept, held = [], [], [], [], []
            for seed in range(releases):
                fed = fedwad.local(tables, schema=schema, label_column=label)
                m = fedwad.matrix(fed, privacy=fedwad.DP(epsilon), seed=seed)
                pairs = np.triu_indices(len(m), 1)
                value = m.value[pairs]
                low, high = (end[pairs] for end in m.population_interval or ())
                ranks.append(spearmanr(truth, value).statistic)
                by_hand = baseline(list(points.values()), columns, mu_of(epsilon, 1e-5))
                plain.append(spearmanr(truth, by_hand).statistic)
                errors.append(value[near] / truth[near] - 1)
                kept.append(value[near] < value[far])
                held.append(np.mean((low <= truth) & (truth <= high)))
            yield {
                "table": name,
                "sites": len(points),
                "rows": f"{min(sizes)} to {max(sizes)}",
                "columns": len(columns),
                "epsilon": epsilon,
                "rank": float(np.nanmean(ranks)),
                "rank, baseline": float(np.nanmean(plain)),
                "in range": float(np.mean(held)),
                "nearest": float(truth[near]),
                "farthest": float(truth[far]),
                "plan: error": said.error,
                "error": math.sqrt(float(np.mean(np.square(errors)))),
                "plan: order": said.order,
                "order": float(np.mean(kept)),
                "verdict": said.verdict,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--only", default="", help="part of a table's name")
    given = parser.parse_args()
    titles: list[str] = []
    for row in measure(given.releases, given.only):
        if not titles:
            titles = list(row)
            print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")
        cells = [f"{x:.2f}" if isinstance(x, float) else str(x) for x in row.values()]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
