"""What a site shares for a permutation test: means of functions over blocks of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedwad.errors import InputError
from fedwad.statistics.order import number_units
from fedwad.transport.measures import Floats, Indices, row_slices

#: Rows of the smallest blocks; other sizes are 20, 40, ..., so that blocks can be merged.
SMALLEST = 10
#: Step of the rounding of means over ten rows, in public units: a choice on the curve of power
#: against what an attacker learns who knows a row and asks whether it is in the table
#: (benchmarks/truth.md), as is the number of joint functions.
GRID = 1 / 3
#: Features up to which the product of each pair is a function, which finds one changed correlation.
PAIRED = 8


@dataclass(frozen=True, eq=False)
class Blocks:
    """Means over blocks of rows (or units) of one site, small blocks first.

    Attributes
    ----------
    rows : int
        Rows (with units: units) in the smallest blocks; the next size has twice as many.
    counts : tuple of int
        Number of blocks of each size.
    means : array (B, K)
        Means of the K functions of a row that `row_functions` lists.
    features : int
        Number of features d.
    indicators : tuple of int
        The features that have two values, such as levels of a category.
    """

    rows: int
    counts: tuple[int, ...]
    means: Floats
    features: int
    indicators: tuple[int, ...] = ()

    @property
    def of_feature(self) -> Indices:
        """The feature of each function of one feature: of all, then of numbers two more times."""
        indicators = set(self.indicators)
        numbers = [k for k in range(self.features) if k not in indicators]
        return np.array([*range(self.features), *numbers, *numbers], dtype=np.int64)

    @property
    def pairs(self) -> int:
        """Number of products of two numbers, which come next; the rest are joint functions."""
        numbers = self.features - len(set(self.indicators))
        return numbers * (numbers - 1) // 2 if self.features <= PAIRED else 0

    def count(self, rows: int) -> int:
        """Number of blocks of `rows` rows after smaller ones are merged, two by two."""
        count, size = 0, self.rows
        for own in (*self.counts, *[0] * 64):
            count += own
            if size >= rows:
                return count if size == rows else 0
            count, size = count // 2, 2 * size
        return 0

    def merged(self, rows: int) -> Floats:
        """Means over blocks of `rows` rows: smaller blocks are joined, two by two.

        Larger blocks are left out, and so is an odd one.
        """
        means, size, start = self.means[:0], self.rows, 0
        for own in (*self.counts, *[0] * 64):
            means = np.concatenate([means, self.means[start : start + own]])
            if size >= rows:
                break
            start, even = start + own, len(means) // 2 * 2
            means, size = means[:even].reshape(even // 2, 2, means.shape[1]).mean(axis=1), 2 * size
        return means if size == rows else self.means[:0]


def block_means(
    points: ArrayLike,
    order: Indices | None,
    rng: np.random.Generator,
    centre: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    min_cell_size: int = SMALLEST,
    units: ArrayLike | None = None,
    spread: float | None = None,
    indicators: Sequence[int] = (),
    per_size: int = 32,
    joint: int = 8,
    grid: float = GRID,
    far: float = 9.0,
) -> Blocks:
    """Means of functions over disjoint blocks of rows.

    Blocks of one size of independent rows are exchangeable between sites whose populations agree,
    whatever the functions, as long as these are the same at every site. So features are in public
    units, (x - centre) / scale clipped at 6, and so is the grid to which means are rounded at
    random: the rounding has the same distribution at each site, also for a column that is constant
    at one of them. Random rounding keeps expectations. Means over ten rows are rounded, and a
    larger block is the mean of such means: so it has one distribution whether a site or a server
    has joined the ten. Rounding each block to a grid of its own rejected 6.4% of 5000 equal pairs
    of 100 and 1000 rows of rare binaries at 5%.

    Whoever chooses units could choose some in which nine of the ten rows of a block are the same,
    so that the tenth comes back. A feature that is so far from the public centre, or so wide, that
    the mean of its clipped squares exceeds `far` is sent as a sign alone: -6 or 6, and 0 in
    products. In pooled units of one population that mean is at most 1. The bound is the same at
    every site: one that fell with the number of rows would send values from 50 rows and signs from
    1500 of one population, wherever its units are not its own, and the test would reject.

    There are `per_size` blocks of 10 rows (or the first of 20, 40, ... that is not below
    `min_cell_size`), as many of twice that size, and so on. A server merges small ones, so sites
    of different sizes are compared by blocks of one size.

    With units (such as patients) a block has that many units instead of rows, and takes the mean
    over units of the means over each unit's rows. Units are exchangeable where their rows are not;
    a unit with many rows counts no more than others, and is hidden among them.

    Parameters
    ----------
    points : array (n, d)
    order : a random permutation of the rows; None draws it from `rng`
    rng : source of the rounding and of the order of units. For replies that can be repeated, take
        both from `fedwad.transport.measures.data_order`
    centre, scale : public location and scale of each feature, the same at every site
    min_cell_size : fewest rows, or units, of a block
    units : array (n,) of integers; rows with the same integer belong to one unit
    spread : sum of the variances of all features in public units, which sets the bandwidths of
        joint functions; by default the number of features
    indicators : features that have two values; squares and cosines would send them again
    per_size : blocks of each size. Sites of 30 and of 300 rows that differ by a shift are told
        apart in 80% of runs with 32 or more and in 68% with 20 (`benchmarks.truth power`)
    joint : number of joint functions, an even number, see `joint_functions`
    grid : step of the rounding of means over ten rows (or units)
    far : a site's mean square of a feature in public units above which only its sign is sent. At
        4, a flag that is rare everywhere would exceed it by chance at a site of 30 rows

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> blocks = block_means(rng.normal(size=(745, 3)), None, rng)
    >>> blocks.counts, blocks.means.shape, len(blocks.merged(20))
    ((32, 21), (53, 20), 37)
    """
    rows = np.asarray(points, dtype=np.float64)
    shuffled = rng.permutation(len(rows)) if order is None else order
    codes = np.arange(len(rows))
    if units is not None:
        codes = number_units(np.asarray(units)[shuffled], rng)
        by_unit = np.argsort(codes, kind="stable")
        shuffled, codes = shuffled[by_unit], codes[by_unit]
    count = int(codes.max(initial=-1)) + 1
    smallest = SMALLEST
    while smallest < min_cell_size:
        smallest *= 2
    if count < smallest:
        raise InputError(
            f"There are {count} independent rows, and a block has {smallest}; use more rows.",
            "too-few-rows",
        )
    counts = block_counts(count, smallest, per_size)
    sizes = np.repeat(smallest * 2 ** np.arange(len(counts)), counts)
    rows_of_unit = np.bincount(codes)
    directions = joint_functions(rows.shape[1], joint, spread)
    two_valued = tuple(indicators)

    def clipped(some: slice) -> Floats:
        z = (rows[shuffled[some]] - np.asarray(centre)) / np.asarray(scale)
        return np.asarray(np.clip(z, -6.0, 6.0))

    slices = list(row_slices(len(rows), 4 * rows.shape[1]))
    squares = sum((clipped(some) ** 2).sum(axis=0) for some in slices)
    signs = np.flatnonzero(squares > far * len(rows))
    low, high, few = rows.min(axis=0), rows.max(axis=0), np.ones(rows.shape[1], dtype=bool)
    for some in slices:  # a missing value is encoded as 0
        few &= ((rows[some] == low) | (rows[some] == high) | (rows[some] == 0)).all(axis=0)
        if not few.any():
            break
    alone = np.union1d(signs, np.flatnonzero(few))
    # Tens of units, in the order of the blocks; what fills no block is left out.
    tens = sizes // SMALLEST
    block = np.repeat(np.arange(len(sizes)), tens)
    starts = np.searchsorted(codes, SMALLEST * np.arange(len(block) + 1))
    each = -(-len(rows) // len(block))  # rows of a ten
    functions = row_functions(clipped(slice(1)), two_valued, directions).shape[1]
    sums = np.zeros((len(sizes), functions))
    for some in row_slices(len(block), 4 * each * rows.shape[1]):
        part = slice(starts[some.start], starts[some.stop])
        z = clipped(part)
        z[:, signs] = np.where(z[:, signs] > 0, 6.0, -6.0)
        values = row_functions(z, two_valued, directions, alone)
        values /= rows_of_unit[codes[part], None]
        of_ten = np.add.reduceat(values, starts[some] - part.start) / SMALLEST
        if grid > 0:
            of_ten = np.floor(of_ten / grid + rng.random(of_ten.shape)) * grid
        first = np.flatnonzero(np.diff(block[some], prepend=-1))
        sums[block[some][first]] += np.add.reduceat(of_ten, first)
    return Blocks(smallest, counts, sums / tens[:, None], rows.shape[1], two_valued)


def row_functions(
    z: Floats,
    indicators: Sequence[int],
    directions: Floats,
    alone: Indices | None = None,
    clip: float = 2.0,
) -> Floats:
    """The functions of rows z (n, d) whose means are sent, (n, K).

    They are the d features; squares and cos(2 z) of features that are no indicators, the numbers;
    with up to eight features the products of all pairs of numbers; and cosines and sines along
    `directions`.

    A row that alone in its block has a rare flag would tell its other features by products with the
    flag, the more the larger products are beside the grid. So there are none with indicators, and
    products with numbers in `alone`, which are signs or have two values at this site, are 0. The
    others are clipped at `clip` there: with 2 a changed correlation is found as often as with 6,
    with 1.5 in 64 instead of 75% of 80 runs (eight features).
    """
    d = z.shape[1]
    numbers = np.delete(z, np.array(indicators, dtype=np.int64), axis=1)
    near = np.clip(z, -clip, clip)
    near[:, [] if alone is None else alone] = 0.0
    near = np.delete(near, np.array(indicators, dtype=np.int64), axis=1)
    first, second = np.triu_indices(near.shape[1] if d <= PAIRED else 0, 1)
    along = z @ directions
    return np.hstack(
        [
            z,
            numbers**2,
            np.cos(2 * numbers),
            near[:, first] * near[:, second],
            np.cos(along),
            np.sin(along),
        ]
    )


def block_counts(count: int, smallest: int, per_size: int) -> tuple[int, ...]:
    """Number of blocks of `smallest`, 2 * `smallest`, ... rows.

    >>> block_counts(745, 10, 32), block_counts(2000, 10, 32), block_counts(35, 10, 32)
    ((32, 21), (32, 32, 26), (3,))
    """
    counts: list[int] = []
    size = smallest
    while count >= size:
        counts.append(min(per_size, count // size))
        count, size = count - counts[-1] * size, 2 * size
    for k in reversed(range(len(counts))):  # the rest goes to one more block of some sizes
        if count >= smallest << k:
            counts[k] += 1
            count -= smallest << k
    return tuple(counts)


def joint_functions(
    dimension: int, count: int, spread: float | None = None, seed: int = 20250301
) -> Floats:
    """Directions w (d, count // 2) of the random Fourier features cos(w.z) and sin(w.z); the seed
    is public.

    Their sum of squared differences of means estimates the maximum mean discrepancy with a sum of
    Gaussian kernels (Rahimi and Recht, Random features for large-scale kernel machines, 2007).
    Bandwidths are 1/2, 1 and 2 times sqrt(spread), in turn; two independent rows are at a squared
    distance of 2 * spread on average. The first direction of each bandwidth is the sum of all
    features, along which a common factor shows: without it a common correlation of .3 among ten
    columns is found in 28% of runs, with it in all.
    """
    rng = np.random.default_rng([seed, dimension])
    directions = rng.normal(size=(dimension, count // 2))
    directions[:, :3] = 1.0
    root = np.sqrt(spread if spread is not None and spread > 0 else dimension)
    return np.asarray(directions / (np.resize([0.5, 1.0, 2.0], count // 2) * root))


def sizes_of(sites: Sequence[Blocks]) -> list[int]:
    """Sizes of blocks of which each site has at least one, in ascending order."""
    rows = max(site.rows for site in sites)
    sizes = []
    while all(site.count(rows) for site in sites):
        sizes.append(rows)
        rows *= 2
    return sizes
