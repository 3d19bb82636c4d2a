"""What a client shares for a permutation test: means of functions over blocks of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._order import data_order

__all__ = [
    "Blocks",
    "block_means",
    "common_block_size",
    "directions",
    "evaluate_functions",
    "in_common_units",
    "segments_of",
]

#: Fewest rows of a block. Larger blocks have twice, four times, ... as many.
MIN_BLOCK_ROWS = 10
#: Most blocks of one size, and the number of sizes; rows beyond are left out.
BLOCKS_PER_SIZE, SIZES = 64, 6
#: Block means are rounded to this fraction of a standard deviation, in the smallest blocks.
GRID = {"mean": 1 / 16, "square": 1 / 16, "third": 1 / 4, "fourth": 1 / 2, "projection": 1 / 16}
_POWERS = ("mean", "square", "third", "fourth")  # names in `Blocks.segments`
_MAX_PROJECTIONS = 40  # sums of features with random signs
_FEW_FEATURES = 200  # up to which third and fourth powers are sent
# A feature counts as constant if its standard deviation is no larger a fraction of its mean than
# this: at one site, and over all sites.
_CONSTANT_AT_SITE, _CONSTANT_OVER_SITES = 1e-9, 1e-8
_SEED = 20250301


@dataclass(frozen=True, eq=False)
class Blocks:
    """Means over blocks of rows of one site, small blocks first.

    Rows are standardised by the mean and the standard deviations of all rows of the site. A server
    can convert block means to other units, so they do not depend on other sites.

    Attributes
    ----------
    rows : int
        Rows in the smallest blocks; the next size has twice as many, and so on.
    counts : tuple of int
        Number of blocks of each size.
    means : array (B, K)
        Mean of each of the K functions over each block, see `segments_of`.
    centre, scale : arrays (d,)
        Mean and standard deviations of all rows of the site, 1 where a feature is constant.
    """

    rows: int
    counts: tuple[int, ...]
    means: Floats
    centre: Floats
    scale: Floats

    @property
    def segments(self) -> tuple[tuple[str, int], ...]:
        """Kinds of functions, such as "mean" or "square", and the number of functions of each."""
        return segments_of(len(self.centre))

    def merged(self, rows: int) -> Floats:
        """Means over blocks of `rows` rows: smaller blocks are joined, two by two.

        Larger blocks are left out. There are none if no number of joins gives `rows` rows.
        """
        means, size, start = self.means[:0], self.rows, 0
        for count in self.counts:
            means = np.concatenate([means, self.means[start : start + count]])
            if size == rows:
                return means
            means, size, start = _average_pairs(means), 2 * size, start + count
        while size < rows:
            means, size = _average_pairs(means), 2 * size
        return means if size == rows else self.means[:0]


def _average_pairs(means: Floats) -> Floats:
    """Means over blocks twice as large; an odd block at the end is left out."""
    even = len(means) // 2 * 2
    return np.asarray(means[:even].reshape(even // 2, 2, means.shape[1]).mean(axis=1))


def segments_of(dimension: int) -> tuple[tuple[str, int], ...]:
    """Kinds of functions of a row of `dimension` features, and the number of functions of each.

    They are the first four powers of each feature, and squares of sums of features with random
    signs. With many features third and fourth powers are left out. There are at most 5 functions
    for each feature, half as many as a block of ten rows has numbers.
    """
    powers = _POWERS[: 4 if dimension <= _FEW_FEATURES else 2]
    segments = [(name, dimension) for name in powers]
    if dimension > 1:
        segments.append(("projection", min(_MAX_PROJECTIONS, dimension)))
    return tuple(segments)


def _count_powers(dimension: int) -> int:
    return sum(name in _POWERS for name, _ in segments_of(dimension))


def directions(dimension: int) -> Floats:
    """Random signs from a public seed, (d, P), over sqrt(d); the first column is all plus signs."""
    count = dict(segments_of(dimension)).get("projection", 0)
    signs = np.random.default_rng([_SEED, 1]).choice([-1.0, 1.0], (dimension, count))
    signs[:, :1] = 1.0
    return np.asarray(signs / np.sqrt(dimension))


def evaluate_functions(z: Floats, scale: Floats) -> Floats:
    """All K functions of standardised rows z, (n, K).

    Projections are of rows that are not standardised feature by feature but divided by one unit for
    all features, so that features count as they do in distances.
    """
    unit = float(np.sqrt((scale**2).mean()))
    powers = [z]
    for _ in range(_count_powers(z.shape[1]) - 1):
        powers.append(powers[-1] * z)
    along = z @ (scale[:, None] / unit * directions(z.shape[1]))
    return np.concatenate([*powers, along**2], axis=1)


def block_means(
    measure: Measure, min_cell_size: int = MIN_BLOCK_ROWS, keys: NDArray[np.void] | None = None
) -> Blocks:
    """Means over blocks of rows, which are taken in an order that depends on the data alone.

    The first 64 blocks have ten rows each, or the first of 20, 40, ... that is not below
    `min_cell_size`. The next 64 have twice as many, and so on. Rows that fill no block are left
    out. Blocks of equal size are exchangeable between sites when the populations agree. Means are
    rounded at random to a sixteenth of a standard deviation (third and fourth powers more
    coarsely), so that the sum of a block's integers cannot be read exactly. That costs hardly any
    power.

    Parameters
    ----------
    measure : Measure with equal weights
    min_cell_size : fewest rows of a block
    keys : sixteen bytes for each row, from which the order follows; by default from the features

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> blocks = block_means(Measure(rng.normal(size=(745, 3))))
    >>> blocks.counts, blocks.means.shape, blocks.merged(20).shape
    ((64, 5), (69, 15), (37, 15))
    """
    if not measure.is_uniform:
        raise InputError("The rows have weights; a permutation test needs rows of equal weight.")
    rows = MIN_BLOCK_ROWS
    while rows < min_cell_size:
        rows *= 2
    if len(measure) < rows:
        count = len(measure)
        shortage = "There is 1 row" if count == 1 else f"There are {count} rows"
        raise InputError(f"{shortage}, and a block has {rows}; use more rows.")
    order, rng = data_order(measure, "blocks", keys)
    points = measure.rows(order)
    centre, scale = points.mean(axis=0), points.std(axis=0)
    points = points[: BLOCKS_PER_SIZE * rows * (2**SIZES - 1)]  # all that blocks can hold
    is_constant = scale <= _CONSTANT_AT_SITE * np.abs(centre)
    scale = np.where(is_constant, 1.0, scale)
    values = evaluate_functions(np.where(is_constant, 0.0, (points - centre) / scale), scale)
    counts: list[int] = []
    means: list[Floats] = []
    start, size = 0, rows
    while len(counts) < SIZES and start + size <= len(points):
        count = min(BLOCKS_PER_SIZE, (len(points) - start) // size)
        part = values[start : start + count * size].reshape(count, size, -1).mean(axis=1)
        means.append(_round_at_random(part, size, measure.dimension, rng))
        counts.append(count)
        start, size = start + count * size, 2 * size
    return Blocks(rows, tuple(counts), np.concatenate(means), centre, scale)


def _round_at_random(means: Floats, size: int, dimension: int, rng: np.random.Generator) -> Floats:
    """Means rounded up or down to a grid at random, which keeps their expectation."""
    names, counts = zip(*segments_of(dimension), strict=True)
    grids = np.repeat([GRID[name] for name in names], counts) * np.sqrt(MIN_BLOCK_ROWS / size)
    if not grids.all():
        return means
    return np.asarray(np.floor(means / grids + rng.random(means.shape)) * grids)


def common_block_size(sites: Sequence[Blocks], min_blocks: int) -> int:
    """Rows in the largest blocks of which each site has at least `min_blocks`.

    If no size has so many at each site, this is the smallest size that all sites have.
    """
    rows = smallest = max(site.rows for site in sites)
    while all(len(site.merged(2 * rows)) >= min_blocks for site in sites):
        rows *= 2
    if any(not len(site.merged(smallest)) for site in sites):
        raise InputError("A site has too few rows for a block as large as another site requires.")
    return rows


def in_common_units(sites: Sequence[Blocks], rows: int) -> list[Floats]:
    """Means over blocks of `rows` rows of each site, in the units of all sites together.

    Features are centred and scaled by the mean and the standard deviations over all these blocks.
    Third and fourth powers become Hermite polynomials, which for normal features are uncorrelated
    with lower powers.
    """
    merged = [site.merged(rows) for site in sites]
    centre, scale = _common_centre_and_scale(sites, merged)
    return [
        np.hstack([_powers(site, means, centre, scale), _projections(site, means, centre)])
        for site, means in zip(sites, merged, strict=True)
    ]


def _common_centre_and_scale(
    sites: Sequence[Blocks], merged: Sequence[Floats]
) -> tuple[Floats, Floats]:
    """Mean and standard deviations over all blocks."""
    d = len(sites[0].centre)
    counts = np.array([len(means) for means in merged], dtype=np.float64)
    weights = counts / counts.sum()
    first_moments = np.array([means[:, :d].mean(axis=0) for means in merged])
    second_moments = np.array([means[:, d : 2 * d].mean(axis=0) for means in merged])
    centres = np.array([site.centre for site in sites])
    scales = np.array([site.scale for site in sites])
    means = centres + scales * first_moments
    centre = weights @ means
    inside = scales**2 * (second_moments - first_moments**2)
    scale = np.sqrt(np.maximum(weights @ (inside + (means - centre) ** 2), 0.0))
    return centre, np.where(scale > _CONSTANT_OVER_SITES * np.abs(centre), scale, np.inf)


def _powers(site: Blocks, means: Floats, centre: Floats, scale: Floats) -> Floats:
    """Powers of the features in common units, by the binomial theorem."""
    d = len(centre)
    x, x2, *higher = (means[:, k * d : (k + 1) * d] for k in range(_count_powers(d)))
    ratio, shift = site.scale / scale, np.where(np.isinf(scale), 0.0, site.centre - centre) / scale
    z = ratio * x + shift
    z2 = ratio**2 * x2 + 2 * ratio * shift * x + shift**2
    if not higher:
        return np.hstack([z, z2])
    x3, x4 = higher
    z3 = ratio**3 * x3 + 3 * ratio**2 * shift * x2 + 3 * ratio * shift**2 * x
    z3 += shift**3
    z4 = ratio**4 * x4 + 4 * ratio**3 * shift * x3 + 6 * (ratio * shift) ** 2 * x2
    z4 += 4 * ratio * shift**3 * x + shift**4
    return np.hstack([z, z2, z3 - 3 * z, z4 - 6 * z2])


def _projections(site: Blocks, means: Floats, centre: Floats) -> Floats:
    """Squares of projections about the common centre, in a unit that all sites share."""
    d = len(centre)
    signs = directions(d)
    if not signs.shape[1]:
        return np.empty((len(means), 0))
    squares = means[:, -signs.shape[1] :] * float((site.scale**2).mean())
    along = (site.centre - centre) @ signs
    first = (means[:, :d] * site.scale) @ signs
    return np.asarray(squares + 2 * first * along + along**2)
