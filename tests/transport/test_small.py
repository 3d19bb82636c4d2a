"""The small-support solver: against the LP oracle on every kind of degeneracy, against POT on
larger problems."""

import numpy as np
import ot as pot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedwad.errors import CertificateError
from fedwad.transport import Measure, ground_cost, solve, solving
from fedwad.transport._small import remove_cycles, small_support
from oracles import check_plan, linear_program


@st.composite
def problems(draw, least=1, largest=12, sinks=8):
    """Points with ties, duplicates, equal points, clusters; weights of any kind; more sinks than
    samples too."""
    n, size, d = (
        draw(st.integers(least, largest)),
        draw(st.integers(max(1, least // 20), sinks)),
        draw(st.integers(1, 3)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "grid", "equal", "duplicates", "zero", "clusters"]))
    x, y = rng.standard_normal((n, d)), rng.standard_normal((size, d))
    if kind == "grid":
        x, y = rng.integers(0, 3, (n, d)) * 1.0, rng.integers(0, 3, (size, d)) * 1.0
    elif kind == "equal":
        x[:] = x[0]
    elif kind == "duplicates":
        x, y = x[rng.integers(0, n, n) // 2], y[rng.integers(0, size, size) // 2]
    elif kind == "zero":
        x[:], y[:] = 0.0, 0.0
    elif kind == "clusters":
        x, y = 1e-3 * x + 10.0 * rng.integers(0, 2, (n, 1)), 1e-3 * y
    scale = 10.0 ** draw(st.integers(-12, 12))
    return (
        Measure(scale * x, weights(draw, rng, n)),
        Measure(scale * y, weights(draw, rng, size)),
        rng,
    )


def weights(draw, rng, size):
    kind = draw(st.sampled_from(["uniform", "random", "tiny", "counts", "skewed", "zeros"]))
    if kind == "uniform":
        return None
    w = rng.random(size) + 1e-3
    if kind == "tiny":
        w[rng.random(size) < 0.5] = 1e-12
    elif kind == "counts":
        w = rng.integers(1, 4, size) * 1.0
    elif kind == "skewed":
        w = np.exp(6.0 * rng.standard_normal(size))
    elif kind == "zeros":
        w[1:] *= rng.random(size - 1) < 0.5
    return w


def check(cost, mu, nu, found, gap=1e-12):
    """Marginals, feasible potentials, duality gap, sparsity; the cost of the plan."""
    n, size = cost.shape
    assert (found.mass > 0).all()
    assert len(found.mass) <= n + size - 1
    assert len(set(zip(found.rows.tolist(), found.cols.tolist(), strict=True))) == len(found.mass)
    np.testing.assert_allclose(
        np.bincount(found.rows, found.mass, n), mu.weights, rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(
        np.bincount(found.cols, found.mass, size), nu.weights, rtol=0, atol=1e-13
    )
    np.testing.assert_array_equal(found.f, (cost - found.g).min(axis=1))
    primal = found.mass @ cost[found.rows, found.cols]
    dual = mu.weights @ found.f + nu.weights @ found.g
    assert abs(primal - dual) <= gap * max(primal, 1e-3 * cost.max())
    return primal


@settings(max_examples=400)
@given(problems())
def test_agrees_with_the_linear_program_cold_warm_and_from_a_bad_start(problem):
    agrees_with_the_linear_program(problem)


@pytest.mark.slow
@settings(max_examples=1500)
@given(problems())
def test_agrees_with_the_linear_program_on_many_more(problem):
    agrees_with_the_linear_program(problem)


def agrees_with_the_linear_program(problem):
    mu, nu, rng = problem
    cost = ground_cost(mu.points, nu.points)
    found = small_support(cost, mu.weights, nu.weights)
    paid = check(cost, mu, nu, found)
    assert np.sqrt(paid) == pytest.approx(
        linear_program(mu, nu), rel=1e-6, abs=1e-4 * np.sqrt(cost.max())
    )
    for start in (found.g, found.g + cost.max() * rng.standard_normal(len(nu))):
        again = small_support(cost, mu.weights, nu.weights, start)
        assert abs(check(cost, mu, nu, again, 1e-11) - paid) <= 1e-11 * max(
            cost.max(), np.abs(start).max()
        )


@settings(max_examples=40)
@given(problems(least=400, largest=1500, sinks=80))
def test_agrees_with_pot_on_larger_problems(problem):
    mu, nu, _ = problem
    cost = ground_cost(mu.points, nu.points)
    paid = check(cost, mu, nu, small_support(cost, mu.weights, nu.weights), 1e-11)
    scale = cost.max() or 1.0
    b = nu.weights * (mu.weights.sum() / nu.weights.sum())
    assert paid / scale == pytest.approx(
        pot.emd2(mu.weights, b, cost / scale, numItermax=10**8), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_the_front_door_takes_it_where_it_is_fast(weighted):
    rng = np.random.default_rng(0)
    a, b = (rng.random(k) + 0.1 if weighted else None for k in (12_000, 100))
    mu, nu = Measure(rng.standard_normal((12_000, 5)), a), Measure(rng.standard_normal((100, 5)), b)
    plan = solve(mu, nu)
    assert plan.solver == "small support"
    check_plan(plan)
    assert solve(nu, mu).distance == pytest.approx(plan.distance, rel=1e-12)
    moved = Measure(nu.points + 0.01 * rng.standard_normal(nu.points.shape), b)
    warm, cold = solve(mu, moved, start=plan.g), solve(mu, moved)
    assert warm.distance == pytest.approx(cold.distance, rel=1e-12)
    assert solve(mu, moved, start=np.full(100, np.nan)).distance == pytest.approx(
        cold.distance, rel=1e-12
    )
    assert solve(mu, moved, start=np.zeros(3)).distance == cold.distance


def test_where_it_gives_up_the_network_simplex_takes_over(monkeypatch):
    def gives_up(*_):
        raise CertificateError("no")

    monkeypatch.setattr(solving, "small_support", gives_up)
    rng = np.random.default_rng(0)
    plan = solve(Measure(rng.standard_normal((2000, 2))), Measure(rng.standard_normal((60, 2))))
    assert plan.solver == "network simplex"
    check_plan(plan)


def test_cycles_are_removed_without_changing_the_marginals():
    rows, cols = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 1])
    units = np.array([3, 2, 1, 4, 5])
    r, c, u = remove_cycles(rows, cols, units, 3)
    assert len(r) == 4
    np.testing.assert_array_equal(np.bincount(r, u), np.bincount(rows, units))
    np.testing.assert_array_equal(np.bincount(c, u), np.bincount(cols, units))


@pytest.mark.slow
def test_a_million_samples_fit_into_four_gigabytes():
    import subprocess
    import sys

    code = (
        "import numpy as np, resource; from fedwad.transport import Measure, solve; rng = np.random.default_rng(0);"
        "p = solve(Measure(rng.standard_normal((10**6, 50))), Measure(rng.standard_normal((100, 50))));"
        "print(p.solver, abs(p.gap), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *solver, gap, gigabytes = done.stdout.split()
    assert solver == ["small", "support"]
    assert float(gap) <= 1e-9
    assert float(gigabytes) < 4
