"""The permutation test, measured: its level, its power beside pooled MMD, and random splits."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedwad
from fedwad.ot import Measure
from fedwad.ot._blocks import block_means
from fedwad.ot._groups import count_groups
from fedwad.ot._permutation import permutation_test

Array = np.ndarray
Row = dict[str, Any]


def _blocks(*samples: Array) -> list[Any]:
    return [block_means(Measure(z)) for z in samples]


def level(quick: bool, given: int = 0) -> list[Row]:
    """How often the test rejects samples of one population at 5%."""
    kinds: dict[str, Callable[[np.random.Generator, int], Array]] = {
        "normal": lambda rng, n: rng.normal(size=(n, 10)),
        "t2": lambda rng, n: rng.standard_t(2, (n, 10)),
        "log-normal": lambda rng, n: np.exp(rng.normal(size=(n, 10))),
        "binary": lambda rng, n: 1.0 * (rng.random((n, 10)) < 0.2),
        "mixed": lambda rng, n: np.c_[
            rng.normal(size=(n, 3)), np.eye(4)[rng.integers(0, 4, n)], rng.poisson(2, n)
        ],
    }
    rows = []
    for name, draw in kinds.items():
        for sizes in ((40, 40), (400, 400), (40, 400)):
            runs = given or (50 if quick else 1000)
            hits = 0
            for r in range(runs):
                rng = np.random.default_rng([r, 5])
                hits += (
                    permutation_test(_blocks(*(draw(rng, n) for n in sizes)), 199, r).pvalue <= 0.05
                )
            rows.append({"data": name, "sizes": str(sizes), "rejected": hits / runs})
    return rows


def _alternatives() -> dict[str, Callable[[np.random.Generator, Array], Array]]:
    first = np.r_[1.0, np.zeros(19)]
    return {
        "one feature +0.25": lambda _, y: y + 0.25 * first,
        "all +0.08": lambda _, y: y + 0.08,
        "one scale 1.3": lambda _, y: y * (1 + 0.3 * first),
        "all scales 1.05": lambda _, y: 1.05 * y,
        "common correlation 0.3": lambda r, y: (
            np.sqrt(0.7) * y + np.sqrt(0.3) * r.normal(size=(len(y), 1))
        ),
        "two humps": lambda r, y: 0.9 * r.choice([-1.0, 1.0], y.shape) + np.sqrt(0.19) * y,
    }


def power(quick: bool, given: int = 0) -> list[Row]:
    """How often differences are found at 5%, beside MMD with pooled rows; n = 400, d = 20."""
    rows = []
    for name, change in _alternatives().items():
        found = []
        for r in range(given or (30 if quick else 300)):
            rng = np.random.default_rng([r, 6])
            x, y = rng.normal(size=(400, 20)), change(rng, rng.normal(size=(400, 20)))
            found.append(
                (permutation_test(_blocks(x, y), 499, r).pvalue <= 0.05, _mmd(x, y, rng) <= 0.05)
            )
        ours, pooled = np.mean(found, axis=0)
        rows.append({"alternative": name, "blocks": float(ours), "pooled MMD": float(pooled)})
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
    file = Path(os.environ.get("FEDWAD_DATA", "data")) / "heart" / "cleveland.csv"
    rows = np.genfromtxt(file, delimiter=",", skip_header=1)[:, :13]
    rows = rows[np.isfinite(rows).all(axis=1)]
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def splits(quick: bool, given: int = 0) -> list[Row]:
    """How often random splits of one site seem to hold more than one group."""
    digits = fedwad.datasets.load("digits")[0]
    heart = _heart()
    sources: dict[str, Callable[[np.random.Generator], Array]] = {
        "digits": lambda r: digits[r.choice(len(digits), 320, replace=False)],
        "heart": lambda r: r.permutation(heart),
        "normal": lambda r: r.normal(size=(320, 8)),
        "t3": lambda r: r.standard_t(3, (320, 8)),
        "categories": lambda r: np.eye(5)[r.integers(0, 5, 320)],
    }
    rows = []
    for name, draw in sources.items():
        for shares in ((1, 1, 1, 1), (4, 2, 1, 1)):
            runs = given or (20 if quick else 200)
            hits = 0
            for r in range(runs):
                rng = np.random.default_rng([r, 8])
                rows_of_site = draw(rng)
                ends = np.cumsum(np.array(shares) / sum(shares) * len(rows_of_site)).astype(int)[
                    :-1
                ]
                parts = np.split(rows_of_site, ends)
                blocks = _blocks(*parts)
                hits += (
                    count_groups(np.zeros((4, 4)), np.zeros((4, 4)), lambda _: 2, blocks, seed=r).k
                    > 1
                )
            rows.append({"data": name, "sizes": str(shares), "more than one group": hits / runs})
    return rows
