"""An exact permutation test from block means, for two or more sites, and for all pairs of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, factorial, nan, prod

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.ot._blocks import Blocks, common_block_size, in_common_units
from fedwad.ot._measure import Floats

__all__ = ["PermutationTest", "holm", "pairwise_pvalues", "permutation_test"]

# A labelling assigns each block to a site.
_MAX_ENUMERATED = 5000  # labellings of two sites, up to which all are tried
_CHUNK = 512  # labellings at a time
_MAX_CACHED = 20_000  # labellings of two sites, up to which they are kept for the next pair
_MIN_BLOCKS = 20  # blocks that each site keeps when blocks are merged
#: Weights of the statistics, by which ranks are divided before the smallest is taken.
_WEIGHTS = {
    "sum of mean": 6.0,
    "largest mean": 6.0,
    "sum of square": 2.0,
    "largest square": 2.0,
    "sum of fourth": 1.0,
    "sum of projection": 1.0,
}
_ROUNDING = 1e-10  # relative differences of a statistic up to this are rounding
_CONSTANT = 1e-20  # relative sums of squares up to this are those of a constant
_LARGEST = 1e140  # numbers up to this have squares that can be added


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """Result of a permutation test.

    Attributes
    ----------
    pvalue : float
        Exact: at most alpha with probability at most alpha when all populations agree.
    statistic : float
        One minus the smallest rank over weight, between 0 and 1.
    ranks : dict
        Fraction of permutations with at least the observed value, for each statistic.
    smallest : float
        The smallest p-value that is possible with these numbers of blocks.
    rows, blocks : int, tuple of int
        Number of rows in a block, and number of blocks of each site.
    """

    pvalue: float
    statistic: float
    ranks: dict[str, float]
    smallest: float
    rows: int
    blocks: tuple[int, ...]


def permutation_test(
    sites: Sequence[Blocks], permutations: int = 1999, seed: int = 0, min_blocks: int = _MIN_BLOCKS
) -> PermutationTest:
    """Test whether two or more sites have the same population, by permuting blocks among sites.

    Blocks are merged into larger ones as long as each site keeps `min_blocks` of them.

    Each function whose block means were sent has a sum of squares between sites. The sum or the
    maximum of these over all functions of one kind is a statistic; there are six, or five with a
    single feature or with more than 200. Each statistic is ranked among its permutations, and each
    rank is divided by the weight of its statistic. The smallest of these numbers is the combined
    statistic, which is ranked among its permutations again. The level is exact if the rows of a
    site are exchangeable. Two sites with few blocks are permuted in all ways, others at random.

    Examples
    --------
    >>> from fedwad.ot import Measure
    >>> from fedwad.ot._blocks import block_means
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = (block_means(Measure(rng.normal(s, 1, (200, 5)))) for s in (0, 0, 1))
    >>> permutation_test([a, b]).pvalue > 0.05, permutation_test([a, c]).pvalue
    (True, 0.0005)
    """
    if len(sites) < 2 or len({len(site.centre) for site in sites}) > 1:
        raise InputError(
            "A permutation test needs two or more sites with blocks of the same features."
        )
    rows = common_block_size(sites, min_blocks)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = in_common_units(sites, rows)
        if not all((np.abs(part) <= _LARGEST).all() for part in parts):
            raise InputError("Block means of these sites are too far apart to be compared.")
    counts = [len(part) for part in parts]
    labellings = _labellings(counts, permutations, seed)
    # In all arrays of statistics, the first entry is that of the true labelling.
    statistics = _compute_statistics(np.concatenate(parts), counts, labellings, sites[0].segments)
    ranks = _ranks(np.column_stack(list(statistics.values())))
    combined = (ranks / np.array([_WEIGHTS[name] for name in statistics])).min(axis=1)
    pvalue = float((combined <= combined[0]).mean())
    # Labellings with the same statistics: sites with equally many blocks can be swapped.
    equivalent = prod(factorial(n_sites) for n_sites in Counter(counts).values())
    smallest = max(equivalent / _count_labellings(counts), 1 / len(combined))
    true_ranks = dict(zip(statistics, (float(rank) for rank in ranks[0]), strict=True))
    return PermutationTest(
        pvalue, 1 - float(combined[0]), true_ranks, float(smallest), rows, tuple(counts)
    )


def _count_labellings(counts: Sequence[int]) -> int:
    """Number of ways to assign blocks to sites: a multinomial coefficient."""
    unassigned, ways = sum(counts), 1
    for count in counts:
        ways *= comb(unassigned, count)
        unassigned -= count
    return ways


def _labellings(counts: Sequence[int], permutations: int, seed: int) -> Iterator[NDArray[np.int16]]:
    """Arrays (labellings, blocks) with the site of each block; the true labelling comes first."""
    are_few = _count_labellings(counts) <= _MAX_ENUMERATED or permutations <= _MAX_CACHED
    if (
        len(counts) == 2 and are_few
    ):  # cached, since pairs of a matrix often have equally many blocks
        return iter(_labellings_of_two(counts[0], counts[1], permutations, seed))
    return _random_labellings(counts, permutations, seed)


def _random_labellings(
    counts: Sequence[int], permutations: int, seed: int
) -> Iterator[NDArray[np.int16]]:
    true = np.repeat(np.arange(len(counts), dtype=np.int16), counts)
    rng = np.random.default_rng(seed)
    yield true[None]
    for start in range(0, permutations, _CHUNK):
        yield rng.permuted(np.tile(true, (min(_CHUNK, permutations - start), 1)), axis=1)


@lru_cache(maxsize=2)
def _labellings_of_two(
    first: int, second: int, permutations: int, seed: int
) -> tuple[NDArray[np.int16], ...]:
    if _count_labellings((first, second)) > _MAX_ENUMERATED:
        return tuple(_random_labellings((first, second), permutations, seed))
    of_first = np.array(list(combinations(range(first + second), first)))
    labels = np.ones((len(of_first), first + second), dtype=np.int16)
    np.put_along_axis(labels, of_first, 0, axis=1)  # the first labelling is the true one
    return (labels,)


def _compute_statistics(
    values: Floats,
    counts: Sequence[int],
    labellings: Iterator[NDArray[np.int16]],
    segments: tuple[tuple[str, int], ...],
) -> dict[str, Floats]:
    """Each statistic under each labelling.

    Sums of squares between sites are divided by the total sum of squares of each function.
    """
    uncentred = (values**2).sum(axis=0)
    values = values - values.mean(axis=0)
    total = (values**2).sum(axis=0)
    varies = total > _CONSTANT * np.maximum(1.0, uncentred)
    standard = np.where(varies, values / np.sqrt(np.where(varies, total, 1.0)), 0.0)
    chunks: dict[str, list[Floats]] = {}
    for labels in labellings:
        squares = _squares_between(standard, counts, labels)
        start = 0
        for name, size in segments:
            of_kind = squares[start : start + size]
            for key, statistic in (
                (f"sum of {name}", of_kind.sum(axis=0)),
                (f"largest {name}", of_kind.max(axis=0)),
            ):
                if key in _WEIGHTS:
                    chunks.setdefault(key, []).append(statistic)
            start += size
    return {name: np.concatenate(chunk) for name, chunk in chunks.items()}


def _squares_between(standard: Floats, counts: Sequence[int], labels: NDArray[np.int16]) -> Floats:
    """Sums of squares between sites of each of K functions under each labelling, (K, labellings).

    Values sum to zero over all blocks, so the sums of two sites differ in sign alone.
    """
    if len(counts) == 2:
        sums = standard.T @ (labels == 0).T.astype(np.float64)
        sums *= sums
        sums *= 1 / counts[0] + 1 / counts[1]
        return np.asarray(sums)
    squares = np.zeros((standard.shape[1], len(labels)))
    for site, count in enumerate(counts):
        squares += (standard.T @ (labels == site).T.astype(np.float64)) ** 2 / count
    return squares


def _ranks(statistics: Floats) -> Floats:
    """For each value, the fraction of values in its column that are at least as large, up to
    rounding."""
    count = len(statistics)
    ranks = np.empty_like(statistics)
    for column in range(statistics.shape[1]):
        order = np.argsort(statistics[:, column])
        ordered = statistics[order, column]
        rounding = _ROUNDING * float(ordered[-1])
        smaller = np.searchsorted(ordered, ordered - rounding, side="left")  # fast if sorted
        ranks[order, column] = (count - smaller) / count
    return ranks


def pairwise_pvalues(
    sites: Sequence[Blocks], permutations: int | None = None, seed: int = 0
) -> Floats:
    """P-values of all pairs of sites, adjusted by Holm's method, (N, N) with ones on the diagonal.

    The more pairs there are, the more permutations each gets, so that an adjusted p-value of 0.01
    can be reached with up to some hundred pairs. A pair that cannot be tested has NaN.
    """
    count = len(sites)
    pairs = [(i, j) for i in range(count) for j in range(i)]
    each = permutations or int(np.clip(100 * len(pairs), 1999, 19_999))
    pvalues = np.array([_pvalue([sites[i], sites[j]], each, seed) for i, j in pairs])
    pvalues[~np.isnan(pvalues)] = holm(pvalues[~np.isnan(pvalues)])
    result = np.ones((count, count))
    for (i, j), pvalue in zip(pairs, pvalues, strict=True):
        result[i, j] = result[j, i] = pvalue
    return result


def _pvalue(sites: Sequence[Blocks], permutations: int, seed: int) -> float:
    try:
        return permutation_test(sites, permutations, seed).pvalue
    except InputError:
        return nan


def holm(pvalues: Floats) -> Floats:
    """P-values adjusted for multiplicity by Holm's method.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(pvalues, kind="stable")
    steps = np.asarray(pvalues)[order] * np.arange(len(pvalues), 0, -1)
    adjusted = np.empty(len(pvalues))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
