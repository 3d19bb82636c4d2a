"""A distance matrix with everything that the parts of its page share: order, digits, clusters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from fedwad._matrix.result import MatrixResult
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.page._arrange import Ints, Tree, tree
from fedwad.report.page._colour import CLUSTERS
from fedwad.report.page._digits import Digits
from fedwad.report.page._text import cleaned

__all__ = ["Subject"]


@dataclass(frozen=True)
class Subject:
    """One matrix, its clusters if there are any, and the exact distances if they are known."""

    matrix: MatrixResult
    clusters: Ints | None
    exact: Floats | None

    @classmethod
    def of(cls, matrix: MatrixResult, clusters: Any = None, exact: Any = None) -> Subject:
        """Check that every site has a label and every pair an exact distance."""
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
        return cls(matrix, clusters, exact)

    @property
    def sure(self) -> str:
        """The word for its intervals."""
        return "certified" if self.matrix.certified else "likely"

    @property
    def size(self) -> int:
        return len(self.matrix.sites)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(map(cleaned, self.matrix.sites))

    @cached_property
    def tree(self) -> Tree:
        return tree(self.value, self.clusters)

    @cached_property
    def value(self) -> Floats:
        return np.asarray(self.matrix.value, dtype=float)

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """All pairs i < j, row by row."""
        first, second = np.triu_indices(self.size, 1)
        return first, second

    @cached_property
    def digits(self) -> Digits:
        return Digits.fitting(self.value[self.pairs])

    @cached_property
    def range(self) -> tuple[float, float]:
        """The range of the colours: least to greatest value; from zero if all values are nearly
        equal."""
        known = self.value[self.pairs]
        known = known[np.isfinite(known)]
        if not len(known):
            return 0.0, 1.0
        least, most = float(known.min()), float(known.max())
        return (least, most) if most - least > 0.02 * most else (0.0, most or 1.0)

    @cached_property
    def span(self) -> tuple[float, float]:
        """From the least lower bound to the greatest upper bound."""
        low, high = (
            np.asarray(part, dtype=float)[self.pairs]
            for part in (self.matrix.lower, self.matrix.upper)
        )
        least = min(low[np.isfinite(low)].min(initial=self.range[0]), self.range[0])
        most = max(high[np.isfinite(high)].max(initial=self.range[1]), self.range[1])
        return float(least), float(most)

    @cached_property
    def ranked(self) -> Ints:
        """Indices of the pairs from the closest to the farthest; unknown ones come last."""
        return np.argsort(self.value[self.pairs], kind="stable")

    @cached_property
    def nearest(self) -> Ints:
        """The nearest other site of each site."""
        away = np.where(np.isfinite(self.value), self.value, np.inf)
        np.fill_diagonal(away, np.inf)
        return np.asarray(away.argmin(axis=1), dtype=np.int64)

    def others(self) -> list[tuple[str, Floats]]:
        """Distances to show beside ours: the paper's and the exact ones."""
        found = []
        if self.matrix.fedwad is not None:
            found.append(("the paper's estimate", np.asarray(self.matrix.fedwad, dtype=float)))
        if self.exact is not None:
            found.append(("exact", self.exact))
        return found

    @cached_property
    def cluster_names(self) -> list[int]:
        """The labels in use, each once, from the smallest."""
        return [] if self.clusters is None else sorted({int(label) for label in self.clusters})

    def mark_of(self, site: int) -> int:
        """The index of the site's cluster, which selects its colour and shape."""
        return 0 if self.clusters is None else self.cluster_names.index(int(self.clusters[site]))

    def paint_of(self, site: int) -> str:
        """The CSS class that colours the site."""
        return "plain" if self.clusters is None else f"c{self.mark_of(site) % len(CLUSTERS)}"

    def blocks(self) -> list[tuple[int, int, int]]:
        """Runs of one cluster along the axis: label, first place, number of sites."""
        if self.clusters is None:
            return []
        labels = self.clusters[self.tree.order]
        cuts = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), self.size]
        return [(int(labels[start]), start, stop - start) for start, stop in pairwise(cuts)]
