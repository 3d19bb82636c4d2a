"""The significance level of each test in a series, so that alpha bounds all false alarms together.

Comparisons with one reference depend on each other, because they share it, so the tests cannot be
treated as independent. Test k = 1, 2, ... gets the level alpha w_k. If the weights w_k sum to one,
the union bound holds: the probability of any false alarm is at most alpha, however many tests there
are. The weights are w_k = m / ((k + m - 1) (k + m)) with m = HALF_AFTER. They sum to one, since
w_k = m / (k + m - 1) - m / (k + m). The first m tests use half of alpha.
"""

from __future__ import annotations

import math

__all__ = ["HALF_AFTER", "level_at", "permutations_for"]

#: How many first tests use half of alpha: those of one year, at one test a month.
HALF_AFTER = 12
_MOST_PERMUTATIONS = 1_000_000
#: The product of a level and its number of permutations. Suppose only one statistic, of weight 1,
#: shows the difference. Then up to 18 permutations can still have a smaller combined statistic than
#: the data; 18 is the sum of the weights in `fedwad.ot._permutation`. With 20 the p-value is still
#: below the level.
_PERMUTATIONS_TIMES_LEVEL = 20


def level_at(alpha: float, test: int) -> float:
    """The significance level of comparison number `test` with one reference, counted from 1.

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
    """How many permutations a test at this level needs; limited, so that it ends in time."""
    return min(max(999, math.ceil(_PERMUTATIONS_TIMES_LEVEL / level)), _MOST_PERMUTATIONS)
