"""Distances between data sets and how well a network transfers: ours, microsoft/otdd, s-OTDD.

Twelve data sets: MNIST, KMNIST, USPS and FashionMNIST, each whole and its two halves of the
classes, 500 images of 14 x 14 pixels. A network is trained on one of them, gets a new last layer,
learns from 50 images of another, and is tested there.

microsoft/otdd: its quantities as written down in `benchmarks.otdd_conversion`.
s-OTDD: Nguyen et al., Lightspeed Geometric Dataset Distances via Projections, arXiv 2501.18901.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations, permutations
from typing import Any

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import spearmanr

import fedwad
from benchmarks import otdd_conversion as conversion
from benchmarks.rivals import Given, shared
from benchmarks.rivals_training import Weights, accuracy, descend, start
from paper.data import load

Row = dict[str, Any]
Floats = NDArray[np.float64]
Labelled = tuple[Floats, NDArray[np.int64]]
Table = dict[tuple[str, str], float]

SAMPLES, FEW, PROJECTIONS, MOMENTS = 500, 50, 500, 5
NETWORKS = 5  # networks with other first weights for each transfer


def smaller(X: NDArray[Any]) -> Floats:
    """Square images with each block of 2 x 2 pixels averaged."""
    side = round(X.shape[1] ** 0.5) // 2
    return (
        np.asarray(X, dtype=np.float64)
        .reshape(-1, side, 2, side, 2)
        .mean(axis=(2, 4))
        .reshape(len(X), -1)
    )


def data_sets(seed: int = 0) -> dict[str, tuple[Labelled, Labelled]]:
    """By name: 500 samples, and 550 others that a network learns from and is tested with."""
    found = {}
    for name in conversion.NAMES:
        X, y = load(name, samples=5000, seed=seed)
        X = smaller(X)
        for half, kept in (("", y >= 0), (" 0-4", y < 5), (" 5-9", y >= 5)):
            own, codes = X[kept], np.unique(y[kept], return_inverse=True)[1]
            more = slice(SAMPLES, 2 * SAMPLES + FEW)
            found[name + half] = (own[:SAMPLES], codes[:SAMPLES]), (own[more], codes[more])
    return found


# ---- Distances.


def directions(features: int, rng: np.random.Generator, count: int) -> Floats:
    """Unit vectors in random directions, one in each row."""
    drawn = rng.standard_normal((count, features))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def orders(rng: np.random.Generator, count: int, moments: int = MOMENTS) -> NDArray[np.int64]:
    """Orders of moments: Poisson numbers of mean 1, 2, ..., drawn again where they are zero."""
    drawn = rng.poisson(np.arange(1, moments + 1), (count, moments))
    while not drawn.all():
        again = rng.poisson(np.arange(1, moments + 1), (count, moments))
        drawn = np.where(drawn == 0, again, drawn)
    return np.asarray(drawn)


def projected(data: Labelled, theta: Floats, order: NDArray[np.int64], psi: Floats) -> Floats:
    """One number for each sample and projection: s-OTDD's projection of a sample and its class.

    A class is the moments of its projected samples, each divided by the factorial of its order.
    """
    X, y = data
    lines = X @ theta.T
    found = psi[:, 0] * lines
    for code in np.unique(y):
        own = lines[y == code]
        moments = (own[:, :, None] ** order).mean(axis=0) / np.exp(gammaln(order + 1))
        found[y == code] += (psi[:, 1:] * moments).sum(axis=1)
    return np.asarray(found)


def sliced(known: dict[str, Labelled], projections: int = PROJECTIONS) -> Table:
    """s-OTDD of order 2 between all data sets, each projected once."""
    rng = np.random.default_rng(0)
    features = next(iter(known.values()))[0].shape[1]
    theta = directions(features, rng, projections)
    order, psi = orders(rng, projections), directions(MOMENTS + 1, rng, projections)
    lines = {name: projected(data, theta, order, psi) for name, data in known.items()}
    return {
        (a, b): float(np.sqrt(ot.wasserstein_1d(lines[a], lines[b], p=2).mean()))
        for a, b in combinations(known, 2)
    }


def _pairs(between: Callable[[Labelled, Labelled], float]) -> Callable[..., Table]:
    def table(known: dict[str, Labelled]) -> Table:
        return {(a, b): between(known[a], known[b]) for a, b in combinations(known, 2)}

    return table


def _one_message(known: dict[str, Labelled]) -> Table:
    found = fedwad.matrix(known, labels=True)
    place = {name: k for k, name in enumerate(found.sites)}
    return {(a, b): float(found.value[place[a], place[b]]) for a, b in combinations(known, 2)}


def _microsoft(first: Labelled, second: Labelled) -> float:
    a, b = (conversion.side(*data) for data in (first, second))
    return conversion.theirs(conversion.costs(a, b, conversion.gaussian(conversion.bures)))


def _exact(first: Labelled, second: Labelled) -> float:
    return fedwad.transport.dataset_distance(*first, *second)


METHODS: dict[str, Callable[[dict[str, Labelled]], Table]] = {
    "fedwad, one summary": _one_message,
    "fedwad, rows in one place": _pairs(_exact),
    "microsoft/otdd": _pairs(_microsoft),
    "s-OTDD, 500 projections": sliced,
}


# ---- Transfer.


def _trained(data: Labelled, weights: Weights, epochs: int, seed: int) -> Weights:
    X, y = data
    return descend(weights, X.astype(np.float32), y, epochs, np.random.default_rng([seed, 1]))


def _with_new_head(weights: Weights, seed: int) -> Weights:
    return *weights[:2], *start(weights[0].shape[0], 10, 100 + seed)[2:]


def transfers(
    known: dict[str, tuple[Labelled, Labelled]], runs: int
) -> dict[tuple[str, str], float]:
    """Test accuracy on the second data set, first trained on the other one."""
    found: dict[tuple[str, str], list[float]] = {pair: [] for pair in permutations(known, 2)}
    for seed in range(runs):
        fresh = start(196, 10, seed)
        sources = {name: _trained(data, fresh, 20, seed) for name, (data, _) in known.items()}
        for a, b in found:
            X, y = known[b][1]
            few = X[:FEW], y[:FEW]
            weights = _trained(few, _with_new_head(sources[a], seed), 40, seed)
            found[a, b].append(accuracy(weights, X[FEW:].astype(np.float32), y[FEW:]))
    return {pair: float(np.mean(values)) for pair, values in found.items()}


def measure(given: Given) -> list[Row]:
    """One row for each distance, means over draws of the data: rank correlation with the accuracy
    after transfer.

    Within a target the eleven sources are ranked; the mean over the twelve targets. -1 is best. The
    standard error is over targets, each with its mean over draws.
    """
    found = shared(_draw, range(given.runs or 5), given.jobs)
    rows = []
    for name in METHODS:
        own = [draw[name] for draw in found]
        targets = np.mean([one["ranks"] for one in own], axis=0)
        draws = [float(np.mean(one["ranks"])) for one in own]
        rows.append(
            {
                "distance": name,
                "draws": len(own),
                "rank with accuracy": float(np.mean(targets)),
                "standard error": float(np.std(targets, ddof=1) / np.sqrt(len(targets))),
                "from": min(draws),
                "to": max(draws),
                "rank with exact": float(np.mean([one["rank with exact"] for one in own])),
                "s, 66 pairs": float(np.mean([one["s"] for one in own])),
            }
        )
    return rows


def _draw(seed: int) -> dict[str, Row]:
    """Each distance on one draw of the data: ranks by target, rank with exact, and seconds."""
    both = data_sets(seed)
    known = {name: data for name, (data, _) in both.items()}
    after = transfers(both, NETWORKS)
    tables, rows = {}, {}
    for name, method in METHODS.items():
        begin = time.process_time()
        tables[name] = method(known)
        rows[name] = {"s": time.process_time() - begin}
    exact = list(tables["fedwad, rows in one place"].values())
    for name, table in tables.items():
        rows[name]["ranks"] = [_rank(table, after, target, known) for target in known]
        rows[name]["rank with exact"] = float(spearmanr(list(table.values()), exact).statistic)
    return rows


def _rank(table: Table, after: Table, target: str, known: dict[str, Labelled]) -> float:
    sources = [name for name in known if name != target]
    apart = [table.get((name, target), table.get((target, name))) for name in sources]
    return float(spearmanr(apart, [after[name, target] for name in sources]).statistic)
