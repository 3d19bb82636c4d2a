"""The result of `fedwad.matrix`, which can be saved, loaded, clustered and searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedwad import clusters
from fedwad._checks import check_whole
from fedwad._explain.clusters import explain_clusters
from fedwad._explain.evidence import Evidence
from fedwad._explain.explain import explain_pair, known_evidence
from fedwad._explain.explanation import Explanation
from fedwad._explain.parts import Known
from fedwad._files import Saved
from fedwad._html import card, grid
from fedwad._matrix.evidence import (
    any_difference,
    distances_for_clusters,
    too_small,
)
from fedwad._matrix.health import Eccentricity, Health, Heterogeneity, known
from fedwad._matrix.newcomers import add_site
from fedwad._matrix.placement import Placement, place
from fedwad._matrix.resampling import drawn_again, kept_summaries
from fedwad._matrix.saved import (
    TABLES,
    MatrixRound,
    TableName,
    check_matrix,
    content_of,
    fields_from,
)
from fedwad.errors import InputError
from fedwad.federation import Kept, Traffic
from fedwad.ot import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MatrixResult", "MatrixRound", "Neighbour"]

_LEVEL, _GROUPS_LEVEL = 0.05, 0.025
_WIDEST = 20  # sites in a notebook's table


@dataclass(frozen=True)
class Neighbour:
    """Another site, its estimated distance and the certified interval."""

    site: str
    value: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class MatrixResult(Saved):
    """All distances between N sites, with their intervals and their cost.

    Attributes
    ----------
    sites : tuple of str
        Names of the sites, in the order of rows and columns.
    value : array (N, N)
        Estimates, symmetric, zero on the diagonal.
    lower, upper : arrays (N, N)
        Certified bounds, given honest sites and up to rounding (1e-9 relative).
    noise, population : arrays (N, N) or None
        As in DistanceResult; nan for pairs of which a site withheld its numbers, None if all did.
    population_interval : pair of arrays (N, N), or None
        Lower and upper ends of the 95% confidence intervals of `population`.
    pvalue : array (N, N) or None
        P-values of the permutation test of each pair, adjusted for the number of pairs by Holm's
        method, with ones on the diagonal; None without `test`.
    health : Health or None
        What `heterogeneity` and `eccentricity` are computed from; None if a site withheld its
        numbers.
    method, options : str, dict
        The method and its options.
    p, seed : float, int
    fedwad : array (N, N) or None
        The paper's estimates, for method "pairs".
    rows : tuple of int
        The number of rows of each site; empty under differential privacy.
    kept : mapping
        Replies that the sites' policies allow to be kept, with which newcomers are compared; empty
        unless all sites allow it (`keep = true`).
    failed : mapping
        Sites that did not answer, each with the reason; they are not among `sites`.
    class_covariance, covariance_types, evidence, history, min_cell_size, privacy, traffic
        As in DistanceResult.
    """

    _format: ClassVar[str] = "fedwad matrix 2"
    _noun: ClassVar[str] = "matrix"

    sites: tuple[str, ...]
    value: Floats
    lower: Floats
    upper: Floats
    method: str
    options: dict[str, Any]
    seed: int
    p: float = 2.0
    fedwad: Floats | None = None
    history: tuple[MatrixRound, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
    class_covariance: str | None = None
    covariance_types: tuple[str, ...] = ()
    min_cell_size: int | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    privacy: dict[str, Any] | None = None
    noise: Floats | None = None
    population: Floats | None = None
    population_interval: tuple[Floats, Floats] | None = None
    pvalue: Floats | None = None
    rows: tuple[int, ...] = ()
    health: Health | None = None
    evidence: Evidence | None = None
    kept: Mapping[str, list[Kept]] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MatrixResult):
            return False
        one, two = replace(self, kept={}), replace(other, kept={})  # copies of what sites sent
        return one.to_dict() == two.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.sites)

    def __repr__(self) -> str:
        labelled = self.class_covariance is not None
        what = "dataset distances" if labelled else f"W{self.p:g} distances"
        failed = f", without {', '.join(self.failed)}" if self.failed else ""
        private = "" if self.privacy is None else f", epsilon {self.privacy['epsilon']:g}"
        return f"<{what} between {len(self)} sites, method {self.method}{private}{failed}>"

    @property
    def certified(self) -> bool:
        """Whether `lower` and `upper` are proven, given honest sites; noisy numbers prove none."""
        return self.privacy is None

    @property
    def calibrated(self) -> bool:
        """Whether all sites sent the numbers of their splits, so that noise is known."""
        return self.population is not None and not np.isnan(self.population).any()

    def cluster(
        self,
        k: int,
        affinity: clusters.Affinity = "kernel",
        n_neighbors: int = 3,
        seed: int = 0,
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
        return float(np.median(self.health.error[np.triu_indices(len(self), 1)]))

    @property
    def heterogeneity(self) -> Heterogeneity:
        """How different the sites are on the whole: mean squared distance between populations.

        Examples
        --------
        >>> import numpy as np, fedwad
        >>> rng = np.random.default_rng(0)
        >>> m = fedwad.matrix({f"site{k}": rng.normal(k // 3, 1, (300, 4)) for k in range(4)})
        >>> 1.7 < m.heterogeneity.value < 2.3, m.eccentricity.farthest
        (True, 'site3')
        """
        return known(self.health).heterogeneity()

    @property
    def eccentricity(self) -> Eccentricity:
        """How far each site lies from the rest, and which does so by more than chance."""
        moments = None if self.evidence is None else self.evidence.moments
        return known(self.health).eccentricity(self.sites, moments)

    def explain(
        self, a: str | None = None, b: str | None = None, *, names: Sequence[str] | None = None
    ) -> Any:
        """Return why two sites differ, as `fedwad.Explanation`.

        With one site, a mapping from each other site to the explanation of the two; without any, a
        mapping from each pair of sites.

        Parameters
        ----------
        a, b : names of sites
        names : names of the columns, where the sites' data have none
        """
        evidence = known_evidence(self.evidence, self.p)
        asked = [self._index(one) for one in (a, b) if one is not None]
        if len(asked) == 2:
            return self._explain(evidence, asked[0], asked[1], names)
        if asked:
            others = [k for k in range(len(self)) if k != asked[0]]
            return {self.sites[k]: self._explain(evidence, asked[0], k, names) for k in others}
        return {
            (self.sites[i], self.sites[j]): self._explain(evidence, i, j, names)
            for i, j in combinations(range(len(self)), 2)
        }

    def explain_clusters(
        self, labels: Sequence[int] | NDArray[np.int64], *, names: Sequence[str] | None = None
    ) -> dict[int, Explanation]:
        """Return what separates each cluster from the rest, by its label.

        A column's part is its mean over pairs of a site inside and one outside, less its mean over
        pairs inside.

        Parameters
        ----------
        labels : one for each site, such as `m.cluster(3)`
        names : names of the columns, where the sites' data have none
        """
        evidence = known_evidence(self.evidence, self.p)
        return explain_clusters(evidence, self.sites, list(labels), self._known, names)

    def _explain(
        self, evidence: Evidence, i: int, j: int, names: Sequence[str] | None
    ) -> Explanation:
        if i == j:
            raise InputError(f"'{self.sites[i]}' is named twice; name two different sites.")
        sites = self.sites[i], self.sites[j]
        return explain_pair(evidence, (i, j), sites, self._known(i, j), names)

    def _known(self, i: int, j: int) -> Known:
        """Return what is known of a pair as a whole."""
        value = float(self.value[i, j])
        if self.population is None or self.population_interval is None:
            return Known(value)
        population, low = float(self.population[i, j]), float(self.population_interval[0][i, j])
        if np.isnan(population):
            return Known(value)
        return Known(value, population, low > 0, low)

    def _index(self, name: str) -> int:
        if name not in self.sites:
            raise InputError(
                f"There is no site '{name}' in this matrix; it has {', '.join(self.sites)}."
            )
        return self.sites.index(name)

    def add(self, site: Any, name: str = "new") -> MatrixResult:
        """Return the matrix with a new site, which alone is asked.

        The other sites' replies were kept, so they are not asked again.

        Parameters
        ----------
        site : a site of any federation (`fed["rome"]`), or data, which become a local site and are
            encoded as the others were
        name : name of the local site

        Examples
        --------
        >>> import numpy as np, fedwad
        >>> rng = np.random.default_rng(0)
        >>> m = fedwad.matrix({f"site{k}": rng.normal(k // 2, 1, (200, 3)) for k in range(4)})
        >>> m.add(rng.normal(1, 1, (200, 3)), "rome").placement("rome").cluster
        ('site2', 'site3')
        """
        return add_site(self, site, name)

    def placement(self, name: str, labels: Sequence[int] | None = None) -> Placement:
        """Return where a site belongs among the others, or that it is unlike all of them.

        Parameters
        ----------
        name : of a site of this matrix
        labels : clusters of the other sites; by default those that they suggest without this one
        """
        self._index(name)
        return place(self, name, labels)

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
            count = check_whole(draws, "draws")
            others = drawn_again(distances, self.population_interval, summaries, count, seed)
            return clusters.agreement(
                distances, others, k, affinity, n_neighbors, seed, self.resolution
            )
        return clusters.stability(distances, k, affinity, n_neighbors, draws, noise, seed)

    def nearest(self, name: str, count: int | None = None) -> list[Neighbour]:
        """Return the other sites, the most similar one first."""
        row = self._index(name)
        order = [i for i in np.argsort(self.value[row], kind="stable").tolist() if i != row]
        if count is not None:
            order = order[: check_whole(count, "count")]
        tables = (self.value, self.lower, self.upper)
        return [
            Neighbour(self.sites[i], *(float(table[row, i]) for table in tables)) for i in order
        ]

    def to_frame(self, which: TableName = "value") -> pd.DataFrame:
        """Return one of the matrices as a pandas DataFrame with the names of sites."""
        here = [name for name in TABLES if getattr(self, name) is not None]
        if which not in here:
            raise InputError(f"There is no table {which!r}; this matrix has {', '.join(here)}.")
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas; run: pip install pandas.") from None
        return pd.DataFrame(getattr(self, which), index=list(self.sites), columns=list(self.sites))

    def _repr_html_(self) -> str:
        table = distances_for_clusters(self.value, self.population)
        if len(self) > _WIDEST:
            return card(repr(self), self._shown())
        rows = [
            [f"{x:.3g}" if i != j else "" for j, x in enumerate(r)] for i, r in enumerate(table)
        ]
        return grid(repr(self), self.sites, rows) + card("", self._shown())

    def _shown(self) -> dict[str, str]:
        if self.health is None:
            return {}
        whole, odd = self.heterogeneity, ", ".join(self.eccentricity.odd) or "none"
        text = f"{whole.value:.4g}, {max(whole.fraction, 0):.1%} of the total variance"
        return {"heterogeneity": text, "odd one out": odd}

    def _content(self) -> dict[str, Any]:
        return content_of(self)

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> MatrixResult:
        try:
            result = cls(**fields_from(dict(content)))
            check_matrix(result)
            repr(result), result._shown()  # they need all the rest
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            raise InputError(
                "This is not the content of a fedwad matrix; parts are missing or were changed."
            ) from None
        return result
