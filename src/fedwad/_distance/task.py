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

__all__ = ["ColumnNames", "DistanceTask"]

#: Names of the features, and the schema that encoded them, as far as they are known.
ColumnNames = tuple[tuple[str, ...] | None, Schema | None]


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

    def result_from(
        self,
        found: Estimate,
        mu: SummaryReply,
        nu: SummaryReply,
        names: ColumnNames,
        **more: Any,
    ) -> DistanceResult:
        """Return the result of an estimate from the final replies of both sites."""
        a, b = mu.summary, nu.summary
        calibrations = mu.calibration, nu.calibration
        return self.result(
            **_correct_for_chance(found, mu, nu),
            evidence=self.evidence(names, (a, b), calibrations, found.columns),
            rows=(a.count, b.count),
            covariance_types=(a.covariance_type, b.covariance_type),
            min_cell_size=min(a.min_cell_size, b.min_cell_size),
            **more,
        )

    def evidence(
        self,
        names: ColumnNames,
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
            *names,
            count if labelled else feature_count(count, self.class_statistics),
            noises,
        )

    def zero(self) -> DistanceResult:
        """Return the distance of a site from itself, which takes no message."""
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


def _correct_for_chance(found: Estimate, a: SummaryReply, b: SummaryReply) -> dict[str, Any]:
    """Return value, bounds, noise and population as fields of a result.

    Without the calibrations of both sites the value stays as it was estimated, and noise and
    population are left out. Equal summaries keep their lower bound as the value.
    """
    uncorrected = {"value": found.value, "lower": found.lower, "upper": found.upper}
    table = np.array([[0.0, found.value], [found.value, 0.0]])
    chance = beyond_chance(table, [a.summary, b.summary], [a.calibration, b.calibration])
    if chance is None:
        return uncorrected
    value = float(chance.value[0, 1]) if found.value > found.lower else found.value
    return uncorrected | {
        "value": min(max(value, found.lower), found.upper),
        "noise": float(chance.noise[0, 1]),
        "population": float(chance.population[0, 1]),
        "population_interval": (float(chance.lower[0, 1]), float(chance.upper[0, 1])),
    }
