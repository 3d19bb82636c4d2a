"""FedWaD between private releases: how far it is off, over epsilon and the number of samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import fedwad

RELEASES = 5


def measure() -> Iterator[dict[str, Any]]:
    """Gaussians, 100 support points, 20 rounds, own t: medians over five pairs of releases."""
    for d in (2, 8):
        for n in (300, 1000, 10_000):
            rng = np.random.default_rng(n + d)
            x, y = rng.normal(size=(n, d)), rng.normal(0.5, 1.2, (n, d))
            exact = fedwad.wasserstein(x, y)
            for epsilon in (1.0, 3.0, 10.0, None):
                yield {"d": d, "n": n, "epsilon": str(epsilon)} | _row(x, y, exact, epsilon)
    for n in (300, 1000, 10_000):  # three classes in four dimensions
        rng = np.random.default_rng(n)
        a, b = (_labelled(n, shift, rng) for shift in (0.0, 1.0))
        some = slice(0, 3000)  # the exact dataset distance of all rows takes too long
        exact = fedwad.transport.dataset_distance(a[0][some], a[1][some], b[0][some], b[1][some])
        for epsilon in (1.0, 3.0, 10.0, None):
            yield {"d": "4, labels", "n": n, "epsilon": str(epsilon)} | _row(a, b, exact, epsilon)


def _labelled(n: int, shift: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    classes = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + 3 * np.eye(4)[classes] + shift, classes


def _row(x: Any, y: Any, exact: float, epsilon: float | None) -> dict[str, float]:
    labels = isinstance(x, tuple)
    options: dict[str, Any] = {"support": 100, "rounds": 20, "labels": labels}
    if epsilon is not None:
        norm = 7.0 if labels else 3.5 * x.shape[1] ** 0.5
        options["privacy"] = fedwad.DP(
            epsilon, clip_norm=norm, labels=[0, 1, 2] if labels else None
        )
    values, estimates = [], []
    for seed in range(1 if epsilon is None else RELEASES):
        fed = fedwad.local({"x": x, "y": y})  # a new ledger, so that releases have new noise
        result = fedwad.distance(fed["x"], fed["y"], "fedwad", seed=seed, **options)
        assert result.fedwad is not None
        values.append(result.value / exact - 1)
        estimates.append(result.fedwad / exact - 1)
    return {
        "value": float(np.median(values)),
        "value, largest": float(np.max(np.abs(values))),
        "paper": float(np.median(estimates)),
    }
