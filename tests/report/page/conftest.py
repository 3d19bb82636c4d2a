"""A made-up matrix of any size."""

from datetime import UTC, datetime

import numpy as np
import pytest

from fedwad import MatrixResult
from fedwad.compare.results import MatrixRound
from fedwad.federation import Traffic


@pytest.fixture(scope="session")
def when():
    return datetime(2024, 2, 29, 23, 59, tzinfo=UTC)


@pytest.fixture(scope="session")
def make_matrix():
    """Clients in k groups in the plane; values to two decimals, bounds 0.31 below and 0.45
    above."""

    def make(size, groups=4, names=None, seed=0, **changes):
        rng = np.random.default_rng(seed)
        clusters = rng.permutation(np.arange(size) % min(groups, size))
        points = 1.5 * rng.normal(size=(groups, 2))[clusters] + 0.5 * rng.normal(size=(size, 2))
        value = np.round(np.linalg.norm(points[:, None] - points[None], axis=2) + 1, 2)
        np.fill_diagonal(value, 0)
        off = 1 - np.eye(size)
        parts = {
            "sites": tuple(names) if names else tuple(f"site{k:03d}" for k in range(size)),
            "value": value,
            "lower": value - 0.31 * off,
            "upper": value + 0.45 * off,
            "method": "hub",
            "options": {"support": 10, "rounds": 3},
            "seed": 7,
            "class_covariance": "diag",
            "history": tuple(MatrixRound(k, 0.25, 0.5**k) for k in (1, 2, 3)),
            "traffic": Traffic(1_234_567, 89_000, 3 * size),
            "min_cell_size": 12,
            "covariance_types": ("diag", "full"),
        }
        return MatrixResult(**(parts | changes)), clusters

    return make
