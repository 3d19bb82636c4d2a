"""How the level of a series of tests is spent, so that it holds over all of them together.

Comparisons with one reference depend on each other through it, so nothing may be assumed about
them together. By the union bound, tests at levels alpha w_k with sum w_k = 1 raise a false alarm
with probability at most alpha over all k, however many there are. The weights
w_k = m / ((k + m - 1) (k + m)) sum to one, since w_k = m / (k + m - 1) - m / (k + m). The first m
tests spend half of alpha.
"""

from __future__ import annotations

import math

__all__ = ["HALF_AFTER", "level_at", "permutations_for"]

#: The number of tests that spend half of alpha: a year of months.
HALF_AFTER = 12
_MOST_PERMUTATIONS = 1_000_000
#: Permutations times level. If a difference shows in a single statistic of weight 1 alone, up to 18
#: permutations, the sum of all weights of the test, can have a smaller combined statistic.
_PER_LEVEL = 20


def level_at(alpha: float, test: int) -> float:
    """The level of the k-th comparison with one reference, k = 1, 2, ...

    Examples
    --------
    >>> [round(level_at(0.01, k), 6) for k in (1, 12, 100)]
    [0.000769, 0.000217, 1e-05]
    >>> round(sum(level_at(0.01, k) for k in range(1, 100_000)), 4)
    0.01
    """
    m = HALF_AFTER
    return alpha * m / ((test + m - 1) * (test + m))


def permutations_for(level: float) -> int:
    """How many permutations resolve p-values of this level, within limits of time."""
    return min(max(999, math.ceil(_PER_LEVEL / level)), _MOST_PERMUTATIONS)
