"""Tests of new blocks of rows against a reference: a series whose levels sum to alpha.

Comparisons with one reference depend on each other, because they share it, so the tests cannot be
treated as independent. Test k = 1, 2, ... gets the level alpha w_k. If the weights w_k sum to one,
the union bound holds: the probability of any false alarm is at most alpha, however many tests there
are. The weights are w_k = m / ((k + m - 1) (k + m)) with m = 12. They sum to one, since
w_k = m / (k + m - 1) - m / (k + m). The first m tests use half of alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedwad.ot import Blocks, permutation_test

__all__ = ["MIN_PVALUE", "BlocksTest", "compare_blocks", "level_at", "permutations_for"]

#: The number of tests that together use half of alpha: those of one year, at one test a month.
_HALF_AFTER = 12
_FIRST_PERMUTATIONS = 499
_MAX_PERMUTATIONS = 1_000_000
#: The smallest p-value of the longest test.
MIN_PVALUE = 1 / (_MAX_PERMUTATIONS + 1)
_FEW_EXTREMES = 20  # a longer test follows if fewer permutations than this are as extreme
#: The product of a level and its number of permutations. Suppose only one statistic, of weight 1,
#: shows the difference. Then up to 18 permutations can still have a smaller combined statistic than
#: the data; 18 is the sum of the weights in `fedwad.ot._permutation`. With 20 the p-value is still
#: below the level.
_PERMUTATIONS_TIMES_LEVEL = 20


def level_at(alpha: float, number: int) -> float:
    """Return the significance level of comparison `number` with one reference, counted from 1.

    Examples
    --------
    >>> [round(level_at(0.01, k), 6) for k in (1, 12, 100)]
    [0.000769, 0.000217, 1e-05]
    >>> round(sum(level_at(0.01, k) for k in range(1, 100_000)), 4)
    0.01
    """
    m = _HALF_AFTER
    return alpha * m / ((number + m - 1) * (number + m))


def permutations_for(level: float) -> int:
    """Return how many permutations a test at this level needs, at most a million."""
    return min(max(999, math.ceil(_PERMUTATIONS_TIMES_LEVEL / level)), _MAX_PERMUTATIONS)


@dataclass(frozen=True)
class BlocksTest:
    """The outcome of one comparison.

    pvalue : p-value of the permutation test
    smallest : the smallest p-value that these blocks and the permutations for this level can give
    blocks : numbers of blocks of the reference and of the new data
    """

    pvalue: float
    smallest: float
    blocks: tuple[int, int]


def compare_blocks(reference: Blocks, new: Blocks, level: float, seed: int = 0) -> BlocksTest:
    """Test whether new blocks and those of a reference come from one population.

    The first test has a few hundred permutations. If fewer than twenty of them are as extreme as
    the observed statistic, a second test with ten times as many replaces the first, and so on until
    there are enough permutations for p-values near `level`.

    The final p-value is valid. Call test s replaced if its p-value is at most t_s; t_s falls with
    s. Let s be the first test with t_s < a, or the last test if there is none, and let the final
    p-value be at most a. Then it is that of test s, or test s was replaced. In both cases the
    p-value of test s is at most a.
    """
    max_permutations = permutations_for(level)
    permutations = min(_FIRST_PERMUTATIONS, max_permutations)
    test = permutation_test([reference, new], permutations, seed)
    while permutations < max_permutations and test.pvalue * (permutations + 1) <= _FEW_EXTREMES:
        permutations, seed = min(10 * permutations, max_permutations), seed + 1
        test = permutation_test([reference, new], permutations, seed)
    n, m = test.blocks
    # With as many new blocks as reference blocks, exchanging all of them gives the same statistic.
    distinct_splits = math.comb(n + m, n) / (2 if n == m else 1)
    smallest = max(1 / distinct_splits, 1 / (max_permutations + 1))
    return BlocksTest(test.pvalue, smallest, (n, m))
