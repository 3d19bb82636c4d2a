"""A distance matrix with everything that the parts of its page share: order, digits, clusters.

The page shows distances between populations if those between at least two sites are known, and
distances between samples otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from fedwad._matrix.result import MatrixResult
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.page._colour import CLUSTER_COLOURS
from fedwad.report.page._digits import Digits
from fedwad.report.page._layout import Ints, Tree, build_tree
from fedwad.report.page._text import clean
from fedwad.report.sentences import cluster_numbers, judged_sites, pairs_that_differ
from fedwad.tables import Schema

__all__ = ["MatrixView"]


@dataclass(frozen=True)
class MatrixView:
    """One matrix, with its clusters, exact distances, schema and warnings as far as known.

    `clusters` has an integer label for each site. `newcomer` is the site that the page is about, if
    it is about one.
    """

    matrix: MatrixResult
    clusters: Ints | None
    exact: Floats | None
    schema: Schema | None = None
    warnings: tuple[str, ...] = ()
    newcomer: str | None = None

    @classmethod
    def of(
        cls,
        matrix: MatrixResult,
        clusters: Any = None,
        exact: Any = None,
        schema: Schema | None = None,
        warnings: Sequence[str] = (),
        newcomer: str | None = None,
    ) -> MatrixView:
        """A view, after a check that clusters and exact distances have the shape of the matrix."""
        size = len(matrix.sites)
        if clusters is not None:
            clusters = np.asarray(clusters)
            if clusters.shape != (size,) or not np.issubdtype(clusters.dtype, np.integer):
                raise InputError(
                    f"clusters has shape {clusters.shape}; give one integer for each site ({size})."
                )
            clusters = clusters.astype(np.int64)
        if exact is not None:
            exact = np.asarray(exact, dtype=float)
            if exact.shape != (size, size):
                raise InputError(
                    f"exact has shape {exact.shape}; give one distance per pair ({size} x {size})."
                )
        if schema is None and matrix.evidence is not None:
            schema = matrix.evidence.schema
        return cls(matrix, clusters, exact, schema, tuple(warnings), newcomer)

    @property
    def shows_populations(self) -> bool:
        """Whether the page shows distances between populations; some may be unknown."""
        matrix = self.matrix
        has_errors = matrix.population_interval is not None and matrix.noise is not None
        return has_errors and bool(judged_sites(matrix))

    @property
    def interval_name(self) -> str:
        """The word for the intervals of the distances that the page shows."""
        return "95% interval" if self.shows_populations else self.sample_interval_name

    @property
    def sample_interval_name(self) -> str:
        """The word for the bounds of the distances between samples."""
        return "certified" if self.matrix.certified else "likely"

    @property
    def size(self) -> int:
        return len(self.matrix.sites)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(map(clean, self.matrix.sites))

    @cached_property
    def tree(self) -> Tree:
        return build_tree(self.imputed, self.clusters)

    @cached_property
    def value(self) -> Floats:
        """The distances that the page shows."""
        shown = self.matrix.population if self.shows_populations else self.matrix.value
        return np.asarray(shown, dtype=float)

    @cached_property
    def imputed(self) -> Floats:
        """The distances for maps, trees and clusters: unknown ones are guessed from the samples."""
        if not self.shows_populations or np.isfinite(self.value).all():
            return self.value
        usable = np.isfinite(self.value) & (self.sample_value > 0)
        ratio = float(np.median(self.value[usable] / self.sample_value[usable]))
        return np.where(np.isfinite(self.value), self.value, ratio * self.sample_value)

    @cached_property
    def sample_value(self) -> Floats:
        """The estimated distances between samples."""
        return np.asarray(self.matrix.value, dtype=float)

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """The ends of the intervals of the distances that the page shows."""
        interval = self.matrix.population_interval
        ends = interval if self.shows_populations and interval is not None else self.sample_bounds
        return np.asarray(ends[0], dtype=float), np.asarray(ends[1], dtype=float)

    @property
    def sample_bounds(self) -> tuple[Floats, Floats]:
        """The bounds of the distances between samples."""
        ends = self.matrix.lower, self.matrix.upper
        return np.asarray(ends[0], dtype=float), np.asarray(ends[1], dtype=float)

    @cached_property
    def noise(self) -> float | None:
        """The median over pairs of the noise level; None if it is unknown or not shown."""
        if not self.shows_populations or self.matrix.noise is None or self.size < 2:
            return None
        return float(np.nanmedian(np.asarray(self.matrix.noise, dtype=float)[self.pairs]))

    @cached_property
    def differs(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None:
        """Which pairs differ by more than chance; None if that is unknown."""
        return pairs_that_differ(self.matrix)

    @cached_property
    def can_be_judged(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Which pairs have a p-value, or a distance between populations if there was no test."""
        matrix = self.matrix
        numbers = matrix.population if matrix.pvalue is None else matrix.pvalue
        return np.isfinite(np.full_like(self.value, np.nan) if numbers is None else numbers)

    def interval(self, i: int, j: int) -> str:
        """The interval of a pair as text."""
        low, high = self.bounds
        ends = float(low[i, j]), float(high[i, j])
        return self.digits.interval(*ends, certified=not self.shows_populations)

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """All pairs i < j, row by row."""
        first, second = np.triu_indices(self.size, 1)
        return first, second

    @cached_property
    def digits(self) -> Digits:
        return Digits.for_numbers(self.value[self.pairs])

    @cached_property
    def colour_range(self) -> tuple[float, float]:
        """The distances of the first and the last colour.

        They are the smallest and the largest distance, or zero and the largest if all are nearly
        equal. If the noise is known, the range goes from zero to at least the noise, so that chance
        alone does not fill it.
        """
        finite = self.value[self.pairs]
        finite = finite[np.isfinite(finite)]
        if not len(finite):
            return 0.0, 1.0
        smallest, largest = float(finite.min()), float(finite.max())
        if self.noise is not None:
            return 0.0, max(largest, self.noise) or 1.0
        is_varied = largest - smallest > 0.02 * largest
        return (smallest, largest) if is_varied else (0.0, largest or 1.0)

    @cached_property
    def axis_range(self) -> tuple[float, float]:
        """From the smallest lower to the largest upper bound, and at least `colour_range`."""
        lower, upper = (bound[self.pairs] for bound in self.bounds)
        first, last = self.colour_range
        return (
            float(lower[np.isfinite(lower)].min(initial=first)),
            float(upper[np.isfinite(upper)].max(initial=last)),
        )

    @cached_property
    def ranking(self) -> Ints:
        """Indices of the pairs from the closest to the farthest; unknown ones come last."""
        return np.argsort(self.value[self.pairs], kind="stable")

    @cached_property
    def nearest(self) -> Ints:
        """The nearest other site of each site; of a site without known distances, as `imputed`."""
        is_known = np.isfinite(self.value) & ~np.eye(self.size, dtype=bool)
        distances = np.where(is_known.any(axis=1, keepdims=True), self.value, self.imputed)
        distances = np.where(np.isfinite(distances), distances, np.finfo(float).max)
        np.fill_diagonal(distances, np.inf)
        return np.asarray(distances.argmin(axis=1), dtype=np.int64)

    @cached_property
    def colour_values(self) -> Floats:
        """The distances that colours show: zero for pairs without evidence of a difference.

        Pairs that cannot be judged keep their distance.
        """
        if self.differs is None:
            return self.value
        return np.where(self.differs | ~self.can_be_judged, self.value, 0.0)

    @property
    def farthest_pair(self) -> tuple[int, int]:
        """The pair with the largest known distance, with which the page starts."""
        first, second = self.pairs
        finite = self.ranking[np.isfinite(self.value[self.pairs][self.ranking])]
        pair = finite[-1] if len(finite) else self.ranking[0]
        return int(first[pair]), int(second[pair])

    def other_distances(self) -> dict[str, Floats]:
        """Distances to show beside ours, by label: the paper's and the exact ones."""
        others = {"the paper's estimate": self.matrix.fedwad, "exact": self.exact}
        return {
            label: np.asarray(distances, dtype=float)
            for label, distances in others.items()
            if distances is not None
        }

    @cached_property
    def cluster_labels(self) -> list[int]:
        """The labels in use, each once, from the smallest."""
        return [] if self.clusters is None else sorted({int(label) for label in self.clusters})

    @cached_property
    def cluster_number(self) -> dict[int, int]:
        """The number of each label's cluster, from 1; 0 for a single site."""
        return {} if self.clusters is None else cluster_numbers(self.clusters.tolist())

    def cluster_index(self, site: int) -> int:
        """The index of the site's cluster, which selects the colour and shape of its marker."""
        return 0 if self.clusters is None else self.cluster_labels.index(int(self.clusters[site]))

    def css_class(self, site: int) -> str:
        """The CSS class that colours the site."""
        return (
            "plain"
            if self.clusters is None
            else f"c{self.cluster_index(site) % len(CLUSTER_COLOURS)}"
        )

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
