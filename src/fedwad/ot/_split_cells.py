"""k-means cells of many parts of equal size at once, for splits of a client's rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._cells import merge_small
from fedwad.ot._measure import Floats

__all__ = ["PartCells", "cells_of_parts"]

_ITERATIONS = 8  # of Lloyd's algorithm, at most
_ENTRIES = 1 << 22  # numbers of parts that are handled at once

#: Weights and means of the cells of a part, and a factor of the covariance within them.
PartCells = tuple[Floats, Floats, Floats]


def cells_of_parts(
    parts: list[Floats],
    weights: list[Floats],
    cells: int,
    min_size: int,
    rng: np.random.Generator,
) -> list[PartCells]:
    """k-means cells of each part, as by `kmeans_cells`, computed for all parts at once.

    Parts have equally many rows. For few rows, the calls of NumPy take longer than the arithmetic.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> part = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(50, 2)) + 20])
    >>> (cells,) = cells_of_parts([part], [np.full(80, 1 / 80)], 2, 10, rng)
    >>> sorted(cells[0].tolist())
    [0.375, 0.625]
    """
    rows, columns = parts[0].shape
    cells = max(1, min(cells, rows // min_size))
    if cells == 1:
        one = np.zeros(rows, dtype=np.int64)
        return [_summed(part, mass, one) for part, mass in zip(parts, weights, strict=True)]
    step = max(1, _ENTRIES // (rows * columns))
    found: list[PartCells] = []
    for start in range(0, len(parts), step):
        points = np.stack(parts[start : start + step])
        masses = np.stack(weights[start : start + step])
        middle = points.mean(axis=(0, 1))
        points -= middle
        labels, mass, centres = _lloyd(points, masses, cells, rng)
        for k in range(len(points)):
            own = merge_small(labels[k], masses[k], mass[k], centres[k], min_size)
            total, means, factor = _summed(points[k], masses[k], own)
            found.append((total, means + middle, factor))
    return found


def _summed(points: Floats, weights: Floats, labels: NDArray[np.int64]) -> PartCells:
    """Weights and means of cells, and the weighted deviations of rows from these means."""
    members = np.where(labels == np.arange(int(labels.max()) + 1)[:, None], weights, 0.0)
    total = members.sum(axis=1)
    means = members @ points / total[:, None]
    return total, means, (points - means[labels]) * np.sqrt(weights)[:, None]


def _lloyd(
    points: Floats, weights: Floats, cells: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Labels (P, m), masses (P, k) and centres (P, k, d) of the cells of P parts."""
    norms = np.einsum("pmd,pmd->pm", points, points)
    centres = _plusplus_start(points, norms, weights, cells, rng)
    labels = _nearest(points, centres)
    for _ in range(_ITERATIONS):
        _, centres = _means(points, weights, labels, centres)
        moved = _nearest(points, centres)
        if (moved == labels).all():
            break
        labels = moved
    return labels, *_means(points, weights, labels, centres)


def _plusplus_start(
    points: Floats, norms: Floats, weights: Floats, cells: int, rng: np.random.Generator
) -> Floats:
    """k-means++ in each part; a part of fewer distinct rows than cells repeats some."""
    every = np.arange(len(points))
    chosen = np.empty((len(points), cells), dtype=np.int64)
    chosen[:, 0] = _drawn(weights, rng)
    nearest = np.full(norms.shape, np.inf)
    for cell in range(1, cells):
        last = points[every, chosen[:, cell - 1]]
        squares = norms - 2 * (points @ last[:, :, None])[:, :, 0]
        squares += np.einsum("pd,pd->p", last, last)[:, None]
        np.minimum(nearest, np.maximum(squares, 0.0), out=nearest)
        chosen[:, cell] = _drawn(weights * nearest, rng)
    return np.asarray(points[every[:, None], chosen])


def _drawn(chances: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """One row of each part, drawn with probabilities proportional to `chances`."""
    ends = np.cumsum(chances, axis=1)
    marks = rng.random(len(chances)) * ends[:, -1]
    return np.asarray(np.minimum((ends <= marks[:, None]).sum(axis=1), chances.shape[1] - 1))


def _nearest(points: Floats, centres: Floats) -> NDArray[np.int64]:
    costs = points @ (-2 * centres.transpose(0, 2, 1))
    costs += np.einsum("pkd,pkd->pk", centres, centres)[:, None]
    return np.asarray(costs.argmin(axis=2))


def _means(
    points: Floats, weights: Floats, labels: NDArray[np.int64], centres: Floats
) -> tuple[Floats, Floats]:
    """Mass and mean of each cell; an empty cell keeps its centre."""
    members = np.where(
        labels[:, None] == np.arange(centres.shape[1])[:, None], weights[:, None], 0.0
    )
    mass = members.sum(axis=2)
    held = np.where(mass > 0, mass, 1.0)[:, :, None]
    return mass, np.where(mass[:, :, None] > 0, (members @ points) / held, centres)
