"""The permutation test, measured: its level, its power beside pooled MMD, and random splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fedwad
from fedwad.ot import Measure, block_means, permutation_test

Array = np.ndarray
Row = dict[str, Any]
Tasks = list[tuple[Any, ...]]

POPULATIONS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda rng, n: rng.normal(size=(n, 10)),
    "t2": lambda rng, n: rng.standard_t(2, (n, 10)),
    "log-normal": lambda rng, n: np.exp(rng.normal(size=(n, 10))),
    "binary": lambda rng, n: 1.0 * (rng.random((n, 10)) < 0.2),
    "mixed": lambda rng, n: np.c_[
        rng.normal(size=(n, 3)), np.eye(4)[rng.integers(0, 4, n)], rng.poisson(2, n)
    ],
}


def _blocks(*samples: Array) -> list[Any]:
    return [block_means(Measure(z)) for z in samples]


_GROUP = 25  # runs of one task


def _level_tasks(runs: int) -> Tasks:
    return [
        (name, sizes, start, min(start + _GROUP, runs or 1000))
        for name in POPULATIONS
        for sizes in ((40, 40), (400, 400), (40, 400))
        for start in range(0, runs or 1000, _GROUP)
    ]


def _level(name: str, sizes: tuple[int, int], start: int, stop: int) -> list[bool]:
    found = []
    for r in range(start, stop):
        rng = np.random.default_rng([r, 5])
        samples = [POPULATIONS[name](rng, n) for n in sizes]
        found.append(permutation_test(_blocks(*samples), 499, r).pvalue <= 0.05)
    return found


def _level_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    cases: dict[tuple[Any, ...], list[bool]] = {}
    for task, hits in zip(tasks, found, strict=True):
        cases.setdefault(task[:2], []).extend(hits)
    return [
        {"data": name, "rows": f"{sizes[0]}, {sizes[1]}", "runs": len(hits)}
        | {"rejected at 5%": float(np.mean(hits))}
        for (name, sizes), hits in cases.items()
    ]


_FIRST = np.r_[1.0, np.zeros(19)]
ALTERNATIVES: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "one feature +0.25": lambda _, y: y + 0.25 * _FIRST,
    "all +0.08": lambda _, y: y + 0.08,
    "one scale 1.3": lambda _, y: y * (1 + 0.3 * _FIRST),
    "all scales 1.05": lambda _, y: 1.05 * y,
    "common correlation 0.3": lambda r, y: (
        np.sqrt(0.7) * y + np.sqrt(0.3) * r.normal(size=(len(y), 1))
    ),
    "two humps": lambda r, y: 0.9 * r.choice([-1.0, 1.0], y.shape) + np.sqrt(0.19) * y,
}


def _power_tasks(runs: int) -> Tasks:
    return [
        (name, start, min(start + _GROUP, runs or 300))
        for name in ALTERNATIVES
        for start in range(0, runs or 300, _GROUP)
    ]


def _power(name: str, start: int, stop: int) -> list[tuple[bool, bool]]:
    found = []
    for r in range(start, stop):
        rng = np.random.default_rng([r, 6])
        x, y = rng.normal(size=(400, 20)), ALTERNATIVES[name](rng, rng.normal(size=(400, 20)))
        ours = permutation_test(_blocks(x, y), 499, r).pvalue <= 0.05
        found.append((ours, _mmd(x, y, rng) <= 0.05))
    return found


def _power_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    cases: dict[str, list[Any]] = {}
    for task, hits in zip(tasks, found, strict=True):
        cases.setdefault(task[0], []).extend(hits)
    rows = []
    for name, hits in cases.items():
        ours, pooled = np.mean(hits, axis=0)
        row = {"alternative": name, "runs": len(hits), "blocks": float(ours)}
        rows.append(row | {"pooled MMD": float(pooled), "ratio": float(ours / max(pooled, 1e-9))})
    return rows


def _mmd(x: Array, y: Array, rng: np.random.Generator, permutations: int = 199) -> float:
    both = np.concatenate([x, y])
    norms = (both**2).sum(axis=1)
    squares = norms[:, None] + norms - 2 * both @ both.T
    kernel = np.exp(-squares / np.median(squares[squares > 1e-9]))
    signs = np.tile(
        np.r_[np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))], (permutations + 1, 1)
    )
    signs[1:] = rng.permuted(signs[1:], axis=1)
    values = ((signs @ kernel) * signs).sum(axis=1)
    return float((values >= values[0]).mean())


def _heart() -> Array:
    """The complete rows of one hospital, standardised."""
    file = fedwad.datasets.load("heart")["cleveland"]
    rows = np.genfromtxt(file, delimiter=",", skip_header=1)[:, :13]
    rows = rows[np.isfinite(rows).all(axis=1)]
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def _source(name: str, rng: np.random.Generator) -> Array:
    """Rows of one population."""
    if name == "heart":
        return np.asarray(rng.permutation(_heart()))
    if name == "digits":
        digits = fedwad.datasets.load("digits")[0]
        return np.asarray(digits[rng.choice(len(digits), 320, replace=False)])
    if name == "t3":
        return np.asarray(rng.standard_t(3, (320, 8)))
    if name == "categories":
        return np.asarray(np.eye(5)[rng.integers(0, 5, 320)])
    return rng.normal(size=(320, 8))


def _splits_tasks(runs: int) -> Tasks:
    return [
        (name, shares, test, r)
        for name in ("heart", "digits", "Gaussian", "t3", "categories")
        for shares in ((1, 1, 1, 1), (4, 2, 1, 1))
        for test in (False, True)
        for r in range(runs or 200)
    ]


def _splits(name: str, shares: tuple[int, ...], test: bool, r: int) -> bool:
    rng = np.random.default_rng([r, 8])
    rows = _source(name, rng)
    ends = np.cumsum(np.array(shares) / sum(shares) * len(rows)).astype(int)[:-1]
    sites = {f"s{k}": part for k, part in enumerate(np.split(rows, ends))}
    return fedwad.matrix(sites, test=test, n_jobs=1, seed=r).suggest().k > 1


def _splits_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    cases: dict[tuple[Any, ...], list[bool]] = {}
    for task, hit in zip(tasks, found, strict=True):
        cases.setdefault(task[:3], []).append(hit)
    return [
        {"data": name, "sizes": ":".join(map(str, shares)), "test": test, "runs": len(hits)}
        | {"more than one group": float(np.mean(hits))}
        for (name, shares, test), hits in cases.items()
    ]


def _planted_tasks(_: int) -> Tasks:
    return [("mnist", 20), ("cifar10", 20), ("Gaussian", 12), ("mnist", 100)]


def _planted(name: str, count: int) -> dict[str, Any]:
    from sklearn.metrics import adjusted_rand_score

    if name == "Gaussian":
        rng = np.random.default_rng(0)
        groups = np.repeat(range(3), count // 3)
        parts: Any = {f"s{k}": rng.normal(g, 1, (200, 5)) for k, g in enumerate(groups)}
        found = fedwad.matrix(parts, n_jobs=1)
    else:
        from benchmarks.matrices import _clients

        parts = _clients(name, count, 300)
        groups = np.asarray(parts.groups)
        found = fedwad.matrix(fedwad.local(parts), labels=True, n_jobs=1)
    k = found.suggest().k
    score = adjusted_rand_score(groups, found.cluster(len(set(groups.tolist())), affinity="kernel"))
    return {"groups": len(set(groups.tolist())), "suggested": k, "ARI kernel": float(score)}


def _planted_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    return [
        {"data": name, "clients": count} | row
        for (name, count), row in zip(tasks, found, strict=True)
    ]


TABLES: dict[str, Any] = {
    "level": (_level_tasks, _level, _level_rows),
    "power": (_power_tasks, _power, _power_rows),
    "splits": (_splits_tasks, _splits, _splits_rows),
    "planted": (_planted_tasks, _planted, _planted_rows),
}
