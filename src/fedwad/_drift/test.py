"""The p-value of new blocks against those of a reference."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from fedwad._drift.spending import permutations_for
from fedwad.ot import Blocks, permutation_test

__all__ = ["BlocksTest", "compare_blocks"]

_FIRST_PERMUTATIONS = 499
_FEW_EXTREMES = 20  # if no more permutations are as extreme as the data, a longer test follows


@dataclass(frozen=True)
class BlocksTest:
    """A p-value, the smallest that these blocks can give at this level, and the numbers of
    blocks of the reference and of the new data."""

    pvalue: float
    smallest: float
    blocks: tuple[int, int]


def compare_blocks(reference: Blocks, new: Blocks, level: float, seed: int = 0) -> BlocksTest:
    """Test whether new blocks and those of a reference come from one population.

    The first test has a few hundred permutations. If at most twenty of them are as extreme as the
    observed statistic, a second test with ten times as many replaces the first, and so on until
    there are enough permutations for p-values near `level`.

    The final p-value is valid. Call test s replaced if its p-value is at most t_s; t_s falls with
    s. Let s be the first test with t_s < a, and let the final p-value be at most a. Then it is that
    of test s, or test s was replaced. In both cases the p-value of test s is at most a.
    """
    max_permutations = permutations_for(level)
    permutations = min(_FIRST_PERMUTATIONS, max_permutations)
    test = permutation_test([reference, new], permutations, seed)
    while permutations < max_permutations and test.pvalue * (permutations + 1) <= _FEW_EXTREMES:
        permutations, seed = min(10 * permutations, max_permutations), seed + 1
        test = permutation_test([reference, new], permutations, seed)
    n, m = test.blocks
    # With as many new blocks as reference blocks, exchanging all of them gives the same statistic.
    distinct_splits = comb(n + m, n) / (2 if n == m else 1)
    smallest = max(1 / distinct_splits, 1 / (max_permutations + 1))
    return BlocksTest(test.pvalue, smallest, (n, m))
