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
from fedwad._matrix.significance import any_difference, distances_for_clusters, find_small_sites
from fedwad.federation import KeptReply
from fedwad.ot import Floats

__all__ = ["ClusteredMatrix"]

_ALPHA, _CLUSTERS_ALPHA = 0.05, 0.025  # significance levels of `differs` and of `suggest`


class ClusteredMatrix:
    """The part of a MatrixResult that clusters its sites; the result has the fields below."""

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
        """Whether all sites sent their calibration, so that `population` is known."""
        return self.population is not None and not np.isnan(self.population).any()

    def cluster(
        self, k: int, affinity: clusters.Affinity = "kernel", n_neighbors: int = 3, seed: int = 0
    ) -> NDArray[np.int64]:
        """Return one label for each site, by spectral clustering; see `fedwad.clusters.cluster`.

        With affinity "kernel", distances are those between populations if all of them are known.
        """
        return clusters.cluster(
            self._distances(affinity), k, affinity, n_neighbors, seed, self.resolution
        )

    def suggest(self) -> clusters.Suggestion:
        """Suggest a number of clusters, 1 if nothing differs by more than chance.

        If sampling noise is unknown, distances alone decide; see `fedwad.clusters.suggest`. If all
        populations agree, more than one cluster is suggested in at most 2.5% of cases. `too_small`
        of the suggestion names sites with too few rows to be judged.
        """
        by_distance = clusters.suggest(self._distances("kernel"), self.resolution)
        small_sites = find_small_sites(self.rows, tested=self.pvalue is not None)
        return replace(
            by_distance,
            k=by_distance.k if self.may_have_groups else 1,
            too_small=tuple(self.sites[index] for index in small_sites),
        )

    @property
    def may_have_groups(self) -> bool:
        """Whether any two sites differ by more than chance, at 2.5% over all pairs, or it is
        unknown whether they do."""
        return self._differs(_CLUSTERS_ALPHA) is not False

    @property
    def differs(self) -> bool | None:
        """Whether any two sites differ by more than chance, at 5% over all pairs; None if unknown.

        The permutation tests decide if there are some, else the intervals of `population`.
        """
        return self._differs(_ALPHA)

    def _differs(self, alpha: float) -> bool | None:
        return any_difference(
            self.pvalue, self.population, self.population_interval, alpha, self.health
        )

    @property
    def resolution(self) -> float:
        """The median standard error of a squared distance between populations, 0 if unknown."""
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
        """Return how stable the clusters are: their mean adjusted Rand index with the clusters of
        `draws` resampled matrices.

        With affinity "kernel", and if distances between populations are known, rows of each site
        are drawn again from its summary. If a site does not allow its summary to be kept, or its
        rows are labelled, distances are drawn from their intervals instead. In all other cases
        distances are multiplied by random errors of size `noise`; see `fedwad.clusters.stability`.
        """
        clusters.check_noise(noise)
        check_integer(seed, "seed", 0)
        distances = self._distances(affinity)
        if affinity == "kernel" and self.population_interval is not None and self.calibrated:
            summaries = kept_summaries(self.kept, self.sites)
            count = check_integer(draws, "draws")
            if summaries is None:
                resampled = resample_by_intervals(distances, self.population_interval, count, seed)
            else:
                resampled = resample_rows(summaries, distances, count, seed)
            return clusters.agreement(
                distances, resampled, k, affinity, n_neighbors, seed, self.resolution
            )
        return clusters.stability(distances, k, affinity, n_neighbors, draws, noise, seed)
