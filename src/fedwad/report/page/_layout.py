"""The layout of sites: their order along the axes, the dendrogram, and a map of their distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.transport import Floats

Ints = NDArray[np.int64]

_CLUSTER_OFFSET = 4.0  # added to distances between clusters, in units of the largest distance
_ITERATIONS = 100  # of SMACOF; a picture needs no more


@dataclass(frozen=True)
class Branch:
    """A join of two groups of sites in the dendrogram.

    positions : places of both groups along the leaves, counted from 0
    heights : distances at which both groups were joined themselves; 0 for a single site
    height : distance at which the two groups join
    members : indices of the sites of both groups
    """

    positions: tuple[float, float]
    heights: tuple[float, float]
    height: float
    members: tuple[int, ...]


@dataclass(frozen=True)
class Tree:
    """Sites in the order of the leaves, and the branches in the order in which groups join."""

    order: Ints
    branches: tuple[Branch, ...]


def build_tree(value: Floats, clusters: Ints | None = None) -> Tree:
    """The dendrogram of sites, by average linkage with SciPy's optimal leaf ordering.

    `value` has the distances (N, N). If there are clusters, the sites of a cluster join first: a
    constant that is larger than all distances is added to those between clusters. It is subtracted
    again from the heights of the branches. A branch is at least as high as those it joins.
    """
    size = len(value)
    if size < 2:
        return Tree(np.arange(size), ())
    from scipy.cluster.hierarchy import linkage, optimal_leaf_ordering, to_tree
    from scipy.spatial.distance import squareform

    distance, unit = _scale_and_complete(value)
    if clusters is not None:
        distance = distance + _CLUSTER_OFFSET * (clusters[:, None] != clusters[None, :])
    flat = squareform(distance, checks=False)
    merges = optimal_leaf_ordering(linkage(flat, "average"), flat)
    root, nodes = to_tree(merges, rd=True)
    order = np.array(root.pre_order(), dtype=np.int64)
    positions = dict(zip(order.tolist(), map(float, range(size)), strict=True))
    heights = dict.fromkeys(positions, 0.0)
    branches = []
    for (left, right, *_), node in zip(merges, nodes[size:], strict=True):
        # Distances are at most one, so only a merge across clusters reaches the offset.
        offset = _CLUSTER_OFFSET if node.dist >= _CLUSTER_OFFSET else 0.0
        height = max(unit * (node.dist - offset), heights[left], heights[right])
        both_positions = positions[left], positions[right]
        branches.append(
            Branch(both_positions, (heights[left], heights[right]), height, tuple(node.pre_order()))
        )
        positions[node.id], heights[node.id] = sum(both_positions) / 2, height
    return Tree(order, tuple(branches))


def _scale_and_complete(value: Floats) -> tuple[Floats, float]:
    """Distances divided by the largest, and the largest; unknown distances become the largest."""
    finite = np.isfinite(value)
    largest = float(value[finite].max(initial=0.0)) or 1.0
    scaled = np.where(finite, value, largest) / largest
    scaled = np.maximum((scaled + scaled.T) / 2, 0.0)
    np.fill_diagonal(scaled, 0.0)
    return np.asarray(scaled), largest


def embed_in_plane(value: Floats) -> Floats:
    """Two coordinates per site, by metric multidimensional scaling (SMACOF of scikit-learn).

    Classical scaling gives the start: the two leading eigenvectors of -J D^2 J / 2 with
    J = I - 11'/N. The axes are the principal directions of the result.
    """
    size = len(value)
    distance, unit = _scale_and_complete(value)
    if not distance.any():
        return np.zeros((size, 2))
    from scipy.linalg import eigh
    from sklearn.manifold import smacof

    squares = distance**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = eigh(-centred / 2, subset_by_index=[size - 2, size - 1])
    start = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    points, _ = smacof(
        distance, init=start, n_init=1, max_iter=_ITERATIONS, eps=1e-9, normalized_stress=False
    )
    points = points - points.mean(axis=0)
    turned = points @ np.linalg.svd(points, full_matrices=True)[2].T
    extreme = turned[np.abs(turned).argmax(axis=0), [0, 1]]
    return np.asarray(turned * np.where(extreme < 0, -1.0, 1.0) * unit)  # fixed signs


def median_map_error(points: Floats, value: Floats) -> float:
    """The median over pairs of |distance on the map / distance - 1|."""
    pairs = np.triu_indices(len(points), 1)
    distances = value[pairs]
    usable = np.isfinite(distances) & (distances > 0)
    if not usable.any():
        return 0.0
    from scipy.spatial.distance import pdist

    unit = float(distances[usable].max())  # keeps squares of very small and large numbers in range
    on_map, true = pdist(points / unit)[usable], distances[usable] / unit
    return float(np.median(np.abs(on_map / true - 1)))
