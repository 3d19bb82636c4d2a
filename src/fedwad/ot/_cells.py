"""Partition of one client's samples into k-means cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._cost import ground_cost
from fedwad.ot._measure import Floats, Measure

__all__ = [
    "cell_sums",
    "effective_counts",
    "group_sums",
    "kmeans_cells",
    "merge_small",
    "row_slices",
]

_ITERATIONS = 25  # of Lloyd's algorithm, at most
_BLOCK_ENTRIES = 1 << 22  # numbers in a block of costs
# As in `_cost`: differences are used for few features, and where a product would lose digits.
_FEW_FEATURES, _CANCELLATION = 8, 1e-4
_FEW_CELLS = 16  # up to which a dense matrix of memberships is faster than a sparse one
_SAMPLED, _SAMPLED_PER_CELL = 4096, 200  # points on which centres are found
_ROWS_ENTRIES = 1 << 18  # numbers in a block of rows


def kmeans_cells(
    measure: Measure, cells: int, min_size: int = 10, seed: int = 0, iterations: int = _ITERATIONS
) -> NDArray[np.int64]:
    """Label each point with one of at most `cells` cells of at least `min_size` points (Kish's
    effective number if weighted).

    Lloyd's iterations begin with k-means++. Then cells of fewer than `min_size` points are merged
    into the nearest other cell. If there are many points, centres are found on a sample of them,
    and each point is given to the nearest centre. With fewer than 2 min_size points there is one
    cell. The same seed gives the same labels bit for bit, which threaded k-means implementations
    do not guarantee.
    """
    points, weights = measure.points, measure.weights
    cells = max(1, min(cells, len(points) // min_size))
    if cells == 1:
        return np.zeros(len(points), dtype=np.int64)
    rng = np.random.default_rng(seed)
    most = max(_SAMPLED, _SAMPLED_PER_CELL * cells)
    if len(points) <= most:
        labels, mass, centres = _lloyd(points, weights, cells, rng, iterations)
        return merge_small(labels, weights, mass, centres, min_size)
    sample = np.sort(rng.choice(len(points), most, replace=False, shuffle=False))
    some = points[sample]
    share = weights[sample] / weights[sample].sum()
    _, _, centres = _lloyd(some, share, cells, rng, iterations)
    middle = some.mean(axis=0)
    labels = np.empty(len(points), dtype=np.int64)
    for block in row_slices(len(points), points.shape[1]):
        near = points[block] - middle
        labels[block] = _nearest(near, np.einsum("id,id->i", near, near), centres)
    mass = np.asarray(np.bincount(labels, weights, len(centres)), dtype=np.float64)
    return merge_small(labels, weights, mass, centres, min_size)


def row_slices(rows: int, columns: int) -> Iterator[slice]:
    """Slices of consecutive rows, so short that temporary copies stay small."""
    step = max(1, _ROWS_ENTRIES // columns)
    for start in range(0, rows, step):
        yield slice(start, start + step)


def _lloyd(
    points: Floats, weights: Floats, cells: int, rng: np.random.Generator, iterations: int
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Labels, and mass and centre of each cell; centres are relative to the mean of the points."""
    near = points - points.mean(axis=0)
    norms = np.einsum("id,id->i", near, near)
    centres = _plusplus_start(near, norms, weights, cells, rng)
    labels = _nearest(near, norms, centres)
    for _ in range(iterations):
        mass, centres = _means(near, weights, labels, centres)
        moved = _nearest(near, norms, centres)
        if (moved == labels).all():
            break
        labels = moved
    mass, centres = _means(near, weights, labels, centres)
    return labels, mass, centres


def cell_sums(
    points: Floats, weights: Floats, labels: NDArray[np.int64], groups: int, origin: Floats
) -> Floats:
    """Sums of weight times (point - origin) by label, shape (groups, d), without a copy of all
    points."""
    if len(points) * points.shape[1] <= _ROWS_ENTRIES:
        return group_sums(weights[:, None] * (points - origin), labels, groups)
    sums = np.zeros((groups, points.shape[1]))
    for block in row_slices(*points.shape):
        sums += group_sums(weights[block, None] * (points[block] - origin), labels[block], groups)
    return sums


def group_sums(values: Floats, labels: NDArray[np.int64], groups: int) -> Floats:
    """Sums of the rows of `values` by label, shape (groups, d)."""
    from scipy.sparse import csr_array

    indicator = csr_array(
        (np.ones(len(labels)), labels, np.arange(len(labels) + 1)), shape=(len(labels), groups)
    )
    return np.asarray(indicator.T @ values)


def effective_counts(labels: NDArray[np.int64], mass: Floats) -> Floats:
    """Kish's effective number of samples in each cell: (sum of masses)^2 / (sum of squares), 0 for
    an empty cell."""
    return _CellSizes.of(labels, mass, int(labels.max()) + 1).counts


def _plusplus_start(
    points: Floats, norms: Floats, weights: Floats, cells: int, rng: np.random.Generator
) -> Floats:
    """k-means++: each further centre is drawn with probability proportional to its squared
    distance to the nearest centre."""
    chosen = [int(rng.choice(len(points), p=weights))]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < cells:
        np.minimum(nearest, _squares_to(points, norms, chosen[-1]), out=nearest)
        chances = weights * nearest
        total = chances.sum()
        if not total > 0:  # fewer distinct points than cells
            break
        chosen.append(int(rng.choice(len(points), p=chances / total)))
    return points[chosen]


def _squares_to(points: Floats, norms: Floats, index: int) -> Floats:
    """Squared distances of all points to one of them, by products unless that loses digits."""
    if points.shape[1] <= _FEW_FEATURES:
        return ground_cost(points, points[index : index + 1])[:, 0]
    sizes = norms + norms[index]
    squares = sizes - 2 * (points @ points[index])
    close = np.flatnonzero(squares < _CANCELLATION * sizes)
    differences = points[close] - points[index]
    squares[close] = np.einsum("id,id->i", differences, differences)
    return np.asarray(squares)


def _nearest(points: Floats, norms: Floats, centres: Floats) -> NDArray[np.int64]:
    """The nearest centre of each point, from |x|^2 - 2 x.c + |c|^2 unless that loses digits."""
    labels = np.empty(len(points), dtype=np.int64)
    rows = max(1, _BLOCK_ENTRIES // len(centres))
    squares = np.einsum("jd,jd->j", centres, centres)
    for start in range(0, len(points), rows):
        block = slice(start, start + rows)
        costs = points[block] @ (-2 * centres.T)
        costs += norms[block, None] + squares
        if points.shape[1] <= _FEW_FEATURES or costs.min() < _CANCELLATION * (
            norms[block].max() + squares.max()
        ):
            costs = ground_cost(points[block], centres)
        labels[block] = costs.argmin(axis=1)
    return labels


def _means(
    points: Floats, weights: Floats, labels: NDArray[np.int64], centres: Floats
) -> tuple[Floats, Floats]:
    """Mass and mean of each cell; an empty cell keeps its centre."""
    mass: Floats = np.asarray(np.bincount(labels, weights, len(centres)), dtype=np.float64)
    if len(centres) > _FEW_CELLS:
        sums = group_sums(weights[:, None] * points, labels, len(centres))
    else:  # a dense product does more work, but takes less time than building a sparse matrix
        sums = np.zeros_like(centres)
        rows = max(1, _BLOCK_ENTRIES // len(centres))
        for start in range(0, len(points), rows):
            block = slice(start, start + rows)
            members = np.where(
                labels[block] == np.arange(len(centres))[:, None], weights[block], 0.0
            )
            sums += members @ points[block]
    return mass, np.where(mass[:, None] > 0, sums / np.where(mass > 0, mass, 1.0)[:, None], centres)


def merge_small(
    labels: NDArray[np.int64], weights: Floats, mass: Floats, centres: Floats, min_size: int
) -> NDArray[np.int64]:
    """Merge the smallest cell into its nearest neighbour until none is below `min_size`; renumber
    from 0."""
    sizes = _CellSizes.of(labels, weights, len(mass))
    mass, centres = mass.copy(), centres.copy()
    merged_into = np.arange(len(mass))
    while True:
        counts = sizes.counts
        present = np.flatnonzero(counts)
        smallest = int(present[counts[present].argmin()])
        if counts[smallest] >= min_size - 1e-9 or len(present) == 1:
            break
        squares = ((centres[present] - centres[smallest]) ** 2).sum(axis=1)
        squares[present == smallest] = np.inf
        home = int(present[squares.argmin()])
        total = mass[home] + mass[smallest]
        centres[home] += (centres[smallest] - centres[home]) * (mass[smallest] / total)
        mass[home] = total
        sizes = sizes.merged(smallest, home)
        merged_into[merged_into == smallest] = home
    numbers = np.zeros(len(mass), dtype=np.int64)
    numbers[present] = np.arange(len(present))
    return np.asarray(numbers[merged_into][labels])


@dataclass(frozen=True, eq=False)
class _CellSizes:
    """Heaviest weight of each cell, and sums of weights and of their squares in units of it."""

    heaviest: Floats
    sums: Floats
    squares: Floats

    @classmethod
    def of(cls, labels: NDArray[np.int64], weights: Floats, groups: int) -> _CellSizes:
        if weights.min() == weights.max():
            counts = np.bincount(labels, minlength=groups).astype(np.float64)
            return cls(np.where(counts > 0, weights[0], 0.0), counts, counts)
        heaviest = np.zeros(groups)
        np.maximum.at(heaviest, labels, weights)
        share = weights / heaviest[labels]
        sums, squares = np.bincount(labels, share, groups), np.bincount(labels, share**2, groups)
        return cls(heaviest, np.asarray(sums, np.float64), np.asarray(squares, np.float64))

    @property
    def counts(self) -> Floats:
        """Kish's effective number of samples, 0 for an empty cell."""
        if self.squares is self.sums:
            return self.sums
        return np.asarray(self.sums**2 / np.where(self.squares > 0, self.squares, 1.0))

    def merged(self, one: int, home: int) -> _CellSizes:
        """The sizes after cell `one` joined `home`."""
        if self.squares is self.sums:  # equal weights: numbers of rows
            counts = self.sums.copy()
            counts[home] += counts[one]
            counts[one] = 0.0
            return _CellSizes(self.heaviest, counts, counts)
        heaviest, sums, squares = self.heaviest.copy(), self.sums.copy(), self.squares.copy()
        unit = max(heaviest[one], heaviest[home])
        factors = heaviest[[one, home]] / unit
        sums[home] = factors @ sums[[one, home]]
        squares[home] = factors**2 @ squares[[one, home]]
        heaviest[home] = unit
        heaviest[one] = sums[one] = squares[one] = 0.0
        return _CellSizes(heaviest, sums, squares)
