"""Clusters of a matrix: how many there are, who belongs together, and how stable that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedwad import clusters
from fedwad._checks import check_integer
from fedwad._matrix.health import Health
from fedwad._matrix.resampling import kept_summaries, resample_by_intervals, resample_rows
from fedwad._matrix.significance import any_difference, distances_for_clusters, too_small
from fedwad.federation import KeptReply
from fedwad.ot import Floats

__all__ = ["ClusteredMatrix"]

_LEVEL, _GROUPS_LEVEL = 0.05, 0.025


class ClusteredMatrix:
    """The part of a MatrixResult that clusters its sites; it has the fields below."""

    sites: tuple[str, ...]
    value: Floats
    population: Floats | None
    population_interval: tuple[Floats, Floats] | None
    pvalue: Floats | None
    rows: tuple[int, ...]
    health: Health | None
    kept: Mapping[str, list[KeptReply]]

    @property
    def calibrated(self) -> bool:
        """Whether all sites sent the numbers of their splits, so that noise is known."""
        return self.population is not None and not np.isnan(self.population).any()

    def cluster(
        self, k: int, affinity: clusters.Affinity = "kernel", n_neighbors: int = 3, seed: int = 0
    ) -> NDArray[np.int64]:
        """Return one label for each site, by spectral clustering; see `fedwad.clusters.cluster`.

        The affinity "kernel" takes distances between populations where all are known.
        """
        return clusters.cluster(
            self._distances(affinity), k, affinity, n_neighbors, seed, self.resolution
        )

    def suggest(self) -> clusters.Suggestion:
        """Suggest a number of clusters, 1 if nothing differs by more than chance.

        If chance is unknown, distances alone decide; see `fedwad.clusters.suggest`. If all
        populations agree, more than one cluster is suggested in at most 2.5% of cases. `too_small`
        of the suggestion names sites with too few rows to be judged.
        """
        found = clusters.suggest(self._distances("kernel"), self.resolution)
        small = too_small(self.rows, self.pvalue is not None) if self.rows else []
        names = tuple(self.sites[index] for index in small)
        return replace(found, k=found.k if self.may_have_groups else 1, too_small=names)

    @property
    def may_have_groups(self) -> bool:
        """Whether some difference between sites exceeds chance at 2.5%, or chance is unknown."""
        return self._differs(_GROUPS_LEVEL) is not False

    @property
    def differs(self) -> bool | None:
        """Whether any two sites differ by more than chance, at 5% over all pairs; None if unknown.

        The permutation test decides where there is one, else the intervals of `population`.
        """
        return self._differs(_LEVEL)

    def _differs(self, level: float) -> bool | None:
        return any_difference(
            self.pvalue, self.population, self.population_interval, level, self.health
        )

    @property
    def resolution(self) -> float:
        """The usual standard error of a squared distance between populations, 0 if unknown."""
        if self.health is None or not self.calibrated:
            return 0.0
        return float(np.median(self.health.error[np.triu_indices(len(self.sites), 1)]))

    def _distances(self, affinity: str) -> Floats:
        if affinity != "kernel":
            return self.value
        return distances_for_clusters(self.value, self.population)

    def stability(
        self,
        k: int,
        affinity: clusters.Affinity = "kernel",
        n_neighbors: int = 3,
        draws: int = 20,
        noise: float = 0.05,
        seed: int = 0,
    ) -> float:
        """Return how stable the clusters are: the mean adjusted Rand index with other samples.

        Where populations are known, and with the affinity "kernel", rows of each site are drawn
        again from its summary. Where a summary may not be kept, or is of labelled rows, distances
        vary as their intervals say. Else they are multiplied by random errors of size `noise`; see
        `fedwad.clusters.stability`.
        """
        clusters.check_noise(noise)
        distances = self._distances(affinity)
        if affinity == "kernel" and self.population_interval is not None and self.calibrated:
            summaries = kept_summaries(self.kept, self.sites)
            count = check_integer(draws, "draws")
            if summaries is None:
                others = resample_by_intervals(distances, self.population_interval, count, seed)
            else:
                others = resample_rows(summaries, distances, count, seed)
            return clusters.agreement(
                distances, others, k, affinity, n_neighbors, seed, self.resolution
            )
        return clusters.stability(distances, k, affinity, n_neighbors, draws, noise, seed)
