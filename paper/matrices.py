"""Dataset distances among 20 clients, with and without groups (the paper's matrices of MNIST and
CIFAR-10)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np

import fedwad
from fedwad.datasets import Partition, partition
from fedwad.federation import Policy
from fedwad.transport import Floats, Measure, labelled, solve
from paper.boosting import Data, Setting, clusterings
from paper.data import load, random_code
from paper.experiment import (
    Claim,
    Experiment,
    Figures,
    Row,
    Settings,
    Size,
    pick,
    square_matrix,
    subplots,
)

_METHODS: dict[str, dict[str, Any]] = {
    "pairs": {"method": "pairs", "support": 10, "rounds": 10},
    "hub": {"method": "hub", "support": 10},
    "summary": {"method": "summary"},
}
_DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
_TITLES = {
    "exact": "exact",
    "pairs": "the paper's FedWaD",
    "hub": "ours, hub",
    "summary": "ours, one message",
}


def _tasks(size: Size) -> list[Settings]:
    clients, samples = {"quick": (10, 50), "reduced": (20, 100), "whole": (20, 300)}[size]
    return [
        {"data": data, "groups": groups, "clients": clients, "samples": samples, "seed": 0}
        | {"t": "own"}
        for data in ("mnist", "cifar10")
        for groups in (True, False)
    ]


def _partition(data: str, groups: bool, clients: int, samples: int, seed: int) -> Partition:
    X, y = load(data)
    if data == "cifar10":
        chosen = np.random.default_rng(seed).permutation(len(X))[: 4 * clients * samples]
        X, y = random_code(X[chosen]), y[chosen]
    split = partition.class_pairs if groups else partition.classes_per_client
    return split(X, y, clients=clients, samples=samples, seed=seed)


def _measure(data: Data, groups: bool, clients: int, samples: int, seed: int, t: Any) -> list[Row]:
    parts = _partition(data, groups, clients, samples, seed)
    by_group = sorted(zip(parts.groups, parts, strict=True), key=lambda pair: pair[0])
    names = [name for _, name in by_group]  # so that groups are squares on the diagonal
    truth = [int(group) for group, _ in by_group]
    # Without blocks nothing is tested: here only distances count.
    policy = replace(Policy.open(), splits="noise")
    fed = fedwad.local({name: parts[name] for name in names}, policy=policy)
    measures = {name: labelled(Measure(parts[name][0]), parts[name][1]) for name in names}
    start = time.process_time()
    exact = np.array([solve(a, b).distance for a, b in combinations(measures.values(), 2)])
    rows = [_row("exact", exact, exact, time.process_time() - start, truth, {})]
    for method, options in _METHODS.items():
        start = time.process_time()
        options |= {"t": t} if method == "pairs" else {}
        m = fedwad.matrix(fed, labels=True, seed=seed, **options)
        matrix = m.fedwad if method == "pairs" and m.fedwad is not None else m.value
        setting = Setting(data, clients, "groups", seed)
        indices = _rand_indices(setting, matrix, truth) if groups else {}
        seconds = time.process_time() - start
        values = matrix[np.triu_indices(clients, 1)]
        rows.append(_row(method, exact, values, seconds, truth, indices))
    return rows


def _row(
    method: str, exact: Floats, values: Floats, seconds: float, truth: list[int], indices: Row
) -> Row:
    from scipy.stats import spearmanr

    return {
        "method": method,
        "seconds": seconds,
        "rank correlation": float(spearmanr(exact, values).statistic),
        "mean error": float((values / exact - 1).mean()),
        **indices,
        "matrix": [round(float(value), 4) for value in values],
        "truth": truth,
    }


def _rand_indices(setting: Setting, matrix: Floats, truth: list[int]) -> Row:
    """The adjusted Rand index of each way to cluster."""
    from sklearn.metrics import adjusted_rand_score

    return {
        f"ARI {name.removeprefix('paper 10 ')}": adjusted_rand_score(truth, labels)
        for name, labels in clusterings(setting, "paper 10", matrix).items()
    }


def _draw(rows: Sequence[Row]) -> Figures:
    figures = {}
    for data in dict.fromkeys(row["data"] for row in rows):
        figure, panels = subplots(2, 4, panel_size=(3.0, 2.9))
        for panel, (groups, method) in zip(panels, product((True, False), _TITLES), strict=True):
            (row,) = pick(rows, data=data, groups=groups, method=method)
            panel.grid(False)
            image = panel.imshow(square_matrix(row["matrix"], row["clients"]), cmap="viridis")
            figure.colorbar(image, ax=panel, shrink=0.8)
            panel.set(xticks=[], yticks=[], title=_TITLES[method] if groups else "")
            panel.set_xlabel(f"rank correlation {row['rank correlation']:.3f}")
        panels[0].set_ylabel("groups")
        panels[4].set_ylabel("no groups")
        figure.suptitle(
            f"Dataset distances among {row['clients']} clients of {_DATA[data]}, each with its own"
            " colours"
        )
        figures[f"matrices-{data}"] = figure
    return figures


def _judge(rows: Sequence[Row]) -> list[Claim]:
    names = list(dict.fromkeys(row["data"] for row in rows))

    def row_of(data: str, method: str, groups: bool = True) -> Row:
        return pick(rows, data=data, groups=groups, method=method)[0]

    def contrast(data: str, method: str) -> float:
        """Mean distance within the groups, divided by that between them."""
        row = row_of(data, method)
        same = np.equal.outer(row["truth"], row["truth"])[np.triu_indices(row["clients"], 1)]
        values = np.array(row["matrix"])
        return float(values[same].mean() / values[~same].mean())

    def variation(data: str, groups: bool) -> float:
        """The standard deviation of FedWaD's distances, divided by their mean."""
        values = np.array(row_of(data, "pairs", groups)["matrix"])
        return float(values.std() / values.mean())

    fedwad_contrast = {data: contrast(data, "pairs") for data in names}
    exact_contrast = {data: contrast(data, "exact") for data in names}
    with_groups, without_groups = (variation("mnist", groups) for groups in (True, False))
    return [
        Claim(
            "The groups of clients are clearly visible in the matrix of MNIST but less in that of"
            " CIFAR-10.",
            fedwad_contrast["mnist"] < 0.9 < fedwad_contrast["cifar10"],
            "mean distance within the groups by that between them: "
            + ", ".join(
                f"{_DATA[data]} {fedwad_contrast[data]:.2f} by FedWaD,"
                f" {exact_contrast[data]:.2f} exact"
                for data in names
            ),
        ),
        Claim(
            "Without groups the matrix is more uniform, yet shows some variation.",
            0.01 < without_groups < with_groups,
            f"deviation / mean of FedWaD's distances on MNIST: {with_groups:.2f} in groups,"
            f" {without_groups:.2f} without",
        ),
    ]


EXPERIMENT = Experiment(
    "matrices",
    "Distances among 20 clients, MNIST and CIFAR-10",
    _tasks,
    _measure,
    _draw,
    _judge,
    ("mnist", "cifar10"),
    "100 samples of each client instead of 300, which are ours: the paper does not say.",
)
