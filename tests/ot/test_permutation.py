"""The level is exact, by enumeration; differences of all kinds are found."""

from __future__ import annotations

import numpy as np
import pytest

from fedwad.errors import InputError
from fedwad.ot import Measure
from fedwad.ot._blocks import Blocks, block_means
from fedwad.ot._permutation import _count_labellings, holm, pairwise_pvalues, permutation_test


def test_all_labellings_of_few_blocks_have_exact_levels():
    """Over all ways to deal eight blocks to two sites, p <= alpha in at most a share of alpha."""
    from itertools import combinations

    values = np.random.default_rng(0).normal(size=(8, 15)) ** 2
    pvalues = []
    for chosen in combinations(range(8), 4):
        rest = [k for k in range(8) if k not in chosen]
        sites = [
            Blocks(10, (4,), values[list(part)], np.zeros(3), np.ones(3)) for part in (chosen, rest)
        ]
        pvalues.append(permutation_test(sites).pvalue)
    for alpha in np.unique(pvalues):
        assert np.mean(np.array(pvalues) <= alpha + 1e-12) <= alpha + 1e-12
    assert min(pvalues) == pytest.approx(2 / 70)


@pytest.mark.parametrize("kind", ["normal", "heavy", "discrete"])
def test_level_of_one_population(kind):
    rejected = 0
    for k in range(120):
        rng = np.random.default_rng([k, 1])
        rows = {
            "normal": lambda n, rng=rng: rng.normal(size=(n, 4)),
            "heavy": lambda n, rng=rng: rng.standard_t(2, (n, 4)),
            "discrete": lambda n, rng=rng: rng.integers(0, 2, (n, 4)).astype(float),
        }[kind]
        sites = [block_means(Measure(rows(n))) for n in (60, 90)]
        rejected += permutation_test(sites, 199, k).pvalue <= 0.05
    assert rejected <= 13  # 99% of binomial numbers with 120 runs and 5%


def sample(kind, rng, n=400, d=10):
    x = rng.normal(size=(n, d))
    if kind == "mean":
        x += 0.2
    elif kind == "scale":
        x[:, 0] *= 1.5
    elif kind == "correlation":
        x = np.sqrt(0.7) * x + np.sqrt(0.3) * rng.normal(size=(n, 1))
    elif kind == "humps":
        x = 0.9 * rng.choice([-1, 1], (n, d)) + np.sqrt(0.19) * x
    return x


@pytest.mark.parametrize("kind", ["mean", "scale", "correlation", "humps"])
def test_differences_are_found(kind):
    rng = np.random.default_rng(2)
    sites = [block_means(Measure(sample(k, rng))) for k in ("same", kind)]
    assert permutation_test(sites).pvalue <= 0.01


def test_same_rows_at_both_sites_and_constant_rows():
    rows = Measure(np.random.default_rng(3).normal(size=(100, 3)))
    assert permutation_test([block_means(rows)] * 2).pvalue == 1.0
    constant = block_means(Measure(np.ones((100, 3))))
    assert permutation_test([constant, constant]).pvalue == 1.0


def test_smallest_pvalue_of_few_blocks():
    rng = np.random.default_rng(4)
    sites = [block_means(Measure(rng.normal(s, 1, (30, 2)))) for s in (0, 9)]
    found = permutation_test(sites)
    assert found.smallest == pytest.approx(2 / 20)
    assert found.pvalue == pytest.approx(2 / 20)


def test_holm_is_that_of_the_definition():
    pvalues = np.array([0.01, 0.5, 0.02, 0.04])
    assert holm(pvalues).tolist() == pytest.approx([0.04, 0.5, 0.06, 0.08])


def test_pairs():
    rng = np.random.default_rng(5)
    shifts = (0.0, 0.0, 2.0)
    blocks = [block_means(Measure(rng.normal(s, 1, (200, 3)))) for s in shifts]
    pvalues = pairwise_pvalues(blocks)
    assert pvalues[0, 1] > 0.05
    assert pvalues[0, 2] <= 0.01
    assert pvalues[1, 2] <= 0.01
    np.testing.assert_array_equal(pvalues, pvalues.T)


def test_sites_of_other_sizes_and_policies():
    rng = np.random.default_rng(7)
    large, strict = rng.normal(size=(3000, 3)), rng.normal(size=(200, 3))
    found = permutation_test([block_means(Measure(large)), block_means(Measure(strict), 20)])
    assert (found.rows, found.blocks) == (20, (96, 10))
    assert found.pvalue > 0.05


def test_blocks_of_other_features_are_refused():
    rows = np.random.default_rng(7).normal(size=(100, 3))
    with pytest.raises(InputError):
        permutation_test([block_means(Measure(rows)), block_means(Measure(rows[:, :2]))])


def test_smallest_pvalue_of_several_sites():
    """Once failed. Three sites of two blocks can be swapped in six ways."""
    rng = np.random.default_rng(4)
    sites = [block_means(Measure(rng.normal(s, 1, (20, 2)))) for s in (0, 9, 99)]
    assert permutation_test(sites).smallest == pytest.approx(6 / 90)
    assert permutation_test([sites[0]] * 400, permutations=9).smallest == pytest.approx(1 / 10)


def test_labellings_of_very_many_blocks_are_counted():
    """Once failed. Such a number is no float."""
    assert _count_labellings([126] * 200) > 10**308
