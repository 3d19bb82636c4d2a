"""Dataset distances among 20 clients, with and without groups (the paper's matrices of MNIST and CIFAR-10)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwad
from fedwad.clusters import Affinity
from fedwad.datasets import Partition, load, partition, random_code
from fedwad.experiments._experiment import Claim, Experiment, Row, Settings, axes, pick
from fedwad.ot import Measure, labelled, solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_METHODS: dict[str, dict[str, Any]] = {
    "exact": {},
    "pairs": {"method": "pairs", "support": 10, "rounds": 10},
    "hub": {"method": "hub", "support": 10},
    "summary": {"method": "summary"},
}
_WAYS: dict[str, tuple[Affinity, int]] = {
    "ARI affinity": ("precomputed", 3),
    "ARI 3 nearest": ("knn", 3),
    "ARI 5 nearest": ("knn", 5),
}
_TITLES = {"exact": "exact", "pairs": "the paper's FedWaD", "hub": "ours, hub", "summary": "ours, one message"}


def _tasks(quick: bool) -> list[Settings]:
    clients, samples = (10, 100) if quick else (20, 300)
    return [
        {"data": data, "groups": groups, "clients": clients, "samples": samples, "seed": 0}
        for data in ("mnist", "cifar10")
        for groups in (True, False)
    ]


def _parts(data: str, groups: bool, clients: int, samples: int, seed: int) -> Partition:
    X, y = load(data)
    if data == "cifar10":
        chosen = np.random.default_rng(seed).permutation(len(X))[: 4 * clients * samples]
        X, y = random_code(X[chosen]), y[chosen]
    split = partition.class_pairs if groups else partition.random_pairs
    return split(X, y, clients=clients, samples=samples, seed=seed)


def _measure(data: str, groups: bool, clients: int, samples: int, seed: int) -> list[Row]:
    from scipy.stats import spearmanr
    from sklearn.metrics import adjusted_rand_score

    parts = _parts(data, groups, clients, samples, seed)
    # By group, so that groups are blocks of the picture.
    names = [name for _, name in sorted(zip(parts.groups, parts, strict=True), key=lambda pair: pair[0])]
    truth = sorted(parts.groups)
    fed = fedwad.local({name: parts[name] for name in names})
    measures = {name: labelled(Measure(parts[name][0]), parts[name][1]) for name in names}
    rows: list[Row] = []
    upper = np.triu_indices(clients, 1)
    exact = np.zeros(0)
    for method, options in _METHODS.items():
        start = time.perf_counter()
        if method == "exact":
            exact = np.array([solve(measures[a], measures[b]).distance for a, b in combinations(names, 2)])
            values = exact
            row: Row = {}
        else:
            m = fedwad.matrix(fed, labels=True, seed=seed, **options)
            values = (m.fedwad if method == "pairs" and m.fedwad is not None else m.value)[upper]
            row = {
                way: adjusted_rand_score(truth, m.cluster(5, affinity, neighbours, seed=seed))
                for way, (affinity, neighbours) in (_WAYS.items() if groups else ())
            }
        rows.append(
            {
                "method": method,
                "seconds": time.perf_counter() - start,
                "rank correlation": float(spearmanr(exact, values).statistic),
                "mean error": float((values / exact - 1).mean()),
                **row,
                "matrix": [round(float(value), 4) for value in values],
            }
        )
    return rows


def _draw(rows: Sequence[Row]) -> Mapping[str, Figure]:
    figures = {}
    for data in dict.fromkeys(row["data"] for row in rows):
        figure, panels = axes(2, 4, 3.0, 2.9)
        for line, groups in enumerate((True, False)):
            for column, method in enumerate(_METHODS):
                (row,) = pick(rows, data=data, groups=groups, method=method)
                square = np.zeros((row["clients"], row["clients"]))
                square[np.triu_indices(row["clients"], 1)] = row["matrix"]
                panel = panels[4 * line + column]
                panel.grid(False)
                square += square.T
                np.fill_diagonal(square, np.nan)  # zero, and of no interest
                figure.colorbar(panel.imshow(square, cmap="viridis"), ax=panel, shrink=0.8)
                title = _TITLES[method] if line == 0 else ""
                panel.set(xticks=[], yticks=[], title=title)
                panel.set_ylabel("" if column else "groups" if groups else "no groups")
                panel.set_xlabel(f"rank correlation {row['rank correlation']:.3f}")
        figures[f"matrices-{data}"] = figure
    return figures


def _judge(rows: Sequence[Row]) -> list[Claim]:
    def contrast(data: str) -> float:
        """Mean distance within the groups by that between them, exact."""
        (row,) = pick(rows, data=data, groups=True, method="exact")
        truth = sorted(_parts(data, True, row["clients"], row["samples"], row["seed"]).groups)
        same = np.equal.outer(truth, truth)[np.triu_indices(len(truth), 1)]
        values = np.array(row["matrix"])
        return float(values[same].mean() / values[~same].mean())

    mnist, cifar = contrast("mnist"), contrast("cifar10")
    (paper,) = pick(rows, data="mnist", groups=True, method="pairs")
    (ours,) = pick(rows, data="mnist", groups=True, method="summary")
    return [
        Claim(
            "The groups of clients are clearly visible in the matrix of MNIST but less in that of CIFAR-10.",
            mnist < cifar,
            f"mean distance within groups / between: MNIST {mnist:.2f}, CIFAR-10 {cifar:.2f}",
        ),
        Claim(
            "FedWaD recovers the groups where there are some.",
            paper["ARI affinity"] == 1.0,
            f"MNIST, adjusted Rand index: FedWaD {paper['ARI affinity']:.2f}, ours {ours['ARI affinity']:.2f}",
        ),
    ]


EXPERIMENT = Experiment(
    "matrices", "Distances among 20 clients, MNIST and CIFAR-10", _tasks, _measure, _draw, _judge, ("mnist", "cifar10")
)
