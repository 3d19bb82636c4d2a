"""Noise: its distribution, its size, its source, and the grid that it ends on."""

import math
import os

import numpy as np
import pytest
from scipy import stats

from fedwad.privacy import _mechanism
from fedwad.privacy._mechanism import SUM_UNIT, add_noise, standard_normals


def test_normals_follow_the_normal_law():
    rng = np.random.default_rng(0)
    found = standard_normals(200_000, rng.bytes)
    assert stats.kstest(found, "norm").pvalue > 1e-3
    assert (
        stats.kstest(
            np.abs(found[np.abs(found) > 2]), lambda x: 1 - stats.norm.sf(x) / stats.norm.sf(2)
        ).pvalue
        > 1e-3
    )


def test_tails_are_as_finely_resolved_as_the_middle():
    low = standard_normals(
        1, lambda size: bytes(size)
    )  # all bits zero: the farthest that can be drawn
    assert 12 < abs(low[0]) < 14
    near = standard_normals(2, lambda size: b"\xff" * size)
    assert np.abs(near).max() < 1e-12


def test_noise_comes_from_the_systems_source():
    asked = []

    def watched(size):
        asked.append(size)
        return os.urandom(size)

    default = _mechanism.standard_normals.__defaults__
    assert default == (os.urandom,)
    assert _mechanism.add_noise.__defaults__ == (os.urandom,)
    add_noise(np.zeros(5, dtype=np.int64), 1.0, 1.0, watched)
    assert asked == [80]


@pytest.mark.parametrize(("sensitivity", "mu"), [(2.0, 0.27), (math.sqrt(4.5), 3.0)])
def test_noise_has_the_size_that_the_cost_asks_for(sensitivity, mu):
    sums = np.full(100_000, round(7 / SUM_UNIT))
    found, deviation = add_noise(sums, sensitivity, mu, np.random.default_rng(1).bytes)
    assert deviation == pytest.approx(sensitivity / mu, rel=1e-4)
    assert deviation >= sensitivity / mu
    assert found.mean() == pytest.approx(7, abs=4 * deviation / math.sqrt(1e5))
    assert found.std() == pytest.approx(deviation, rel=4 / math.sqrt(2e5))


def test_what_leaves_lies_on_a_grid_that_does_not_depend_on_the_data():
    steps = []
    for start in (0, 1, 12345678901):
        found, deviation = add_noise(np.full(50, start), 1.0, 0.5, np.random.default_rng(2).bytes)
        step = 2.0 ** math.floor(math.log2(deviation / 1024))
        assert (found / step == np.rint(found / step)).all()
        steps.append(step)
    assert len(set(steps)) == 1
    assert steps[0] > 1000 * SUM_UNIT  # low bits of exact sums never leave


def test_two_releases_differ():
    sums = np.zeros(4, dtype=np.int64)
    assert (add_noise(sums, 1.0, 1.0)[0] != add_noise(sums, 1.0, 1.0)[0]).any()


def test_sums_that_no_float_holds_reach_the_noise_exactly():
    rng = np.random.default_rng(0)
    sums, shift = rng.integers(0, 2**40, 100_000), 2**61
    found, _ = add_noise(sums, 2.0, 1.0, np.random.default_rng(1).bytes)
    shifted, _ = add_noise(sums + shift, 2.0, 1.0, np.random.default_rng(1).bytes)
    np.testing.assert_array_equal(shifted - shift * SUM_UNIT, found)
