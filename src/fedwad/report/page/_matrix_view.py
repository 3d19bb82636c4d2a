"""A distance matrix with everything that the parts of its page share: colours and places."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from fedwad.compare import MatrixResult
from fedwad.compare.clusters import check_labels
from fedwad.compare.shown import DIFFER, Ints, ShownMatrix
from fedwad.report.page._colour import CLUSTER_COLOURS
from fedwad.report.page._text import clean
from fedwad.tables import Schema
from fedwad.transport import Floats

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


@dataclass(frozen=True)
class MatrixView(ShownMatrix):
    """One matrix, with its clusters and its schema as far as known.

    `newcomer` is the site that the page is about, if it is about one.
    """

    schema: Schema | None = None
    newcomer: str | None = None

    @classmethod
    def of(
        cls,
        matrix: MatrixResult,
        clusters: Any = None,
        schema: Schema | None = None,
        newcomer: str | None = None,
    ) -> MatrixView:
        """A view, after a check that there is a cluster for each site."""
        if clusters is not None:
            clusters = check_labels(clusters, len(matrix))
        if schema is None and matrix.evidence is not None:
            schema = matrix.evidence.schema
        return cls(matrix, clusters, schema, newcomer)

    def count_different(self, site: int) -> int:
        """From how many others a site differs."""
        return int((self.verdicts[site] == DIFFER).sum())

    @property
    def size(self) -> int:
        return len(self.matrix.sites)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(map(clean, self.matrix.sites))

    @cached_property
    def tree(self) -> Tree:
        return build_tree(self.distances, self.clusters)

    @cached_property
    def colour_range(self) -> tuple[float, float]:
        """The distances of the first and the last colour.

        Between populations they go from zero to the largest, between samples from the smallest to
        the largest, or from zero if all are nearly equal.
        """
        finite = self.value[self.pairs]
        finite = finite[np.isfinite(finite)]
        if not len(finite):
            return 0.0, 1.0
        smallest, largest = float(finite.min()), float(finite.max())
        is_varied = largest - smallest > 0.02 * largest
        if is_varied and not self.shows_populations:
            return smallest, largest
        return 0.0, largest or 1.0

    @cached_property
    def axis_range(self) -> tuple[float, float]:
        """From the smallest lower to the largest upper bound, and at least `colour_range`."""
        ends = np.concatenate([end[self.pairs] for end in self.bounds])
        known = np.array([*ends[np.isfinite(ends)], *self.colour_range])
        return float(known.min()), float(known.max())

    @cached_property
    def nearest(self) -> Ints:
        """The nearest other site of each site."""
        distances = np.where(np.isfinite(self.distances), self.distances, np.finfo(float).max)
        np.fill_diagonal(distances, np.inf)
        return np.asarray(distances.argmin(axis=1), dtype=np.int64)

    @property
    def farthest_pair(self) -> tuple[int, int]:
        """The pair with the largest known distance, with which the page starts."""
        first, second = self.pairs
        values = self.value[self.pairs]
        if not np.isfinite(values).any():
            values = self.distances[self.pairs]
        pair = int(np.nan_to_num(values, nan=-1.0, posinf=-1.0).argmax())
        return int(first[pair]), int(second[pair])

    def rows_text(self, site: int) -> str:
        """`n = 303`, or empty if the number of rows is unknown."""
        space = "\N{NO-BREAK SPACE}"
        return f"n{space}={space}{self.matrix.rows[site]:,}" if self.matrix.rows else ""

    def cluster_index(self, site: int) -> int:
        """The index of the site's cluster, which selects the colour and shape of its marker."""
        return 0 if self.clusters is None else self.cluster_labels.index(int(self.clusters[site]))

    def css_class(self, site: int) -> str:
        """The CSS class that colours the site."""
        number = self.cluster_index(site) % len(CLUSTER_COLOURS)
        return "plain" if self.clusters is None else f"c{number}"

    def cluster_runs(self) -> list[tuple[int, int, int]]:
        """Runs of sites of one cluster along the axis: cluster number, first position, length."""
        if self.clusters is None:
            return []
        labels = self.clusters[self.tree.order]
        starts = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), self.size]
        return [
            (self.cluster_number[int(labels[start])], start, stop - start)
            for start, stop in pairwise(starts)
        ]
