"""How far from the exact distance, and for how many bytes: the paper's estimate and ours on the
same problems."""

from __future__ import annotations

from typing import Any

import numpy as np

import fedwad


def problems() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Named pairs of samples."""
    rng = np.random.default_rng(0)
    images, labels = fedwad.datasets.load("digits")
    root = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])

    def gaussians(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.standard_normal((n, d)), 1.2 * rng.standard_normal((n, d)) + 0.2

    x, y = gaussians(500, 20)
    shared = np.vstack([x[:250], y[250:]])
    return {
        "digits 0-4 against 5-9, d=64, n=900": (images[labels < 5], images[labels >= 5]),
        "Gaussians far apart, d=2, n=200": (
            rng.standard_normal((200, 2)) @ root.T,
            rng.standard_normal((200, 2)) @ root.T + [6, 3],
        ),
        "Gaussians close, d=2, n=200": gaussians(200, 2),
        "Gaussians, d=50, n=2000": gaussians(2000, 50),
        "Gaussians, d=50, n=4000": gaussians(4000, 50),
        "every other digit against the rest, d=64, n=898": (images[::2][:898], images[1::2][:898]),
        "half of the records shared, d=20, n=500": (x, shared),
        "sparse binary, d=50, n=500": (
            1.0 * (rng.random((500, 50)) < 0.05),
            1.0 * (rng.random((500, 50)) < 0.08),
        ),
    }


def measure() -> list[dict[str, Any]]:
    """One row a problem."""
    rows = []
    for name, (x, y) in problems().items():
        exact = fedwad.wasserstein(x, y)
        small = fedwad.distance(x, y, method="fedwad", support=10)
        large = fedwad.distance(x, y, method="fedwad", support=100)
        summary = fedwad.distance(x, y, method="summary", cells=10)
        diagonal = fedwad.distance(
            x, y, method="summary", covariance_type="diag", cells=10
        )  # as the example policies allow
        assert small.fedwad is not None
        assert large.fedwad is not None
        rows.append(
            {
                "problem": name,
                "exact": exact,
                "paper, S=10": small.fedwad / exact - 1,
                "paper, S=100": large.fedwad / exact - 1,
                "upper, S=100": large.upper / exact - 1,
                "value, S=100": large.value / exact - 1,
                "one message": summary.value / exact - 1,
                "one message, diagonal": diagonal.value / exact - 1,
                "its interval": f"{summary.lower:.4g} to {summary.upper:.4g}",
                "kB, S=100": large.traffic.up / 1000,
                "kB, one message": summary.traffic.up / 1000,
            }
        )
    return rows
