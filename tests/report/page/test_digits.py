"""Numbers as printed: enough digits, and bounds that stay bounds."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwad.compare.digits import Digits
from fedwad.report.page._figures import tick_texts


@pytest.mark.parametrize(
    ("numbers", "number", "text"),
    [
        ([3.2149, 1.5], 3.2149, "3.21"),
        ([35.64, 12.0], 35.64, "35.6"),
        ([1234.5], 1234.5, "1234"),
        ([12.0, 0.031], 0.031, "0.031"),
        ([0.0], 0.0, "0.00"),
        ([3.2e-9, 1.1e-9], 3.2e-9, "3.20 \N{MULTIPLICATION SIGN} 10⁻⁹"),
        ([4.56e7], 4.56e7, "4.56 \N{MULTIPLICATION SIGN} 10⁷"),
        ([1e-307], 1e-307, "1.00 \N{MULTIPLICATION SIGN} 10⁻³⁰⁷"),
        ([1.0, math.nan, math.inf], math.nan, "unknown"),
    ],
)
def test_examples(numbers, number, text):
    assert Digits.for_numbers(numbers).text(number) == text


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=5), st.floats(0, 1))
def test_bounds_are_rounded_outwards_and_values_to_the_nearest(numbers, share):
    digits = Digits.for_numbers(numbers)
    number = share * max(numbers)
    unit = Decimal(10) ** (digits.exponent - digits.decimals)
    below, nearest, above = (
        digits.to_integers([number], way)[0] for way in ("down", "nearest", "up")
    )
    assert below * unit <= Decimal(number) * (1 + Decimal("2e-9"))
    assert above * unit >= Decimal(number) * (1 - Decimal("2e-9"))
    assert abs(nearest * unit - Decimal(number)) <= unit * Decimal("0.5000001")
    assert below <= nearest <= above
    assert above - below <= 1


def test_a_bound_that_is_round_already_stays():
    assert Digits(2).interval(2.9, 3.6) == "2.90 to 3.60"
    assert Digits(2).interval(2.904, 3.601) == "2.90 to 3.61"
    assert Digits(2).interval(2.9, math.inf) == "at least 2.90"


def test_an_interval_without_ends_is_unknown():
    digits = Digits.for_numbers([3.2149, 1.5])
    assert digits.interval(math.nan, math.nan) == "unknown"
    assert digits.interval(1.5, math.inf) == "at least 1.50"


def test_ticks_can_be_told_apart():
    assert tick_texts([100.001, 100.002, 100.003]) == ["100.001", "100.002", "100.003"]
    assert tick_texts([1.0, 1.0]) == ["1.000000000000000"] * 2


def test_a_single_tick_shows_its_own_digits():
    assert tick_texts([12.2]) == ["12.2"]
    assert tick_texts([12.2, 12.4]) == ["12.20", "12.40"]
