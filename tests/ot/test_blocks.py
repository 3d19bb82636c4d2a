"""Blocks depend on the data alone and never reveal as many numbers as their rows hold."""

from __future__ import annotations

import numpy as np
import pytest

from fedwad.errors import InputError
from fedwad.ot import Measure, _blocks
from fedwad.ot._blocks import (
    BLOCKS_PER_SIZE,
    block_means,
    common_block_size,
    evaluate_functions,
    in_common_units,
)
from fedwad.ot._order import data_order


@pytest.fixture
def unrounded(monkeypatch):
    monkeypatch.setattr(_blocks, "GRID", dict.fromkeys(_blocks.GRID, 0.0))


def test_order_of_rows_plays_no_part():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (60, 2)).astype(float)
    one, two = (block_means(Measure(x)) for x in (rows, rows[rng.permutation(60)]))
    np.testing.assert_allclose(one.means, two.means, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("unrounded")
def test_one_row_more_deals_all_blocks_anew():
    rows = np.random.default_rng(1).normal(size=(201, 2))
    found = [block_means(Measure(x)) for x in (rows[:200], rows)]
    one, two = (b.means[:, 0] * b.scale[0] + b.centre[0] for b in found)
    assert np.abs(one[:, None] - two[None]).min() > 1e-9


@pytest.mark.usefixtures("unrounded")
def test_keys_decide_the_order():
    """Rows with the same keys are dealt into the same blocks, whatever features they have."""
    rows = np.random.default_rng(2).normal(size=(80, 3))
    keys = np.array([bytes([k]) * 16 for k in range(80)], dtype="V16")
    one = block_means(Measure(rows), keys=keys)
    two = block_means(Measure(np.column_stack([5 * rows[:, 1] + 3, rows[:, 0] ** 2])), keys=keys)
    np.testing.assert_allclose(one.means[:, 1], two.means[:, 0], atol=1e-12)


def test_minus_zero_is_zero():
    rows = np.random.default_rng(2).integers(-1, 2, (40, 3)).astype(float)
    np.testing.assert_array_equal(
        rows[data_order(Measure(rows), "x")[0]],
        (rows * -1 * -1)[data_order(Measure(-1 * (-1 * rows)), "x")[0]],
    )


@pytest.mark.parametrize("d", [1, 2, 20, 200, 784])
def test_numbers_of_a_block_stay_below_half_of_its_rows(d):
    blocks = block_means(Measure(np.random.default_rng(3).normal(size=(45, d))))
    assert blocks.means.shape == (4, sum(count for _, count in blocks.segments))
    assert blocks.means.shape[1] <= blocks.rows * d / 2


@pytest.mark.usefixtures("unrounded")
def test_sizes_double_and_merge():
    rows = np.random.default_rng(4).normal(5, 2, (2100, 2))
    blocks = block_means(Measure(rows))
    assert blocks.counts == (BLOCKS_PER_SIZE, BLOCKS_PER_SIZE, 4)
    order = data_order(Measure(rows), "blocks")[0]
    values = evaluate_functions((rows[order] - blocks.centre) / blocks.scale, blocks.scale)
    np.testing.assert_allclose(
        blocks.merged(40), values[: 52 * 40].reshape(52, 40, -1).mean(axis=1), atol=1e-12
    )
    assert len(block_means(Measure(rows), min_cell_size=15).merged(10)) == 0
    assert block_means(Measure(rows), min_cell_size=15).rows == 20
    small = block_means(Measure(rows[:200]))
    assert common_block_size([blocks, small], 20) == 10
    assert common_block_size([blocks, small], 5) == 40


@pytest.mark.usefixtures("unrounded")
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_common_units_are_those_of_pooled_rows(offset):
    rng = np.random.default_rng(5)
    data = [offset + rng.normal(0.3 * k, 1 + k, (200, 3)) * [1, 2, 0] for k in (0, 1)]
    blocks = [block_means(Measure(x)) for x in data]
    parts = in_common_units(blocks, 10)
    both = np.concatenate(data)
    scale = np.where(both.std(axis=0) > 0, both.std(axis=0), np.inf)
    for x, part in zip(data, parts, strict=True):
        z = (x - both.mean(axis=0)) / scale
        hermite = [z, z**2, z**3 - 3 * z, z**4 - 6 * z**2]
        expected = np.concatenate(hermite, axis=1).mean(axis=0)
        np.testing.assert_allclose(part[:, :12].mean(axis=0), expected, atol=1e-6)
        squares = ((x - both.mean(axis=0)) @ _blocks.directions(3)) ** 2
        np.testing.assert_allclose(part[:, 12:].mean(axis=0), squares.mean(axis=0), rtol=1e-6)


def test_rounding_keeps_expectations():
    rows = np.random.default_rng(6).normal(size=(5000, 2))
    rounded = block_means(Measure(rows)).means
    np.testing.assert_allclose(rounded[:64, :2] * 16, np.rint(rounded[:64, :2] * 16), atol=1e-9)
    assert np.abs(rounded[:, :2].mean(axis=0)).max() < 0.05


def test_refusals():
    rows = np.random.default_rng(5).normal(size=(30, 2))
    with pytest.raises(InputError):
        block_means(Measure(rows), 31)
    with pytest.raises(InputError):
        block_means(Measure(rows[:9]))
    with pytest.raises(InputError):
        block_means(Measure(rows, np.arange(1, 31)))
    with pytest.raises(InputError):
        common_block_size([block_means(Measure(rows), 11), block_means(Measure(rows[:15]))], 2)
