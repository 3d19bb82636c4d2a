"""What people are shown of a matrix: which distances, how they are written, verdicts, clusters.

Distances are those between populations if those of some pair are known, or if a test ran that
could have found them, and those between samples otherwise. The terminal, notebooks, pictures and
pages all show these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedwad._words import cluster_numbers, pluralize
from fedwad.compare.digits import Digits
from fedwad.transport import Floats

if TYPE_CHECKING:
    from fedwad.compare.results import MatrixResult

Ints = NDArray[np.int64]

#: Labels of pairs in tables and beside the heat map; the test of the pair decides.
VERDICTS = ("no evidence", "differ", "too few rows", "not tested")
NO_EVIDENCE, DIFFER, TOO_FEW_ROWS, NOT_TESTED = range(4)


@dataclass(frozen=True)
class Group:
    """A cluster: its title, how wide it is and how far from others, and its sites as indices."""

    title: str
    extent: str
    members: list[int]  # the most central first


@dataclass(frozen=True)
class ShownMatrix:
    """A matrix as it is shown; `clusters` has an integer label for each site."""

    matrix: MatrixResult
    clusters: Ints | None = None

    @property
    def title(self) -> str:
        """What the distances are."""
        matrix = self.matrix
        labelled = matrix.class_covariance is not None
        what = "Dataset distances" if labelled else f"W{matrix.p:g} distances"
        if not self.shows_populations:
            return f"{what} between samples, method {matrix.method}"
        if not matrix.certified:
            return f"{what} between populations, by columns"
        bounded = (self.verdicts[self.pairs] == NO_EVIDENCE).any()
        note = "; \N{LESS-THAN OR EQUAL TO} where no difference was found" if bounded else ""
        return f"{what} between populations{note}"

    @property
    def which(self) -> str:
        """The name of the table that is shown."""
        return "population" if self.shows_populations else "value"

    @cached_property
    def verdicts(self) -> Ints:
        """The index in `VERDICTS` of each pair, (N, N)."""
        pvalue = self.matrix.pvalue
        untested = np.isnan(np.full_like(self.matrix.value, np.nan) if pvalue is None else pvalue)
        verdict = np.where(untested, NOT_TESTED, TOO_FEW_ROWS)
        differs = self.matrix.differs
        verdict[differs == True] = DIFFER  # noqa: E712
        verdict[differs == False] = NO_EVIDENCE  # noqa: E712
        return verdict

    def verdict(self, i: int, j: int) -> str:
        """What the test of a pair says."""
        return VERDICTS[self.verdicts[i, j]]

    @cached_property
    def tested(self) -> bool:
        """Whether some pair was tested."""
        return bool((self.verdicts[self.pairs] != NOT_TESTED).any())

    @cached_property
    def shows_populations(self) -> bool:
        """Whether are shown distances between populations; some may be unknown."""
        matrix = self.matrix
        if matrix.population is None or matrix.population_interval is None:
            return False
        known = np.isfinite(matrix.population) | (self.verdicts != NOT_TESTED)
        return bool(known[self.pairs].any())

    @property
    def interval_name(self) -> str:
        """The word for the intervals of the distances that are shown."""
        shows_confidence = self.shows_populations and self.matrix.certified
        return "95% interval" if shows_confidence else self.sample_interval_name

    @property
    def sample_interval_name(self) -> str:
        """The word for the bounds of the distances between samples."""
        return "certified" if self.matrix.certified else "likely range"

    @cached_property
    def value(self) -> Floats:
        """The distances that are shown."""
        return np.asarray(self.matrix.population if self.shows_populations else self.matrix.value)

    @cached_property
    def distances(self) -> Floats:
        """The distances for maps, trees and clusters, which need one for every pair.

        They are estimates of those between populations if all are known, and what is shown where a
        difference was found, otherwise of those between samples.
        """
        square = self.matrix.square
        if not self.shows_populations or square is None or np.isnan(square).any():
            return self.matrix.value
        return np.where(np.isfinite(self.value), self.value, np.sqrt(np.maximum(square, 0.0)))

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """The ends of the intervals of the distances that are shown."""
        interval = self.matrix.population_interval
        return interval if self.shows_populations and interval is not None else self.sample_bounds

    @property
    def shows_samples_too(self) -> bool:
        """Whether distances between samples, which private releases do not tell, are shown too."""
        return self.shows_populations and self.matrix.certified

    @property
    def sample_bounds(self) -> tuple[Floats, Floats]:
        """The bounds of the distances between samples."""
        return self.matrix.lower, self.matrix.upper

    def number_text(self, i: int, j: int) -> str:
        """The distance of a pair, or a bound without evidence of a difference; empty if unknown."""
        value, upper = float(self.value[i, j]), float(self.bounds[1][i, j])
        if math.isfinite(value):
            return self.digits.text(value)
        bounded = self.verdicts[i, j] == NO_EVIDENCE and math.isfinite(upper)
        return f"≤ {self.digits.text(upper)}" if bounded else ""

    def interval(self, i: int, j: int) -> str:
        """The interval of a pair as text."""
        low, high = self.bounds
        ends = float(low[i, j]), float(high[i, j])
        return self.digits.interval(*ends, certified=not self.shows_populations)

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """All pairs i < j, row by row."""
        first, second = np.triu_indices(len(self.matrix), 1)
        return first, second

    @cached_property
    def digits(self) -> Digits:
        shown = self.value[self.pairs]
        return Digits.for_numbers(shown if np.isfinite(shown).any() else self.bounds[1][self.pairs])

    def pvalue_text(self, i: int, j: int) -> str:
        """The p-value of a pair; empty if it was not tested."""
        pvalue = self.matrix.pvalue
        return "" if pvalue is None or np.isnan(pvalue[i, j]) else f"{pvalue[i, j]:.2g}"

    def other_distances(self) -> dict[str, Floats]:
        """Distances to show beside ours, by label: what chance alone gives, and the paper's."""
        others = {"chance alone": self.matrix.noise, "the paper's estimate": self.matrix.fedwad}
        return {label: values for label, values in others.items() if values is not None}

    @cached_property
    def cluster_labels(self) -> list[int]:
        """The labels in use, each once, from the smallest."""
        return [] if self.clusters is None else sorted({int(label) for label in self.clusters})

    @cached_property
    def cluster_number(self) -> dict[int, int]:
        """The number of each label's cluster, from 1; 0 for a single site."""
        return {} if self.clusters is None else cluster_numbers(self.clusters.tolist())

    @cached_property
    def texts(self) -> list[list[str]]:
        """The distances as texts, "?" if unknown; empty on the diagonal."""
        sites = range(len(self.matrix))
        return [["" if i == j else self.number_text(i, j) or "?" for j in sites] for i in sites]

    @cached_property
    def colour_values(self) -> Floats:
        """The distances that colours show: zero for pairs without evidence of a difference.

        They are nan for pairs that have too few rows, or whose distance is unknown.
        """
        values = np.where(self.verdicts == TOO_FEW_ROWS, np.nan, self.value)
        return np.where(self.verdicts == NO_EVIDENCE, 0.0, values)

    @property
    def groups(self) -> list[Group]:
        """The clusters; one has a size and a mean distance inside unless it is a single site."""
        assert self.clusters is not None  # noqa: S101
        value, groups = self.distances, []
        for label in self.cluster_labels:
            inside, number = self.clusters == label, self.cluster_number[label]
            members, extent = np.flatnonzero(inside), []
            among = value[np.ix_(members, members)]
            central_first = np.argsort(np.nan_to_num(among, posinf=0).sum(axis=1), kind="stable")
            if len(members) > 1:
                pairs = np.triu_indices(len(members), 1)
                apart = f"{self.digits.text(float(np.mean(among[pairs])))} apart inside"
                if (self.verdicts[np.ix_(members, members)][pairs] == NO_EVIDENCE).all():
                    apart = "no difference found inside"
                extent = [pluralize(len(members), "site"), apart]
            if not inside.all():
                nearest = float(np.min(value[inside][:, ~inside]))
                extent.append(f"{self.digits.text(nearest)} to the nearest outside")
            title = f"Cluster {number}" if number else "A single site"
            groups.append(Group(title, ", ".join(extent), members[central_first].tolist()))
        return groups
