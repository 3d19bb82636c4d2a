"""A summary of the data: the only message of method="summary"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np

from fedwad._checks import check_integer
from fedwad.federation.context import MAX_CALIBRATED, ClientContext
from fedwad.federation.message import (
    MAX_ABS,
    Reply,
    Request,
    check_bool,
    check_distance,
    check_weights,
    is_count,
    is_finite,
    plain_bool,
    plain_choice,
    require,
)
from fedwad.federation.needs import ClassStatistics, Needs
from fedwad.federation.requests.calibration import check_calibration
from fedwad.ot import (
    Calibration,
    CovarianceType,
    LabelledSummary,
    Summary,
    check_order,
    summarise,
    summarise_classes,
)

__all__ = ["SummaryReply", "SummaryRequest"]

_TRACE_TOLERANCE = 1e-6  # relative, between within_std^2 and the trace of the covariance


@dataclass(frozen=True, eq=False)
class SummaryReply(Reply):
    """A summary, and the distance to the support that made its cells (None for k-means cells).

    `calibration` is None where it was not asked for, is withheld, or cannot be measured. `keep`
    says whether the site allows the reply to be kept in a file.
    """

    summary: Summary | LabelledSummary
    distance: float | None
    calibration: Calibration | None = None
    keep: bool = False

    def check_values(self) -> None:
        check_bool(self.keep)
        check_distance(self.distance)
        if self.calibration is not None:
            check_calibration(self.calibration, self.summary.dimension)
            require(
                all(is_finite(part.means, 2, MAX_CALIBRATED) for part in _parts(self.summary)),
                "its numbers are too large for a calibration.",
            )
        if isinstance(self.summary, LabelledSummary):
            check_weights(self.summary.weights, len(self.summary.parts))
            for part in self.summary.parts:
                _check_summary(part)
            require(
                len({part.dimension for part in self.summary.parts}) == 1,
                "classes differ in features.",
            )
        else:
            _check_summary(self.summary)


@dataclass(frozen=True)
class SummaryRequest(Request):
    """Ask for a summary of the data in k-means cells.

    Unless `class_statistics` is "ignored", each class has a summary of its own. With `calibration`
    and p = 2, or with classes, the reply also has what the site measures on random splits of its
    own rows.
    """

    kind: ClassVar[str] = "summary"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = SummaryReply
    cells: int
    covariance_type: CovarianceType
    p: float
    seed: int
    class_statistics: ClassStatistics = "ignored"
    calibration: bool = True

    def validate(self) -> SummaryRequest:
        return SummaryRequest(
            check_integer(self.cells, "cells"),
            plain_choice(self.covariance_type, "covariance_type", get_args(CovarianceType)),
            check_order(self.p),
            check_integer(self.seed, "seed", 0),
            plain_choice(self.class_statistics, "class_statistics", get_args(ClassStatistics)),
            plain_bool(self.calibration, "calibration"),
        )

    def needs(self) -> Needs:
        return Needs(
            order=self.p,
            size=self.cells,
            class_statistics=self.class_statistics,
            class_covariance=self.class_statistics != "ignored",
        )

    def execute(self, context: ClientContext) -> tuple[SummaryReply, int]:
        covariance_type = context.policy.allowed_covariance_type(self.covariance_type)
        without_classes = self.class_statistics == "ignored"
        summary: Summary | LabelledSummary
        if self.class_statistics == "ignored":
            summary = summarise(
                context.data.measure,
                self.cells,
                covariance_type,
                self.p,
                context.min_own_cell_size,
                self.seed,
            )
        else:
            summary = summarise_classes(
                context.data.measure,
                context.data.require_class_codes(),
                self.cells,
                covariance_type,
                self.class_statistics,
                context.min_own_cell_size,
                self.seed,
            )
        calibration = None
        if self.calibration and (self.p == 2 or not without_classes):
            calibration = context.calibration(
                self.cells, covariance_type, class_statistics=self.class_statistics
            )
        keep = context.policy.keep and without_classes
        return SummaryReply(summary, None, calibration, keep), summary.min_cell_size

    def check(self, reply: SummaryReply) -> None:
        require(self.calibration or reply.calibration is None, "it has a calibration.")
        labelled = isinstance(reply.summary, LabelledSummary)
        require(
            labelled == (self.class_statistics != "ignored"),
            "it is about classes, or not, unlike the request.",
        )
        if isinstance(reply.summary, LabelledSummary):
            require(
                reply.summary.covariance == self.class_statistics,
                "its classes are compared by something else.",
            )
            ndim = 2 if self.class_statistics == "full" else 1
            require(
                all(part.within.ndim >= ndim for part in reply.summary.parts),
                "it leaves out covariances.",
            )
        for part in _parts(reply.summary):
            require(len(part.weights) <= self.cells, "it has more cells than were asked for.")
            require(part.p == self.p, "it is about a different order p.")


def _parts(summary: Summary | LabelledSummary) -> tuple[Summary, ...]:
    """The summaries of the classes, or the one summary of data without classes."""
    return summary.parts if isinstance(summary, LabelledSummary) else (summary,)


def _check_summary(summary: Any) -> None:
    require(is_finite(summary.means, 2) and summary.means.size > 0, "cell means are not finite.")
    check_weights(summary.weights, len(summary.means))
    d = summary.dimension
    require(
        is_finite(summary.covariance, max_abs=MAX_ABS**2)
        and summary.covariance.shape in ((), (d,), (d, d)),
        "the covariance is not finite or has a different shape.",
    )
    diagonal = np.diag(summary.covariance) if summary.covariance.ndim == 2 else summary.covariance
    require(bool((diagonal >= 0).all()), "a variance is negative.")
    if summary.factors is not None:
        shape = np.shape(summary.factors)
        require(
            is_finite(summary.factors, 2) and shape[0] <= shape[1] == d == len(diagonal),
            "factors of the covariance are not finite or have a different shape.",
        )
    require(
        is_count(summary.count) and is_count(summary.min_cell_size),
        "counts are not positive integers.",
    )
    require(summary.min_cell_size <= summary.count, "it has larger cells than samples.")
    check_distance(summary.within_std)
    if summary.p == 2:
        trace = summary.variance
        require(
            abs(summary.within_std**2 - trace) <= _TRACE_TOLERANCE * trace + 1e-290,
            "within_std and covariance disagree.",
        )
