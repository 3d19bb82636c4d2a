"""An exact permutation test from block means: two or more sites, all pairs, and each column.

Blocks of one size are exchangeable among sites whose populations agree, so the rank of any
statistic of the labelled blocks among its permutations is a p-value (Lehmann and Romano, Testing
Statistical Hypotheses, 2005, theorem 15.2.1; random permutations together with the true labelling:
Phipson and Smyth 2010).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import comb, factorial, prod

import numpy as np
from numpy.typing import NDArray

from fedwad._html import html_table
from fedwad._words import pluralize
from fedwad.errors import InputError
from fedwad.statistics.blocking import Blocks, sizes_of
from fedwad.transport.measures import Floats, Indices, row_slices

#: Of the sum and the largest over features, over squares and cosines, of the largest product, and
#: of the sum over joint functions. Differences of means are what users ask first: equal weights
#: cost them 2 to 4 points of power and give as much to the others (`benchmarks.truth power`).
_WEIGHTS = (2.0, 2.0, 1.0, 1.0, 1.0, 1.0)
_ROUNDING = 1e-10  # relative differences of a statistic up to this are rounding


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """Result of a permutation test.

    Attributes
    ----------
    pvalue : float
        At most alpha with probability at most alpha when all populations agree.
    statistic : float
        One minus the harmonic mean of the ranks of the statistics, between 0 and 1.
    smallest : float
        The smallest p-value that these numbers of blocks can give.
    columns : array (C,)
        P-value of each column, adjusted for all columns, and at least `pvalue`.
    rows, blocks : int, tuple of int
        Rows in a block, and number of blocks of each site.
    """

    pvalue: float
    statistic: float
    smallest: float
    columns: Floats
    rows: int
    blocks: tuple[int, ...]

    def _repr_html_(self) -> str:
        blocks = f"{', '.join(map(str, self.blocks))}, of {pluralize(self.rows, 'row')} each"
        smallest = {"smallest possible": f"{self.smallest:.2g}", "blocks": blocks}
        return html_table(f"p = {self.pvalue:.2g}, permutation test", smallest)


def permutation_test(
    sites: Sequence[Blocks],
    columns: Sequence[int] | None = None,
    permutations: int = 1999,
    seed: int = 0,
    with_columns: bool = True,
) -> PermutationTest:
    """Test whether two or more sites have the same population, by permuting blocks among sites.

    The share of a function is its sum of squares between sites over its total sum of squares. The
    statistics are the sum and the largest of the shares of features (location), and of their
    squares and cosines (shape); the largest share of a product of two features; and the sum of
    shares of joint functions. Each is ranked among its permutations. The weighted harmonic mean of
    these ranks, which is nearly the smallest if one is small (Wilson 2019), is ranked again, which
    makes the level exact.

    P-values of columns are adjusted by the distribution of the largest share over the same
    permutations, stepping down (Westfall and Young, Resampling-based Multiple Testing, 1993,
    algorithm 4.1): the probability that any column with the same population at all sites has one of
    at most alpha is at most alpha. None is below the p-value of the sites.

    Parameters
    ----------
    sites : blocks of each site, of the same functions
    columns : column of each feature; by default each feature is a column
    permutations : random permutations; two sites with few blocks are permuted in all ways
    seed : of the random permutations
    with_columns : whether columns get p-values; without, `columns` is empty

    Examples
    --------
    >>> from fedwad.statistics.blocking import block_means
    >>> rng = np.random.default_rng(2)
    >>> a, b, c = (block_means(rng.normal(s, 1, (200, 2)), None, rng) for s in (0, 0, 1))
    >>> permutation_test([a, b]).pvalue > 0.05, permutation_test([a, c]).pvalue
    (True, 0.0005)
    """
    if len(sites) < 2 or not have_same_functions(sites):
        raise InputError(
            "A permutation test needs two or more sites with blocks of the same features.",
            "nothing-to-compare",
        )
    rows = common_size(sites, permutations)
    # Random permutations assign blocks to sites in an order that names and questions do not change.
    order = sorted(range(len(sites)), key=lambda k: sites[k].means.tobytes())
    parts = [sites[k].merged(rows) for k in order]
    counts = tuple(len(part) for part in parts)
    of_feature = np.arange(sites[0].features) if columns is None else np.asarray(columns)
    if of_feature.shape != (sites[0].features,):
        raise InputError(
            f"There are {len(of_feature)} columns of features for {sites[0].features} features; "
            "give one of each.",
            "nothing-to-compare",
        )
    of_function = of_feature[sites[0].of_feature]
    values = np.concatenate(parts)
    # A site sends no products with features that have two values there: then nobody's count.
    pairs = len(of_function) + np.arange(sites[0].pairs)
    sent = np.all([part[:, pairs].any(axis=0) for part in parts], axis=0)
    values[:, pairs[~sent]] = 0.0
    statistics, by_column = _statistics(
        values, counts, sites[0], of_function, permutations, seed, with_columns
    )
    # The first entry of each array is that of the true labelling.
    evidence = np.sum([w / _ranks(found) for w, found in statistics], axis=0)
    ranks = sum(w for w, _ in statistics) / evidence
    pvalue = float((ranks <= ranks[0] * (1 + _ROUNDING)).mean())
    # The test of the only column is that of the sites, and no column differs where they do not.
    one = np.full(len(by_column), pvalue)
    adjusted = _step_down(by_column) if len(by_column) > 1 else one
    return PermutationTest(
        pvalue=pvalue,
        statistic=1 - float(ranks[0]),
        smallest=max(smallest_pvalue(counts), 1 / len(ranks)),
        columns=np.maximum(adjusted, pvalue),
        rows=rows,
        blocks=tuple(counts[order.index(k)] for k in range(len(sites))),
    )


def have_same_functions(sites: Sequence[Blocks]) -> bool:
    """Whether the blocks of all sites are means of the same functions."""
    return len(set(map(functions_of, sites))) == 1


def functions_of(site: Blocks) -> tuple[int, int, tuple[int, ...]]:
    """What decides of which functions blocks are means."""
    return site.features, site.means.shape[1], site.indicators


def common_size(sites: Sequence[Blocks], permutations: int = 1999) -> int:
    """The size of blocks that gives a test of means the most power, by numbers of rows alone.

    The noncentrality of an F test of one mean is proportional to r = sum r_i - sum r_i^2 / sum r_i
    with the rows r_i of each site that are in blocks of one size; with few blocks the critical
    value is larger. The size with the largest r over the critical value is taken among those with
    more labellings than permutations. If there are none, it is the one with most labellings.
    """
    from scipy.special import fdtri

    best, chosen = (0.0, 0.0), 0
    for rows in sizes_of(sites):
        counts = np.array([site.count(rows) for site in sites])
        freedom = int(counts.sum()) - len(counts)
        if freedom < 1:
            continue
        noncentrality = rows * (counts.sum() - (counts**2).sum() / counts.sum())
        power = float(noncentrality / fdtri(len(counts) - 1, freedom, 0.95))
        labellings = float(min(_count_labellings(counts.tolist()), permutations + 1))
        if (labellings, power) > best:
            best, chosen = (labellings, power), rows
    if not chosen:
        raise InputError(
            "The sites have too few rows for blocks of one size; use more rows.", "too-few-rows"
        )
    return chosen


def smallest_pvalue(counts: Sequence[int]) -> float:
    """The smallest p-value of a permutation test with these numbers of blocks.

    It is one over the number of labellings that differ: sites with equally many blocks can be
    swapped without a change of any statistic.

    >>> smallest_pvalue([3, 3]), smallest_pvalue([4, 4])
    (0.1, 0.02857142857142857)
    """
    return 1 / _count_labellings(counts)


def _count_labellings(counts: Sequence[int]) -> int:
    """Ways to assign blocks to sites, up to swaps of sites with equally many."""
    unassigned, ways = sum(counts), 1
    for count in counts:
        ways *= comb(unassigned, count)
        unassigned -= count
    return ways // prod(factorial(sites) for sites in Counter(counts).values())


def rows_needed(sites: Sequence[Blocks], alpha: float = 0.05, comparisons: float = 1) -> int:
    """Rows (or units) at each site from which on a p-value of alpha is possible.

    Sites that have more keep them. With several comparisons an adjusted p-value counts.

    >>> rng = np.random.default_rng(0)
    >>> from fedwad.statistics.blocking import block_means
    >>> few = block_means(rng.normal(size=(30, 1)), None, rng)
    >>> rows_needed([few, few]), rows_needed([few, few], comparisons=10)
    (40, 60)
    """
    rows = max(site.rows for site in sites)
    for least in range(1, 1000):
        counts = [max(least, site.count(rows)) for site in sites]
        if smallest_pvalue(counts) * comparisons <= alpha:
            return least * rows
    raise ValueError(f"alpha = {alpha} is too small.")


def _statistics(
    values: Floats,
    counts: tuple[int, ...],
    site: Blocks,
    columns: Indices,
    permutations: int,
    seed: int,
    with_columns: bool,
) -> tuple[list[tuple[float, Floats]], Floats]:
    """The statistics (P,) that there are, each with its weight, and the largest share of each
    column (C, P), or of none. `columns` are those of functions of one feature.

    Shares are divided by their expectation over permutations.
    """
    centred = values - values.mean(axis=0)
    total = (centred**2).sum(axis=0)
    varies = total > 1e-20 * np.maximum(1.0, (values**2).sum(axis=0))
    standard = np.where(varies, centred / np.sqrt(np.where(varies, total, 1.0)), 0.0)
    standard *= np.sqrt((len(values) - 1) / (len(counts) - 1))
    order = np.argsort(columns, kind="stable")
    first = np.flatnonzero(np.diff(columns[order], prepend=columns[order[0]] - 1))
    sizes = np.diff(first, append=len(order))
    # Columns that have a k-th function, and these functions; `reduceat` would take twice as long.
    more = [(rows := np.flatnonzero(sizes > k), order[first[rows] + k]) for k in range(max(sizes))]
    ends = np.cumsum([site.features, len(columns) - site.features, site.pairs])
    labels = _labellings(counts, permutations, seed)
    by_column = np.empty((len(first) if with_columns else 0, len(labels)))
    found = np.zeros((6, len(labels)))
    for chunk in row_slices(len(labels), standard.shape[1], 1 << 20):
        shares = _shares(standard, counts, labels[chunk])
        location, shape, pairs, joint = np.split(shares, ends)
        for k, part in enumerate((location, shape)):
            found[2 * k, chunk] = part.sum(axis=0)
            found[2 * k + 1, chunk] = part.max(axis=0, initial=0.0)
        found[4, chunk] = pairs.max(axis=0, initial=0.0)
        found[5, chunk] = joint.sum(axis=0)
        if with_columns:
            largest = shares[order[first]]
            for rows, functions in more[1:]:
                largest[rows] = np.maximum(largest[rows], shares[functions])
            by_column[:, chunk] = largest
    are_there = ends[0] > 0, ends[0] > 0, ends[1] > ends[0], ends[1] > ends[0], site.pairs > 0, True
    return [
        one
        for one, is_there in zip(zip(_WEIGHTS, found, strict=True), are_there, strict=True)
        if is_there
    ], by_column


def _shares(standard: Floats, counts: tuple[int, ...], labels: NDArray[np.int16]) -> Floats:
    """Sums of squares between sites, (K, labellings). Values sum to zero over all blocks."""
    if len(counts) == 2:
        sums = standard.T @ (labels == 0).T.astype(np.float64)
        sums *= sums
        sums *= 1 / counts[0] + 1 / counts[1]
        return np.asarray(sums)
    first = np.cumsum((0, *counts[:-1]))
    orders = np.argsort(labels, axis=1, kind="stable")
    sums_by_site = (np.add.reduceat(standard[order], first) for order in orders)
    return np.column_stack([(1 / np.array(counts)) @ (sums * sums) for sums in sums_by_site])


@lru_cache(maxsize=4)
def _labellings(counts: tuple[int, ...], permutations: int, seed: int) -> NDArray[np.int16]:
    """The site of each block (labellings, blocks); the true labelling comes first."""
    true = np.repeat(np.arange(len(counts), dtype=np.int16), counts)
    if len(counts) == 2 and comb(sum(counts), counts[0]) <= 5000:  # all are tried
        of_first = np.array(list(combinations(range(len(true)), counts[0])))
        labels = np.ones((len(of_first), len(true)), dtype=np.int16)
        np.put_along_axis(labels, of_first, 0, axis=1)
        return labels
    rng = np.random.default_rng(seed)
    return np.concatenate([true[None], rng.permuted(np.tile(true, (permutations, 1)), axis=1)])


def _ranks(statistic: Floats) -> Floats:
    """For each value, the fraction of values that are at least as large, up to rounding."""
    order = np.argsort(statistic)
    ordered = statistic[order]
    rounding = _ROUNDING * float(np.abs(ordered).max())
    ranks = np.empty(len(order))
    ranks[order] = 1 - np.searchsorted(ordered, ordered - rounding) / len(order)
    return ranks


def _step_down(statistics: Floats) -> Floats:
    """Adjusted p-value of each row of statistics (C, P), the first of which is the observed one."""
    order = np.argsort(-statistics[:, 0], kind="stable")
    # The largest of each row and all rows that come after it.
    largest = np.maximum.accumulate(statistics[order[::-1]], axis=0)[::-1]
    observed = statistics[order, :1] * (1 - _ROUNDING)
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate((largest >= observed).mean(axis=1))
    return adjusted


@dataclass(frozen=True, eq=False)
class PairwiseTests:
    """Tests of all pairs of N sites, after one test of all sites together.

    Attributes
    ----------
    overall : PermutationTest or None
        The test of all sites; None if no size of blocks is common to all.
    pvalues : array (N, N)
        Adjusted p-values of pairs, see `pairwise`. Ones on the diagonal, nan where a pair cannot be
        tested.
    smallest : array (N, N)
        The smallest adjusted p-values that blocks and permutations can give.
    columns : array (N, N, C) or None
        P-values of columns in the test of each pair, adjusted for all columns.
    factor : float
        By which the smallest p-value of a pair is multiplied at most, or if all pairs differ.
    """

    overall: PermutationTest | None
    pvalues: Floats
    smallest: Floats
    columns: Floats | None
    factor: float


#: Sites up to which pairs are adjusted by Shaffer's method, which many permutations allow.
MOST_BY_SHAFFER = 46


def pairwise(
    sites: Sequence[Blocks],
    columns: Sequence[int] | None = None,
    permutations: int = 1999,
    seed: int = 0,
    with_columns: bool = False,
    most_permutations: int = 19_999,
) -> PairwiseTests:
    """Test all sites together, then each pair, adjusted for the number of pairs.

    Up to 46 sites: by Shaffer's method. The probability that any pair of one population has an
    adjusted p-value of at most alpha is at most alpha. Equal populations form groups, so of
    N (N - 1) / 2 pairs only certain numbers can be of one population: once the test of all sites
    rejects, at most (N - 1) (N - 2) / 2, and so on (Shaffer, Modified sequentially rejective
    multiple test procedures, 1986). With three sites, pairs need no further adjustment.

    With more sites no p-value of a permutation test is so small. Then by Benjamini and Yekutieli
    (The control of the false discovery rate in multiple testing under dependency, 2001): of the
    pairs with an adjusted p-value of at most alpha, a fraction of at most alpha is of one
    population on average, whatever the dependence of the tests.

    No adjusted p-value is below that of all sites. P-values up to ten times the smallest are
    computed again with more permutations, so that adjusted ones can be small: 40 for each pair (20
    would do for 5%), or as many as it takes to tell one site that differs from all others, up to
    `most_permutations`, 20 times Shaffer's factor of 46 sites. Only the second p-value
    then counts, which keeps the level.
    """
    count = len(sites)
    pairs = list(combinations(range(count), 2))
    by_shaffer = count <= MOST_BY_SHAFFER
    harmonic = float((1 / np.arange(1, len(pairs) + 1)).sum())
    factor = max((count - 1) * (count - 2) / 2, 1.0) if by_shaffer else harmonic
    wanted = 40 * len(pairs) if by_shaffer else int(count * harmonic / (2 * 0.05))
    more = int(np.clip(wanted, permutations, most_permutations))
    tests = {
        pair: _test([sites[k] for k in pair], columns, permutations, seed, with_columns)
        for pair in pairs
    }
    for pair, test in tests.items():
        if test and more > permutations and test.pvalue <= 10 / (permutations + 1):
            again = permutation_test([sites[k] for k in pair], columns, more, seed + 1, False)
            tests[pair] = replace(again, columns=test.columns)
    with_all = count > 2 or not with_columns  # of two sites, the pair is all
    all_sites = _test(sites, columns, permutations, seed) if with_all else tests[pairs[0]]
    tested = [(pair, test) for pair, test in tests.items() if test]
    found = np.array([test.pvalue for _, test in tested])
    if by_shaffer:
        adjusted = shaffer(found, count, all_sites is not None)
    else:
        order = np.argsort(-found, kind="stable")  # the largest first
        ranks = len(found) - np.arange(len(found))
        adjusted = np.empty(len(found))
        adjusted[order] = np.minimum.accumulate(found[order] * len(pairs) * harmonic / ranks)
    pvalues, smallest = np.full((2, count, count), np.nan)
    np.fill_diagonal(pvalues, 1.0)
    np.fill_diagonal(smallest, 0.0)
    by_column = None
    if with_columns and tested:
        by_column = np.full((count, count, len(tested[0][1].columns)), np.nan)
        by_column[np.arange(count), np.arange(count)] = 1.0
    for ((i, j), test), pvalue in zip(tested, adjusted, strict=True):
        least = all_sites.pvalue if all_sites else 0.0
        pvalues[i, j] = pvalues[j, i] = min(max(pvalue, least), 1.0)
        possible = factor * max(smallest_pvalue(test.blocks), 1 / (more + 1))
        least = all_sites.smallest if all_sites else 0.0
        smallest[i, j] = smallest[j, i] = min(max(possible, least), 1.0)
        if by_column is not None:
            by_column[i, j] = by_column[j, i] = test.columns
    return PairwiseTests(all_sites, pvalues, smallest, by_column, factor)


def _test(
    sites: Sequence[Blocks],
    columns: Sequence[int] | None,
    permutations: int,
    seed: int,
    with_columns: bool = True,
) -> PermutationTest | None:
    try:
        return permutation_test(sites, columns, permutations, seed, with_columns)
    except InputError as error:
        if error.code != "too-few-rows":
            raise
        return None


def shaffer(pvalues: Floats, sites: int, after_overall: bool = True) -> Floats:
    """P-values of pairs of sites, adjusted by Shaffer's method, after a test of all or without.

    Examples
    --------
    >>> shaffer(np.array([0.01, 0.04, 0.03]), 3).tolist()
    [0.01, 0.04, 0.03]
    >>> shaffer(np.array([0.01, 0.04, 0.03]), 3, after_overall=False).tolist()
    [0.03, 0.04, 0.03]
    """
    # Bit t of possible[n] is set if t pairs of n sites can be of one population.
    possible = [1, 1]
    for n in range(2, sites + 1):
        possible.append(0)
        for group in range(1, n + 1):
            possible[n] |= possible[n - group] << group * (group - 1) // 2
    numbers = [t for t in range(sites * (sites - 1) // 2 + 1) if possible[sites] >> t & 1]
    order = np.argsort(pvalues, kind="stable")
    pairs = sites * (sites - 1) // 2
    remaining = pairs - np.arange(len(order))
    if after_overall:
        remaining = np.minimum(remaining, max(pairs - 1, 1))
    true = np.array(numbers)[np.searchsorted(numbers, remaining, side="right") - 1]
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(pvalues[order] * np.maximum(true, 1)), 1.0)
    return adjusted
