"""The result of `fedwad.distance`, which can be saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedwad._checks import check_saved
from fedwad._distance.rounds import Round
from fedwad._explain.evidence import Evidence
from fedwad._explain.explain import explain_pair, require_evidence
from fedwad._explain.explanation import Explanation
from fedwad._explain.parts import PairDistance
from fedwad._files import SavedResult
from fedwad.errors import InputError
from fedwad.federation import Traffic
from fedwad.ot import Measure

__all__ = ["DistanceResult"]


@dataclass(frozen=True, eq=False)
class DistanceResult(SavedResult):
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
        if a site withheld its calibration, and for p other than 2. Under differential privacy, the
        noise of normal populations with the released covariances.
    population : float or None
        The distance between the populations behind the samples: `value` without the noise.
    population_interval : tuple of two floats, or None
        The 95% confidence interval of `population`. If it lies above zero, the populations differ
        by more than chance explains.
    traffic : Traffic
        Bytes sent `up` by the sites and `down` to them, and the number of replies.
    method, options : str, dict
        The method and its options.
    p, seed : float, int
    sites : tuple of two str
    fedwad : float or None
        The paper's estimate d_mu + d_nu; None for method "summary".
    rows : tuple of int
        The number of rows of each site; empty under differential privacy, and for the distance of a
        site from itself.
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
        The guarantee (`fedwad.DP`) of each site's release under differential privacy. `lower` and
        `upper` are not certified then: they say how far noise and the limits of a summary are
        likely to move the estimate.
    evidence : Evidence or None
        A few numbers for each column, from which `explain` is computed; None for p other than 2,
        and for the distance of a site from itself.
    """

    _format: ClassVar[str] = "fedwad distance 2"
    _noun: ClassVar[str] = "distance"
    _unsaved: ClassVar[tuple[str, ...]] = ("support",)

    value: float
    lower: float
    upper: float
    traffic: Traffic
    method: str
    options: dict[str, Any]
    p: float
    seed: int
    sites: tuple[str, str]
    fedwad: float | None = None
    history: tuple[Round, ...] = ()
    support: Measure | None = None
    class_covariance: str | None = None
    covariance_types: tuple[str, ...] = ()
    min_cell_size: int | None = None
    privacy: dict[str, Any] | None = None
    noise: float | None = None
    population: float | None = None
    population_interval: tuple[float, float] | None = None
    rows: tuple[int, ...] = ()
    evidence: Evidence | None = None

    def __repr__(self) -> str:
        a, b = self.sites
        private = "" if self.privacy is None else f", epsilon {self.privacy['epsilon']:g}"
        interval = f"[{self.lower:.6g}, {self.upper:.6g}]"
        return (
            f"<distance {a} - {b}: {self.value:.6g} in {interval}, method {self.method}{private}>"
        )

    @property
    def certified(self) -> bool:
        """Whether `lower` and `upper` are proven, given honest sites; noisy releases prove none."""
        return self.privacy is None

    @property
    def calibrated(self) -> bool:
        """Whether both sites sent their calibration, so that `population` is known."""
        return self.population is not None

    @property
    def differs(self) -> bool | None:
        """Whether the populations differ by more than chance explains, at 95%; None if unknown."""
        return None if self.population_interval is None else self.population_interval[0] > 0

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
            raise InputError("Both sites are the same, so there is no difference to explain.")
        evidence = require_evidence(self.evidence, self.p)
        lower = 0.0 if self.population_interval is None else self.population_interval[0]
        pair = PairDistance(self.value, self.population, self.differs, population_lower=lower)
        return explain_pair(evidence, (0, len(evidence.moments) - 1), self.sites, pair, names)

    def _html_rows(self) -> dict[str, str]:
        rows = {}
        if self.population is not None and self.noise is not None:
            low, high = self.population_interval or (self.population, self.population)
            rows["between the populations"] = f"{self.population:.4g} ({low:.4g} to {high:.4g})"
            rows["chance alone"] = f"{self.noise:.4g}"
        rows["between these samples"] = f"{self.value:.4g}"
        kind = "certified" if self.certified else "likely"
        return rows | {f"{kind} bounds": f"{self.lower:.4g} to {self.upper:.4g}"}

    def _content(self) -> dict[str, Any]:
        if self.support is None:
            return super()._content()
        points, weights = self.support.points.tolist(), self.support.weights.tolist()
        return super()._content() | {"support": {"points": points, "weights": weights}}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> DistanceResult:
        remaining = dict(content)
        support = remaining.pop("support", None)
        interval = remaining.pop("population_interval", None)
        evidence = remaining.pop("evidence", None)
        check_saved(remaining.get("privacy") or {}, ("epsilon", "delta"))
        check_saved(remaining, ("value", "lower", "upper", "noise", "population", "fedwad", "p"))
        if not remaining["lower"] <= remaining["value"] <= remaining["upper"]:
            raise ValueError("not a result of distance()")
        result = cls(
            support=None if support is None else Measure(support["points"], support["weights"]),
            history=tuple(Round(**record) for record in remaining.pop("history")),
            traffic=Traffic(**remaining.pop("traffic")),
            sites=_pair(remaining.pop("sites")),
            rows=tuple(map(int, remaining.pop("rows", ()))),
            covariance_types=tuple(remaining.pop("covariance_types")),
            population_interval=None if interval is None else _interval(interval),
            evidence=None if evidence is None else Evidence.from_dict(evidence),
            **remaining,
        )
        repr(result), result._html_rows()  # they raise if a field has a wrong type
        return result


def _interval(ends: list[float]) -> tuple[float, float]:
    low, high = map(float, ends)
    if not 0 <= low <= high:
        raise ValueError("not an interval")
    return low, high


def _pair(names: list[str]) -> tuple[str, str]:
    first, second = names
    return str(first), str(second)
