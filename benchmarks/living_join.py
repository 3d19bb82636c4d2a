"""Newcomers: clients of known MNIST groups, and FashionMNIST strangers, join a matrix."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import fedwad
from benchmarks.living_health import mnist_axes, shared

Row = dict[str, Any]

_GROUPS, _MEMBERS, _ROWS = 3, 3, 150


@cache
def _points(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images in 20 principal components of MNIST, and their labels."""
    points, labels = fedwad.datasets.load(name, samples=20_000, seed=seed, pixels="unit")
    mean, axes = mnist_axes()
    return (np.asarray(points, dtype=np.float64).reshape(len(points), -1) - mean) @ axes, labels


def _join(task: tuple[int, int, int]) -> list[tuple[bool, bool, bool]]:
    """Right cluster, stranger or not for each newcomer of one matrix; the last flag: is one."""
    seed, newcomers, strangers = task
    rng = np.random.default_rng([seed, 5])
    X, y = _points("mnist", 0)
    pools = [rng.permutation(np.flatnonzero(y // 3 == group)) for group in range(_GROUPS)]
    taken = [0] * _GROUPS

    def deal(group: int) -> np.ndarray:
        start = taken[group]
        taken[group] += _ROWS
        return X[pools[group][start : start + _ROWS]]

    sites = {f"{g}-{k}": deal(g) for g in range(_GROUPS) for k in range(_MEMBERS)}
    m = fedwad.matrix(sites, test=True, seed=seed, n_jobs=1)
    found = []
    for k in range(newcomers):
        group = k % _GROUPS
        placed = m.add(deal(group), "new").placement("new")
        right = {name.split("-")[0] for name in placed.cluster} == {str(group)}
        found.append((right, placed.stranger, False))
    F, _ = _points("fashion_mnist", 0)
    for _ in range(strangers):
        rows = F[rng.choice(len(F), _ROWS, replace=False)]
        found.append((False, m.add(rows, "new").placement("new").stranger, True))
    return found


def join(runs: int = 0, jobs: int = 1) -> list[Row]:
    """Fifty newcomers of MNIST groups and as many FashionMNIST strangers join nine sites."""
    each = 10
    count = runs or 50
    tasks = [(seed, each, each) for seed in range(-(-count // each))]
    found = np.array([one for part in shared(_join, tasks, jobs) for one in part])
    known = found[~found[:, 2]]
    return [
        {
            "newcomers": len(known),
            "in the right cluster": float(known[:, 0].mean()),
            "called strangers": float(known[:, 1].mean()),
            "strangers": int(found[:, 2].sum()),
            "strangers called so": float(found[found[:, 2], 1].mean()),
        }
    ]
