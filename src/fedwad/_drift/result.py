"""The result of comparing new data with a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fedwad._distance.result import DistanceResult
from fedwad._drift.sequential_test import MIN_PVALUE
from fedwad._explain.explain import explain_pair, require_evidence
from fedwad._explain.explanation import Explanation
from fedwad._explain.parts import PairDistance
from fedwad._files import SavedResult

__all__ = ["DriftResult"]

#: Fields that are saved as they are.
_PLAIN_FIELDS = ("pvalue", "smallest", "alpha", "level", "test", "data", "reference")
_MAX_CAUSES = 3


@dataclass(frozen=True, eq=False)
class DriftResult(SavedResult):
    """A test whether new data come from the population of a reference, and their distance from it.

    Attributes
    ----------
    distance : DistanceResult
        Between the reference and the new data.
    pvalue : float
        Of the hypothesis that both come from one population, by permuting blocks of rows.
    level : float
        The significance level: the largest p-value that counts as drift here. Without a
        history it is `alpha`. With one, the levels of all comparisons with the reference sum to
        `alpha`.
    alpha : float
        The probability of a false alarm that the user allows.
    test : int
        Number of this comparison with the reference, 1 without a history.
    smallest : float
        The smallest p-value that these blocks and the permutations of the test can give.
    blocks : tuple of two int
        Number of blocks of the reference and of the new data.
    data, reference : str
        Digests of the new data's blocks and of the reference.
    """

    _format: ClassVar[str] = "fedwad drift 1"
    _noun: ClassVar[str] = "comparison with a reference"

    distance: DistanceResult
    pvalue: float
    smallest: float
    alpha: float
    level: float
    test: int
    blocks: tuple[int, int]
    data: str
    reference: str

    @property
    def drift(self) -> bool:
        """Whether drift was found: the p-value is at most `level`."""
        return self.pvalue <= self.level

    @property
    def judged(self) -> bool:
        """Whether a p-value as small as `level` is possible.

        It is not if the new data have too few blocks, or if the level is so small, as after
        hundreds of comparisons, that even the longest test has too few permutations.
        """
        return self.smallest <= self.level

    def explain(self) -> Explanation:
        """Return which columns differ between the reference and the new data, and how."""
        evidence = require_evidence(self.distance.evidence, 2.0)
        interval = self.distance.population_interval
        lower = 0.0 if interval is None else interval[0]
        pair = PairDistance(self.distance.value, self.distance.population, self.drift, lower)
        return explain_pair(evidence, (0, 1), self.distance.sites, pair, None)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        reference, new = self.distance.sites
        chance = "" if self.distance.noise is None else f", by chance {self.distance.noise:.3g}"
        numbers = f"p = {self.pvalue:.2g} at level {self.level:.2g}; distance"
        numbers += f" {self.distance.value:.3g}{chance}"
        if not self.judged and self.smallest <= MIN_PVALUE:
            return (
                f"The level is too small to judge drift of {new} from {reference} ({numbers});"
                " make a new reference, or allow a larger alpha."
            )
        if not self.judged:
            return f"{new} has too few rows to judge drift from {reference} ({numbers})."
        if not self.drift:
            return f"No evidence that {new} has drifted from {reference} ({numbers})."
        causes = self.explain().causes[:_MAX_CAUSES]
        where = f", mostly in {', '.join(causes)}" if causes else ""
        return f"Drift: {new} differs from {reference} by more than chance{where} ({numbers})."

    def __repr__(self) -> str:
        return f"<{self.sentence.removesuffix('.')}>"

    def line(self) -> dict[str, Any]:
        """Return what a history stores about this comparison, enough for a plot over time."""
        d, interval = self.distance, self.distance.population_interval
        return {
            "data": self.data,
            "test": self.test,
            "site": d.sites[1],
            "rows": d.rows[1] if d.rows else None,
            "pvalue": self.pvalue,
            "level": self.level,
            "drift": self.drift,
            "value": d.value,
            "noise": d.noise,
            "population": d.population,
            "population_interval": None if interval is None else list(interval),
        }

    def _html_rows(self) -> dict[str, str]:
        noise = self.distance.noise
        chance = {} if noise is None else {"chance alone": f"{noise:.4g}"}
        numbers = {"distance": f"{self.distance.value:.4g}"} | chance
        return numbers | {"p-value": f"{self.pvalue:.3g}", "level": f"{self.level:.2g}"}

    def _content(self) -> dict[str, Any]:
        content = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        return content | {"blocks": list(self.blocks), "distance": self.distance.to_dict()}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> DriftResult:
        fields = {name: content[name] for name in _PLAIN_FIELDS}
        if not 0 < fields["pvalue"] <= 1:
            raise ValueError("not a p-value")
        n_reference, n_new = map(int, content["blocks"])
        distance = DistanceResult.from_dict(content["distance"])
        return cls(distance=distance, blocks=(n_reference, n_new), **fields)
