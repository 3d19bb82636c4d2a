"""Where clients stand: their order along the axes, the tree above it, and a map on which near means
alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot import Floats

__all__ = ["Branch", "Tree", "map_error", "on_a_map", "tree"]

Ints = NDArray[np.int64]

_FAR = 4.0  # in units of the largest distance
_STEPS = 100  # of Guttman's transform; a picture needs no more


@dataclass(frozen=True)
class Branch:
    """Two groups joined: their places along the axis, the heights at which they stood, and where
    they meet."""

    places: tuple[float, float]
    heights: tuple[float, float]
    height: float
    members: tuple[int, ...]


@dataclass(frozen=True)
class Tree:
    """Clients in the order of the leaves, and the branches from the lowest to the highest."""

    order: Ints
    branches: tuple[Branch, ...]


def tree(value: Floats, clusters: Ints | None = None) -> Tree:
    """Average linkage, leaves turned so that neighbours are as alike as the tree allows.

    With clusters the tree joins within them first: pairs across clusters are put further apart by
    more than any distance, which orders the merges; every cross pair carries it, so the average of
    a later merge carries just that much too, and it is taken off again. A branch is drawn no lower
    than those it joins.
    """
    size = len(value)
    if size < 2:
        return Tree(np.arange(size), ())
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    distance, unit = _known(value)
    if clusters is not None:
        distance = distance + _FAR * (clusters[:, None] != clusters[None, :])
    flat = squareform(distance, checks=False)
    merges = optimal_leaf_ordering(linkage(flat, "average"), flat)
    order = np.asarray(leaves_list(merges), dtype=np.int64)
    return Tree(order, _branches(merges, order, clusters, unit))


def _known(value: Floats) -> tuple[Floats, float]:
    """The distances in units of the largest, and that unit; what is not known is put as far away as
    the farthest."""
    finite = np.isfinite(value)
    unit = float(value[finite].max(initial=0.0)) or 1.0
    known = np.where(finite, value, unit) / unit
    known = np.maximum((known + known.T) / 2, 0.0)
    np.fill_diagonal(known, 0.0)
    return np.asarray(known), unit


def _branches(
    merges: Floats, order: Ints, clusters: Ints | None, unit: float
) -> tuple[Branch, ...]:
    place = {int(client): float(k) for k, client in enumerate(order)}
    height = dict.fromkeys(place, 0.0)
    members: dict[int, tuple[int, ...]] = {client: (client,) for client in place}
    branches = []
    for k, (left, right, level, _) in enumerate(merges):
        first, second = sorted((int(left), int(right)), key=place.__getitem__)
        joined, node = members[first] + members[second], len(order) + k
        crossing = clusters is not None and len({int(clusters[client]) for client in joined}) > 1
        top = max(
            unit * (float(level) - (_FAR if crossing else 0.0)), height[first], height[second]
        )
        branches.append(
            Branch((place[first], place[second]), (height[first], height[second]), top, joined)
        )
        place[node], height[node], members[node] = (place[first] + place[second]) / 2, top, joined
    return tuple(branches)


def on_a_map(value: Floats) -> Floats:
    """Two coordinates a client whose distances come near the given ones, along their main
    directions.

    Classical scaling gives the start: the two leading eigenvectors of -J D^2 J / 2 with J = I -
    11'/N. Then Guttman's transform X <- B(X) X / N, B_ij = -d_ij / |x_i - x_j|, lowers sum_ij (d_ij
    - |x_i - x_j|)^2 at every step.
    """
    size = len(value)
    if size < 2:
        return np.zeros((size, 2))
    from scipy.linalg import eigh
    from scipy.spatial.distance import cdist

    distance, unit = _known(value)
    squares = distance**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = eigh(-centred / 2, subset_by_index=[size - 2, size - 1])
    points: Floats = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    for _ in range(_STEPS):
        apart = cdist(points, points)
        pull = -np.divide(distance, apart, out=np.zeros_like(distance), where=apart > 0)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        points = pull @ points / size
    points = points - points.mean(axis=0)
    turned = points @ np.linalg.svd(points, full_matrices=True)[2].T
    flip = np.where(
        turned[np.abs(turned).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0
    )  # the same picture on every machine
    return np.asarray(turned * flip * unit)


def map_error(points: Floats, value: Floats) -> float:
    """How far the map is off: the median over pairs of |distance on the map / value - 1|."""
    pairs = np.triu_indices(len(points), 1)
    known = value[pairs]
    usable = np.isfinite(known) & (known > 0)
    if not usable.any():
        return 0.0
    from scipy.spatial.distance import pdist

    unit = float(
        known[usable].max()
    )  # squares of very small or large numbers would vanish or overflow
    return float(np.median(np.abs(pdist(points / unit)[usable] / (known[usable] / unit) - 1)))
