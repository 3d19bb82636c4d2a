"""One distance to estimate: between which sites, by which method, in which metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedwad._distance.result import DistanceResult
from fedwad._explain.evidence import Evidence
from fedwad._options import Method
from fedwad.federation import ClassStatistics, MeteredFederation, Traffic, feature_count
from fedwad.ot import Calibration, Floats, LabelledSummary, Summary

__all__ = ["DistanceTask"]


@dataclass(frozen=True)
class DistanceTask:
    """The checked options of one distance."""

    sites: tuple[str, str]
    method: Method
    p: float
    seed: int
    class_statistics: ClassStatistics

    def result(self, **found: Any) -> DistanceResult:
        """Return a result with what was found, and with the options that led to it."""
        return DistanceResult(
            method=self.method.name,
            options=self.method.to_dict(),
            p=self.p,
            seed=self.seed,
            sites=self.sites,
            class_covariance=None if self.class_statistics == "ignored" else self.class_statistics,
            **found,
        )

    def evidence(
        self,
        metered: MeteredFederation,
        summaries: Sequence[Summary | LabelledSummary],
        calibrations: Sequence[Calibration | None],
        columns: Floats | None,
        noises: Sequence[tuple[Floats, Floats]] = (),
    ) -> Evidence | None:
        """Return what explains a distance between the sites of these summaries, if p = 2."""
        if self.p != 2:
            return None
        count, labelled = summaries[0].dimension, isinstance(summaries[0], LabelledSummary)
        return Evidence.of(
            summaries,
            calibrations,
            {} if columns is None else {(0, 1): columns},
            metered.features,
            metered.schema,
            count if labelled else feature_count(count, self.class_statistics),
            noises,
        )

    def zero(self) -> DistanceResult:
        """Return the distance of a site from itself, which takes no message."""
        fedwad = 0.0 if self.method.name == "fedwad" else None
        return self.result(
            value=0.0,
            lower=0.0,
            upper=0.0,
            fedwad=fedwad,
            traffic=Traffic(),
            noise=0.0,
            population=0.0,
            population_interval=(0.0, 0.0),
        )
