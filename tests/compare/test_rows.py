"""Results say how many rows each site has, except under differential privacy."""

import numpy as np
import pytest

import fedwad
from failing import fails


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return {"a": rng.normal(size=(60, 2)), "b": rng.normal(size=(45, 2)), "c": np.ones((30, 2))}


@pytest.mark.parametrize("method", ["summary", "hub", "pairs"])
def test_a_matrix_knows_the_rows_of_its_sites(data, method):
    options = {} if method == "summary" else {"support": 3, "rounds": 1}
    found = fedwad.matrix(data, method=method, **options)
    assert found.rows == (60, 45, 30)
    assert fedwad.MatrixResult.from_dict(found.to_dict()).rows == found.rows
    with fails(fedwad.InputError, "damaged-content"):
        fedwad.MatrixResult.from_dict(found.to_dict() | {"rows": [60]})


@pytest.mark.parametrize("method", ["summary", "fedwad"])
def test_a_distance_knows_the_rows_of_its_sites(data, method):
    options = {} if method == "summary" else {"support": 3, "rounds": 1}
    found = fedwad.distance(data["a"], data["b"], method=method, **options)
    assert found.rows == (60, 45)
    assert fedwad.DistanceResult.from_dict(found.to_dict()).rows == found.rows


def test_noisy_counts_are_not_shown_as_rows(data):
    privacy = fedwad.DP(epsilon=3, clip_norm=3)
    assert fedwad.matrix(data, privacy=privacy).rows == ()
    assert fedwad.distance(data["a"], data["b"], privacy=privacy).rows == ()
