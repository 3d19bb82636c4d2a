"""A distance matrix with everything that the parts of its page share: order and colours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from fedwad.compare import MatrixResult
from fedwad.compare.shown import DIFFER, Ints, ShownMatrix
from fedwad.errors import InputError
from fedwad.report.page._colour import CLUSTER_COLOURS
from fedwad.report.page._layout import Tree, build_tree
from fedwad.report.page._text import clean
from fedwad.tables import Schema


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
        size = len(matrix.sites)
        if clusters is not None:
            clusters = np.asarray(clusters)
            if clusters.shape != (size,) or not np.issubdtype(clusters.dtype, np.integer):
                raise InputError(
                    f"clusters has shape {clusters.shape}; give one integer for each site"
                    f" ({size}).",
                    "wrong-shape",
                )
            clusters = clusters.astype(np.int64)
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
