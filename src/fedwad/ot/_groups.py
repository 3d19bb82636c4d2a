"""How many groups of sites there are, when chance alone also makes distances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedwad.ot._blocks import Blocks
from fedwad.ot._measure import Floats
from fedwad.ot._permutation import permutation_test

__all__ = ["Groups", "count_groups"]


@dataclass(frozen=True)
class Groups:
    """A number of groups, the evidence that there is more than one, and who could not be judged.

    Attributes
    ----------
    k : int
        Number of groups, 1 when nothing differs by more than chance.
    pvalue : float
        Of the hypothesis that all sites have one population; nan without a test.
    too_small : tuple of int
        Sites with too few rows to differ from any other by more than chance.
    """

    k: int
    pvalue: float
    too_small: tuple[int, ...] = ()


def count_groups(
    population: Floats,
    lower: Floats,
    suggest: Callable[[Floats], int],
    blocks: Sequence[Blocks] | None = None,
    alpha: float = 0.025,
    seed: int = 0,
) -> Groups:
    """The number of groups that `suggest` finds, if anything differs by more than chance.

    With block means, one permutation test of all sites at once decides whether anything differs.
    Its level is exact for any number of sites, half of the usual 5% by default. Without them, some
    pair must have an interval above zero after Bonferroni's correction for the number of pairs,
    which needs `lower` at that level.

    Parameters
    ----------
    population, lower : arrays (N, N)
        Distances between populations, and the lower ends of their intervals.
    suggest : function of an (N, N) array of distances that returns a number of groups
    blocks : block means of the N sites, optional
    """
    count = len(population)
    if count < 2:
        return Groups(1, float("nan"))
    if blocks is None:
        pvalue, small = float("nan"), tuple[int, ...]()
        differs = bool((lower > 0).any())
    else:
        pvalue = permutation_test(blocks, seed=seed).pvalue
        differs, small = pvalue <= alpha, _too_small(blocks, alpha)
    return Groups(max(1, suggest(population)) if differs else 1, pvalue, small)


def _too_small(blocks: Sequence[Blocks], alpha: float) -> tuple[int, ...]:
    """Sites for which even the most extreme labelling against any other site is no evidence."""
    from math import comb

    counts = [int(b.merged(max(c.rows for c in blocks)).shape[0]) for b in blocks]
    best = [
        min((1 + (n == m)) / comb(n + m, n) for j, m in enumerate(counts) if j != i)
        for i, n in enumerate(counts)
    ]
    return tuple(i for i, smallest in enumerate(best) if smallest > alpha)
