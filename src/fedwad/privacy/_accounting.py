"""The privacy loss of releases, in closed form.

A Gaussian mechanism with sensitivity D and noise of standard deviation s is mu-GDP with the privacy
loss mu = D / s: its output distinguishes neighbouring data no better than one draw distinguishes
N(0, 1) from N(mu, 1). Losses compose exactly: mu^2 = mu_1^2 + mu_2^2 + ..., even if a later
query depends on earlier replies. mu-GDP is (epsilon, delta)-differential privacy with

    delta = F(mu / 2 - epsilon / mu) - e^epsilon F(-mu / 2 - epsilon / mu)

for every epsilon at once, F the normal distribution function (Dong, Roth, Su, Gaussian Differential
Privacy, 2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from fedwad._checks import format_value
from fedwad.errors import InputError

__all__ = [
    "LARGEST_EPSILON",
    "SMALLEST_EPSILON",
    "check_budget",
    "compose",
    "delta_of",
    "epsilon_of",
    "is_number",
    "mu_of",
]

#: A larger epsilon is no meaningful guarantee, and e^epsilon would overflow.
LARGEST_EPSILON = 100.0
#: A smaller epsilon asks for noise in which all is lost. Down to it rounding errors of `delta_of`
#: are far below every delta that `check_budget` accepts.
SMALLEST_EPSILON = 1e-6
# Between these `mu_of` searches. Every accepted guarantee allows the first and forbids the second.
_MIN_MU, _MAX_MU = 1e-9, 1e4
_BISECTION_STEPS = 200


def delta_of(mu: float, epsilon: float) -> float:
    """The delta of a privacy loss mu at this epsilon."""
    if mu <= 0:
        return 0.0
    first = _normal(mu / 2 - epsilon / mu)
    second = math.exp(epsilon) * _normal(-mu / 2 - epsilon / mu)
    return max(0.0, first - second)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest privacy loss mu that is (epsilon, delta)-differentially private."""
    check_budget(epsilon, delta)
    low, high = _MIN_MU, _MAX_MU  # delta increases with mu
    for _ in range(_BISECTION_STEPS):
        middle = math.sqrt(low * high)
        if delta_of(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon of a loss mu at this delta; infinite if above LARGEST_EPSILON."""
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    if delta_of(mu, LARGEST_EPSILON) > delta:
        return math.inf
    low, high = 0.0, LARGEST_EPSILON
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        if delta_of(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def compose(losses: Iterable[float]) -> float:
    """The privacy loss mu of several releases together."""
    return math.sqrt(math.fsum(mu**2 for mu in losses))


def check_budget(epsilon: float, delta: float) -> None:
    """Raise InputError unless (epsilon, delta) is a meaningful guarantee."""
    if not is_number(epsilon) or not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise InputError(
            f"epsilon is {format_value(epsilon)}; give a number from"
            f" {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}."
        )
    if not is_number(delta) or not 1e-15 <= delta <= 0.1:
        raise InputError(
            f"delta is {format_value(delta)}; give a number from 1e-15 to 0.1, well below"
            " 1 / number of samples."
        )


def is_number(value: object) -> bool:
    """Whether the value is an int or a float, as NumPy's float64 is; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _normal(x: float) -> float:
    """F(x), from the complementary error function, which is accurate in the tails."""
    return math.erfc(-x / math.sqrt(2)) / 2
