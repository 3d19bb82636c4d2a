"""A private form of the permutation test: means of few blocks with noise, how often it finds."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from fedwad.privacy import mu_of

Row = dict[str, Any]
Tasks = list[tuple[Any, ...]]
_D, _BLOCKS, _SHIFT = 5, 5, 0.3


def _tasks(runs: int) -> Tasks:
    return [
        (n, epsilon, shift, runs or 400)
        for n in (400, 2000, 10_000)
        for epsilon in (1.0, np.inf)
        for shift in (0.0, 0.1, _SHIFT)
    ]


def _one(n: int, epsilon: float, shift: float, runs: int) -> float:
    """Share of runs in which two sites are found to differ at 5%.

    Rows are clipped to a norm that nearly all have. One row changes one block mean, so all blocks
    together cost epsilon once.
    """
    rng = np.random.default_rng(0)
    radius, rows = float(np.sqrt(_D) + 1.5), n // _BLOCKS
    noise = 0.0 if np.isinf(epsilon) else 2 * radius / rows / mu_of(epsilon, 1e-5)
    chosen = [list(c) for c in combinations(range(2 * _BLOCKS), _BLOCKS)]
    hits = 0
    for _ in range(runs):
        means = []
        for site in range(2):
            x = rng.normal(site * shift, 1, (n, _D))
            x *= np.minimum(1, radius / np.linalg.norm(x, axis=1))[:, None]
            block = x[: rows * _BLOCKS].reshape(_BLOCKS, rows, _D).mean(axis=1)
            means.append(block + noise * rng.standard_normal(block.shape))
        values = np.concatenate(means)
        values -= values.mean(axis=0)
        found = np.array([(values[c].sum(axis=0) ** 2).sum() for c in chosen])
        hits += float((found >= found[0] - 1e-12).mean()) <= 0.05
    return hits / runs


def _rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    return [
        {"n": n, "epsilon": epsilon, "shift of 5 features": shift, "found at 5%": share}
        for (n, epsilon, shift, _), share in zip(tasks, found, strict=True)
    ]


TABLES: dict[str, Any] = {"private_test": (_tasks, _one, _rows)}
