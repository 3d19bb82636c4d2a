"""k-means cells of many blocks of rows at once, for splits of a client's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._cells import merge_small
from fedwad.ot._measure import Floats, Indices

__all__ = ["Block", "PartCells", "labels_of_blocks", "summed_cells"]

_ITERATIONS = 8  # of Lloyd's algorithm, at most
_ENTRIES = 1 << 22  # numbers of blocks that are handled at once

#: Weights and means of the cells of a block, and a factor of the covariance within them.
PartCells = tuple[Floats, Floats, Floats]
#: Rows (m, d), or with a kernel their inner products (m, m), and the weights of the rows.
Block = tuple[Floats, Floats]


def labels_of_blocks(
    blocks: Sequence[Block], cells: int, min_size: int, rng: np.random.Generator, kernel: bool
) -> list[Indices]:
    """The k-means cell of each row of each block, as by `kmeans_cells`, for all blocks at once.

    For few rows, the calls of NumPy take longer than the arithmetic.
    Shorter blocks are filled up with rows of no weight. With `kernel`, blocks are inner products of
    rows, which are shorter than rows of many features.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> block = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(50, 2)) + 20])
    >>> (labels,) = labels_of_blocks([(block, np.full(80, 1 / 80))], 2, 10, rng, kernel=False)
    >>> sorted(np.bincount(labels).tolist())
    [30, 50]
    """
    limits = np.array([max(1, min(cells, len(mass) // min_size)) for _, mass in blocks])
    found = [np.zeros(len(mass), dtype=np.int64) for _, mass in blocks]
    several = np.flatnonzero(limits > 1)
    if not len(several):
        return found
    rows = max(len(blocks[int(k)][1]) for k in several)
    columns = rows if kernel else blocks[0][0].shape[1]
    step = max(1, _ENTRIES // (rows * columns))
    for start in range(0, len(several), step):
        chosen = several[start : start + step]
        batch = _Batch.of([blocks[int(k)] for k in chosen], limits[chosen], kernel)
        for k, labels in zip(chosen, batch.labels(min_size, rng), strict=True):
            found[k] = labels[: len(found[k])]
    return found


def summed_cells(points: Floats, weights: Floats, labels: Indices) -> PartCells:
    """Weights, means and a factor of the covariance of the cells of a block."""
    members = np.where(labels == np.arange(int(labels.max()) + 1)[:, None], weights, 0.0)
    total = members.sum(axis=1)
    means = members @ points / total[:, None]
    return total, means, (points - means[labels]) * np.sqrt(weights)[:, None]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Blocks of equally many rows: rows (P, m, d) or inner products (P, m, m), weights (P, m).

    Centres are points (P, k, d), or with inner products weights of rows (P, k, m). Block p has
    `limits[p]` cells.
    """

    data: Floats
    weights: Floats
    limits: NDArray[np.int64]
    kernel: bool

    @classmethod
    def of(cls, blocks: Sequence[Block], limits: NDArray[np.int64], kernel: bool) -> _Batch:
        rows = max(len(mass) for _, mass in blocks)
        columns = rows if kernel else blocks[0][0].shape[1]
        data = np.zeros((len(blocks), rows, columns))
        weights = np.zeros((len(blocks), rows))
        for k, (block, mass) in enumerate(blocks):
            data[k, : block.shape[0], : block.shape[1]] = block
            weights[k, : len(mass)] = mass
        return cls(data, weights, limits, kernel)

    def labels(self, min_size: int, rng: np.random.Generator) -> list[Indices]:
        centres = self._plusplus_start(rng)
        labels = self._nearest(centres)
        for _ in range(_ITERATIONS):
            _, centres = self._means(labels, centres)
            moved = self._nearest(centres)
            if (moved == labels).all():
                break
            labels = moved
        mass, centres = self._means(labels, centres)
        return [
            self._merged(k, labels[k], mass[k], centres[k], min_size) for k in range(len(labels))
        ]

    def _merged(
        self, k: int, labels: Indices, mass: Floats, centres: Floats, min_size: int
    ) -> Indices:
        real = self.weights[k] > 0  # not added to fill up the block
        weights, labels = self.weights[k][real], labels[real]
        counts = np.bincount(labels, minlength=self.limits[k])
        if counts.min() >= min_size and weights.min() == weights.max():
            return labels
        if self.kernel:  # coordinates of points that are as far apart as the centres
            values, vectors = np.linalg.eigh(centres @ self.data[k] @ centres.T)
            centres = vectors * np.sqrt(np.maximum(values, 0.0))
        return merge_small(labels, weights, mass, centres, min_size)

    def _plusplus_start(self, rng: np.random.Generator) -> Floats:
        """k-means++ in each block; one of fewer distinct rows than cells repeats some."""
        every = np.arange(len(self.data))
        chosen = np.empty((len(self.data), int(self.limits.max())), dtype=np.int64)
        chosen[:, 0] = _drawn(self.weights, rng)
        norms = self._norms()
        nearest = np.full(self.weights.shape, np.inf)
        for cell in range(1, chosen.shape[1]):
            last = chosen[:, cell - 1]
            if self.kernel:
                products = self.data[every, last]
            else:
                products = (self.data @ self.data[every, last][:, :, None])[:, :, 0]
            squares = norms - 2 * products + norms[every, last][:, None]
            np.minimum(nearest, np.maximum(squares, 0.0), out=nearest)
            chosen[:, cell] = _drawn(self.weights * nearest, rng)
        if self.kernel:
            rows = np.arange(self.data.shape[1])
            return np.asarray(chosen[:, :, None] == rows, dtype=np.float64)
        return np.asarray(self.data[every[:, None], chosen])

    def _norms(self) -> Floats:
        if self.kernel:
            return np.asarray(np.diagonal(self.data, axis1=1, axis2=2))
        return np.asarray(np.einsum("pmd,pmd->pm", self.data, self.data))

    def _nearest(self, centres: Floats) -> Indices:
        costs = self.data @ (-2 * centres.transpose(0, 2, 1))
        other = centres @ self.data if self.kernel else centres
        squares = np.einsum("pkd,pkd->pk", other, centres)
        squares[np.arange(centres.shape[1]) >= self.limits[:, None]] = np.inf
        costs += squares[:, None]
        return np.asarray(costs.argmin(axis=2))

    def _means(self, labels: Indices, centres: Floats) -> tuple[Floats, Floats]:
        """Mass and centre of each cell; an empty cell keeps its centre."""
        cells = np.arange(centres.shape[1])[:, None]
        members = np.where(labels[:, None] == cells, self.weights[:, None], 0.0)
        mass = members.sum(axis=2)
        sums = members if self.kernel else members @ self.data
        held = np.where(mass > 0, mass, 1.0)[:, :, None]
        return mass, np.where(mass[:, :, None] > 0, sums / held, centres)


def _drawn(chances: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """One row of each block, drawn with probabilities proportional to `chances`."""
    ends = np.cumsum(chances, axis=1)
    marks = rng.random(len(chances)) * ends[:, -1]
    return np.asarray(np.minimum((ends <= marks[:, None]).sum(axis=1), chances.shape[1] - 1))
