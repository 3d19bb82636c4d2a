"""Interpolating measures: on the geodesic, small, and of the right mean."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from failing import fails
from fedwad.errors import InputError
from fedwad.transport import Measure, interpolate, reduce_support, solve
from oracles import random_pair, small_measures

TIMES = st.floats(0.01, 0.99)


@given(small_measures(), TIMES, st.sampled_from([1, 2, 3]))
def test_exact_interpolant_lies_on_the_geodesic(measures, t, p):
    mu, nu = measures
    plan = solve(mu, nu, p)
    middle = interpolate(plan, t, "exact")
    assert len(middle) == len(plan.mass) <= len(mu) + len(nu) - 1
    whole = plan.distance
    assume(whole > 1e-3 * np.abs(mu.points - nu.points[0]).max())
    assert solve(mu, middle, p).distance == pytest.approx(t * whole, rel=1e-6)
    assert solve(middle, nu, p).distance == pytest.approx((1 - t) * whole, rel=1e-6)


@given(st.integers(0, 10**6), TIMES)
def test_theorem_1_barycentric_is_exact_between_equally_many_points(seed, t):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 30)), int(rng.integers(1, 6))
    plan = solve(Measure(rng.standard_normal((n, d))), Measure(rng.standard_normal((n, d))))
    exact, approximate = interpolate(plan, t, "exact"), interpolate(plan, t)
    order = np.argsort(plan.cols)
    np.testing.assert_allclose(approximate.points, exact.points[order], atol=1e-12)
    assert approximate.is_uniform


@pytest.mark.parametrize("seed", range(20))
def test_barycentric_keeps_the_smaller_support_and_the_mean(seed):
    mu, nu = random_pair(np.random.default_rng(seed), largest=120)
    small, large = sorted((mu, nu), key=len)
    t = 0.3
    scale = np.abs(mu.points).max() + np.abs(nu.points).max()
    middle = interpolate(solve(mu, nu), t)
    assert len(middle) == len(small)
    np.testing.assert_allclose(middle.mean, (1 - t) * mu.mean + t * nu.mean, atol=1e-9 * scale)
    if len(small) < len(large):
        np.testing.assert_array_equal(middle.weights, small.weights)


def test_tiny_plan_entries_are_kept():
    mu = Measure([[0.0, 0.0], [1.0, 0.0]], [1.0, 1e-14])
    assert len(interpolate(solve(mu, Measure([[5.0, 5.0]])), 0.5, "exact")) == 2


@pytest.mark.parametrize("t", [0, 1, -0.5, 2, float("nan")])
def test_the_ends_are_refused(t):
    with fails(InputError, "bad-option"):
        interpolate(solve(Measure([[0.0]]), Measure([[1.0]])), t)


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_reduced_support_keeps_mass_and_mean(seed, size):
    rng = np.random.default_rng(seed)
    measure = Measure(rng.standard_normal((50, 3)), rng.random(50) ** 4 + 1e-9)
    reduced = reduce_support(measure, size)
    assert len(reduced) == min(size, 50)
    assert reduced.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(reduced.mean, measure.mean, atol=1e-12)
    if size >= 50:
        assert reduced is measure


def test_reducing_splinters_moves_little():
    rng = np.random.default_rng(0)
    heavy = rng.standard_normal((100, 2))
    points = np.vstack([heavy, heavy + 1e-3 * rng.standard_normal((100, 2))])
    measure = Measure(points, np.concatenate([np.ones(100), np.full(100, 1e-6)]))
    assert solve(measure, reduce_support(measure, 100)).distance < 1e-4
