"""Nearly optimal transport: never below the optimum, and hardly above it."""

import numpy as np
import pytest

from fedwad.transport import Measure, labelled, solve
from fedwad.transport.nearly import near_squares


def square(x, y, compiled=True, on_columns=None):
    found = near_squares({0: x, 1: y}, [(0, 1)], 1, on_columns, lambda _: compiled)
    return next(found)[1]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("n", "d"), [(2, 2), (30, 3), (257, 2), (600, 40)])
def test_near_the_optimum(n, d, compiled):
    rng = np.random.default_rng(n)
    x, y = Measure(rng.standard_normal((n, d))), Measure(1.3 * rng.standard_normal((n, d)) + 0.3)
    exact = solve(x, y).cost
    assert exact * (1 - 1e-9) <= square(x, y, compiled, lambda *_: None) <= 1.008 * exact


def test_columns_sum_to_the_square():
    rng = np.random.default_rng(0)
    x, y = (Measure(rng.standard_normal((300, 4))) for _ in range(2))
    columns = []
    found = square(x, y, True, lambda _, parts: columns.append(parts))
    assert columns[0].sum() == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("compiled", [True, False])
def test_classes_count(compiled):
    rng = np.random.default_rng(0)
    sides = []
    for shift in (0.0, 1.0):
        points, classes = rng.standard_normal((120, 5)), rng.integers(0, 3, 120)
        sides.append(labelled(Measure(points + shift * classes[:, None]), classes))
    exact = solve(*sides).cost
    assert exact * (1 - 1e-5) <= square(*sides, compiled) <= 1.008 * exact


@pytest.mark.parametrize("scale", [1e-60, 1e-20, 1.0, 1e20])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_any_scale(scale, offset):
    rng = np.random.default_rng(0)
    x, y = (Measure(scale * (rng.standard_normal((90, 2)) + offset)) for _ in range(2))
    exact = solve(x, y).cost
    assert square(x, y) == pytest.approx(exact, rel=0.008)


@pytest.mark.parametrize("far", [1e3, 1e5])
def test_outliers_do_not_hide_the_rest(far):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 100, 2))
    x[0] = y[0] = far
    assert square(Measure(x), Measure(y)) == pytest.approx(
        solve(Measure(x), Measure(y)).cost, rel=0.008
    )


def test_equal_samples_and_unequal_sizes():
    rng = np.random.default_rng(0)
    x, y = Measure(rng.standard_normal((80, 3))), Measure(rng.standard_normal((50, 3)))
    assert square(x, x) == 0.0
    assert square(x, y) == solve(x, y).cost


def test_many_pairs_in_threads_give_the_same_bits():
    rng = np.random.default_rng(0)
    sides = {k: Measure(rng.standard_normal((70, 6)) + 0.1 * k) for k in range(12)}
    pairs = [(i, j) for i in sides for j in range(i)]
    assert list(near_squares(sides, pairs, 1)) == list(near_squares(sides, pairs, 3))
