"""Partition of one client's samples into k-means cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._cost import ground_cost
from fedwad.ot._measure import Floats, Measure

__all__ = ["effective_counts", "group_sums", "kmeans_cells"]

_ITERATIONS = 25
_BLOCK_ENTRIES = 1 << 22
# As in `_cost`: differences are used for few features, and where a product would lose digits.
_FEW_FEATURES, _CANCELLATION = 8, 1e-4
_FEW_CELLS = 16


def kmeans_cells(
    measure: Measure, cells: int, min_size: int = 10, seed: int = 0, iterations: int = _ITERATIONS
) -> NDArray[np.int64]:
    """Label each point with one of at most `cells` cells of at least `min_size` points (Kish's
    effective number if weighted).

    Lloyd's iterations from a k-means++ start; then cells of fewer points join the nearest other
    cell. With fewer than 2 min_size points there is one cell. The same seed gives the same
    labels bit for bit, which threaded k-means implementations do not guarantee.
    """
    points, weights = measure.points, measure.weights
    cells = max(1, min(cells, len(points) // min_size))
    if cells == 1:
        return np.zeros(len(points), dtype=np.int64)
    centres = _plusplus_start(points, weights, cells, np.random.default_rng(seed))
    middle = points.mean(axis=0)
    near, centres = points - middle, centres - middle
    norms = np.einsum("id,id->i", near, near)
    labels = _nearest(near, norms, centres)
    for _ in range(iterations):
        mass, centres = _means(near, weights, labels, centres)
        moved = _nearest(near, norms, centres)
        if (moved == labels).all():
            break
        labels = moved
    mass, centres = _means(near, weights, labels, centres)
    return _merge_small(labels, weights, mass, centres, min_size)


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
    heaviest = np.zeros(int(labels.max()) + 1)
    np.maximum.at(heaviest, labels, mass)
    share = mass / heaviest[labels]
    total, squares = np.bincount(labels, share), np.bincount(labels, share**2)
    return np.asarray(total**2 / np.where(squares > 0, squares, 1.0))


def _plusplus_start(
    points: Floats, weights: Floats, cells: int, rng: np.random.Generator
) -> Floats:
    """k-means++: each further centre is drawn with probability proportional to its squared
    distance to the nearest centre."""
    chosen = [int(rng.choice(len(points), p=weights))]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < cells:
        np.minimum(nearest, ground_cost(points, points[chosen[-1:]])[:, 0], out=nearest)
        chances = weights * nearest
        total = chances.sum()
        if not total > 0:  # fewer distinct points than cells
            break
        chosen.append(int(rng.choice(len(points), p=chances / total)))
    return points[chosen]


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


def _merge_small(
    labels: NDArray[np.int64], weights: Floats, mass: Floats, centres: Floats, min_size: int
) -> NDArray[np.int64]:
    """Merge the smallest cell into its nearest neighbour until none is below `min_size`; renumber
    from 0."""
    labels, mass, centres = labels.copy(), mass.copy(), centres.copy()
    while True:
        counts = effective_counts(labels, weights)
        present = np.flatnonzero(counts)
        smallest = present[counts[present].argmin()]
        if counts[smallest] >= min_size - 1e-9 or len(present) == 1:
            break
        others = present[present != smallest]
        home = others[ground_cost(centres[smallest][None], centres[others])[0].argmin()]
        total = mass[home] + mass[smallest]
        centres[home] += (centres[smallest] - centres[home]) * (mass[smallest] / total)
        mass[home] = total
        labels[labels == smallest] = home
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
