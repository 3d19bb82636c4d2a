"""Blocks of rows and of units: which rows they hold, and that nothing depends on the site."""

import numpy as np
import pytest

from failing import fails
from fedwad.errors import InputError
from fedwad.statistics.blocking import (
    Blocks,
    block_counts,
    block_means,
    sizes_of,
)


def _blocks(points: np.ndarray, **options: object) -> Blocks:
    return block_means(points, np.arange(len(points)), np.random.default_rng(0), **options)


@pytest.mark.parametrize("count", [10, 35, 319, 745, 2000, 200_000, 2_000_003])
def test_blocks_hold_all_rows_but_fewer_than_one_block(count: int) -> None:
    counts = block_counts(count, 10, 32)
    assert 0 <= count - sum(c * 10 * 2**k for k, c in enumerate(counts)) < 10
    assert max(counts) <= 33


def test_means_are_those_of_the_functions() -> None:
    x = np.random.default_rng(0).normal(size=(45, 2))
    blocks = _blocks(x, grid=0.0)
    assert (blocks.rows, blocks.counts, blocks.features) == (10, (4,), 2)
    np.testing.assert_allclose(blocks.means[1, :2], x[10:20].mean(axis=0))
    np.testing.assert_allclose(blocks.means[1, 2:4], (x[10:20] ** 2).mean(axis=0))
    np.testing.assert_allclose(blocks.means[1, 4:6], np.cos(2 * x[10:20]).mean(axis=0))
    products = np.clip(x[10:20], -2, 2).prod(axis=1)
    np.testing.assert_allclose(blocks.means[1, 6], products.mean())
    assert blocks.means.shape[1] == 6 + 1 + 8
    assert blocks.of_feature.tolist() == [0, 1] * 3


def test_an_indicator_is_sent_once() -> None:
    """Its square and its cosine are functions of it, and would be rounded again; its products would
    tell the other features of a row that alone has a flag."""
    x = np.random.default_rng(0).normal(size=(45, 3))
    x[:, 1] = x[:, 1] > 0
    blocks, every = _blocks(x, grid=0.0, indicators=[1]), _blocks(x, grid=0.0)
    assert blocks.of_feature.tolist() == [0, 1, 2, 0, 2, 0, 2]
    assert (every.pairs, blocks.pairs) == (3, 1)
    np.testing.assert_array_equal(np.delete(every.means, [4, 7, 9, 11], axis=1), blocks.means)


def test_merged_blocks_are_means_of_smaller_ones() -> None:
    x = np.random.default_rng(1).normal(size=(1000, 1))
    blocks = _blocks(x, grid=0.0)
    for rows in (10, 20, 40, 80, 160):
        merged = blocks.merged(rows)
        assert len(merged) == blocks.count(rows)
        np.testing.assert_allclose(merged[0, 0], x[:rows].mean())
    assert blocks.count(15) == 0
    assert len(blocks.merged(15)) == 0
    assert sizes_of([blocks, _blocks(x[:50])]) == [10, 20, 40]


def test_values_are_in_public_units_and_clipped() -> None:
    x = np.full((20, 1), 30.0)
    means = _blocks(x, centre=10.0, scale=2.0, grid=0.0).means
    np.testing.assert_allclose(means[:, :2], [[6.0, 36.0]] * 2)


def test_units_in_which_nine_rows_of_ten_are_clipped_tell_no_tenth() -> None:
    """Without the rule the one value inside the clip is the sum less nine times -6."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(20, 40, 600), rng.integers(0, 2, 600)]).astype(float)
    units = {"centre": np.array([44.0, 0.5]), "scale": np.array([1.0, 0.01])}
    told, kept = (
        10 * _blocks(x, grid=0.0, per_size=60, far=far, **units).means for far in (np.inf, 9.0)
    )
    above = [(means[:, 0] + 60) / 12 for means in (told, kept)]  # rows at 6 of ten at -6 or 6
    assert [bool(np.allclose(one, np.rint(one))) for one in above] == [False, True]
    np.testing.assert_allclose(np.ptp(kept[:, 2:7], axis=0), 0.0, atol=1e-9)  # squares to product
    far_away = _blocks(x, grid=0.0, centre=1e6).means
    np.testing.assert_array_equal(far_away[:, :2], -6.0)  # as far as anything can be


def test_values_of_one_population_are_sent_whole() -> None:
    """In pooled units the mean square is one, and a rare flag is far at no site of 30 rows."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        flags = 1.0 * (rng.random((400, 30)) < 0.03)
        z = (flags - flags.mean(axis=0)) / flags.std(axis=0)
        site = _blocks(z[:30], grid=0.0).means
        np.testing.assert_array_equal(site, _blocks(z[:30], grid=0.0, far=np.inf).means)


def test_rounding_keeps_expectations_and_is_the_same_for_a_constant() -> None:
    """A column that is constant at a site is rounded as one that varies."""
    x = np.full((640, 1), 0.03)
    means = np.concatenate(
        [
            block_means(x, None, np.random.default_rng(seed), per_size=64).means[:, 0]
            for seed in range(50)
        ]
    )
    assert set(np.unique(means)) == {0.0, 1 / 3}
    error = np.sqrt(0.09 * 0.91 / len(means)) / 3  # of a mean of 0 and 1/3, at random
    assert means.mean() == pytest.approx(0.03, abs=3 * error)


def test_blocks_that_a_site_joins_are_rounded_as_those_that_a_server_joins() -> None:
    """Otherwise a block of twenty would have another distribution at a site of 1000 rows, which
    joins most, than at one of 100, and the test would not be exact (6.4% instead of 5%)."""
    x = np.full((20_000, 1), -0.229)  # that of nine rows of ten with a flag of 5% in its units
    joined = _blocks(x, per_size=1000).merged(20)[:, 0]
    sent = _blocks(x, per_size=10**9).merged(20)[:, 0]
    assert len(joined) == len(sent) == 1000
    for value in -np.array([2, 1, 0]) / 6:
        parts = [np.isclose(means, value).mean() for means in (joined, sent)]
        assert parts[0] == pytest.approx(parts[1], abs=0.08)
    large = _blocks(x, per_size=10**9, min_cell_size=20).merged(20)[:, 0]
    assert large.std() == pytest.approx(sent.std(), rel=0.1)


def test_a_block_of_units_is_the_mean_of_their_means() -> None:
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 6, 20)
    units = np.repeat(np.arange(20), sizes)
    of_unit = rng.normal(size=20)
    shuffle = rng.permutation(len(units))
    blocks = block_means(
        of_unit[units][shuffle][:, None],
        None,
        rng,
        units=units[shuffle],
        grid=0.0,
    )
    assert blocks.counts == (2,)
    assert blocks.means[:, 0].mean() == pytest.approx(of_unit.mean())


def test_large_units_are_in_no_block_more_than_in_others() -> None:
    """An order by first appearance would put units with many rows into the first block."""
    rng = np.random.default_rng(3)
    units = np.repeat(np.arange(20), np.where(np.arange(20) < 10, 1, 50))
    is_large = (units >= 10).astype(float)[:, None]
    first = [
        block_means(is_large, None, rng, units=units, grid=0.0).means[0, 0] for _ in range(300)
    ]
    assert np.mean(first) == pytest.approx(0.5, abs=0.03)


def test_min_cell_size_makes_blocks_larger() -> None:
    x = np.zeros((100, 1))
    assert _blocks(x, min_cell_size=11).rows == 20
    with fails(InputError, "too-few-rows"):
        _blocks(x[:19], min_cell_size=11)
    with fails(InputError, "too-few-rows"):
        _blocks(x, units=np.arange(100) // 20)
