"""The result of `fedwad.matrix`, which can be saved, loaded, clustered and searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedwad._checks import check_integer
from fedwad._explain.evidence import Evidence
from fedwad._files import SavedResult
from fedwad._html import data_frame, html_matrix, html_table
from fedwad._matrix.clustered import ClusteredMatrix
from fedwad._matrix.explained import ExplainedMatrix
from fedwad._matrix.health import Eccentricity, Health, Heterogeneity, require_health
from fedwad._matrix.newcomers import add_site, kept_to_dict
from fedwad._matrix.placement import Placement, place
from fedwad._matrix.saved import TABLES, MatrixRound, TableName, check_matrix, read_fields
from fedwad._matrix.significance import distances_for_clusters
from fedwad.errors import InputError
from fedwad.federation import KeptReply, Traffic
from fedwad.ot import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MatrixResult", "MatrixRound", "Neighbour"]

_MAX_TABLE_SITES = 20  # with more sites, a notebook shows no table of distances


@dataclass(frozen=True)
class Neighbour:
    """Another site, its distance, and an interval for this distance.

    `MatrixResult.nearest` has the distance between the samples and its certified bounds,
    `Placement.nearest` that between the populations and its 95% interval.
    """

    site: str
    value: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class MatrixResult(ClusteredMatrix, ExplainedMatrix, SavedResult):
    """All distances between N sites, with their bounds and the bytes that they cost.

    Attributes
    ----------
    sites : tuple of str
        Names of the sites, in the order of rows and columns.
    value : array (N, N)
        Estimates, symmetric, zero on the diagonal.
    lower, upper : arrays (N, N)
        Certified bounds, given honest sites and up to rounding (1e-9 relative).
    noise, population : arrays (N, N) or None
        As in DistanceResult; nan for pairs of which a site withheld its calibration, None if
        fewer than two sites sent theirs.
    population_interval : pair of arrays (N, N), or None
        Lower and upper ends of the 95% confidence intervals of `population`.
    pvalue : array (N, N) or None
        P-values of the permutation test of each pair, adjusted for the number of pairs by Holm's
        method, with ones on the diagonal; None without `test`.
    health : Health or None
        What `heterogeneity` and `eccentricity` are computed from; None if a site withheld its
        calibration.
    method, options : str, dict
        The method and its options.
    p, seed : float, int
    fedwad : array (N, N) or None
        The paper's estimates, for method "pairs".
    rows : tuple of int
        The number of rows of each site; empty under differential privacy.
    kept : mapping
        Replies of each site, with which newcomers (see `add`) are compared; empty unless the
        policies of all sites allow replies to be kept (`keep = true`).
    failed : mapping
        Sites that did not answer, each with the reason; they are not among `sites`.
    class_covariance, covariance_types, evidence, history, min_cell_size, privacy, traffic
        As in DistanceResult.
    """

    _format: ClassVar[str] = "fedwad matrix 2"
    _noun: ClassVar[str] = "matrix"
    _unsaved: ClassVar[tuple[str, ...]] = ("kept",)

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
    kept: Mapping[str, list[KeptReply]] = field(default_factory=dict)

    def _compared_content(self) -> dict[str, Any]:
        return replace(self, kept={}).to_dict()  # results are equal whatever was kept

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
        """Whether `lower` and `upper` are proven, given honest sites; noisy releases prove none."""
        return self.privacy is None

    @property
    def heterogeneity(self) -> Heterogeneity:
        """How different the sites are on the whole: the mean squared distance between populations.

        Examples
        --------
        >>> import numpy as np, fedwad
        >>> rng = np.random.default_rng(0)
        >>> m = fedwad.matrix({f"site{k}": rng.normal(k // 3, 1, (300, 4)) for k in range(4)})
        >>> 1.7 < m.heterogeneity.value < 2.3, m.eccentricity.farthest
        (True, 'site3')
        """
        return require_health(self.health).heterogeneity()

    @property
    def eccentricity(self) -> Eccentricity:
        """How far each site lies from the others, and which sites do so by more than chance."""
        moments = None if self.evidence is None else self.evidence.moments
        return require_health(self.health).eccentricity(self.sites, moments)

    def add(self, site: Any, name: str = "new") -> MatrixResult:
        """Return the matrix with a newcomer, the only site that is asked.

        The replies of the other sites were kept, so these are not asked again.

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
        name : name of a site of this matrix
        labels : the cluster of each other site; by default the clusters that the matrix without
            this site suggests
        """
        self._index(name)
        return place(self, name, labels)

    def nearest(self, name: str, count: int | None = None) -> list[Neighbour]:
        """Return the other sites, or the first `count` of them, the most similar one first."""
        row = self._index(name)
        order = [i for i in np.argsort(self.value[row], kind="stable").tolist() if i != row]
        if count is not None:
            order = order[: check_integer(count, "count")]
        tables = (self.value, self.lower, self.upper)
        return [
            Neighbour(self.sites[i], *(float(table[row, i]) for table in tables)) for i in order
        ]

    def to_frame(self, which: TableName = "value") -> pd.DataFrame:
        """Return one of the tables as a pandas DataFrame with the names of sites."""
        present = [name for name in TABLES if getattr(self, name) is not None]
        if which not in present:
            raise InputError(f"There is no table {which!r}; this matrix has {', '.join(present)}.")
        return data_frame(getattr(self, which), index=list(self.sites), columns=list(self.sites))

    def _repr_html_(self) -> str:
        if len(self) > _MAX_TABLE_SITES:
            return html_table(repr(self), self._html_rows())
        table = distances_for_clusters(self.value, self.population)
        rows = [
            ["" if i == j else f"{distance:.3g}" for j, distance in enumerate(row)]
            for i, row in enumerate(table)
        ]
        return html_matrix(repr(self), self.sites, rows) + html_table("", self._html_rows())

    def _html_rows(self) -> dict[str, str]:
        if self.health is None:
            return {}
        h, odd = self.heterogeneity, ", ".join(self.eccentricity.odd) or "none"
        text = f"{h.value:.4g}, {max(h.fraction, 0):.1%} of the total variance"
        return {"heterogeneity": text, "odd one out": odd}

    def _content(self) -> dict[str, Any]:
        return super()._content() | {"kept": kept_to_dict(self.kept)}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> MatrixResult:
        result = cls(**read_fields(dict(content)))
        check_matrix(result)
        repr(result), result._html_rows()  # they raise if a field has a wrong type
        return result
