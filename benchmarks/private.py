"""Distances under differential privacy: how far from the exact ones, at which epsilon, and whether
clusters survive."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score

import fedwad
from fedwad.datasets import partition
from paper.data import load

EPSILONS = (0.5, 1.0, 3.0, 10.0)


def projection(features: int, kept: int) -> np.ndarray:
    """A fixed public map: a random one that keeps lengths within its range."""
    return np.asarray(np.linalg.qr(np.random.default_rng(1).standard_normal((features, kept)))[0])


def problems(samples: int) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Named pairs of samples with a public radius; MNIST with this many samples a side."""
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])
    found = {
        "Gaussians, d=2, n=2000": (
            rng.standard_normal((2000, 2)),
            rng.standard_normal((2000, 2)) @ root.T + [1.0, 0.5],
            5.0,
        )
    }
    angles = rng.uniform(0, np.pi, (2, 2000))
    moons = [
        np.column_stack([np.cos(a), np.sin(a)]) + 0.1 * rng.standard_normal((2000, 2))
        for a in angles
    ]
    found["two moons, d=2, n=2000"] = (moons[0], moons[1] * [1, -1] + [0.5, 0.3], 2.0)
    images, labels = fedwad.datasets.load("digits")
    digits = (images - 8) @ projection(64, 8)  # pixels are 0 to 16
    # |pixels - 8| is at most 64, and an eighth of the directions sees about sqrt(1/8) of it.
    found["digits 0-4 against 5-9, d=8, n=900"] = (digits[labels < 5], digits[labels >= 5], 28.0)
    images, labels = load("mnist")
    for kept in (16, 32):
        points = images @ projection(
            784, kept
        )  # pixels are standardised: a length of about sqrt(784) before
        pair = points[labels < 5][:samples], points[labels >= 5][:samples]
        found[f"MNIST 0-4 against 5-9, d={kept}, n={samples}"] = (*pair, 1.5 * np.sqrt(kept))
    return found


def measure(full: bool = False) -> Iterator[dict[str, Any]]:
    """One row a problem and epsilon, over a few releases each."""
    releases = 5 if full else 2
    for name, (x, y, clip_norm) in problems(6000 if full else 2000).items():
        exact = fedwad.wasserstein(x, y)
        for epsilon in EPSILONS:
            guarantee = fedwad.DP(epsilon, clip_norm=clip_norm)
            found = [
                fedwad.distance(x, y, method="summary", privacy=guarantee, seed=k)
                for k in range(releases)
            ]
            errors = np.array([r.value / exact - 1 for r in found])
            held = sum(r.lower <= exact <= r.upper for r in found)
            yield {
                "problem": name,
                "epsilon": epsilon,
                "exact": exact,
                "value, mean": float(errors.mean()),
                "value, rms": float(np.sqrt((errors**2).mean())),
                "interval holds it": f"{held} of {releases}",
                "interval / value": float(np.mean([(r.upper - r.lower) / r.value for r in found])),
            }
        none = fedwad.distance(x, y, method="summary")
        yield {
            "problem": name,
            "epsilon": float("inf"),
            "exact": exact,
            "value, mean": none.value / exact - 1,
        }


def clusters(samples: int = 1500, pairs: int = 20) -> list[dict[str, Any]]:
    """Twenty MNIST clients in five class pairs, reduced to 16 features: ranks and clusters from one
    release each."""
    images, labels = load("mnist")
    points = images @ projection(784, 16)
    parts = partition.class_pairs(
        points, labels, clients=20, samples=samples, seed=0, balanced=True
    )
    data = {name: X for name, (X, _) in parts.items()}
    names = list(data)
    every = list(combinations(range(20), 2))
    chosen = [every[k] for k in np.random.default_rng(0).permutation(len(every))[:pairs]]
    exact = [fedwad.wasserstein(data[names[i]], data[names[j]]) for i, j in chosen]
    rows = []
    for epsilon in (1.0, 3.0, None):
        guarantee = None if epsilon is None else fedwad.DP(epsilon, clip_norm=6.0)
        m = fedwad.matrix(data, privacy=guarantee)
        value = np.array([m.value[pair] for pair in chosen])
        rows.append(
            {
                "clients": f"20 x {samples}",
                "epsilon": epsilon or float("inf"),
                "rank": float(spearmanr(exact, value).statistic),
                "mean error": f"{100 * (value / exact - 1).mean():+.1f}%",
                "sd": f"{100 * (value / exact - 1).std():.1f}%",
                "ARI kernel": adjusted_rand_score(parts.groups, m.cluster(5, "kernel")),
                "ARI affinity": adjusted_rand_score(parts.groups, m.cluster(5)),
            }
        )
    return rows


def classifier(samples: int = 5000, releases: int = 3) -> list[dict[str, Any]]:
    """Ten MNIST clients with two classes each, reduced to 32 features: accuracy on the test set,
    one release each."""
    reduce = projection(784, 32)
    images, labels = load("mnist", "train")
    parts = partition.classes_per_client(images @ reduce, labels, 2, 10, samples, 0, balanced=True)
    test, truth = load("mnist", "test")
    rows = []
    for epsilon in (0.5, 1.0, 3.0, 10.0, None):
        scores = []
        for _ in range(releases if epsilon else 1):
            guarantee = (
                None if epsilon is None else fedwad.DP(epsilon, clip_norm=9.0, labels=range(10))
            )
            model = fedwad.CoresetClassifier(size=2, privacy=guarantee).fit(parts)
            scores.append(model.score(test @ reduce, truth))
        rows.append(
            {
                "clients": f"10 x {samples}",
                "epsilon": epsilon or float("inf"),
                "accuracy": float(np.mean(scores)),
                "least": min(scores),
            }
        )
    return rows
