"""The p-value of new blocks against those of a reference."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from fedwad._drift.spending import permutations_for
from fedwad.ot import Blocks, permutation_test

__all__ = ["BlocksTest", "compare_blocks"]

_FIRST_PERMUTATIONS = 499
_FEW_EXTREMES = 20  # up to this many permutations as extreme as the data call for a longer test


@dataclass(frozen=True)
class BlocksTest:
    """A p-value, the smallest that these blocks can give at this level, and the numbers of
    blocks of the reference and of the new data."""

    pvalue: float
    smallest: float
    blocks: tuple[int, int]


def compare_blocks(reference: Blocks, new: Blocks, level: float, seed: int = 0) -> BlocksTest:
    """Test whether both have one population, with enough permutations for this level.

    A few hundred permutations come first. If at most twenty of them are as extreme as the observed
    statistic, a new test with ten times as many replaces it, and so on. The p-value stays valid.
    Let stage s be replaced at p-values up to t_s. A final p-value of at most a comes from the first
    stage with t_s < a or a later one, and in both cases the p-value of that stage is at most a.
    """
    max_permutations = permutations_for(level)
    permutations = min(_FIRST_PERMUTATIONS, max_permutations)
    found = permutation_test([reference, new], permutations, seed)
    while permutations < max_permutations and found.pvalue * (permutations + 1) <= _FEW_EXTREMES:
        permutations, seed = min(10 * permutations, max_permutations), seed + 1
        found = permutation_test([reference, new], permutations, seed)
    n, m = found.blocks
    # With equal numbers, exchanging both sides gives the same statistic.
    distinct_splits = comb(n + m, n) / (2 if n == m else 1)
    smallest = max(1 / distinct_splits, 1 / (max_permutations + 1))
    return BlocksTest(found.pvalue, smallest, (n, m))
