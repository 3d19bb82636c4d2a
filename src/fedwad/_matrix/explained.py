"""Why the sites of a matrix differ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import format_value
from fedwad._explain.clusters import explain_clusters
from fedwad._explain.evidence import Evidence
from fedwad._explain.explain import explain_pair, require_evidence
from fedwad._explain.explanation import Explanation
from fedwad._explain.parts import PairDistance
from fedwad.errors import InputError
from fedwad.ot import Floats

__all__ = ["ExplainedMatrix"]


class ExplainedMatrix:
    """The part of a MatrixResult that explains its distances; the result has the fields below."""

    sites: tuple[str, ...]
    value: Floats
    p: float
    population: Floats | None
    population_interval: tuple[Floats, Floats] | None
    evidence: Evidence | None

    def explain(
        self, a: str | None = None, b: str | None = None, *, names: Sequence[str] | None = None
    ) -> Any:
        """Return why two sites differ, as `fedwad.Explanation`.

        With one site, return a dictionary from the name of each other site to the explanation of
        the two. Without any, return one from each pair of names.

        Parameters
        ----------
        a, b : names of sites
        names : names of the columns, if the sites' data have none
        """
        evidence = require_evidence(self.evidence, self.p)
        indices = [self._index(one) for one in (a, b) if one is not None]
        if len(indices) == 2:
            return self._explain(evidence, indices[0], indices[1], names)
        if indices:
            others = [k for k in range(len(self.sites)) if k != indices[0]]
            return {self.sites[k]: self._explain(evidence, indices[0], k, names) for k in others}
        return {
            (self.sites[i], self.sites[j]): self._explain(evidence, i, j, names)
            for i, j in combinations(range(len(self.sites)), 2)
        }

    def explain_clusters(
        self, labels: Sequence[int] | NDArray[np.int64], *, names: Sequence[str] | None = None
    ) -> dict[int, Explanation]:
        """Return what separates each cluster from the other sites, by the label of the cluster.

        The part of a column is its mean part over pairs of a site inside the cluster and one
        outside, less its mean part over pairs of sites inside.

        Parameters
        ----------
        labels : the cluster of each site, such as `m.cluster(3)`
        names : names of the columns, if the sites' data have none
        """
        evidence = require_evidence(self.evidence, self.p)
        return explain_clusters(evidence, self.sites, labels, self._pair_distance, names)

    def _explain(
        self, evidence: Evidence, i: int, j: int, names: Sequence[str] | None
    ) -> Explanation:
        if i == j:
            raise InputError(f"'{self.sites[i]}' is named twice; name two different sites.")
        sites = self.sites[i], self.sites[j]
        return explain_pair(evidence, (i, j), sites, self._pair_distance(i, j), names)

    def _pair_distance(self, i: int, j: int) -> PairDistance:
        value = float(self.value[i, j])
        if self.population is None or self.population_interval is None:
            return PairDistance(value)
        population, low = float(self.population[i, j]), float(self.population_interval[0][i, j])
        if np.isnan(population):
            return PairDistance(value)
        return PairDistance(value, population, differs=low > 0, population_lower=low)

    def _index(self, name: str) -> int:
        if not isinstance(name, str) or name not in self.sites:
            raise InputError(
                f"There is no site {format_value(name)} in this matrix; it has"
                f" {', '.join(self.sites)}."
            )
        return self.sites.index(name)
