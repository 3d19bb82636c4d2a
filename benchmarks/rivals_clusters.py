"""Clusters of sites before training: ours, label histograms, embeddings, principal angles,
gradients (CFL) and IFCA, on the same sites.

Every method is given the true number of clusters. Distances are clustered by the same routine
(`fedwad.compare.cluster`), CFL by complete linkage of updates, and IFCA clusters as it trains.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import ot
from numpy.typing import NDArray

import fedwad
from benchmarks.rivals import Given, shared
from benchmarks.rivals_sites import SETTINGS, deal
from benchmarks.rivals_training import (
    EPOCHS,
    Site,
    Weights,
    accuracies,
    accuracy,
    activations,
    descend,
    fedavg,
    flat,
    loss,
    mean,
    start,
)
from fedwad.compare.clusters import cluster

Row = dict[str, Any]
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

TRAINING_ROUNDS = 10
CFL_ROUNDS = 5
VECTORS = 3  # principal vectors of each class, as in PACFL's code
NUMBER = 4  # bytes: networks travel in single precision


class Found(NamedTuple):
    """Labels of the sites, and what it took: rounds and bytes that each site sends."""

    labels: Labels
    rounds: int
    sent: float
    networks: tuple[Weights, ...] | None = None


def _table(count: int, between: Callable[[int, int], float]) -> Floats:
    found = np.zeros((count, count))
    for a, b in combinations(range(count), 2):
        found[a, b] = found[b, a] = between(a, b)
    return found


def ours(sites: Sequence[Site], k: int, seed: int, covariance_type: str = "auto") -> Found:
    """Dataset distances from one summary of each site."""
    data = {f"site{i:02d}": (site.X.astype(np.float64), site.y) for i, site in enumerate(sites)}
    found = fedwad.matrix(data, labels=True, seed=seed, covariance_type=covariance_type)
    return Found(found.cluster(k, seed=seed), 1, found.traffic.up / len(sites))


def total_variation(first: Labels, second: Labels, classes: int = 10) -> float:
    """The earth mover's distance between two label histograms, where all classes are 1 apart."""
    a, b = (np.bincount(y, minlength=classes) / len(y) for y in (first, second))
    return float(np.abs(a - b).sum() / 2)


def histograms(sites: Sequence[Site], k: int, seed: int) -> Found:
    """Earth mover's distance between label histograms."""
    table = _table(len(sites), lambda a, b: total_variation(sites[a].y, sites[b].y))
    return Found(cluster(table, k, seed=seed), 1, NUMBER * 10)


def embeddings(sites: Sequence[Site], k: int, seed: int) -> Found:
    """EMD-CFL: W1 between embeddings by a common network, here after one round of FedAvg."""
    weights = fedavg(sites, start(sites[0].X.shape[1], 10, seed), 1, np.random.default_rng(seed))
    known = [activations(weights, site.X).astype(np.float64) for site in sites]

    def between(a: int, b: int) -> float:
        cost = ot.dist(known[a], known[b], metric="euclidean")
        return float(ot.emd2(ot.unif(len(cost)), ot.unif(cost.shape[1]), cost))

    sent = NUMBER * (flat(weights).size + known[0].size)
    return Found(cluster(_table(len(sites), between), k, seed=seed), 2, sent)


def signature(site: Site) -> Floats:
    """The first left singular vectors of each class, side by side."""
    parts = []
    for code in np.unique(site.y):
        rows = site.X[site.y == code].astype(np.float64).T
        parts.append(np.linalg.svd(rows, full_matrices=False)[0][:, :VECTORS])
    return np.hstack(parts)


def smallest_angle(first: Floats, second: Floats) -> float:
    """The smallest angle between a vector of one signature and one of the other, in degrees."""
    return float(np.degrees(np.arccos(np.clip(first.T @ second, -1, 1).max())))


def angles(sites: Sequence[Site], k: int, seed: int) -> Found:
    """PACFL: angles between the principal vectors of the sites' classes."""
    known = [signature(site) for site in sites]
    table = _table(len(sites), lambda a, b: smallest_angle(known[a], known[b]))
    sent = NUMBER * float(np.mean([one.size for one in known]))
    return Found(cluster(table, k, seed=seed), 1, sent)


def gradients(sites: Sequence[Site], k: int, seed: int) -> Found:
    """CFL: complete linkage by the cosine of updates, after some rounds of FedAvg."""
    from scipy.cluster.hierarchy import fcluster, linkage

    rng = np.random.default_rng(seed)
    weights = fedavg(sites, start(sites[0].X.shape[1], 10, seed), CFL_ROUNDS, rng)
    moves = [flat(descend(weights, site.X, site.y, EPOCHS, rng)) - flat(weights) for site in sites]
    ups = np.array([move / np.linalg.norm(move) for move in moves])
    apart = np.array([1 - ups[a] @ ups[b] for a, b in combinations(range(len(ups)), 2)])
    labels = fcluster(linkage(apart, "complete"), k, "maxclust") - 1
    sent = NUMBER * (CFL_ROUNDS + 1) * ups.shape[1]
    return Found(labels.astype(np.int64), CFL_ROUNDS + 1, sent)


def ifca(sites: Sequence[Site], k: int, seed: int) -> Found:
    """IFCA: each site trains the network with the smallest loss on its data, round by round."""
    features, rng = sites[0].X.shape[1], np.random.default_rng(seed)
    networks = [start(features, 10, 1000 * seed + j) for j in range(k)]
    labels = np.zeros(len(sites), dtype=np.int64)
    for _ in range(TRAINING_ROUNDS):
        losses = [[loss(network, site.X, site.y) for network in networks] for site in sites]
        labels = np.array(losses).argmin(axis=1)
        for j in np.unique(labels):
            own = [site for site, label in zip(sites, labels, strict=True) if label == j]
            networks[j] = mean([descend(networks[j], s.X, s.y, EPOCHS, rng) for s in own])
    sent = NUMBER * TRAINING_ROUNDS * flat(networks[0]).size
    return Found(labels, TRAINING_ROUNDS, sent, tuple(networks))


METHODS: dict[str, Callable[[Sequence[Site], int, int], Found]] = {
    "fedwad, one summary": ours,
    "fedwad, one summary, diagonal": partial(ours, covariance_type="diag"),
    "label histograms, EMD": histograms,
    "EMD-CFL, embeddings": embeddings,
    "PACFL, principal angles": angles,
    "CFL, gradients": gradients,
    "IFCA": ifca,
}


def _after(found: Found, sites: Sequence[Site], seed: int) -> float:
    """Mean test accuracy of the sites, after training in these clusters."""
    if found.networks is None:
        return float(accuracies(sites, found.labels, TRAINING_ROUNDS, seed).mean())
    pairs = zip(sites, found.labels, strict=True)
    return float(np.mean([accuracy(found.networks[k], s.unseen, s.unseen_y) for s, k in pairs]))


def measure(given: Given) -> list[Row]:
    """One row for each setting and method, means over draws."""
    draws = range(given.runs or 3)
    tasks = [(setting, seed) for setting in SETTINGS for seed in draws]
    found = dict(zip(tasks, shared(_draw, tasks, given.jobs), strict=True))
    rows = []
    for setting in SETTINGS:
        own = [found[setting, seed] for seed in draws]
        rows += [_row(setting, name, [one[name] for one in own]) for name in own[0]]
    return rows


def _draw(task: tuple[str, int]) -> dict[str, Row]:
    """What each method gives on the sites of one draw."""
    setting, seed = task
    sites = deal(setting, seed)
    truth = np.array([site.group for site in sites])
    nobody = np.zeros(len(sites), dtype=np.int64)
    rows: dict[str, Row] = {
        name: {"accuracy %": 100 * float(accuracies(sites, labels, TRAINING_ROUNDS, seed).mean())}
        for name, labels in (("no clusters", nobody), ("true groups", truth))
    }
    rows |= {name: _found(name, sites, truth, seed) for name in METHODS}
    print(f"{setting}, draw {seed}: done", file=sys.stderr)
    return rows


def _found(name: str, sites: Sequence[Site], truth: Labels, seed: int) -> Row:
    from sklearn.metrics import adjusted_rand_score

    begin = time.process_time()
    found = METHODS[name](sites, len(np.unique(truth)), seed)
    seconds = time.process_time() - begin
    return {
        "Rand index": float(adjusted_rand_score(truth, found.labels)),
        "accuracy %": 100 * _after(found, sites, seed),
        "rounds before": found.rounds,
        "kB a site": found.sent / 1000,
        "s": seconds,
    }


def _row(setting: str, name: str, draws: Sequence[Row]) -> Row:
    """Means over draws, and the smallest Rand index of a draw."""
    means = {key: float(np.mean([one[key] for one in draws])) for key in draws[0]}
    row = {"setting": setting, "method": name, "draws": len(draws), **means}
    if "Rand index" in row:
        row["worst"] = float(min(one["Rand index"] for one in draws))
        row["rounds before"] = draws[0]["rounds before"]
    return row
