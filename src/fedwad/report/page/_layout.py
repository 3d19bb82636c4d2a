"""The layout of sites: their order along the axes, the dendrogram, and a map of their distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot import Floats

__all__ = ["Branch", "Tree", "build_tree", "embed_in_plane", "median_map_error"]

Ints = NDArray[np.int64]

_FAR = 4.0  # offset between clusters, in units of the largest distance
_STEPS = 100  # SMACOF iterations; a picture needs no more


@dataclass(frozen=True)
class Branch:
    """Two joined groups: their positions on the axis, their heights, and the height of the join."""

    positions: tuple[float, float]
    heights: tuple[float, float]
    height: float
    members: tuple[int, ...]


@dataclass(frozen=True)
class Tree:
    """Sites in the order of the leaves, and the branches from the lowest to the highest."""

    order: Ints
    branches: tuple[Branch, ...]


def build_tree(value: Floats, clusters: Ints | None = None) -> Tree:
    """Average linkage with SciPy's optimal leaf ordering.

    With clusters, cross-cluster distances get a constant offset larger than any distance, so
    clusters merge internally first. The offset is subtracted from the drawn heights. A branch is
    drawn no lower than the branches it joins.
    """
    size = len(value)
    if size < 2:
        return Tree(np.arange(size), ())
    from scipy.cluster.hierarchy import linkage, optimal_leaf_ordering, to_tree
    from scipy.spatial.distance import squareform

    distance, unit = _known(value)
    if clusters is not None:
        distance = distance + _FAR * (clusters[:, None] != clusters[None, :])
    flat = squareform(distance, checks=False)
    merges = optimal_leaf_ordering(linkage(flat, "average"), flat)
    root, nodes = to_tree(merges, rd=True)
    order = np.array(root.pre_order(), dtype=np.int64)
    place = dict(zip(order.tolist(), map(float, range(size)), strict=True))
    height = dict.fromkeys(place, 0.0)
    branches = []
    for (left, right, *_), node in zip(merges, nodes[size:], strict=True):
        # Distances are at most one, so only a merge across clusters reaches the offset.
        level = unit * (node.dist - (_FAR if node.dist >= _FAR else 0.0))
        top = max(level, height[left], height[right])
        place[node.id], height[node.id] = (place[left] + place[right]) / 2, top
        joined = (place[left], place[right]), (height[left], height[right])
        branches.append(Branch(*joined, top, tuple(node.pre_order())))
    return Tree(order, tuple(branches))


def _known(value: Floats) -> tuple[Floats, float]:
    """Distances divided by the largest, and the largest; unknown distances become the largest."""
    finite = np.isfinite(value)
    unit = float(value[finite].max(initial=0.0)) or 1.0
    known = np.where(finite, value, unit) / unit
    known = np.maximum((known + known.T) / 2, 0.0)
    np.fill_diagonal(known, 0.0)
    return np.asarray(known), unit


def embed_in_plane(value: Floats) -> Floats:
    """Two coordinates per site, by metric multidimensional scaling (SMACOF of scikit-learn).

    Classical scaling gives the start: the two leading eigenvectors of -J D^2 J / 2 with
    J = I - 11'/N. The axes are the principal directions of the result.
    """
    size = len(value)
    distance, unit = _known(value)
    if not distance.any():
        return np.zeros((size, 2))
    from scipy.linalg import eigh
    from sklearn.manifold import smacof

    squares = distance**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = eigh(-centred / 2, subset_by_index=[size - 2, size - 1])
    start = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    points, _ = smacof(
        distance, init=start, n_init=1, max_iter=_STEPS, eps=1e-9, normalized_stress=False
    )
    points = points - points.mean(axis=0)
    turned = points @ np.linalg.svd(points, full_matrices=True)[2].T
    extreme = turned[np.abs(turned).argmax(axis=0), [0, 1]]
    return np.asarray(turned * np.where(extreme < 0, -1.0, 1.0) * unit)  # fixed signs


def median_map_error(points: Floats, value: Floats) -> float:
    """The median over pairs of |distance on the map / value - 1|."""
    pairs = np.triu_indices(len(points), 1)
    known = value[pairs]
    usable = np.isfinite(known) & (known > 0)
    if not usable.any():
        return 0.0
    from scipy.spatial.distance import pdist

    unit = float(known[usable].max())  # keeps squares of very small and large numbers in range
    return float(np.median(np.abs(pdist(points / unit)[usable] / (known[usable] / unit) - 1)))
