"""Distances of populations against closed forms, and the coverage of their lower end."""

from functools import partial
from math import factorial

import numpy as np
import pytest

from fedwad.statistics.order import OrderStatistics, indicator_steps, order_statistics
from fedwad.statistics.populations import (
    column_squares,
    covariance_noise,
    dependence,
    level_weights,
    lower_end,
    population_distances,
    root_of,
    unseen_tails,
)
from fedwad.tables.profiles import groups_reveal


def _exact(quantiles: np.ndarray) -> OrderStatistics:
    """Order statistics without noise, from a quantile function on a fine grid."""
    from scipy.stats import beta

    u = (np.arange(len(quantiles)) + 0.5) / len(quantiles)
    means = []
    for m in (1, 2, 4, 8, 16, 32):
        rows = [(quantiles * beta.pdf(u, k, m - k + 1)).mean() for k in range(1, m + 1)]
        means.append(np.array(rows)[:, None])
    return OrderStatistics(tuple(means), tuple(0 * x for x in means), 10**9)


def test_squares_are_below_the_distance_and_near() -> None:
    from scipy.stats import expon, norm

    u = (np.arange(4_000) + 0.5) / 4_000
    first = norm.ppf(u)
    for other, near in ((first + 1, 1.0), (2 * first, 0.99), (expon.ppf(u), 0.97), (3 * u, 0.98)):
        exact = float(np.mean((first - other) ** 2))
        found = column_squares(_exact(first), _exact(other))[0]
        assert near * exact <= found <= exact * (1 + 1e-6)


@pytest.mark.parametrize("m", [1, 2, 4, 8, 16, 32])
def test_extrapolated_weights_of_legendre_coefficients_are_at_most_one(m: int) -> None:
    def eigenvalue(level: int, degree: int) -> float:
        if degree >= level:
            return 0.0
        below = factorial(level - 1 - degree) * factorial(level + degree)
        return factorial(level - 1) * factorial(level) / below

    for degree in range(m):
        total = sum(w * eigenvalue(level, degree) for level, w in level_weights(m).items())
        assert -1e-12 <= total <= 1 + 1e-12


def test_squares_are_unbiased_for_one_population() -> None:
    rng = np.random.default_rng(0)
    squares = [
        column_squares(*(order_statistics(rng.exponential(size=(n, 2)), rng) for n in (40, 200)))
        for _ in range(400)
    ]
    error = np.std(squares, axis=0) / 20
    assert (np.abs(np.mean(squares, axis=0)) < 4 * error).all()


@pytest.mark.parametrize(("p", "q"), [(0.2, 0.2), (0.03, 0.03), (0.2, 0.3), (0.1, 0.5)])
def test_indicators_are_never_too_high_on_average(p: float, q: float) -> None:
    rng = np.random.default_rng(1)
    step = 0.7
    squares = []
    for _ in range(1000):
        a, b = (
            order_statistics(step * (rng.random((n, 1)) < rate), rng, max_level=1)
            for n, rate in ((60, p), (300, q))
        )
        squares.append(column_squares(a, b, [step])[0])
    mean, error = np.mean(squares), np.std(squares) / np.sqrt(1000)
    exact = step**2 * abs(p - q)
    assert mean <= exact + 4 * error
    assert mean >= 0.6 * exact - 0.005


def test_dependence_is_what_correlations_add() -> None:
    from scipy.linalg import sqrtm

    rng = np.random.default_rng(2)
    first, second = (np.cov(rng.normal(size=(30, 4)).T) for _ in range(2))
    root = sqrtm(first)
    bures = np.trace(first) + np.trace(second) - 2 * np.trace(sqrtm(root @ second @ root)).real
    alone = ((np.sqrt(np.diag(first)) - np.sqrt(np.diag(second))) ** 2).sum()
    assert dependence(root_of(first), root_of(second)) == pytest.approx(bures - alone)
    assert dependence(np.diag([1.0, 2.0]), np.diag([3.0, 1.0])) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("n", "d"), [(300, 4), (60, 40), (40, 100)])
def test_a_site_knows_the_noise_of_its_covariance(n: int, d: int) -> None:
    rng = np.random.default_rng(3)
    noises, found = [], []
    for _ in range(20):
        x, y = rng.normal(size=(2, n, d))
        found.append(dependence(root_of(np.cov(x.T)), root_of(np.cov(y.T))))
        noises.append(2 * covariance_noise(x, rng, splits=2).dependence / n)
    assert np.mean(noises) == pytest.approx(np.mean(found), rel=0.25 if d < 10 else 0.08)


def test_noise_with_units_is_that_of_units() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(100, 3))
    units = np.repeat(np.arange(100), 3)
    plain, repeated = covariance_noise(x, rng, splits=20), covariance_noise(x[units], rng, units)
    assert repeated.bures == pytest.approx(plain.bures, rel=0.5)


def test_distances_of_normal_populations() -> None:
    rng = np.random.default_rng(5)
    correlated = np.linalg.cholesky(np.full((3, 3), 0.6) + 0.4 * np.eye(3)).T
    samples = [rng.normal(size=(4000, 3)) for _ in range(3)]
    samples[1] = samples[1] + [0.5, 0.0, 0.0]
    samples[2] = samples[2] @ correlated
    orders = [order_statistics(x, rng) for x in samples]
    covariances = [np.cov(x.T) for x in samples]
    noises = [covariance_noise(x, rng) for x in samples]
    exact = np.zeros((3, 3))
    exact[0, 1] = 0.25
    exact[0, 2] = dependence(np.eye(3), correlated)
    exact[1, 2] = exact[0, 1] + exact[0, 2]
    exact = np.sqrt(exact + exact.T)
    found = population_distances(orders, None, covariances, noises)
    np.testing.assert_allclose(found.population, exact, atol=0.06)
    assert (found.lower <= exact).all()
    assert (found.lower >= 0.6 * exact).all()
    assert (found.upper >= exact).all()
    assert (found.upper <= exact + 0.2).all()
    assert (np.diag(found.upper) == 0).all()
    without = population_distances(orders)
    assert (without.dependence == 0).all()


@pytest.mark.parametrize("step", [0.0, 1.0])
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_lower_end_is_too_high_in_at_most_one_run_of_forty(step: float, rho: float) -> None:
    """Numbers and indicators, columns that are independent or nearly copies."""
    rng = np.random.default_rng(6)
    runs, high, found = 100, 0, []
    for _ in range(runs):
        samples = []
        for shift in (0.0, 1.0):
            z = np.sqrt(rho) * rng.normal(size=(100, 1)) + np.sqrt(1 - rho) * rng.normal(
                size=(100, 4)
            )
            samples.append(z + shift if step == 0 else 1.0 * (z + shift > 0.5))
        exact = 2.0 if step == 0 else np.sqrt(4 * 0.3829249)
        orders = [order_statistics(x, rng) for x in samples]
        roots = root_of(np.cov(samples[0].T)), root_of(np.cov(samples[1].T))
        for given in (None, roots):
            found.append(lower_end(orders[0], orders[1], np.full(4, step), given))
            high += found[-1] > exact
    assert high <= 0.05 * 2 * runs
    assert np.mean(found) > 0.5 * exact


def test_heavy_tails_add_what_rows_may_not_show_and_light_ones_nothing():
    rng = np.random.default_rng(0)
    light = {
        "normal": rng.normal(size=(300, 5)),
        "normal, few rows": rng.normal(size=(60, 5)),
        "counts": rng.poisson(1.0, (300, 3)),
        "gamma": rng.gamma(2.0, size=(300, 3)),
        "clusters": rng.choice([-8.0, 0.0, 8.0], (300, 2)) + rng.normal(size=(300, 2)),
        "constant": np.ones((300, 2)),
        "one draw a group": rng.normal(size=(12, 2)),
    }
    for name, rows in light.items():
        assert unseen_tails(order_statistics(rows, rng)) == 0, name
    far = rng.normal(size=(300, 2))
    far[:4, 0] += 20
    order = order_statistics(far, rng)
    # Four rows of 300 may be ten (Garwood): six more would add 6 / 300 * 20^2.
    assert unseen_tails(order) == pytest.approx(8, rel=0.5)
    assert unseen_tails(order, np.array([False, True])) == 0
    assert unseen_tails(order_statistics(-far, rng)) == pytest.approx(8, rel=0.5)


def test_a_column_with_one_other_value_at_a_site_is_no_indicator():
    rng = np.random.default_rng(0)
    rare = np.column_stack([np.arange(400) < 3, rng.normal(size=400)]).astype(float)
    same = np.column_stack([np.full(400, 3.0), rng.normal(size=400)])
    reveal = partial(groups_reveal, 10)
    orders = [order_statistics(rows, rng, withhold=reveal) for rows in (rare, same)]
    steps = indicator_steps(orders)
    assert steps.tolist() == [0.0, 0.0]
    assert np.isfinite(population_distances(orders, steps).columns).all()
