"""The random code: the layers it says, the scale it keeps, the same for all clients."""

import numpy as np
import pytest

from fedwad import InputError
from paper.data import random_code


def test_it_is_the_two_layers_that_it_says():
    X = np.random.default_rng(0).standard_normal((7, 30))
    rng = np.random.default_rng(5)
    A = rng.standard_normal((30, 11)) * np.sqrt(2 / 11)
    B = rng.standard_normal((11, 4)) * np.sqrt(1 / 4)
    expected = [
        [sum(max(0.0, a @ x) * b for a, b in zip(A.T, column, strict=True)) for column in B.T]
        for x in X
    ]
    np.testing.assert_allclose(random_code(X, dimension=4, hidden=11, seed=5), expected, rtol=1e-12)


def test_squared_norms_stay_on_average():
    X = np.random.default_rng(1).standard_normal((20, 100))
    before = (X**2).sum(axis=1)
    after = np.mean(
        [(random_code(X, 50, 60, seed) ** 2).sum(axis=1) for seed in range(300)], axis=0
    )
    np.testing.assert_allclose(after / before, 1, atol=0.1)


def test_near_points_keep_their_distance():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((1, 3072))
    step = 0.01 * rng.standard_normal((50, 3072))
    moved = random_code(X + step) - random_code(X)
    np.testing.assert_allclose(
        np.linalg.norm(moved, axis=1) / np.linalg.norm(step, axis=1), 1, atol=0.15
    )


def test_clients_that_agree_on_the_seed_compute_the_same_code_apart():
    X = (
        np.random.default_rng(3).standard_normal((6000, 20)).astype(np.float32)
    )  # more than one chunk
    whole = random_code(X, 10, 16)
    np.testing.assert_allclose(random_code(X[4090:4100], 10, 16), whole[4090:4100], atol=1e-5)
    assert whole.dtype == np.float32
    assert not np.allclose(whole, random_code(X, 10, 16, seed=1))


def test_kinds_of_numbers():
    pixels = np.random.default_rng(4).integers(0, 256, (5, 12), dtype=np.uint8)
    assert random_code(pixels, 3).dtype == np.float32
    np.testing.assert_allclose(
        random_code(pixels, 3), random_code(pixels.astype(float), 3), rtol=1e-4
    )


@pytest.mark.parametrize(
    ("X", "options", "words"),
    [
        (np.zeros(4), {}, r"shape \(4,\)"),
        (np.zeros((0, 4)), {}, r"shape \(0, 4\)"),
        (np.array([["a", "b"]]), {}, "give numbers"),
        (np.zeros((2, 4)), {"dimension": 0}, "dimension is 0"),
        (np.zeros((2, 4)), {"hidden": 1.5}, "hidden is 1.5"),
        (np.zeros((2, 4)), {"seed": -1}, "seed is -1"),
    ],
)
def test_what_cannot_be_coded_gets_a_sentence(X, options, words):
    with pytest.raises(InputError, match=words):
        random_code(X, **options)
