"""Heterogeneity of Dirichlet partitions beside what FedAvg loses, and planted odd sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np

import fedwad
from fedwad.datasets import partition

Row = dict[str, Any]

ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_SITES = 10
_ROWS = {"digits": 80, "mnist": 300}  # of a site; few enough for all partitions
_ROUNDS = 10


@cache
def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Digits as they are, or 6000 images of another dataset in 20 principal components."""
    if name == "digits":
        points, labels = fedwad.datasets.load("digits")
        return np.asarray(points, dtype=np.float64), labels
    points, labels = fedwad.datasets.load(name, samples=6000, pixels="unit")
    flat = np.asarray(points, dtype=np.float64).reshape(len(points), -1)
    return (flat - mnist_axes()[0]) @ mnist_axes()[1], labels


@cache
def mnist_axes() -> tuple[np.ndarray, np.ndarray]:
    """Mean and 20 principal axes of 6000 images of MNIST."""
    points, _ = fedwad.datasets.load("mnist", samples=6000, pixels="unit")
    flat = np.asarray(points, dtype=np.float64).reshape(len(points), -1)
    mean = flat.mean(axis=0)
    return mean, np.linalg.svd(flat - mean, full_matrices=False)[2][:20].T


def shared(task: Callable[[Any], Any], tasks: Sequence[Any], jobs: int) -> list[Any]:
    """Results of all tasks, by so many processes."""
    if jobs == 1:
        return [task(one) for one in tasks]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(task, tasks))


def _trained(task: tuple[str, float, int]) -> tuple[float, float, float]:
    from fedwad.learning import train

    name, alpha, seed = task
    X, y = data(name)
    sites = partition.dirichlet(X, y, clients=_SITES, alpha=alpha, samples=_ROWS[name], seed=seed)
    m = fedwad.matrix({site: own[0] for site, own in sites.items()}, n_jobs=1)
    trained = train(
        sites, rounds=_ROUNDS, fraction_train=1.0, learning_rate=0.05, seed=seed, test_size=0.25
    )
    accuracy = float(np.average(trained.accuracy, weights=trained.tests))
    return m.heterogeneity.value, m.heterogeneity.fraction, accuracy


def dirichlet(runs: int = 0, jobs: int = 1) -> list[Row]:
    """Heterogeneity of Dirichlet partitions among ten sites, and the accuracy that FedAvg loses."""
    from scipy.stats import pearsonr, spearmanr

    rows: list[Row] = []
    for name in ("digits", "mnist"):
        tasks = [(name, alpha, seed) for alpha in ALPHAS for seed in range(runs or 10)]
        found = np.array(shared(_trained, tasks, jobs)).reshape(len(ALPHAS), -1, 3)
        best = found[-1, :, 2].mean()
        for alpha, one in zip(ALPHAS, found, strict=True):
            value, fraction, accuracy = one.mean(axis=0)
            rows.append(
                {
                    "data": name,
                    "Dirichlet alpha": str(alpha),
                    "heterogeneity": value,
                    "part of variance": fraction,
                    "FedAvg accuracy": accuracy,
                    "lost": best - accuracy,
                }
            )
        flat = found.reshape(-1, 3)
        rows.append(
            {
                "data": name,
                "Dirichlet alpha": "all runs",
                "Spearman with lost": float(spearmanr(flat[:, 1], -flat[:, 2])[0]),
                "Pearson with lost": float(pearsonr(flat[:, 1], -flat[:, 2])[0]),
                "monotone in alpha": float(bool((np.diff(found[..., 1].mean(axis=1)) < 0).all())),
            }
        )
    return rows


_PLANTED = ("none", "two classes only", "one column in other units", "noise of one deviation")


def _odd(task: tuple[str, float, str, int]) -> tuple[bool, bool]:
    """Whether the planted site, and whether another one, is called the odd one out."""
    name, alpha, planted, seed = task
    X, y = data(name)
    rng = np.random.default_rng([seed, 3])
    if planted == "two classes only":
        own = np.flatnonzero(y < 2)
        chosen = rng.choice(own, min(len(own) // 2, 150), replace=False)
    else:
        chosen = rng.choice(len(y), 150, replace=False)
    rest = np.setdiff1d(np.arange(len(y)), chosen)
    parts = partition.dirichlet(
        X[rest], y[rest], clients=_SITES - 1, alpha=alpha, samples=_ROWS[name], seed=seed
    )
    sites = {site: part[0] for site, part in parts.items()}
    if planted != "none":
        points = X[chosen].copy()
        if planted == "one column in other units":
            largest = int(X.var(axis=0).argmax())
            points[:, largest] *= 2.54
        if planted == "noise of one deviation":
            points += rng.normal(size=points.shape) * X.std(axis=0)
        sites["planted"] = points
    odd = fedwad.matrix(sites, n_jobs=1).eccentricity.odd
    return "planted" in odd, bool(set(odd) - {"planted"})


def odd(runs: int = 0, jobs: int = 1) -> list[Row]:
    """How often a planted odd site is found among ten, and how often another one is named."""
    rows: list[Row] = []
    for name in ("digits", "mnist"):
        for planted in _PLANTED:
            for alpha in (100.0, 1.0, 0.3) if planted == "none" else (100.0,):
                tasks = [(name, alpha, planted, seed) for seed in range(runs or 100)]
                found = np.array(shared(_odd, tasks, jobs), dtype=float).mean(axis=0)
                row: Row = {"data": name, "planted": planted, "others: alpha": str(alpha)}
                if planted != "none":
                    row["found"] = float(found[0])
                rows.append(row | {"false": float(found[1])})
    return rows
