"""One distance to estimate: between which sites, by which method, in which metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedwad._distance.result import DistanceResult
from fedwad._explain.evidence import Evidence
from fedwad._options import Method
from fedwad.federation import ClassStatistics, SummaryReply, Traffic, feature_count
from fedwad.ot import Calibration, Estimate, Floats, LabelledSummary, Summary, beyond_chance
from fedwad.tables import Schema

__all__ = ["ColumnNames", "DistanceTask", "count_features"]

#: Names of the features, and the schema by which tables were encoded; None if unknown.
ColumnNames = tuple[tuple[str, ...] | None, Schema | None]


@dataclass(frozen=True)
class DistanceTask:
    """The checked options of one distance."""

    sites: tuple[str, str]
    method: Method
    p: float
    seed: int
    class_statistics: ClassStatistics

    def result(self, **fields: Any) -> DistanceResult:
        """Return a result with these fields, and with the options of this task."""
        return DistanceResult(
            method=self.method.name,
            options=self.method.to_dict(),
            p=self.p,
            seed=self.seed,
            sites=self.sites,
            class_covariance=None if self.class_statistics == "ignored" else self.class_statistics,
            **fields,
        )

    def result_from(
        self,
        estimate: Estimate,
        mu: SummaryReply,
        nu: SummaryReply,
        column_names: ColumnNames,
        **fields: Any,
    ) -> DistanceResult:
        """Return the result of an estimate from the final replies of both sites.

        `fields` are those that do not follow from the estimate and the replies.
        """
        a, b = mu.summary, nu.summary
        calibrations = mu.calibration, nu.calibration
        return self.result(
            **_correct_for_chance(estimate, mu, nu),
            evidence=self.evidence(column_names, (a, b), calibrations, estimate.columns),
            rows=(a.count, b.count),
            covariance_types=(a.covariance_type, b.covariance_type),
            min_cell_size=min(a.min_cell_size, b.min_cell_size),
            **fields,
        )

    def evidence(
        self,
        column_names: ColumnNames,
        summaries: Sequence[Summary | LabelledSummary],
        calibrations: Sequence[Calibration | None],
        contributions: Floats | None,
        privacy_noise: Sequence[tuple[Floats, Floats]] = (),
    ) -> Evidence | None:
        """Return what explains a distance between the sites of these summaries, if p = 2.

        `contributions` has what each feature contributes to the squared distance. `privacy_noise`
        has the variances of the noise that each site added to its means and to its variances.
        """
        if self.p != 2:
            return None
        return Evidence.of(
            summaries,
            calibrations,
            {} if contributions is None else {(0, 1): contributions},
            *column_names,
            count_features(summaries[0], self.class_statistics),
            privacy_noise,
        )

    def zero(self) -> DistanceResult:
        """Return the distance of a site from itself, for which nothing is asked."""
        return self.result(
            value=0.0,
            lower=0.0,
            upper=0.0,
            fedwad=0.0 if self.method.name == "fedwad" else None,
            traffic=Traffic(),
            noise=0.0,
            population=0.0,
            population_interval=(0.0, 0.0),
        )


def count_features(summary: Summary | LabelledSummary, class_statistics: ClassStatistics) -> int:
    """Return the number of features of a site's data, from its summary.

    A plain summary of labelled data has further coordinates, for the statistics of classes.
    """
    if isinstance(summary, LabelledSummary):
        return summary.dimension
    return feature_count(summary.dimension, class_statistics)


def _correct_for_chance(estimate: Estimate, a: SummaryReply, b: SummaryReply) -> dict[str, Any]:
    """Return value, bounds, noise and population as fields of a result.

    Without the calibrations of both sites the value stays as it was estimated, and noise and
    population are left out. If both summaries are equal, the value stays the lower bound.
    """
    value, lower, upper = estimate.value, estimate.lower, estimate.upper
    table = np.array([[0.0, value], [value, 0.0]])
    populations = beyond_chance(table, [a.summary, b.summary], [a.calibration, b.calibration])
    if populations is None:
        return {"value": value, "lower": lower, "upper": upper}
    if value > lower:
        value = float(populations.value[0, 1])
    return {
        "value": min(max(value, lower), upper),
        "lower": lower,
        "upper": upper,
        "noise": float(populations.noise[0, 1]),
        "population": float(populations.population[0, 1]),
        "population_interval": (float(populations.lower[0, 1]), float(populations.upper[0, 1])),
    }
