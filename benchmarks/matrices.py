"""Matrices over many clients: how close to the exact ones, and at what price beside the plain
pairwise loop."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import fedwad
from benchmarks import plain
from fedwad.compare.clusters import cluster, suggest
from fedwad.datasets import Partition, partition
from fedwad.federation import Policy, SummaryRequest
from fedwad.methods import Hub, Summary
from fedwad.statistics.blocking import block_means
from fedwad.statistics.testing import permutation_test
from fedwad.transport import Measure, labelled, solve
from paper.data import load, random_code

NAMES = ("mnist", "kmnist", "usps", "fashion_mnist")
CLUSTERED = (("mnist", 20, 300), ("mnist", 100, 300), ("cifar10", 20, 300))
WAYS = {
    "affinity": ("linear", 3),
    "kernel": ("kernel", 3),
    "knn 3": ("knn", 3),
    "knn 5": ("knn", 5),
}


def seconds(work: Any) -> tuple[float, Any]:
    """Processor seconds of all threads, and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def datasets(full: bool = False) -> Iterator[dict[str, Any]]:
    """Dataset distances between four real data sets: exact, the paper's, ours from one message."""
    for samples in (1000, 5000) if full else (500,):
        data = {name: load(name, samples=samples) for name in NAMES}
        pairs = list(combinations(range(4), 2))
        exact_s, exact = seconds(
            lambda data=data: [
                fedwad.transport.dataset_distance(*data[a], *data[b])
                for a, b in combinations(NAMES, 2)
            ]
        )
        summary_s, summary = seconds(lambda data=data: fedwad.matrix(data, labels=True))
        paper_s, paper = 0.0, {}
        for support in (10, 100):
            paper_s, found = seconds(
                lambda data=data, support=support: fedwad.matrix(
                    data,
                    method="pairs",
                    support=support,
                    rounds=20,
                    labels=True,
                    covariance_type="spherical",
                )
            )
            paper[f"S={support}"] = found.fedwad
        ranks = {
            f"rank paper, {name}": spearmanr(exact, [table[pair] for pair in pairs]).statistic
            for name, table in paper.items()
        } | {"rank ours": spearmanr(exact, [summary.value[pair] for pair in pairs]).statistic}
        for pair, distance in zip(pairs, exact, strict=True):
            assert summary.lower[pair] <= distance * (1 + 1e-9)
            assert distance <= summary.upper[pair] * (1 + 1e-9)
            yield {
                "n": samples,
                "pair": f"{NAMES[pair[0]]} - {NAMES[pair[1]]}",
                "exact": distance,
                **{f"paper, {name}": table[pair] / distance - 1 for name, table in paper.items()},
                "upper": summary.upper[pair] / distance - 1,
                "value": summary.value[pair] / distance - 1,
            }
        yield {
            "n": samples,
            "pair": "rank correlation; seconds exact, paper, ours",
            "exact": exact_s,
            **ranks,
            "s paper": paper_s,
            "s ours": summary_s,
        }


def _clients(name: str, count: int, samples: int) -> Partition:
    X, y = load(name)
    if name == "cifar10":
        chosen = np.random.default_rng(0).permutation(len(X))[: min(len(X), count * samples * 2)]
        X, y = random_code(X[chosen]), y[chosen]
    return partition.class_pairs(X, y, clients=count, samples=samples, seed=0, balanced=True)


def _exact(parts: Any, pairs: list[tuple[int, int]]) -> np.ndarray:
    measures = [labelled(Measure(X), y) for X, y in parts.values()]
    return np.array([solve(measures[i], measures[j]).distance for i, j in pairs])


def clusters(full: bool = False) -> Iterator[dict[str, Any]]:
    """Clients in five class pairs, dataset distance: rank correlation with exact, clusters, time
    and bytes.

    The first row of 20 clients gives the mean exact distance within groups and between them, and
    what clusters the exact distances give.
    """
    for name, count, samples in CLUSTERED if full else CLUSTERED[:1]:
        parts = _clients(name, count, samples)
        pairs = list(combinations(range(count), 2))
        if len(pairs) > 1000:  # a sample of them is enough for a rank correlation
            pairs = [pairs[k] for k in np.random.default_rng(0).permutation(len(pairs))[:1000]]
        exact = _exact(parts, pairs)
        i, j = np.array(pairs).T
        fed = fedwad.local(parts)
        data = f"{name}, {count} x {samples}"
        runs: list[tuple[str, dict[str, Any]]] = [
            ("summary", {}),
            ("summary", {"covariance_type": "diag"}),
            ("hub", {}),
        ]
        if count <= 20:
            runs += [("pairs", {"rounds": 10})] if full else []
            yield {"data": data, "method": "exact", **_exact_clusters(exact, (i, j), parts.groups)}
        else:
            runs.append(("hub", {"rounds": 3}))
        for method, options in runs:
            taken, m = seconds(
                lambda fed=fed, method=method, options=options: fedwad.matrix(
                    fed, method=method, labels=True, **options
                )
            )
            assert (
                (m.lower[i, j] <= exact * (1 + 1e-9)) & (exact <= m.upper[i, j] * (1 + 1e-9))
            ).all()
            errors = m.value[i, j] / exact - 1
            row = {
                "data": data,
                "method": ", ".join(
                    [method, *(f"{key} {value}" for key, value in options.items())]
                ),
                "rank": spearmanr(exact, m.value[i, j]).statistic,
                "rank paper": float("nan")
                if m.fedwad is None
                else spearmanr(exact, m.fedwad[i, j]).statistic,
                "error paper": ""
                if m.fedwad is None
                else f"{100 * (m.fedwad[i, j] / exact - 1).mean():+.1f}%",
                "mean error": f"{100 * errors.mean():+.1f}%",
                "sd": f"{100 * errors.std():.1f}%",
            }
            yield row | _found(m.value, parts.groups) | {"s": taken, "MB up": m.traffic.up / 1e6}


def _found(distances: np.ndarray, groups: Any) -> dict[str, Any]:
    """How well the four ways find the groups, and the number of clusters that is suggested."""
    ways = {
        f"ARI {way}": adjusted_rand_score(groups, cluster(distances, 5, *how))
        for way, how in WAYS.items()
    }
    return ways | {"k": suggest(distances).k}


def _exact_clusters(
    exact: np.ndarray, places: tuple[np.ndarray, np.ndarray], groups: Any
) -> dict[str, Any]:
    """The same of exact distances, and their means within groups and between them."""
    i, j = places
    whole = np.zeros((len(groups), len(groups)))
    whole[i, j] = whole[j, i] = exact
    same = np.asarray(groups)[i] == np.asarray(groups)[j]
    return {"within": exact[same].mean(), "between": exact[~same].mean(), **_found(whole, groups)}


def hundred() -> list[dict[str, Any]]:
    """100 MNIST clients of 600 samples: processor seconds of a whole matrix beside the plain
    pairwise loop with POT.

    The loop is FedWaD on written-out points (x, m_y, s_y), S = 10, 20 rounds. It and the tests of
    pairs are measured for 12 pairs and scaled to all 4950; summaries are timed without tests.
    """
    parts = _clients("mnist", 100, 600)
    everything = list(parts.values())
    pairs = [
        tuple(pair)
        for pair in np.random.default_rng(0).integers(0, 100, (12, 2)).tolist()
        if pair[0] != pair[1]
    ]
    points = {
        index: labelled(Measure(everything[index][0]), everything[index][1]).points
        for pair in pairs
        for index in pair
    }
    rng = np.random.default_rng(0)

    def loop() -> None:
        for a, b in pairs:
            start = points[a].mean(axis=0) + points[a].std(axis=0) * rng.standard_normal(
                (10, points[a].shape[1])
            )
            plain.fedwad(points[a], points[b], start, 20)

    with threadpool_limits(1):
        rival = seconds(loop)[0] / len(pairs) * 4950
    fed = fedwad.local(parts, policy=replace(Policy.open(), splits="noise"))
    methods = (Summary(), Hub(rounds=5), Hub(rounds=3))
    for method in methods:  # compiles what is compiled at first use
        fedwad.matrix(fed, method, labels=True, sites=list(parts)[:3])
    blocks = {k: block_means(everything[k][0], None, np.random.default_rng(k)) for k in points}

    def tests() -> None:  # with more permutations again, as for pairs that differ
        for pair in pairs:
            two = [blocks[k] for k in pair]
            permutation_test(two, with_columns=False)
            permutation_test(two, permutations=9085, with_columns=False)

    tested = seconds(tests)[0] / len(pairs) * 4950
    found = {"plain pairwise loop (scaled)": (rival, math.nan)}
    for method in methods:
        taken, m = seconds(lambda method=method: fedwad.matrix(fed, method, labels=True))
        name = f"hub, {method.rounds} rounds" if isinstance(method, Hub) else method.name
        found[name] = taken, m.traffic.up / 1e6
    found["summary and all tests (scaled)"] = found["summary"][0] + tested, math.nan
    return [
        {"method": name, "s": taken, "times faster": rival / taken, "MB up": up}
        for name, (taken, up) in found.items()
    ]


def all_pairs(full: bool = False) -> Iterator[dict[str, Any]]:
    """All pairs of 100 to 1000 small clients (60 samples, d = 8), without what clients take."""
    rng = np.random.default_rng(0)
    for count in (50, 100, 300, 1000) if full else (50, 100, 300):
        fed = fedwad.local(
            {f"c{k}": rng.standard_normal((60, 8)) + 0.2 * (k % 5) for k in range(count)}
        )
        request = SummaryRequest(4, "auto", 2.0, 0)
        fed.ask(dict.fromkeys(fed.names, request))  # replies are kept
        with threadpool_limits(1):
            taken, _ = seconds(lambda fed=fed: fedwad.matrix(fed, cells=4, n_jobs=1))
        pairs = count * (count - 1) / 2
        yield {"clients": count, "s": taken, "ms a pair": 1000 * taken / pairs}
