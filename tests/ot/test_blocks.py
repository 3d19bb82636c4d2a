"""Blocks depend on the data alone and never reveal as many numbers as their rows hold."""

from __future__ import annotations

import numpy as np
import pytest

from fedwad.errors import InputError
from fedwad.ot import Measure
from fedwad.ot._blocks import MAX_BLOCKS, block_means, block_size
from fedwad.ot._order import data_order


def test_order_of_rows_plays_no_part():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (60, 2)).astype(float)
    one, two = (block_means(Measure(x), 10) for x in (rows, rows[rng.permutation(60)]))
    np.testing.assert_allclose(one.means, two.means, rtol=0, atol=1e-12)


def test_one_row_more_deals_all_blocks_anew():
    rows = np.random.default_rng(1).normal(size=(201, 2))
    one, two = (block_means(Measure(x), 10).means for x in (rows[:200], rows))
    gaps = np.abs(one[:, None, 0] - two[None, :, 0])
    assert gaps.min() > 1e-9


def test_minus_zero_is_zero():
    rows = np.random.default_rng(2).integers(-1, 2, (40, 3)).astype(float)
    np.testing.assert_array_equal(
        rows[data_order(Measure(rows), "x")[0]],
        (rows * -1 * -1)[data_order(Measure(-1 * (-1 * rows)), "x")[0]],
    )


@pytest.mark.parametrize(("d", "rows"), [(1, 10), (2, 10), (2, 20), (20, 10), (784, 12)])
def test_numbers_of_a_block_stay_below_half_of_its_rows(d, rows):
    blocks = block_means(Measure(np.random.default_rng(3).normal(size=(45, d))), rows)
    assert blocks.means.shape == (45 // rows, sum(count for _, count in blocks.segments))
    assert blocks.means.shape[1] <= rows * d / 2


def test_first_numbers_are_means_of_standardised_rows():
    rows = np.random.default_rng(4).normal(5, 2, (100, 3))
    blocks = block_means(Measure(rows), 10, centre=np.full(3, 5.0), scale=np.full(3, 2.0))
    np.testing.assert_allclose(blocks.means[:, :3].mean(axis=0), ((rows - 5) / 2).mean(axis=0))
    np.testing.assert_allclose(
        blocks.means[:, 3:6].mean(axis=0), (((rows - 5) / 2) ** 2).mean(axis=0)
    )


def test_refusals_and_limits():
    rows = np.random.default_rng(5).normal(size=(30, 2))
    with pytest.raises(InputError):
        block_means(Measure(rows), 5)
    with pytest.raises(InputError):
        block_means(Measure(rows), 31)
    with pytest.raises(InputError):
        block_means(Measure(rows, np.arange(1, 31)), 10)
    with pytest.raises(InputError):
        block_means(Measure(rows), 10, scale=np.zeros(2))
    many = np.random.default_rng(6).normal(size=(1500, 1))
    assert len(block_means(Measure(many), 10).means) == MAX_BLOCKS
    assert block_size([400, 4000]) == 20
    assert block_size([40, 4000]) == 10
