"""Heterogeneity of Dirichlet partitions beside what FedAvg loses, and planted odd sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from typing import Any

import numpy as np

import fedwad
from fedwad.datasets import partition

Row = dict[str, Any]

ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_SITES = 10
_ROWS = {"digits": 80, "mnist": 150}  # of a site; few enough for all partitions
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


_PLANTED = ("two classes only", "one column in other units", "noise of one deviation")
_ALPHAS_OF_OTHERS = (100.0, 1.0, 0.3)


def _planted_rows(kind: str, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows of an odd site, from rows of its own."""
    points = X.copy()
    if kind == "one column in other units":
        points[:, int(X.var(axis=0).argmax())] *= 2.54
    if kind == "noise of one deviation":
        points += rng.normal(size=points.shape) * X.std(axis=0)
    return points


def _odd(task: tuple[str, int, int]) -> list[tuple[str, float, bool, bool]]:
    """For what was planted: whether it, and whether another one, is called the odd one out.

    The other sites are the same for each kind of odd site. They are asked once.
    """
    name, sites, seed = task
    X, y = data(name)
    rng = np.random.default_rng([seed, 3])
    own = {kind: rng.choice(len(y), _ROWS[name], replace=False) for kind in _PLANTED[1:]}
    own[_PLANTED[0]] = rng.choice(np.flatnonzero(y < 2), _ROWS[name], replace=False)
    rest = np.setdiff1d(np.arange(len(y)), np.concatenate(list(own.values())))
    found = []
    for alpha in _ALPHAS_OF_OTHERS:
        parts = partition.dirichlet(
            X[rest], y[rest], clients=sites - 1, alpha=alpha, samples=_ROWS[name], seed=seed
        )
        m = fedwad.matrix({site: part[0] for site, part in parts.items()}, n_jobs=1)
        found.append(("none", alpha, False, bool(m.eccentricity.odd)))
        if alpha != _ALPHAS_OF_OTHERS[0]:
            continue
        for kind in _PLANTED:
            odd = m.add(_planted_rows(kind, X[own[kind]], rng), "planted").eccentricity.odd
            found.append((kind, alpha, "planted" in odd, bool(set(odd) - {"planted"})))
    return found


def odd(runs: int = 0, jobs: int = 1, names: Sequence[str] = tuple(_ROWS)) -> list[Row]:
    """How often a planted odd site is found among ten and six, and how often another is named."""
    rows: list[Row] = []
    for name, sites in product(names, (10, 6)):
        tasks = [(name, sites, seed) for seed in range(runs or 100)]
        found = shared(_odd, tasks, jobs)
        for conditions in zip(*found, strict=True):
            planted, alpha = conditions[0][:2]
            row: Row = {"data": name, "sites": sites - (planted == "none")}
            row |= {"planted": planted, "others: alpha": str(alpha)}
            if planted != "none":
                row["found"] = float(np.mean([one[2] for one in conditions]))
            rows.append(row | {"false": float(np.mean([one[3] for one in conditions]))})
    return rows


_SIZES = {
    "80 each": (80,) * 10,
    "40 to 800": (40, 60, 80, 100, 150, 200, 300, 400, 600, 800),
    "one of 30, others 400": (30, *(400,) * 9),
}
_DRAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=(n, 10)),
    "t with 3 degrees of freedom": lambda rng, n: rng.standard_t(3, (n, 10)),
    "log-normal and rare flags": lambda rng, n: np.concatenate(
        [np.exp(rng.normal(size=(n, 5))), rng.random((n, 5)) < 0.05], axis=1
    ),
}


def _false(task: tuple[str, str, int]) -> bool:
    draw, sizes, seed = task
    rng = np.random.default_rng([seed, 13])
    sites = {f"site{k}": _DRAWS[draw](rng, n) for k, n in enumerate(_SIZES[sizes])}
    return bool(fedwad.matrix(sites, n_jobs=1).eccentricity.odd)


def false_odd(runs: int = 0, jobs: int = 1) -> list[Row]:
    """How often one of ten sites with the same population is called the odd one out."""
    rows: list[Row] = []
    for draw, sizes in product(_DRAWS, _SIZES):
        found = shared(_false, [(draw, sizes, seed) for seed in range(runs or 100)], jobs)
        rows.append({"data": draw, "rows": sizes, "false": float(np.mean(found))})
    return rows
