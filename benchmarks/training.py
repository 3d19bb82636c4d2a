"""Training many small networks one by one and stacked; the paper's three algorithms on MNIST."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from itertools import product
from typing import Any, get_args

import numpy as np

import fedwad
from fedwad.datasets import load, partition

#: Networks at once: few on a CPU, so that it stays quick; on a CUDA device the columns of
#: docs/learning.md.
COUNTS = {
    "cpu": {"mlp": (1, 10), "cnn": (1, 10)},
    "cuda": {"mlp": (50, 500, 2000), "cnn": (50, 200, 800)},
}
ALONE = 10  # networks trained one by one at most: more would take long and have the same mean


def steps() -> list[dict[str, Any]]:
    """Milliseconds for a step (batch 10) of one network: PyTorch's optimiser one by one, and all in
    stacks."""
    if find_spec("torch") is None:
        return []
    import torch

    from fedwad.learning.local.descent import Phase, SGDOptions, Task, TensorDataset, train
    from fedwad.learning.local.networks import build, fastest_device

    rng, where = np.random.default_rng(0), fastest_device()
    rows = []
    for word, features, samples in (("mlp", 784, 1000), ("cnn", 3072, 100)):
        network = build(word, features, 10)
        dataset = TensorDataset.of(
            rng.standard_normal((samples, features)), rng.integers(10, size=samples), where
        )
        start = torch.as_tensor(network.initial_weights(), device=where)
        for count in COUNTS[where.type][word]:
            tasks = [Task(start, np.arange(samples), seed) for seed in range(count)]
            row: dict[str, Any] = {"network": word, "networks": count, "device": where.type}
            for name, together, trained in (
                ("one by one", False, tasks[:ALONE]),
                ("stacked", True, tasks),
            ):
                taken = []
                for _ in range(2):  # the first time loads what is loaded at first use
                    since = time.perf_counter()
                    train(network, dataset, trained, SGDOptions((Phase(1),)), together)
                    if where.type == "cuda":
                        # a CUDA device works on after its caller has gone on
                        torch.cuda.synchronize()
                    taken.append(time.perf_counter() - since)
                row[f"{name} ms"] = 1000 * min(taken) / (len(trained) * samples / 10)
            rows.append(row | {"times faster": row["one by one ms"] / row["stacked ms"]})
    return rows


def gradients() -> list[dict[str, Any]]:
    """Microseconds for a stacked step of one MLP on one thread, with the hand-written gradient and
    with `torch.func.vmap`; "last layer" trains that layer only."""
    if find_spec("torch") is None:
        return []
    import torch

    from fedwad.learning.local import stacks
    from fedwad.learning.local.descent import Phase, SGDOptions, Task, TensorDataset
    from fedwad.learning.local.networks import build, fastest_device

    rng, where, samples = np.random.default_rng(0), fastest_device(), 200
    cuda, threads = where.type == "cuda", torch.get_num_threads()
    torch.set_num_threads(1)
    clock = time.perf_counter if cuda else time.process_time
    rows = []
    for features, layers, count in product(
        (20, 784), ("all", "personal"), (50, 500) if cuda else (1, 2, 10, 50)
    ):
        network = build("mlp", features, 10)
        dataset = TensorDataset.of(
            rng.standard_normal((samples, features)), rng.integers(10, size=samples), where
        )
        start = torch.as_tensor(network.initial_weights(), device=where)
        tasks = [Task(start, np.arange(samples), seed) for seed in range(count)]
        taken: dict[str, list[float]] = {"hand-written us": [], "vmap us": []}
        for name in [*taken] * 4:
            with _without_linear_steps() if name == "vmap us" else nullcontext():
                since = clock()
                stacks.train_stack(network, dataset, tasks, SGDOptions((Phase(1, layers),)))  # type: ignore[arg-type]
                if cuda:
                    torch.cuda.synchronize()
                taken[name].append(clock() - since)
        best = {name: 1e6 * min(times) / (count * samples / 10) for name, times in taken.items()}
        where_learned = "all layers" if layers == "all" else "last layer"
        row = {"features": features, "trains": where_learned, "networks": count, **best}
        rows.append(row | {"vmap / hand-written": best["vmap us"] / best["hand-written us"]})
    torch.set_num_threads(threads)
    return rows


@contextmanager
def _without_linear_steps() -> Iterator[None]:
    """Let stacks take the general way for every network."""
    from fedwad.learning.local import stacks

    known = stacks.linear_layers
    stacks.linear_layers = lambda _: None
    try:
        yield
    finally:
        stacks.linear_layers = known


def boosting(full: bool = False) -> Iterator[dict[str, Any]]:
    """All samples of MNIST, or 200 a client, on 20 clients in five groups: each algorithm for all
    together, and in clusters."""
    if find_spec("torch") is None:
        return
    from fedwad.learning import Algorithm, TrainingOptions
    from fedwad.learning._train import train_with

    since = time.perf_counter()
    X, y = load("mnist")
    sites = partition.class_pairs(X, y, clients=20, samples=None if full else 200, seed=0)
    few = {name: (points[:500], labels[:500]) for name, (points, labels) in sites.items()}
    groups = fedwad.matrix(few, labels=True).cluster(5)
    fed = fedwad.local(sites)
    yield {"part": "data, distances, clusters", "s": time.perf_counter() - since}
    for algorithm in get_args(Algorithm):
        for name, chosen in (("vanilla", None), ("clusters", groups)):
            start = time.perf_counter()
            options = TrainingOptions(algorithm, test_size=1 / 7)
            result = train_with(
                fed, options, groups=chosen, equal_weights=True, test_every_round=False
            )
            taken = time.perf_counter() - start
            yield {"part": f"{algorithm}, {name}", "s": taken, "accuracy %": 100 * result.mean}
    yield {"part": "together", "s": time.perf_counter() - since}
