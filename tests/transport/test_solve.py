"""Exact solvers against known answers, a linear program, and POT."""

import itertools
import subprocess
import sys
from functools import partial

import numpy as np
import ot as pot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwad
from failing import fails
from fedwad.errors import CertificateError, InputError
from fedwad.transport import Measure, Plan, ground_cost, solve, solving, wasserstein
from fedwad.transport.solving import assignment, network_simplex
from oracles import check_plan, linear_program, random_pair, small_measures


@settings(max_examples=400)
@given(small_measures(), st.sampled_from([1, 1.5, 2, 3]))
def test_agrees_with_the_linear_program(measures, p):
    mu, nu = measures
    plan = solve(mu, nu, p)
    check_plan(plan)
    scale = max(np.abs(mu.points - nu.points[0]).max(), np.abs(nu.points - nu.points[0]).max())
    assert plan.distance == pytest.approx(linear_program(mu, nu, p), rel=1e-7, abs=1e-4 * scale)


@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (50, 3), (300, 12)])
def test_translated_copy(shape, p):
    rng = np.random.default_rng(0)
    x, shift = rng.standard_normal(shape), rng.standard_normal(shape[1])
    assert wasserstein(x, rng.permutation(x) + shift, p) == pytest.approx(
        np.linalg.norm(shift), rel=1e-12
    )


def test_permutation_is_found_and_costs_nothing():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((400, 20)) + 1e6
    order = rng.permutation(400)
    plan = solve(Measure(x), Measure(x[order]))
    assert plan.distance == 0.0
    np.testing.assert_array_equal(order[plan.cols], plan.rows)


def test_diracs():
    cloud = np.array([[0.0, 0.0], [6.0, 8.0]])
    assert wasserstein(cloud, [[0.0, 0.0]], a=[1, 3]) == pytest.approx(
        10 * np.sqrt(3 / 4), rel=1e-14
    )
    assert wasserstein(cloud, [[0.0, 0.0]], p=1, a=[1, 3]) == pytest.approx(7.5, rel=1e-14)


@given(st.integers(0, 10**6))
def test_line_is_the_distance_between_quantile_functions(seed):
    rng = np.random.default_rng(seed)
    n, m, p = int(rng.integers(1, 40)), int(rng.integers(1, 40)), rng.choice([1.0, 2.0, 3.5])
    x, y = rng.standard_normal(n), rng.standard_normal(m)
    levels = (np.arange(n * m) + 0.5) / (n * m)
    u, v = np.sort(x)[(levels * n).astype(int)], np.sort(y)[(levels * m).astype(int)]
    assert wasserstein(x, y, p) == pytest.approx(np.mean(np.abs(u - v) ** p) ** (1 / p), rel=1e-12)


def test_line_takes_a_million_points():
    rng = np.random.default_rng(0)
    plan = solve(Measure(rng.standard_normal(10**6)), Measure(rng.standard_normal(10**6 - 1) + 3))
    assert plan.distance == pytest.approx(3, abs=0.01)
    assert len(plan.mass) <= 2 * 10**6 - 2


@pytest.mark.parametrize("n", [255, 256, 257, 700])
@pytest.mark.parametrize("d", [2, 30])
@pytest.mark.parametrize("p", [1, 2])
def test_assignment_and_simplex_agree(n, d, p):
    rng = np.random.default_rng(n)
    cost = ground_cost(
        rng.standard_normal((n, d)) * np.linspace(0.2, 2, d), rng.standard_normal((n, d)) + 3, p
    )
    uniform = np.full(n, 1 / n)
    for found in (assignment(cost), network_simplex(cost, uniform, uniform)):
        assert (found.mass == 1 / n).all()
        assert sorted(found.cols.tolist()) == list(range(n))
        total = cost[found.rows, found.cols].sum()
        assert (cost - found.f[:, None] - found.g).min() >= -1e-12 * cost.max()
        assert total == pytest.approx(found.f.sum() + found.g.sum(), rel=1e-12)
        assert total == pytest.approx(
            pot.emd2(uniform, uniform, cost, numItermax=10**8) * n, rel=1e-11
        )


@pytest.mark.parametrize(("seed", "n"), [(60, 8), (306, 8), (81, 40), (128, 40), (213, 40)])
def test_neighbours_that_move_little_among_points_far_apart(seed, n):
    """Weights that differ in their last digit make long moves part of the simplex's basis, whose
    costs had rounded away the potentials."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 20)) * 4
    y = x + rng.normal(size=x.shape) * rng.choice([1e-6, 1e-5, 1e-4])
    a = rng.random(n) if n == 8 else np.full(n, 1 / n)
    a /= a.sum()
    b = a * (1 + rng.integers(-2, 3, n) * 2.0**-52)
    moved = np.sqrt(a @ ((x - y) ** 2).sum(axis=1))
    assert solve(Measure(x, a), Measure(y, b)).distance == pytest.approx(moved, rel=1e-9)


def test_assignment_with_nothing_but_ties():
    found = assignment(np.zeros((600, 600)))
    assert (found.f == 0).all()
    assert sorted(found.cols.tolist()) == list(range(600))


@pytest.mark.parametrize("seed", range(30))
def test_any_sizes_and_weights_against_pot(seed):
    mu, nu = random_pair(np.random.default_rng(seed))
    plan = solve(mu, nu)
    check_plan(plan)
    cost = ((mu.points[:, None] - nu.points) ** 2).sum(axis=2)
    scale = cost.max() or 1.0
    b = nu.weights / nu.weights.sum() * mu.weights.sum()
    reference = pot.emd2(mu.weights, b, cost / scale, numItermax=10**8) * scale
    assert plan.cost == pytest.approx(reference, rel=1e-9, abs=1e-13 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 50])
def test_5000_by_5000_agrees_with_pot(d):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5000, d)), rng.standard_normal((5000, d)) + 0.5
    reference = np.sqrt(pot.emd2([], [], pot.dist(x, y), numItermax=10**8))
    assert fedwad.wasserstein(x, y) == pytest.approx(reference, rel=1e-9)


def test_a_solver_that_stops_early_is_not_believed(monkeypatch):
    stops_early = partial(solving.network_simplex, pivots=10)
    monkeypatch.setattr(solving, "network_simplex", stops_early)
    rng = np.random.default_rng(0)
    with (
        pytest.warns(UserWarning, match="numItermax"),
        fails(CertificateError, "not-finished"),
    ):
        solve(Measure(rng.standard_normal((200, 2))), Measure(rng.standard_normal((90, 2))))


@pytest.mark.parametrize(
    ("gap", "error"), [(1e-8, 0.0), (0.0, 1e-8), (float("nan"), 0.0), (-1e-8, 0.0)]
)
def test_a_plan_without_proof_cannot_exist(gap, error):
    mu = Measure([[0.0, 0.0]])
    index, one = np.zeros(1, dtype=np.int64), np.ones(1)
    with fails(CertificateError, "not-proven"):
        Plan(mu, mu, 2.0, index, index, one, 0.0, 0 * one, 0 * one, gap, error, "test")


def test_costs_do_not_cancel_in_high_dimension():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 40)) + 1000
    y = x[rng.permutation(60)[:50]] + 1e-9 * rng.standard_normal((50, 40))
    exact = ((x[:, None].astype(np.longdouble) - y) ** 2).sum(axis=2).astype(float)
    np.testing.assert_allclose(ground_cost(x, y), exact, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1.0, 1e12, 1e95])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_scales(scale, offset):
    rng = np.random.default_rng(0)
    for n, m, d in ((40, 40, 2), (40, 25, 2), (300, 300, 20), (30, 20, 1)):
        x, y = rng.standard_normal((n, d)) + offset, rng.standard_normal((m, d)) + offset
        assert wasserstein(scale * x, scale * y) / scale == pytest.approx(
            wasserstein(x, y), rel=1e-9
        )


def test_large_p_overflows_in_a_sentence():
    with fails(InputError, "too-large-values"):
        wasserstein([[0.0, 0.0]], [[1e90, 0.0]], p=10)
    assert wasserstein([[0.0, 0.0]], [[1e10, 0.0]], p=30) == pytest.approx(1e10)


def test_types_and_orders_make_no_difference():
    x, y = np.arange(12).reshape(6, 2), np.arange(10).reshape(5, 2) ** 2
    expected = wasserstein(x.astype(float), y.astype(float))
    for convert in (np.float32, np.int8, np.asfortranarray, lambda a: a[::-1], list):
        assert wasserstein(convert(x), convert(y)) == pytest.approx(expected, rel=1e-12)
    assert wasserstein(x > 3, y > 3) == pytest.approx(wasserstein((x > 3) * 1.0, (y > 3) * 1.0))


def test_weights_are_relative_and_zero_weights_do_not_count():
    x, y = np.array([[0.0, 1], [2, 3], [9, 9]]), np.array([[1.0, 1], [5, 5]])
    assert wasserstein(x, y, a=[2, 6, 0]) == pytest.approx(
        wasserstein(x[:2], y, a=[0.25, 0.75]), rel=1e-14
    )
    assert wasserstein(x, y, a=[1e-300, 1e300, 1e300]) == pytest.approx(
        wasserstein(x[1:], y), rel=1e-12
    )


NAN = np.array([[0.0, 1.0], [np.nan, np.inf]])
OK = np.zeros((2, 2))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"X": NAN, "Y": OK}, "missing-values"),
        ({"X": OK, "Y": -NAN}, "missing-values"),
        ({"X": np.empty((0, 2)), "Y": OK}, "empty-table"),
        ({"X": [], "Y": OK}, "empty-table"),
        ({"X": np.empty((3, 0)), "Y": OK}, "no-columns"),
        ({"X": np.zeros((2, 3)), "Y": OK}, "different-columns"),
        ({"X": np.zeros((2, 4, 4)), "Y": OK}, "wrong-shape"),
        ({"X": [["a", "b"]], "Y": OK}, "not-a-number"),
        ({"X": [[1j, 2]], "Y": OK}, "not-a-number"),
        ({"X": [[1, 2], [3]], "Y": OK}, "ragged-rows"),
        ({"X": None, "Y": OK}, "not-a-number"),
        ({"X": OK, "Y": OK, "a": [1, 2, 3]}, "bad-weights"),
        ({"X": OK, "Y": OK, "a": [1, -1]}, "bad-weights"),
        ({"X": OK, "Y": OK, "b": [0, 0]}, "bad-weights"),
        ({"X": OK, "Y": OK, "b": [np.nan, 1]}, "bad-weights"),
        ({"X": OK, "Y": OK, "p": 0.5}, "bad-option"),
        ({"X": OK, "Y": OK, "p": np.nan}, "bad-option"),
        ({"X": OK, "Y": OK, "p": "two"}, "bad-option"),
        ({"X": OK, "Y": OK, "p": np.complex64(2)}, "bad-option"),
        ({"X": OK, "Y": OK, "p": 10**400}, "bad-option"),
        ({"X": OK, "Y": OK + 1e101}, "too-large-values"),
        ({"X": OK, "Y": OK, "a": [[1], [1, 2]]}, "bad-weights"),
        ({"X": np.ma.masked_array(OK, mask=[[0, 0], [0, 1]]), "Y": OK}, "missing-values"),
        ({"X": OK, "Y": OK, "a": np.ma.masked_array([1.0, 2.0], mask=[0, 1])}, "missing-values"),
    ],
)
def test_wrong_input_gets_one_sentence(arguments, code):
    with fails(InputError, code):
        wasserstein(**arguments)


def test_sparse_matrix_gets_a_sentence():
    from scipy.sparse import eye_array

    with fails(InputError, "not-an-array"):
        wasserstein(eye_array(3).tocsr(), np.eye(3))


def test_a_measure_does_not_change_under_its_owner():
    mu = Measure([[1.0], [2.0]])
    with pytest.raises(ValueError, match="read-only"):
        mu.points[0] = 5


class TestPrecision:
    """Inputs that once gave a wrong number, or a proof that failed for no reason."""

    @pytest.mark.parametrize(
        ("outlier", "p"), [(100.0, 10), (1e4, 4), (1e6, 3), (1e8, 2), (1e12, 2)]
    )
    @pytest.mark.parametrize("seed", [0, 46])
    def test_a_shared_outlier_hides_nothing(self, outlier, p, seed):
        rng = np.random.default_rng(seed)
        x, y = rng.standard_normal((5, 2)), rng.standard_normal((5, 2))
        x[0] = y[0] = outlier
        expected = wasserstein(x, y, p)
        assert wasserstein(x, np.repeat(y, 2, axis=0), p) == pytest.approx(expected, rel=1e-9)
        brute = min(
            np.mean(np.linalg.norm(x - y[list(order)], axis=1) ** p) ** (1 / p)
            for order in itertools.permutations(range(5))
        )
        assert expected == pytest.approx(brute, rel=1e-9)

    @pytest.mark.parametrize(("outlier", "p"), [(1e3, 3), (1e3, 5), (1e3, 10), (1e6, 2), (1e6, 5)])
    @pytest.mark.parametrize(("n", "m"), [(200, 200), (300, 60)])
    def test_a_shared_outlier_on_a_line_with_weights(self, outlier, p, n, m):
        rng = np.random.default_rng(1)
        sides = []
        for count, shift in ((n, 0.0), (m, 0.5)):
            weights = rng.random(count)
            points = np.append(rng.standard_normal(count) + shift, outlier)
            sides.append((points, np.append(0.99 * weights / weights.sum(), 0.01)))
        (x, a), (y, b) = sides
        without = wasserstein(x[:-1], y[:-1], p, a[:-1], b[:-1]) * 0.99 ** (1 / p)
        assert wasserstein(x, y, p, a, b) == pytest.approx(without, rel=1e-9)

    @pytest.mark.parametrize(
        ("w", "far", "p"), [(1e-12, 1e6, 3), (1e-9, 1e6, 3), (1e-9, 1e6, 2), (1e-9, 1e4, 3)]
    )
    @pytest.mark.parametrize(("n", "m"), [(200, 200), (150, 100)])
    def test_a_light_sample_far_away(self, w, far, p, n, m):
        rng = np.random.default_rng(1)
        x, y = rng.standard_normal((n, 2)), rng.standard_normal((m, 2)) + 0.5
        a, b = (np.append(np.full(k, (1 - w) / k), w) for k in (n, m))
        found = wasserstein(np.vstack([x, [[far, 0]]]), np.vstack([y, [[far, far / 10]]]), p, a, b)
        expected = ((1 - w) * wasserstein(x, y, p) ** p + w * (far / 10) ** p) ** (1 / p)
        assert found == pytest.approx(expected, rel=1e-7)

    @pytest.mark.parametrize("p", [101, 2000, 1e5])
    def test_orders_that_floating_point_cannot_hold(self, p):
        with fails(InputError, "bad-option"):
            wasserstein([[0.0, 1.0]], [[1.0, 1.0]], p)

    @pytest.mark.parametrize(
        "start", [[0.0] * 30, "start", 3.0, np.zeros((30, 2)), np.array([1j] * 30)]
    )
    def test_starts_that_make_no_sense_are_left_alone(self, start):
        x, y = np.random.default_rng(0).standard_normal((2, 30, 2))
        assert (
            solve(Measure(x), Measure(y), start=start).distance
            == solve(Measure(x), Measure(y)).distance
        )

    @pytest.mark.parametrize("p", [10, 20, 50])
    @pytest.mark.parametrize("seed", range(8))
    def test_large_orders(self, p, seed):
        rng = np.random.default_rng(seed)
        x, y = rng.standard_normal((20, 2)), rng.standard_normal((30, 2))
        expected = wasserstein(np.repeat(x, 3, axis=0), np.repeat(y, 2, axis=0), p)  # an assignment
        assert wasserstein(x, y, p) == pytest.approx(expected, rel=1e-9)

    def test_the_order_of_rows_makes_no_difference(self):
        assert (
            wasserstein([1e16, 0.0], [1e16, 1.0], p=1)
            == wasserstein([0.0, 1e16], [1.0, 1e16], p=1)
            == 0.5
        )
        assert wasserstein([1e10, 0.0], [1e10, 1e-3], p=1) == pytest.approx(5e-4, rel=1e-12)
        for d in (2, 20):
            x = np.vstack([np.full(d, 1e9), np.eye(d)])
            assert wasserstein(x, x + 0.5 * (x < 1e8)) == pytest.approx(
                wasserstein(x[::-1], (x + 0.5 * (x < 1e8))[::-1]), rel=1e-12
            )

    def test_distances_do_not_vanish(self):
        assert wasserstein([0.0, 1.0], [1e-40, 1.0], p=10) == pytest.approx(
            1e-40 * 0.5**0.1, rel=1e-12
        )
        assert wasserstein([[0.0, 0.0]], [[1e-170, 0.0]]) == pytest.approx(1e-170, rel=1e-12)

    @pytest.mark.parametrize("kind", [np.float16, np.float32, np.int64])
    def test_the_type_of_p_does_not_set_the_precision(self, kind):
        x, y = np.random.default_rng(0).standard_normal((2, 9, 2))
        found = wasserstein(x, y, p=kind(2))
        assert type(found) is float
        assert found == wasserstein(x, y)


def test_exact_transport_does_not_load_the_rest_of_pot():
    code = (
        "import sys, numpy as np\n"
        "from fedwad.transport.solving import network_simplex\n"
        "cost = np.random.default_rng(0).random((7, 5))\n"
        "a, b = np.full(7, 1 / 7), np.array([0.1, 0.2, 0.3, 0.3, 0.1])\n"
        "before = network_simplex(cost, a, b)\n"
        "assert 'ot' not in sys.modules\n"
        "import ot\n"
        "plan = ot.emd(a, b, cost)\n"
        "assert np.allclose(plan[before.rows, before.cols], before.mass)\n"
        "assert abs(ot.emd2_1d(a[:5], b, metric='cityblock') - ot.emd2_1d(a[:5], b)) < 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
