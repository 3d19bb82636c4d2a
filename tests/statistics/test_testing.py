"""The permutation test: enumeration by hand, its level, what it finds, and adjusted p-values."""

from itertools import combinations

import numpy as np
import pytest

from failing import fails
from fedwad.errors import InputError
from fedwad.statistics.blocking import Blocks, block_means
from fedwad.statistics.testing import (
    common_size,
    pairwise,
    permutation_test,
    rows_needed,
    shaffer,
    smallest_pvalue,
)


def _sites(rng: np.random.Generator, *samples: np.ndarray) -> list[Blocks]:
    return [block_means(x, None, rng) for x in samples]


def test_few_blocks_are_permuted_in_all_ways() -> None:
    """Against scipy: one function, so all statistics rank as the squared difference of means."""
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 1)), rng.normal(1, 1, size=(4, 1))
    sites = [Blocks(10, (len(z),), np.tile(z, 4), 1) for z in (x, y)]
    found = permutation_test(sites)
    exact = scipy_stats.permutation_test(
        (x[:, 0], y[:, 0]),
        lambda a, b: (a.mean() - b.mean()) ** 2,
        n_resamples=np.inf,
        alternative="greater",
    )
    assert found.pvalue == pytest.approx(exact.pvalue)
    assert found.columns[0] == pytest.approx(exact.pvalue)
    assert found.smallest == pytest.approx(1 / 126)
    assert found.blocks == (5, 4)


def test_level_with_ties_and_sites_of_different_sizes() -> None:
    """A rare binary column has the same value in most blocks."""
    rejected = named = 0
    for run in range(120):
        rng = np.random.default_rng(run)
        samples = [1.0 * (rng.random((n, 3)) < 0.03) for n in (50, 200)]
        found = permutation_test(_sites(rng, *samples), permutations=199, seed=run)
        rejected += found.pvalue <= 0.05
        named += bool((found.columns <= 0.05).any())
    assert rejected <= 14  # 6 expected; more than 14 have a probability of 0.1%
    assert named <= 14


def test_constant_columns_are_no_difference() -> None:
    rng = np.random.default_rng(1)
    same = permutation_test(_sites(rng, np.ones((60, 2)), np.ones((60, 2))))
    assert same.pvalue > 0.05  # block means differ by rounding alone
    zeros = permutation_test([Blocks(10, (6,), np.zeros((6, 15)), 2)] * 2)
    assert zeros.pvalue == 1.0
    assert (zeros.columns == 1.0).all()


def test_finds_and_names_the_column_that_differs() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 300, 6))
    y[:, 2] += 1.0
    found = permutation_test(_sites(rng, x, y), columns=[0, 0, 1, 2, 2, 3])
    assert found.pvalue <= 0.001
    assert found.columns.shape == (4,)
    assert found.columns.argmin() == 1
    assert found.columns[1] <= 0.001


@pytest.mark.parametrize("kind", ["mirror", "rotated", "humps", "correlation", "one correlation"])
def test_finds_differences_of_shape(kind: str) -> None:
    """Means and standard deviations of all columns agree."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 400, 4))
    if kind == "mirror":
        x = rng.exponential(size=(400, 4)) - 1
        y = 1 - rng.exponential(size=(400, 4))
    elif kind == "rotated":
        corners = rng.choice([-1.0, 1.0], (2, 400, 2))
        x = corners[0] + 0.3 * x[:, :2]
        y = corners[1] @ np.array([[1, 1], [-1, 1]]) / np.sqrt(2) + 0.3 * y[:, :2]
    elif kind == "humps":
        y = 0.9 * np.sign(y) + np.sqrt(0.19) * rng.normal(size=y.shape)
    elif kind == "one correlation":
        x, y = rng.normal(size=(2, 400, 8))
        y[:, 5] = 0.5 * y[:, 2] + np.sqrt(0.75) * y[:, 5]
    else:
        y = np.sqrt(0.5) * y + np.sqrt(0.5) * rng.normal(size=(400, 1))
    assert permutation_test(_sites(rng, x, y)).pvalue <= 0.01


@pytest.mark.parametrize(
    ("sizes", "rows", "blocks"),
    [
        ((50, 1500), 10, (5, 32)),
        ((30, 300), 10, (3, 30)),
        ((1500, 1500), None, None),
        ((200_000, 2_000_000), None, None),
    ],
)
def test_sites_of_different_sizes_share_a_size_of_blocks(
    sizes: tuple[int, int], rows: int | None, blocks: tuple[int, int] | None
) -> None:
    from fedwad.statistics.blocking import block_counts

    sites = []
    for n in sizes:
        counts = block_counts(n, 10, 32)
        sites.append(Blocks(10, counts, np.zeros((sum(counts), 1)), 0))
    chosen = common_size(sites)
    if rows is not None:
        assert chosen == rows
        assert tuple(site.count(chosen) for site in sites) == blocks
    # Most rows of the smaller site are in these blocks, and the test can be significant.
    assert sites[0].count(chosen) * chosen >= 0.8 * sizes[0]
    assert smallest_pvalue([site.count(chosen) for site in sites]) < 0.001


def test_too_few_rows_are_told_from_no_difference() -> None:
    rng = np.random.default_rng(4)
    sites = _sites(rng, rng.normal(size=(30, 1)), rng.normal(9, 1, size=(30, 1)))
    assert permutation_test(sites).smallest > 0.05
    assert rows_needed(sites) == 40
    with fails(InputError, "too-few-rows"):
        permutation_test(_sites(rng, rng.normal(size=(10, 1)), rng.normal(size=(10, 1))))
    with fails(InputError, "nothing-to-compare"):
        permutation_test(sites[:1])
    with fails(InputError, "nothing-to-compare"):
        permutation_test(sites, columns=[0, 1])
    two_valued = block_means(rng.normal(size=(30, 1)), None, rng, indicators=[0])
    with fails(InputError, "nothing-to-compare"):  # other functions
        permutation_test([sites[0], two_valued])


def test_one_test_of_many_sites_and_adjusted_pairs() -> None:
    rng = np.random.default_rng(5)
    samples = [rng.normal(size=(200, 3)) for _ in range(5)]
    samples[3] += 1.0
    found = pairwise(_sites(rng, *samples), with_columns=True)
    assert found.overall is not None
    assert found.overall.pvalue <= 0.001
    others = [0, 1, 2, 4]
    assert (found.pvalues[3, others] <= 0.01).all()
    assert (found.pvalues[np.ix_(others, others)] > 0.05).all()
    np.testing.assert_array_equal(found.pvalues, found.pvalues.T)
    assert found.columns is not None
    assert found.columns.shape == (5, 5, 3)
    assert (found.pvalues >= found.overall.pvalue).all()


def test_many_sites_have_more_labellings_than_a_float_can_hold() -> None:
    rng = np.random.default_rng(7)
    found = permutation_test(_sites(rng, *rng.normal(size=(40, 200, 1))), permutations=99)
    assert found.pvalue > 0.01
    assert found.smallest == 0.01


def test_pairs_of_many_sites_are_told_by_the_false_discovery_rate() -> None:
    """Shaffer's factor of 48 sites is 1081, and permutations are at most 19,999."""
    rng = np.random.default_rng(8)
    samples = rng.normal(size=(48, 60, 1))
    samples[:16] += 3.0
    found = pairwise(_sites(rng, *samples), permutations=499)
    across = found.pvalues[:16, 16:]
    within = found.pvalues[16:, 16:][np.triu_indices(32, 1)]
    assert (found.smallest <= 0.05).all()
    assert (across <= 0.05).all()
    assert (within <= 0.05).mean() <= 0.02


def test_two_sites_have_one_pvalue() -> None:
    rng = np.random.default_rng(6)
    sites = _sites(rng, *rng.normal(size=(2, 60, 2)))
    found = pairwise(sites)
    assert found.overall is not None
    assert found.pvalues[0, 1] == found.overall.pvalue == permutation_test(sites[::-1]).pvalue


def test_shaffer_counts_pairs_that_can_be_true_together() -> None:
    """Against a list of all partitions of four sites."""
    possible = set()
    for labels in np.ndindex(4, 4, 4, 4):
        possible.add(sum(a == b for a, b in combinations(labels, 2)))
    assert possible == {0, 1, 2, 3, 6}
    p = np.array([0.001, 0.002, 0.003, 0.004, 0.02, 0.03])
    # With 6, 5, 4, 3, 2, 1 hypotheses left, at most 6, 3, 3, 3, 2, 1 are true.
    np.testing.assert_allclose(
        shaffer(p, 4, after_overall=False), [0.006, 0.006, 0.009, 0.012, 0.04, 0.04]
    )
    np.testing.assert_allclose(shaffer(p, 4), [0.003, 0.006, 0.009, 0.012, 0.04, 0.04])


def test_repeated_units_are_tested_as_units() -> None:
    rejected = 0
    units = np.repeat(np.arange(60), 4)
    for run in range(60):
        rng = np.random.default_rng(run)
        samples = [rng.normal(size=(60, 2))[units] for _ in range(2)]
        sites = [block_means(x, None, rng, units=units) for x in samples]
        rejected += permutation_test(sites, permutations=199, seed=run).pvalue <= 0.05
    assert rejected <= 9  # 3 expected


def test_a_flag_that_has_a_third_value_elsewhere_differs_by_no_products() -> None:
    """The products that a site sends of a number and not of a flag are compared with none."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(800, 2))
        x[:, 1] = (x[:, 0] > 0) - 0.5  # as it is at the first site
        x[600, 1] = 0.7
        found.append(permutation_test(_sites(rng, x[:400], x[400:])).pvalue)
    assert np.mean(np.array(found) <= 0.05) <= 0.2


def test_a_row_that_alone_has_a_flag_does_not_tell_its_others() -> None:
    """Flags that are sent as numbers have no products, in whatever units."""
    rng = np.random.default_rng(0)
    flags = 1.0 * (rng.random((400, 4)) < (0.05, 0.3, 0.5, 0.4))
    (blocks,) = _sites(rng, 6 * flags - 3)
    products = blocks.means[:, len(blocks.of_feature) :][:, : blocks.pairs]
    assert blocks.pairs == 6
    assert not products.any()
