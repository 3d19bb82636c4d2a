"""The p-value of new blocks against those of a reference."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from fedwad._drift.spending import permutations_for
from fedwad.ot import Blocks, permutation_test

__all__ = ["BlocksTest", "compare_blocks"]

_FIRST, _EXTREME = 499, 10


@dataclass(frozen=True)
class BlocksTest:
    """A p-value, the smallest that these blocks can give at this level, and their numbers."""

    pvalue: float
    smallest: float
    blocks: tuple[int, int]


def compare_blocks(reference: Blocks, new: Blocks, level: float, seed: int = 0) -> BlocksTest:
    """Test whether both have one population, with enough permutations for this level.

    A few hundred permutations come first. If at most ten of them are as extreme as the truth, ten
    times as many decide, and so on. The p-value stays valid. Let stage s hand over at p-values up
    to t_s. A final p-value of at most a comes from the first stage with t_s < a or a later one, and
    in both cases the p-value of that stage is at most a.
    """
    most = permutations_for(level)
    tries = min(_FIRST, most)
    found = permutation_test([reference, new], tries, seed)
    while tries < most and found.pvalue * (tries + 1) <= _EXTREME:
        tries, seed = min(10 * tries, most), seed + 1
        found = permutation_test([reference, new], tries, seed)
    one, two = found.blocks
    ways = comb(one + two, one) / (2 if one == two else 1)
    return BlocksTest(found.pvalue, max(1 / ways, 1 / (most + 1)), (one, two))
