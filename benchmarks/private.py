"""A classifier by coresets under differential privacy."""

from __future__ import annotations

from typing import Any

import numpy as np

import fedwad
from fedwad.datasets import partition
from paper.data import load


def projection(features: int, kept: int) -> np.ndarray:
    """A fixed public map: a random one that keeps lengths within its range."""
    return np.asarray(np.linalg.qr(np.random.default_rng(1).standard_normal((features, kept)))[0])


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
