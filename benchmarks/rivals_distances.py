"""Distances between data that stay apart: ours, FedBary, TriangleWad and the universal metric.

Errors are relative to the exact distance between the same samples, by POT. A site's messages are
attacked as `fedwad audit` does, by a server that knows the protocol.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedwad
from benchmarks import accuracy, rivals_estimators, rivals_training
from benchmarks.rivals import Given
from fedwad.audit.score import ReconstructionScorer
from fedwad.datasets import partition

Row = dict[str, Any]
Floats = NDArray[np.float64]

SUPPORT, ROUNDS, T = 100, 20, 0.5
RECORDS = 200
SKIPPED = ("Gaussians far apart, d=2, n=200", "Gaussians, d=50, n=4000")
NUMBER = 8  # bytes

_READY = Path(__file__).parents[1] / "docs" / "policies" / "summary.toml"


def problems() -> dict[str, tuple[Floats, Floats]]:
    """The pairs of samples of the table `accuracy`, at most 1000 rows a side."""
    found = accuracy.problems()
    return {
        name.replace("n=2000", "n=1000"): (x[:1000], y[:1000])
        for name, (x, y) in found.items()
        if name not in SKIPPED
    }


def gamma(x: Floats, y: Floats, spread: float, seed: int = 0) -> Floats:
    """Shared random points around the origin, of `spread` times the deviation of all numbers."""
    rng = np.random.default_rng([seed, 3])
    return np.asarray(spread * np.std(np.vstack([x, y])) * rng.standard_normal(x.shape))


def _summary(x: Floats, y: Floats, **options: Any) -> tuple[float, float, int]:
    found = fedwad.distance(x, y, **options)
    return found.value, found.traffic.up / 2, found.traffic.messages // 2


def _fedwad(x: Floats, y: Floats) -> tuple[float, float, int]:
    found = fedwad.distance(x, y, method="fedwad", support=SUPPORT, rounds=ROUNDS)
    assert found.fedwad is not None
    return found.fedwad, found.traffic.up / 2, ROUNDS + 2


def _fedbary(x: Floats, y: Floats) -> tuple[float, float, int]:
    z = gamma(x, y, 1.0)[:SUPPORT]
    ends = rivals_estimators.fedbary([x, y], z, ROUNDS)
    return float(ends.sum()), NUMBER * (ROUNDS * z.size + 1), ROUNDS + 1


def _triangle(spread: float) -> Callable[[Floats, Floats], tuple[float, float, int]]:
    def measured(x: Floats, y: Floats) -> tuple[float, float, int]:
        shared = gamma(x, y, spread)
        sent = [rivals_estimators.triangle_message(side, shared, T) for side in (x, y)]
        return rivals_estimators.triangle_distance(*sent, T), NUMBER * sent[0].size, 1

    return measured


METHODS: dict[str, Callable[[Floats, Floats], tuple[float, float, int]]] = {
    "fedwad, one summary": _summary,
    "fedwad, one summary, example policy": lambda x, y: _summary(x, y, covariance_type="diag"),
    "FedWaD (the paper), S = 100": _fedwad,
    "FedBary, S = 100": _fedbary,
    "TriangleWad, gamma as wide as the data": _triangle(1.0),
    "TriangleWad, gamma a tenth as wide": _triangle(0.1),
}


def errors(_: Given) -> list[Row]:
    """One row for each method, one column for each problem, relative to the exact distance."""
    _warm()
    found: dict[str, Row] = {name: {"method": name} for name in METHODS}
    costs: dict[str, list[tuple[float, float, int]]] = {name: [] for name in METHODS}
    for problem, (x, y) in problems().items():
        exact = rivals_estimators.plan(x, y)[1]
        for name, method in METHODS.items():
            begin = time.process_time()
            value, sent, messages = method(x, y)
            costs[name].append((time.process_time() - begin, sent / 1000, messages))
            found[name][problem] = f"{100 * (value / exact - 1):+.1f}%"
    for name, row in found.items():
        seconds, kilobytes, messages = np.array(costs[name]).mean(axis=0)
        row |= {"messages": int(messages), "kB": float(kilobytes), "s": float(seconds)}
    return list(found.values())


def _warm() -> None:
    """Import and compile what is needed, before times are taken."""
    rng = np.random.default_rng(0)
    for method in METHODS.values():
        method(rng.standard_normal((300, 5)), rng.standard_normal((300, 5)))


# ---- What the messages give away.


def rows_from_message(message: Floats, shared: Floats, t: float) -> Floats:
    """TriangleWad's rows from its message and the shared points.

    The message lies on the geodesic from the rows to the shared points, so its own plan to them
    is that of the rows.
    """
    return np.asarray((message - t * _ends(message, shared)) / (1 - t))


def _ends(message: Floats, shared: Floats) -> Floats:
    return np.asarray(len(message) * rivals_estimators.plan(message, shared)[0] @ shared)


def slope(message: Floats, ends: Floats) -> float:
    """A guess of t: the slope of the feature whose deviations follow the ends most closely.

    A feature that is constant at the site shows t.
    """
    m, e = (z - z.mean(axis=0) for z in (message, ends))
    slopes = (m * e).sum(axis=0) / (e**2).sum(axis=0)
    left = ((m - slopes * e) ** 2).sum(axis=0) / (e**2).sum(axis=0)
    return float(slopes[left.argmin()])


def t_from_two(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> float:
    """The t of two messages of the same rows: their means differ by t times those of the points."""
    (m, g), (n, h) = first, second
    moved, shared = m.mean(axis=0) - n.mean(axis=0), g.mean(axis=0) - h.mean(axis=0)
    return float(moved @ shared / (shared @ shared))


def attacked() -> dict[str, Floats]:
    """The rows that are attacked: standard normal in the plane, and handwritten digits."""
    images, _ = fedwad.datasets.load("digits")
    rng = np.random.default_rng(0)
    return {
        "normal, d=2": rng.standard_normal((RECORDS, 2)),
        "digits, d=64": np.asarray(images[:RECORDS], dtype=np.float64),
    }


def attacks(_: Given) -> list[Row]:
    """Records of 200 that a curious server reconstructs exactly, from the messages of one site."""
    rows: dict[str, Row] = {}

    def put(method: str, how: str, data: str, count: int) -> None:
        rows.setdefault(method + how, {"messages of": method, "attack": how})[data] = count

    for data, X in attacked().items():
        yardstick = ReconstructionScorer(X)
        put("rows in one place", "none needed", data, len(X))
        for spread, wide in ((1.0, "as wide as the data"), (0.1, "a tenth as wide")):
            name = f"TriangleWad, gamma {wide}"
            shared, other = (gamma(X, X, spread, seed) for seed in (0, 1))
            sent, again = (rivals_estimators.triangle_message(X, z, T) for z in (shared, other))
            guesses = {
                "t known": rows_from_message(sent, shared, T),
                "t secret, one message": rows_from_message(
                    sent, shared, slope(sent, _ends(sent, shared))
                ),
                "t secret, two messages": rows_from_message(
                    sent, shared, t_from_two((sent, shared), (again, other))
                ),
            }
            for how, guess in guesses.items():
                put(name, how, data, yardstick.score(guess).exact)
        for method, policy, kind in (
            ("FedBary, FedWaD (the paper)", None, "fedwad"),
            ("fedwad, one summary, example policy", str(_READY), "summary"),
        ):
            audited = fedwad.audit(X, policy=policy, method=kind)  # type: ignore[arg-type]
            own = [row for row in audited.rows if not row.attack.startswith("exact interpolant")]
            best = max(own, key=lambda row: row.score.exact)
            put(method, "the best of the audit's", data, best.score.exact)
    return list(rows.values())


# ---- All pairs of twelve sites.


def ranks(_: Given) -> list[Row]:
    """Rank correlation with the exact distances over the 66 pairs of twelve sites of digits."""
    from scipy.stats import spearmanr

    X, y = fedwad.datasets.load("digits")
    dealt = partition.dirichlet(X, y, alpha=0.5, clients=12, samples=100, seed=0)
    sites = {name: (np.asarray(a, dtype=np.float64), b) for name, (a, b) in dealt.items()}
    pairs = list(combinations(sites, 2))
    exact = [rivals_estimators.plan(sites[a][0], sites[b][0])[1] for a, b in pairs]
    rows = []
    for name, every in _ALL_PAIRS.items():
        begin = time.process_time()
        values = every(sites)
        seconds = time.process_time() - begin
        found = [values[a, b] for a, b in pairs]
        rows.append(
            {"method": name, "rank correlation": float(spearmanr(exact, found)[0]), "s": seconds}
        )
    return rows


Sites = dict[str, tuple[Floats, NDArray[np.int64]]]
Values = dict[tuple[str, str], float]


def _matrix(sites: Sites) -> Values:
    found = fedwad.matrix({name: X for name, (X, _) in sites.items()})
    place = {name: k for k, name in enumerate(found.sites)}
    return {(a, b): found.value[place[a], place[b]] for a, b in combinations(sites, 2)}


def _to_barycentre(sites: Sites) -> Values:
    points = [X for X, _ in sites.values()]
    z = gamma(points[0], points[1], 1.0)[:SUPPORT]
    ends = dict(zip(sites, rivals_estimators.fedbary(points, z, ROUNDS), strict=True))
    return {(a, b): ends[a] + ends[b] for a, b in combinations(sites, 2)}


def _triangles(sites: Sites) -> Values:
    shared = gamma(*(X for X, _ in list(sites.values())[:2]), 1.0)
    sent = {
        name: rivals_estimators.triangle_message(X, shared, T) for name, (X, _) in sites.items()
    }
    return {
        (a, b): rivals_estimators.triangle_distance(sent[a], sent[b], T)
        for a, b in combinations(sites, 2)
    }


def _universal(sites: Sites) -> Values:
    """After one round of FedAvg, on the activations of the hidden layer."""
    small = [
        rivals_training.Site(X.astype(np.float32) / 16, y, X.astype(np.float32), y, 0)
        for X, y in sites.values()
    ]
    begin = rivals_training.start(64, 10, 0)
    weights = rivals_training.fedavg(small, begin, 1, np.random.default_rng(0))
    known = {
        name: (rivals_training.activations(weights, site.X).astype(np.float64), site.y)
        for name, site in zip(sites, small, strict=True)
    }
    return {
        (a, b): rivals_estimators.universal(known[a], known[b]) for a, b in combinations(sites, 2)
    }


_ALL_PAIRS: dict[str, Callable[[Sites], Values]] = {
    "fedwad, one summary": _matrix,
    "FedBary, S = 100": _to_barycentre,
    "TriangleWad": _triangles,
    "universal metric": _universal,
}
