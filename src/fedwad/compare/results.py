"""The results of `fedwad.distance` and `fedwad.matrix`: saved, loaded, clustered, explained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_integer
from fedwad._files import SavedResult, read_fields
from fedwad._html import data_frame, html_rows, html_table
from fedwad.compare import clusters
from fedwad.compare.answers import (
    Eccentricity,
    Heterogeneity,
    eccentricity,
    heterogeneity,
    verdict,
    verdicts,
)
from fedwad.compare.clusters import kept_summaries, resample_by_intervals, resample_rows
from fedwad.compare.evidence import Evidence
from fedwad.compare.explanation import Explanation, explain_clusters, explain_pair, require_evidence
from fedwad.compare.placement import Placement, add_site, place
from fedwad.compare.rounds import Round
from fedwad.compare.sentences import (
    ALPHA,
    NO_LABELS,
    NOT_TESTED,
    matrix_sentence,
    pair_sentence,
    private_sentence,
)
from fedwad.compare.shown import ShownMatrix
from fedwad.compare.task import TABLES, MatrixRound, TableName, index_of
from fedwad.errors import InputError
from fedwad.federation import KeptReply, Traffic
from fedwad.statistics.testing import PermutationTest
from fedwad.transport import Floats, Measure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison(SavedResult):
    """What a distance of two sites and a matrix of many have in common."""

    method: str
    options: dict[str, Any]
    seed: int
    p: float = 2.0
    traffic: Traffic = field(default_factory=Traffic)
    class_covariance: str | None = None
    covariance_types: tuple[str, ...] = ()
    min_cell_size: int | None = None
    privacy: dict[str, Any] | None = None
    enough: int = 0
    notes: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    evidence: Evidence | None = None

    @property
    def certified(self) -> bool:
        """Whether `lower` and `upper` are proven, given honest sites; noisy releases prove none."""
        return self.privacy is None

    @property
    def _limits(self) -> tuple[str, ...]:
        """What the test is not about."""
        labelled = self.class_covariance is not None
        return (NO_LABELS,) * labelled if self.certified else (NOT_TESTED,)

    @property
    def _epsilon(self) -> str:
        return "" if self.privacy is None else f", epsilon {self.privacy['epsilon']:g}"

    def _explain(
        self, i: int, j: int, sites: tuple[str, str], differs: bool | None, names: Any
    ) -> Explanation:
        evidence = require_evidence(self.evidence, self.p)
        return explain_pair(evidence, i, j, sites, differs, names, self._limits)


@dataclass(frozen=True, eq=False)
class DistanceResult(Comparison):
    """A distance with its interval, its history and its cost.

    Attributes
    ----------
    value : float
        The estimate of W_p between the two samples. It is corrected by the calibrations of both
        sites if `calibrated`.
    lower, upper : float
        Certified bounds: lower <= W_p <= upper, given honest sites and up to rounding (1e-9
        relative). They are about these samples and are no confidence interval.
    noise : float or None
        The distance that two samples of these sizes have when both come from one population. None
        if a site withheld its calibration, for p other than 2, and under differential privacy.
    pvalue : float
        Of the hypothesis that both sites have one population, by the permutation test; nan if it
        did not run.
    smallest : float
        The smallest p-value that these numbers of rows can give; 1 if no test ran.
    population : float
        The distance between the populations behind the samples, by columns and correlations; nan
        unless the test found a difference. Under differential privacy it is by columns and always
        known.
    population_interval : tuple of two floats, or None
        The 95% confidence interval of the distance between the populations: from the larger of two
        lower bounds to an upper one. It also holds without a difference.
        A part of about 3 in n of a population may show in none of n rows: the upper end is that
        of the rest.
    enough : int
        About how many rows at each site the test would need; 0 if there are enough.
    notes : tuple of str
        What the data do not allow to be said, or what readers should know first.
    traffic : Traffic
        Bytes sent `up` by the sites and `down` to them, and the number of replies.
    method, options : str, dict
        The method and its options.
    p, seed : float, int
    sites : tuple of two str
    fedwad : float or None
        The paper's estimate d_mu + d_nu; None for method "summary".
    rows : tuple of int
        The number of rows of each site, of weighted rows the effective number; empty under
        differential privacy, and for the distance of a site from itself.
    history : tuple of Round
    support : Measure or None
        The support after the last round of FedWaD.
    class_covariance : str or None
        What classes were compared by in a dataset distance, "diag" or "full"; None if labels were
        not used.
    covariance_types : tuple
        What each site sent of the covariance within cells: "full", "lowrank", "diag", "spherical".
    min_cell_size : int or None
        Number of samples in the smallest cell of the final messages; 1 means that a sample was
        sent as it is. Cells of earlier rounds are not counted.
    privacy : dict or None
        The guarantee (`fedwad.DP`) of each site's release under differential privacy, per row.
        `value` and `population` then are the distance between the populations by columns, without
        what correlations add; `lower`, `upper` and `population_interval` are its likely range and
        not certified. Nothing is tested.
    evidence : Evidence or None
        A few numbers for each column, from which `explain` is computed; None for p other than 2,
        and for the distance of a site from itself.
    """

    _format: ClassVar[str] = "fedwad distance 4"
    _noun: ClassVar[str] = "distance"
    _unsaved: ClassVar[tuple[str, ...]] = ("support",)

    value: float
    lower: float
    upper: float
    sites: tuple[str, str]
    fedwad: float | None = None
    history: tuple[Round, ...] = ()
    support: Measure | None = None
    noise: float | None = None
    pvalue: float = math.nan
    smallest: float = 1.0
    population: float = math.nan
    population_interval: tuple[float, float] | None = None

    @classmethod
    def of(
        cls, m: MatrixResult, history: tuple[Round, ...] = (), support: Measure | None = None
    ) -> DistanceResult:
        """Return the view of a matrix of two sites, with the rounds of FedWaD if there are some."""

        def entry(table: Floats | None, unknown: Any = None) -> Any:
            return unknown if table is None or np.isnan(table[0, 1]) else float(table[0, 1])

        low, high = map(entry, m.population_interval or (None, None))
        return cls(
            **{name: entry(getattr(m, name)) for name in ("value", "lower", "upper")},
            noise=entry(m.noise),
            pvalue=entry(m.pvalue, math.nan),
            smallest=entry(m.smallest, 1.0),
            population=entry(m.population, math.nan),
            population_interval=None if low is None or high is None else (low, high),
            fedwad=entry(m.fedwad),
            sites=(m.sites[0], m.sites[1]),
            history=history,
            support=support,
            **{shared.name: getattr(m, shared.name) for shared in fields(Comparison)},
        )

    def __repr__(self) -> str:
        a, b = self.sites
        where = f"{self.value:.6g} in [{self.lower:.6g}, {self.upper:.6g}]"
        return f"<distance {a} - {b}: {where}, method {self.method}{self._epsilon}>"

    @property
    def differs(self) -> bool | None:
        """Whether the sites differ, by the permutation test at 5%; None if it could not tell."""
        return verdict(self.pvalue, self.smallest)

    @property
    def sentence(self) -> str:
        """What may be said, in the words that the command line and pages print."""
        if self.privacy is not None:
            interval = self.population_interval or (math.nan, math.nan)
            return private_sentence(self.sites, {(0, 1): (self.value, interval)}, self.privacy)
        return pair_sentence(self, self.rows, self.population, self.population_interval)

    def explain(self, names: Sequence[str] | None = None) -> Explanation:
        """Return why the sites differ: the part of each column in the squared distance.

        Parameters
        ----------
        names : names of the columns, if the sites' data have none

        Examples
        --------
        >>> import numpy as np, fedwad
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.normal(size=(2, 300, 3))
        >>> Y[:, 1] += 2
        >>> fedwad.distance(X, Y).explain(["age", "height", "weight"]).causes
        ('height',)
        """
        if self.sites[0] == self.sites[1]:
            raise InputError(
                "Both sites are the same, so there is no difference to explain.",
                "nothing-to-compare",
            )
        return self._explain(0, 1, self.sites, self.differs, names)

    def plot(self, path: Any = None) -> Figure:
        """Draw the distances between the samples and the populations, with their intervals.

        Parameters
        ----------
        path : a .png, .svg or .pdf file to write, optional
        """
        from fedwad.compare.plots import draw_distance

        return draw_distance(self, path)

    def _html_rows(self) -> dict[str, str]:
        rows = {"answer": self.sentence}
        if self.noise is not None:
            rows["chance alone"] = f"{self.noise:.4g}"
        if self.privacy is not None:
            return rows
        rows["between these samples"] = f"about {self.value:.3g}"
        return rows | {"certified bounds": f"{self.lower:.4g} to {self.upper:.4g}"}

    def _content(self) -> dict[str, Any]:
        if self.support is None:
            return super()._content()
        points, weights = self.support.points.tolist(), self.support.weights.tolist()
        return super()._content() | {"support": {"points": points, "weights": weights}}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> DistanceResult:
        remaining = dict(content)
        support = remaining.pop("support", None)
        result = read_fields(cls, remaining)
        return result if support is None else replace(result, support=Measure(**support))

    def _check(self) -> None:
        low, high = self.population_interval or (0.0, 0.0)
        if not (self.lower <= self.value <= self.upper and 0 <= low <= high):
            raise ValueError("not a result of distance()")


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
class MatrixResult(Comparison):
    """All distances between N sites, with their bounds and the bytes that they cost.

    Attributes
    ----------
    sites : tuple of str
        Names of the sites, in the order of rows and columns.
    value : array (N, N)
        Estimates, symmetric, zero on the diagonal.
    lower, upper : arrays (N, N)
        Certified bounds, given honest sites and up to rounding (1e-9 relative).
    noise : array (N, N) or None
        As in DistanceResult; nan for pairs of which a site withheld its calibration.
    test : PermutationTest or None
        The test over all sites: `test.pvalue` of the hypothesis that all have one population, and
        the p-values of columns. None if fewer than two sites sent blocks.
    pvalue, smallest : arrays (N, N) or None
        P-values of the tests of pairs, adjusted for their number, and the smallest ones that these
        numbers of rows can give; nan for pairs that were not tested.
    population : array (N, N) or None
        As in DistanceResult: nan for pairs without a difference.
    population_interval : pair of arrays (N, N), or None
        Lower and upper ends of the 95% confidence intervals of distances between populations.
    square : array (N, N) or None
        Unbiased estimates of squared distances between populations, negative ones included, from
        which `heterogeneity` and clusters are computed.
    variance : tuple of float
        Total variance of the rows of each site.
    enough, notes
        As in DistanceResult.
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

    _format: ClassVar[str] = "fedwad matrix 4"
    _noun: ClassVar[str] = "matrix"

    sites: tuple[str, ...]
    value: Floats
    lower: Floats
    upper: Floats
    fedwad: Floats | None = None
    history: tuple[MatrixRound, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    noise: Floats | None = None
    test: PermutationTest | None = None
    pvalue: Floats | None = None
    smallest: Floats | None = None
    population: Floats | None = None
    population_interval: tuple[Floats, Floats] | None = None
    square: Floats | None = None
    variance: tuple[float, ...] = ()
    kept: Mapping[str, list[KeptReply]] = field(default_factory=dict)

    def _compared_content(self) -> dict[str, Any]:
        return replace(self, kept={}).to_dict()  # results are equal whatever was kept

    def __len__(self) -> int:
        return len(self.sites)

    def __repr__(self) -> str:
        labelled = self.class_covariance is not None
        what = "dataset distances" if labelled else f"W{self.p:g} distances"
        failed = f", without {', '.join(self.failed)}" if self.failed else ""
        return f"<{what} between {len(self)} sites, method {self.method}{self._epsilon}{failed}>"

    def of_sites(self, order: Sequence[int]) -> MatrixResult:
        """Return the matrix of the sites with these indices, in this order, as it is.

        The test over all sites stays that over all sites, and p-values are adjusted for all pairs.
        """

        def chosen(table: Floats | None) -> Any:
            return None if table is None else table[np.ix_(order, order)]

        interval = self.population_interval
        changed: dict[str, Any] = {name: chosen(getattr(self, name)) for name in TABLES}
        for name in ("rows", "variance", "covariance_types"):
            of_each = getattr(self, name)
            changed[name] = tuple(of_each[k] for k in order) if of_each else ()
        return replace(
            self,
            sites=tuple(self.sites[k] for k in order),
            population_interval=None if interval is None else tuple(map(chosen, interval)),
            evidence=self.evidence and self.evidence.of_sites(order),
            **changed,
        )

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
        told = self.test is not None and self.test.smallest <= ALPHA
        pvalue = self.test.pvalue if told and self.test is not None else math.nan
        return heterogeneity(self._known_squares(), np.array(self.variance), pvalue)

    @property
    def eccentricity(self) -> Eccentricity:
        """How far each site lies from the others, and the odd one out, if there is one."""
        return eccentricity(self.sites, self._known_squares(), self.differs)

    @property
    def knows_populations(self) -> bool:
        """Whether `square` is known for all pairs."""
        return self.square is not None and not np.isnan(self.square).any()

    def _known_squares(self) -> Floats:
        if not self.knows_populations or self.square is None or self.population is None:
            raise InputError(
                "Distances between populations are not known here; they need p = 2 and sites whose"
                " policies send columns.",
                "not-known",
            )
        return np.fmax(self.square, self.population**2)  # which is nan without a difference

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
        given = [one for one in (a, b) if one is not None]
        if not given:
            pairs = combinations(self.sites, 2)
            return {pair: self.explain(*pair, names=names) for pair in pairs}
        i, j = self._index(given[0]), self._index(given[-1])
        if len(given) == 1:
            others = [name for name in self.sites if name != given[0]]
            return {name: self.explain(given[0], name, names=names) for name in others}
        if i == j:
            raise InputError(
                f"'{given[0]}' is named twice; name two different sites.", "repeated-site"
            )
        return self._explain(i, j, (given[0], given[1]), self.differs[i, j], names)

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
        return explain_clusters(evidence, self.sites, labels, self.differs, names, self._limits)

    def _index(self, name: str) -> int:
        return index_of(self.sites, name, "matrix")

    def cluster(
        self, k: int, affinity: clusters.Affinity = "kernel", n_neighbors: int = 3, seed: int = 0
    ) -> NDArray[np.int64]:
        """Return one label for each site, by spectral clustering; see `fedwad.compare.cluster`.

        With affinity "kernel", distances are those between populations if all of them are known.
        """
        return clusters.cluster(self._distances(affinity), k, affinity, n_neighbors, seed)

    def suggest(self) -> clusters.Suggestion:
        """Suggest a number of clusters; 1, with a reason, unless the test over all sites differs.

        If all populations agree, more than one cluster is suggested in at most 5% of cases. If some
        pairs were found to differ, it is the smallest number, from that of the distances on, whose
        clusters separate all of them. Where only one cluster for each site does, it is the number
        of the distances, if that is larger than 1. `too_small` of the suggestion names sites with
        too few rows to be tested.
        """
        suggestion = clusters.suggest(self._distances("kernel"))
        found = self.test and verdict(self.test.pvalue, self.test.smallest)
        tested = self.test is not None or self.enough > 0
        if not found:
            few = "there are too few rows to tell" if tested else "nothing was tested"
            reason = few if found is None else "no difference was found"
            suggestion = replace(suggestion, k=1, reason=reason)
        elif (self.differs == True).any():  # noqa: E712
            suggestion = replace(suggestion, k=self._separating(suggestion.k))
        untold = (self.differs == None).sum(axis=1) == len(self) - 1  # noqa: E711
        too_small = [name for name, few in zip(self.sites, untold, strict=True) if few and tested]
        return replace(suggestion, too_small=tuple(too_small))

    def _separating(self, least: int) -> int:
        """The smallest number of clusters, from `least` on, in which no two sites differ."""
        differ = self.differs == True  # noqa: E712
        for k in range(max(least, 2), min(len(self), clusters.MAX_CLUSTERS + 1)):
            labels = self.cluster(k)
            if not differ[labels[:, None] == labels].any():
                return k
        return least if least > 1 or len(self) > clusters.MAX_CLUSTERS else len(self)

    @property
    def differs(self) -> NDArray[np.object_]:
        """Which pairs differ, by their tests at 5% over all pairs: (N, N) of True, False and None.

        None stands for a pair that has too few rows to tell, or that was not tested.
        """
        unknown = np.full_like(self.value, np.nan)
        pvalue = unknown if self.pvalue is None else self.pvalue
        return verdicts(pvalue, unknown if self.smallest is None else self.smallest)

    @property
    def sentence(self) -> str:
        """What may be said, in the words that the command line and pages print."""
        if len(self) == 2:
            return DistanceResult.of(self).sentence
        if self.privacy is not None:
            low, high = self.population_interval or (self.lower, self.upper)
            pairs = combinations(range(len(self)), 2)
            found = {k: (float(self.value[k]), (float(low[k]), float(high[k]))) for k in pairs}
            return private_sentence(self.sites, found, self.privacy)
        return " ".join([matrix_sentence(self), *self.notes])

    def _distances(self, affinity: str) -> Floats:
        """What clusters are made of: distances between populations, if all of them are known.

        If the tests divide the sites into groups, in which no two differ and between which all do,
        distances inside a group are 0.
        """
        if affinity != "kernel" or self.square is None or not self.knows_populations:
            return self.value
        distances = np.sqrt(np.maximum(self.square, 0.0))
        alike = (self.differs == False).astype(np.int64)  # noqa: E712
        known = not (self.differs == None).any()  # noqa: E711
        if known and not alike.all() and np.array_equal(alike @ alike > 0, alike > 0):
            distances[alike > 0] = 0.0
        return np.asarray(distances)

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
        distances are multiplied by random errors of size `noise`; see
        `fedwad.compare.clusters.stability`.
        """
        distances, resampled = self._distances(affinity), None
        if affinity == "kernel" and self.knows_populations and self.population_interval is not None:
            summaries = kept_summaries(self.kept, self.sites)
            resampled = (
                resample_by_intervals(distances, self.population_interval, draws, seed)
                if summaries is None
                else resample_rows(summaries, distances, draws, seed)
            )
        return clusters.stability(
            distances, k, affinity, n_neighbors, draws, noise, seed, resampled
        )

    def to_frame(self, which: TableName | None = None) -> pd.DataFrame:
        """Return one of the tables as a pandas DataFrame with the names of sites.

        Its columns are headed by the name of the table. By default it is the one that notebooks
        and the command line show: "population", which is nan where no difference was found, or
        "value" if populations are not known.
        """
        shown: str = ShownMatrix(self).which if which is None else which
        present = [name for name in TABLES if getattr(self, name) is not None]
        if shown not in present:
            raise InputError(
                f"There is no table {shown!r}; this matrix has {', '.join(present)}.",
                "unknown-table",
            )
        frame = data_frame(getattr(self, shown), index=list(self.sites), columns=list(self.sites))
        return frame.rename_axis(columns=shown)

    def _repr_html_(self) -> str:
        if len(self) > _MAX_TABLE_SITES:
            return html_table(repr(self), self._html_rows())
        shown = ShownMatrix(self)
        lines = [("", [name, *row]) for name, row in zip(self.sites, shown.texts, strict=True)]
        table = html_rows(shown.title, ("", *self.sites), lines)
        return html_table(repr(self), self._html_rows()) + table

    def plot(self, path: Any = None) -> Figure:
        """Draw the distances between all sites, those that notebooks show, as a picture.

        Parameters
        ----------
        path : a .png, .svg or .pdf file to write, optional
        """
        from fedwad.compare.plots import draw_matrix

        return draw_matrix(self, path)

    def _html_rows(self) -> dict[str, str]:
        rows = {"answer": self.sentence}
        if not self.knows_populations:
            return rows
        odd = ", ".join(self.eccentricity.odd) or "none"
        return rows | {"heterogeneity": self.heterogeneity.sentence, "odd one out": odd}

    def _check(self) -> None:
        size = len(set(self.sites))
        if size != len(self.sites):
            raise ValueError("not different names")
        if self.rows and len(self.rows) != size:
            raise ValueError("not one number of rows for each site")
        tables = [getattr(self, name) for name in TABLES]
        tables += self.population_interval or ()
        if any(table is not None and table.shape != (size, size) for table in tables):
            raise ValueError("not one row and one column for each site")
        if not np.array_equal(np.clip(self.value, self.lower, self.upper), self.value):
            raise ValueError("not a value between its bounds")
        if self.test is not None and not 0 < self.test.pvalue <= 1:
            raise ValueError("not a p-value")
