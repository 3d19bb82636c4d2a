"""Summaries tell exactly what they say they tell."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from failing import fails
from fedwad.errors import InputError
from fedwad.statistics import CovarianceType, summarise, summarise_plan
from fedwad.transport import Measure, row_order, solve
from oracles import random_pair


def moments(measure):
    centred = measure.points - measure.weights @ measure.points
    return measure.weights @ measure.points, (centred.T * measure.weights) @ centred


@pytest.mark.parametrize("cells", [1, 3, 40])
@pytest.mark.parametrize("seed", range(15))
def test_mean_and_covariance_are_exact(seed, cells):
    mu, nu = random_pair(np.random.default_rng(seed), largest=200, dimensions=10)
    mean, covariance = moments(mu)
    scale = np.abs(mu.points).max()
    for summary in (summarise(mu, cells), summarise_plan(solve(mu, nu))):
        np.testing.assert_allclose(summary.mean, mean, atol=1e-11 * scale)
        np.testing.assert_allclose(summary.total_covariance(), covariance, atol=1e-11 * scale**2)
        assert summary.within_std**2 == pytest.approx(
            np.trace(summary.covariance), rel=1e-9, abs=1e-20 * scale**2
        )
        assert summary.weights.sum() == pytest.approx(1)


@given(st.integers(0, 10**6), st.integers(1, 200), st.integers(1, 60), st.integers(1, 15))
def test_no_cell_is_below_the_floor(seed, n, cells, min_size):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n, 2)) + rng.choice([0.0, 50.0], (n, 1), p=[0.97, 0.03])
    summary = summarise(Measure(points), cells, min_size=min_size)
    assert summary.min_cell_size >= min(n, min_size)
    assert len(summary.weights) <= max(1, min(cells, n // min_size))
    assert summary.weights.min() * n >= min(n, min_size) - 1e-9


def test_forms_of_the_covariance():
    rng = np.random.default_rng(0)
    mu = Measure(rng.standard_normal((100, 4)) * [1, 2, 3, 4])
    full, lowrank, diagonal, isotropic = (
        summarise(mu, 5, covariance_type) for covariance_type in get_args(CovarianceType)[1:]
    )
    np.testing.assert_allclose(
        lowrank.factors.T @ lowrank.factors + np.diag(lowrank.covariance), full.covariance
    )
    np.testing.assert_allclose(lowrank.within, diagonal.covariance, rtol=1e-12)
    np.testing.assert_allclose(diagonal.covariance, np.diag(full.covariance), rtol=1e-12)
    assert float(isotropic.covariance) == pytest.approx(diagonal.covariance.mean())
    assert (
        tuple(s.covariance_type for s in (full, lowrank, diagonal, isotropic))
        == get_args(CovarianceType)[1:]
    )
    assert len({round(s.variance, 9) for s in (full, lowrank, diagonal, isotropic)}) == 1
    assert summarise(Measure(rng.standard_normal((20, 1500)))).covariance_type == "diag"
    with fails(InputError, "bad-option"):
        summarise(mu, 5, "half")


def test_duplicates_and_constants_make_fewer_cells():
    summary = summarise(Measure(np.ones((50, 3))), 5)
    assert len(summary.weights) == 1
    assert summary.within_std == 0.0
    assert len(summarise(Measure(np.repeat([[0.0], [1.0]], 50, axis=0)), 5).weights) == 2


def test_weighted_samples_count_for_what_they_weigh():
    points = np.arange(40.0)
    assert summarise(Measure(points, np.repeat([1.0, 1e-12], 20))).count == 20
    assert summarise(Measure(points)).count == 40


def test_same_seed_same_bits():
    mu = Measure(np.random.default_rng(0).standard_normal((500, 6)))
    assert summarise(mu, 10, seed=3).key == summarise(mu, 10, seed=3).key
    assert summarise(mu, 10, seed=3).key != summarise(mu, 10, seed=4).key


@pytest.mark.parametrize("scales", [(1.0, 0.0, 0.0), (1.0, 1e-12, 1e-5), (1e6, 1.0, 0.0)])
@pytest.mark.parametrize(("n", "d"), [(50, 3), (2, 3)])
def test_lowrank_diagonal_is_exact_for_each_feature(n, d, scales):
    """Eigenvectors are exact up to the largest variance, the diagonal up to each feature's own."""
    turned = np.linalg.qr(np.random.default_rng(2).standard_normal((d, d)))[0]
    points = np.random.default_rng(1).standard_normal((n, d)) * scales
    for rows in (points, points @ turned):
        diagonal, lowrank = (summarise(Measure(rows), 1, form) for form in ("diag", "lowrank"))
        np.testing.assert_allclose(lowrank.within, diagonal.within, rtol=4e-15 * n, atol=0)


def large_sample(weighted):
    rng = np.random.default_rng(4)
    points = rng.standard_normal((9000, 3)) + rng.choice([-4.0, 0.0, 6.0], (9000, 1))
    return Measure(points, rng.uniform(0.5, 2, 9000) if weighted else None)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_sums_are_over_all_rows_where_centres_come_from_a_sample(weighted, covariance_type):
    measure = large_sample(weighted)
    mean, covariance = moments(measure)
    summary = summarise(measure, 10, covariance_type)
    assert len(summary.weights) == 10
    np.testing.assert_allclose(summary.mean, mean, rtol=1e-11)
    known = covariance if covariance_type == "full" else np.diag(covariance)
    np.testing.assert_allclose(summary.total_covariance(), known, rtol=1e-10, atol=1e-12)


def test_cells_of_a_sample_explain_as_much_as_cells_of_all_rows():
    """Lloyd's iterations on all rows, from the cells that were found, gain almost nothing."""
    from scipy.cluster.vq import kmeans2

    measure = large_sample(False)
    summary = summarise(measure, 10)
    _, labels = kmeans2(measure.points, summary.means, 30, minit="matrix")
    within = sum(
        ((measure.points[labels == cell] - measure.points[labels == cell].mean(axis=0)) ** 2).sum()
        for cell in range(10)
    )
    assert summary.variance <= 1.03 * within / len(measure)


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 4))
def test_rows_with_ties_sort_as_by_lexsort(seed, n, d):
    rng = np.random.default_rng(seed)
    points = rng.choice([-1.5, -0.0, 0.0, 2.0, 1e-300], (n, d))
    weights = rng.choice([0.25, 0.5], n)
    order = row_order(points, weights)
    expected = np.lexsort([weights, *(points.T[::-1])])
    assert sorted(order.tolist()) == list(range(n))
    np.testing.assert_array_equal(points[order], points[expected])
    np.testing.assert_array_equal(weights[order], weights[expected])


def test_a_cell_has_rows_of_enough_units_and_values_of_none_or_enough():
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(40), 6)
    points = rng.normal(size=(40, 3)).repeat(6, axis=0) + 0.01 * rng.normal(size=(240, 3))
    present = rng.random((240, 1)) < 0.2
    points[:, 2] *= present[:, 0]
    loose = summarise(Measure(points), 12, min_size=10)
    assert loose.min_cell_size >= 10
    strict = summarise(Measure(points), 12, min_size=10, present=present, units=units)
    assert 1 < len(strict.weights) < len(loose.weights)
    assert 10 <= strict.min_cell_size <= 40
    np.testing.assert_allclose(strict.mean, loose.mean, atol=1e-12)
    few = summarise(Measure(points[:48]), 4, min_size=10, units=units[:48])
    assert (len(few.weights), few.min_cell_size) == (1, 8)  # which a policy withholds
