"""Expected order statistics against closed forms, and the variances that sites compute."""

from functools import partial

import numpy as np
import pytest

from failing import fails
from fedwad.errors import InputError
from fedwad.statistics.order import common_level, count_dealt, order_statistics
from fedwad.tables.profiles import groups_reveal


def test_uniform_and_exponential_have_their_closed_forms() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.random(64_000), rng.exponential(size=64_000)])
    found = order_statistics(x, rng)
    assert found.levels == (1, 2, 4, 8, 16, 32)
    assert found.count == 64_000
    for m in found.levels:
        means, variances = found.level(m)
        k = np.arange(1, m + 1)
        exact = np.column_stack([k / (m + 1), np.cumsum(1 / np.arange(m, 0, -1))])
        spread = np.column_stack(
            [k * (m + 1 - k) / (m + 1) ** 2 / (m + 2), np.cumsum(1 / np.arange(m, 0, -1.0) ** 2)]
        )
        assert np.abs(means - exact).max() < 5 * np.sqrt(variances.max())
        np.testing.assert_allclose(variances, spread / (64_000 // m), rtol=0.35)


def test_means_and_variances_are_unbiased_with_few_rows() -> None:
    rng = np.random.default_rng(1)
    runs = [order_statistics(rng.random((55, 1)), rng, 10).level(4) for _ in range(2000)]
    means = np.array([mean[:, 0] for mean, _ in runs])
    variances = np.array([variance[:, 0] for _, variance in runs])
    np.testing.assert_allclose(means.mean(axis=0), np.arange(1, 5) / 5, atol=0.005)
    np.testing.assert_allclose(variances.mean(axis=0), means.var(axis=0), rtol=0.12)


def test_levels_follow_rows_and_size_of_messages() -> None:
    rng = np.random.default_rng(2)
    assert order_statistics(rng.random((79, 3)), rng).levels == (1, 2, 4)
    assert order_statistics(rng.random((79, 3)), rng, min_cell_size=40).levels == (1,)
    small = order_statistics(rng.random((400, 50)), rng, max_numbers=1000)
    assert small.levels == (1, 2, 4)
    assert common_level(small, order_statistics(rng.random((30, 50)), rng)) == 2
    with fails(InputError, "too-few-rows"):
        order_statistics(rng.random((9, 3)), rng)


def test_missing_values_of_one_column_are_left_out() -> None:
    rng = np.random.default_rng(3)
    x = rng.random(100)
    x[::2] = np.nan
    found = order_statistics(x, rng)
    assert found.count == 50
    assert found.level(1)[0][0, 0] == pytest.approx(np.nanmean(x))
    assert found.level(4)[0].shape == (4, 1)
    units = np.repeat(np.arange(25), 4)
    assert order_statistics(x, rng, units=units).count == 25


def test_a_given_order_gives_the_same_numbers() -> None:
    rng = np.random.default_rng(4)
    x, order = rng.normal(size=(200, 2)), rng.permutation(200)
    first, second = order_statistics(x, order), order_statistics(x[order], np.arange(200))
    assert all(np.array_equal(a, b) for a, b in zip(first.means, second.means, strict=True))


def test_units_of_one_row_are_rows() -> None:
    rng = np.random.default_rng(5)
    x, order = rng.normal(size=(320, 2)), rng.permutation(320)
    plain, units = order_statistics(x, order), order_statistics(x, order, units=np.arange(320))
    assert plain.levels == units.levels
    np.testing.assert_allclose(plain.level(1)[0], units.level(1)[0])


def test_values_of_few_units_are_withheld_in_however_many_groups() -> None:
    rng = np.random.default_rng(7)
    x, units = np.zeros((800, 1)), np.repeat(np.arange(200), 4)
    x[:12] = rng.lognormal(3, 1, (12, 1))  # twelve visits of three patients
    withhold = partial(groups_reveal, 10)
    assert len(order_statistics(x, rng, units=np.arange(800), withhold=withhold).levels) > 1
    assert order_statistics(x, rng, units=units, withhold=withhold).levels == (1,)


@pytest.mark.parametrize("sizes", [np.full(80, 4), np.arange(80) % 7 + 1])
def test_variances_with_units_are_those_of_units(sizes: np.ndarray) -> None:
    """Rows of one unit nearly agree, so that four visits are hardly more than one."""
    rng = np.random.default_rng(6)
    codes = np.repeat(np.arange(80), sizes)
    means, variances = [], []
    for _ in range(200):
        x = rng.normal(size=80)[codes] + 0.1 * rng.normal(size=len(codes))
        mean, variance = order_statistics(x, rng, units=codes).level(4)
        means.append(mean[:, 0])
        variances.append(variance[:, 0])
    # Expected order statistics of four normal draws, David and Nagaraja, table A.
    normal = np.sqrt(1.01) * np.array([-1.02938, -0.29701, 0.29701, 1.02938])
    np.testing.assert_allclose(np.mean(means, axis=0), normal, atol=0.04)
    np.testing.assert_allclose(np.mean(variances, axis=0), np.var(means, axis=0), rtol=0.3)


@pytest.mark.parametrize("rows", [101, 333, 321, 1000])
def test_levels_differ_by_no_sum_over_few_rows(rows):
    """n e1 - R mean_k e_k is a sum over the n - R rows that are left over: none, or ten or more."""
    x = np.random.default_rng(rows).normal(50.0, 1.0, rows)
    found = order_statistics(x, np.random.default_rng(0), 10)
    assert len(found.levels) > 2
    totals = [float(means.mean()) for means in found.means[1:]]
    assert np.allclose(totals, totals[0], rtol=1e-12)  # all levels above 1 deal the same rows
    dealt = count_dealt(rows, found.levels[-1], 10)
    assert rows == dealt or rows - dealt >= 10
    left = rows * float(found.means[0].mean()) - dealt * totals[0]
    assert left == pytest.approx(50.0 * (rows - dealt), rel=0.05)


def test_levels_of_units_differ_by_many_units_or_none():
    rng = np.random.default_rng(0)
    for count in range(100, 112):
        units = np.repeat(np.arange(count), rng.integers(1, 4, count))
        found = order_statistics(np.eye(count)[units], rng, 10, units)  # a feature for each unit
        dealt = []  # rows of each unit that a level deals
        for means in found.means:
            shares = means.mean(axis=0)  # of the dealt rows, by unit
            totals = np.arange(len(units), 0, -1)
            error = np.abs(shares * totals[:, None] - np.rint(shares * totals[:, None])).max(axis=1)
            dealt.append(np.rint(shares * totals[int((error < 1e-9).argmax())]))
        for one in dealt:
            for other in dealt:
                apart = int((one != other).sum())
                assert apart == 0 or apart >= 10


def test_a_number_whose_mean_is_zero_but_for_rounding_has_no_two_values():
    """Encoded values of one site, centred by their own mean, and none but zeros at another."""
    from fedwad.statistics.order import OrderStatistics, indicator_steps

    a = OrderStatistics((np.array([[4e-15]]),), (np.array([[0.003]]),), 300)
    b = OrderStatistics((np.zeros((1, 1)),), (np.zeros((1, 1)),), 300)
    assert indicator_steps([a, b]).tolist() == [0.0]
    spread = OrderStatistics((np.array([[0.0]]),), (np.array([[0.003]]),), 300)
    rare = OrderStatistics((np.array([[0.02]]),), (np.array([[0.02 * 0.98 / 299]]),), 300)
    assert indicator_steps([rare, spread]).tolist() == [0.0]
    assert indicator_steps([rare, b]) == pytest.approx([1.0])


def test_each_level_has_means_of_sorted_groups():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=650), rng.integers(0, 3, 650), np.zeros(650)])
    order = rng.permutation(650)
    found = order_statistics(x, order)
    dealt = x[order[: count_dealt(650, found.levels[-1], 10)]]
    for m in found.levels[1:]:
        groups = np.sort(dealt.reshape(-1, m, 3), axis=1)
        means, variances = found.level(m)
        np.testing.assert_allclose(means, groups.mean(axis=0), atol=1e-15)
        np.testing.assert_allclose(variances, groups.var(axis=0, ddof=1) / len(groups), atol=1e-15)
