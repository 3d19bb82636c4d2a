"""Training many small networks: one by one against stacked, and the paper's three algorithms on MNIST."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any, get_args

import numpy as np

import fedwad
from fedwad.datasets import load, partition


def steps() -> list[dict[str, Any]]:
    """Milliseconds for a step (batch 10) of one network: PyTorch's optimiser one by one, and all in stacks."""
    if find_spec("torch") is None:
        return []
    import torch

    from fedwad.training.descent import Phase, Pool, Recipe, Task, train
    from fedwad.training.networks import build, device

    rng, where = np.random.default_rng(0), device()
    rows = []
    for word, features, samples in (("mlp", 784, 1000), ("cnn", 3072, 100)):
        network = build(word, features, 10)
        pool = Pool.of(rng.standard_normal((samples, features)), rng.integers(10, size=samples), where)
        start = torch.as_tensor(network.initial(), device=where)
        for count in (1, 10):
            tasks = [Task(start, np.arange(samples), seed) for seed in range(count)]
            row: dict[str, Any] = {"network": word, "networks": count, "device": where.type}
            for name, together in (("one by one", False), ("stacked", True)):
                taken = []
                for _ in range(2):  # the first time loads what is loaded at first use
                    since = time.perf_counter()
                    train(network, pool, tasks, Recipe((Phase(1),)), together)
                    taken.append(time.perf_counter() - since)
                row[f"{name} ms"] = 1000 * min(taken) / (count * samples / 10)
            rows.append(row | {"times faster": row["one by one ms"] / row["stacked ms"]})
    return rows


def boosting() -> list[dict[str, Any]]:
    """All samples of MNIST on 20 clients in five groups: each algorithm for all together, and in clusters."""
    if find_spec("torch") is None:
        return []
    from fedwad.learning import Algorithm, train

    since = time.perf_counter()
    X, y = load("mnist")
    sites = partition.class_pairs(X, y, clients=20, samples=None, seed=0)
    few = {name: (points[:500], labels[:500]) for name, (points, labels) in sites.items()}
    groups = fedwad.matrix(few, labels=True).cluster(5)
    fed = fedwad.local(sites)
    rows: list[dict[str, Any]] = [{"part": "data, distances, clusters", "s": time.perf_counter() - since}]
    for algorithm in get_args(Algorithm):
        for name, chosen in (("vanilla", None), ("clusters", groups)):
            start = time.perf_counter()
            result = train(fed, algorithm, groups=chosen, holdout=1 / 7, weighting="equal", evaluate="last")
            taken = time.perf_counter() - start
            rows.append({"part": f"{algorithm}, {name}", "s": taken, "accuracy %": 100 * result.mean})
    return [*rows, {"part": "together", "s": time.perf_counter() - since}]
