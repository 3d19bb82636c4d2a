"""Distances between four real datasets, and how rounds, support and samples change them.

The paper averages over five draws of 5000 samples, and so do we. With 5000 support points or 500
rounds a pair takes minutes, so we take one draw there. Times are processor times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import fedwad
from fedwad.datasets import load
from fedwad.experiments._experiment import Experiment, Row, Settings
from fedwad.experiments._otdd_claims import judge
from fedwad.experiments._otdd_figures import draw
from fedwad.experiments._otdd_rows import COMPARED, DRAWS, NAMES, PAIRS

__all__ = ["EXPERIMENT"]


def _tasks(quick: bool) -> list[Settings]:
    n, draws = (300, 1) if quick else (5000, DRAWS)
    small, large = (60, 300) if quick else (1000, 5000)  # numbers of support points
    few, many = (5, 20) if quick else (20, 500)  # numbers of rounds
    one_draw = {"part": "datasets", "n": n, "seed": 0, "method": "fedwad"}
    return [
        *_dataset_tasks(n, draws, small, few),
        *_ablation_tasks(n, small, quick),
        *_sample_tasks(quick),
        *(one_draw | {"pair": pair, "support": small, "rounds": many} for pair in PAIRS),
        *(one_draw | {"pair": pair, "support": large, "rounds": few} for pair in PAIRS),
    ]


def _dataset_tasks(n: int, draws: int, support: int, rounds: int) -> Iterator[Settings]:
    for pair in PAIRS:
        for seed in range(draws):
            common = {"part": "datasets", "pair": pair, "n": n, "seed": seed}
            yield common | {"method": "exact"}
            yield common | {"method": "summary"}
            yield common | {"method": "fedwad", "support": support, "rounds": rounds}


def _ablation_tasks(n: int, support: int, quick: bool) -> Iterator[Settings]:
    common = {"pair": COMPARED[0], "seed": 0, "n": n, "method": "fedwad"}
    for k in (1, 5, 10, 20) if quick else (1, 2, 5, 10, 20, 50):
        yield common | {"part": "rounds", "support": support, "rounds": k}
    for s in (10, 60) if quick else (10, 50, 100, 500, 1000, 2000):
        yield common | {"part": "support", "support": s, "rounds": 10}


def _sample_tasks(quick: bool) -> Iterator[Settings]:
    sizes, supports = (
        ((100, 300), (10, 100)) if quick else ((100, 300, 1000, 3000, 5000), (100, 1000))
    )
    for size in sizes:
        for pair in COMPARED:
            common = {"part": "samples", "pair": pair, "n": size, "seed": 0}
            yield common | {"method": "exact"}
            yield common | {"method": "summary"}
            for s in supports:
                yield common | {"method": "fedwad", "support": s, "rounds": 10}


def _measure(
    pair: str,
    n: int,
    seed: int,
    method: str,
    part: str,  # noqa: ARG001 (it says to which figure the row belongs)
    support: int = 0,
    rounds: int = 0,
) -> list[Row]:
    first, second = (load(name, samples=n, seed=seed) for name in pair.split())
    start = time.process_time()
    if method == "exact":
        value: float | None = fedwad.ot.dataset_distance(*first, *second)
        extra: Row = {}
    elif method == "summary":
        result = fedwad.distance(first, second, labels=True, seed=seed)
        value, extra = result.value, {"lower": result.lower}
    else:
        options: dict[str, Any] = {"support": support, "rounds": rounds}
        options |= {"method": "fedwad", "covariance_type": "spherical"}
        result = fedwad.distance(first, second, labels=True, seed=seed, **options)
        value, extra = result.fedwad, {}
    if method != "exact":
        extra |= {"upper": result.upper, "bytes": result.traffic.up}
    return [{"value": value, "seconds": time.process_time() - start, **extra}]


EXPERIMENT = Experiment(
    "otdd", "Distances between four datasets, ablations", _tasks, _measure, draw, judge, NAMES
)
