"""Costs against dp-accounting (Google), whose privacy loss distributions reach the same numbers
another way."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failing import fails
from fedwad.errors import InputError
from fedwad.privacy import compose, delta_of, epsilon_of, mu_of

# Noise multiplier, number of compositions, delta, epsilon by dp-accounting 0.6.0:
# privacy_loss_distribution.from_gaussian_mechanism(s).self_compose(k).get_epsilon_for_delta(delta)
ORACLE = [
    (0.5, 1, 0.001, 7.581280),
    (0.5, 1, 1e-05, 9.997256),
    (0.5, 1, 1e-07, 11.907867),
    (0.5, 3, 0.001, 15.994592),
    (0.5, 3, 1e-05, 20.125024),
    (0.5, 3, 1e-07, 23.402345),
    (0.5, 10, 0.001, 38.732877),
    (0.5, 10, 1e-05, 46.211210),
    (0.5, 10, 1e-07, 52.155252),
    (1.0, 1, 0.001, 3.138671),
    (1.0, 1, 1e-05, 4.377178),
    (1.0, 1, 1e-07, 5.349345),
    (1.0, 3, 0.001, 6.283928),
    (1.0, 3, 1e-05, 8.385419),
    (1.0, 3, 1e-07, 10.045290),
    (1.0, 10, 0.001, 14.079351),
    (1.0, 10, 1e-05, 17.856587),
    (1.0, 10, 1e-07, 20.852413),
    (2.0, 1, 0.001, 1.352276),
    (2.0, 1, 1e-05, 1.993091),
    (2.0, 1, 1e-07, 2.490339),
    (2.0, 3, 0.001, 2.629204),
    (2.0, 3, 1e-05, 3.708635),
    (2.0, 3, 1e-07, 4.554199),
    (2.0, 10, 0.001, 5.587133),
    (2.0, 10, 1e-05, 7.511276),
    (2.0, 10, 1e-07, 9.029760),
    (3.73, 1, 0.001, 0.643311),
    (3.73, 1, 1e-05, 1.000186),
    (3.73, 1, 1e-07, 1.273291),
    (3.73, 3, 0.001, 1.237697),
    (3.73, 3, 1e-05, 1.835312),
    (3.73, 3, 1e-07, 2.298354),
    (3.73, 10, 0.001, 2.561553),
    (3.73, 10, 1e-05, 3.619294),
    (3.73, 10, 1e-07, 4.447603),
    (7.0, 1, 0.001, 0.303648),
    (7.0, 1, 1e-05, 0.502479),
    (7.0, 1, 1e-07, 0.652006),
    (7.0, 3, 0.001, 0.584792),
    (7.0, 3, 1e-05, 0.915926),
    (7.0, 3, 1e-07, 1.168819),
    (7.0, 10, 0.001, 1.197638),
    (7.0, 10, 1e-05, 1.779948),
    (7.0, 10, 1e-07, 2.230880),
    (20.0, 1, 0.001, 0.084018),
    (20.0, 1, 1e-05, 0.160042),
    (20.0, 1, 1e-07, 0.215100),
    (20.0, 3, 0.001, 0.165828),
    (20.0, 3, 1e-05, 0.291267),
    (20.0, 3, 1e-07, 0.384056),
    (20.0, 10, 0.001, 0.342886),
    (20.0, 10, 1e-05, 0.561285),
    (20.0, 10, 1e-07, 0.726030),
]


@pytest.mark.parametrize(("noise", "count", "delta", "epsilon"), ORACLE)
def test_epsilon_agrees_with_dp_accounting(noise, count, delta, epsilon):
    mu = compose([1 / noise] * count)
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-3)
    assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-3)


def test_epsilon_agrees_with_the_installed_dp_accounting():
    module = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="dp-accounting is not installed"
    )
    for noise, count, delta in ((1.3, 2, 1e-5), (5.0, 7, 1e-6)):
        loss = module.from_gaussian_mechanism(
            noise, value_discretization_interval=1e-4
        ).self_compose(count)
        mine = epsilon_of(compose([1 / noise] * count), delta)
        assert mine == pytest.approx(loss.get_epsilon_for_delta(delta), rel=1e-3)


@given(st.floats(0.01, 50), st.floats(-12, -1.1))
def test_mu_and_epsilon_undo_each_other(epsilon, exponent):
    delta = 10.0**exponent
    mu = mu_of(epsilon, delta)
    assert delta_of(mu, epsilon) <= delta
    assert epsilon_of(mu, delta) <= epsilon * (1 + 1e-9)
    assert epsilon_of(mu * 1.001, delta) > epsilon * (1 - 1e-9)


def test_costs_add_up_as_squares():
    assert compose([]) == 0
    assert compose([3.0, 4.0]) == 5
    assert epsilon_of(0.0, 1e-5) == 0
    assert math.isinf(epsilon_of(1000.0, 1e-5))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0, 1e-5), (-1, 1e-5), (1, 0), (1, 0.5), (math.nan, 1e-5), (True, 1e-5), (101, 1e-5)],
)
def test_guarantees_that_mean_nothing_are_refused(epsilon, delta):
    with pytest.raises(InputError):
        mu_of(epsilon, delta)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 100.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-10, 0.1])
def test_the_largest_loss_keeps_the_smallest_guarantees(epsilon, delta):
    assert 0.999 * delta < delta_of(mu_of(epsilon, delta), epsilon) <= delta


def test_an_epsilon_too_small_to_compute_with_is_refused():
    for epsilon in (1e-9, 1e-300):
        with fails(InputError, "bad-option"):
            mu_of(epsilon, 1e-15)
