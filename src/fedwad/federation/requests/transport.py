"""Requests that transport the data to a support: one round of FedWaD, and the cells that FedWaD's
final message and each round of a hub ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from fedwad.errors import InputError
from fedwad.federation.context import ClientContext
from fedwad.federation.message import (
    Reply,
    Request,
    check_distance,
    check_measure,
    plain_run,
    plain_support,
    plain_switch,
    plain_word,
    require,
)
from fedwad.federation.needs import ClassStatistics, Needs
from fedwad.federation.requests.summary import SummaryReply
from fedwad.ot import (
    CovarianceType,
    Floats,
    Interpolant,
    Measure,
    Plan,
    Summary,
    check_order,
    interpolate,
    min_cell_size,
    solve,
    summarise_plan,
)

__all__ = ["CellsRequest", "TransportReply", "TransportRequest"]


@dataclass(frozen=True, eq=False)
class TransportReply(Reply):
    """The interpolating measure between the data (t = 0) and the support (t = 1), and the distance
    if it was asked for."""

    interpolant: Measure
    distance: float | None

    def check_values(self) -> None:
        check_measure(self.interpolant)
        check_distance(self.distance)


@dataclass(frozen=True, eq=False)
class TransportRequest(Request):
    """One round of FedWaD: transport the data to this support, reply with an interpolating measure.

    `run` names the sequence of rounds that the request belongs to. A client starts the transport
    from the last potentials of that run, which saves time and changes no number.
    """

    kind: ClassVar[str] = "transport"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = TransportReply
    run: str
    support: Measure
    t: float
    p: float
    interpolant: Interpolant
    with_distance: bool
    class_statistics: ClassStatistics = "ignored"

    def validate(self) -> TransportRequest:
        if type(self.t) is not float or not 0 < self.t < 1:
            raise InputError("t must be a number strictly between 0 and 1.")
        return TransportRequest(
            plain_run(self.run),
            plain_support(self.support),
            self.t,
            check_order(self.p),
            plain_word(self.interpolant, "interpolant", get_args(Interpolant)),
            plain_switch(self.with_distance, "with_distance"),
            plain_word(self.class_statistics, "class_statistics", get_args(ClassStatistics)),
        )

    def needs(self) -> Needs:
        needs = _support_needs(self.support, self.p, self.class_statistics)
        return replace(needs, exact_interpolant=self.interpolant == "exact")

    def check_shape(self, context: ClientContext) -> None:
        _check_features(self.support, self.class_statistics, context)

    def execute(self, context: ClientContext) -> tuple[TransportReply, int]:
        plan = _plan(self.run, self.support, self.p, self.class_statistics, context)
        moved = interpolate(plan, self.t, self.interpolant)
        fewest = min(
            _smallest(plan, self.interpolant), context.smallest_class(self.class_statistics)
        )
        return TransportReply(moved, plan.distance if self.with_distance else None), fewest

    def check(self, reply: TransportReply) -> None:
        require(
            reply.interpolant.dimension == self.support.dimension,
            "it has a different number of features.",
        )
        if self.interpolant == "barycentric":
            require(
                len(reply.interpolant) <= len(self.support), "it has more points than the support."
            )
        require(
            (reply.distance is not None) or not self.with_distance, "it leaves out its distance."
        )


@dataclass(frozen=True, eq=False)
class CellsRequest(Request):
    """Transport the data to this support, reply with its cells.

    With `calibration`, also with what the site measures on random splits of its own rows (see
    SummaryRequest).
    """

    kind: ClassVar[str] = "cells"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = SummaryReply
    run: str
    support: Measure
    p: float
    covariance_type: CovarianceType
    class_statistics: ClassStatistics = "ignored"
    calibration: bool = False

    def validate(self) -> CellsRequest:
        return CellsRequest(
            plain_run(self.run),
            plain_support(self.support),
            check_order(self.p),
            plain_word(self.covariance_type, "covariance_type", get_args(CovarianceType)),
            plain_word(self.class_statistics, "class_statistics", get_args(ClassStatistics)),
            plain_switch(self.calibration, "calibration"),
        )

    def needs(self) -> Needs:
        return _support_needs(self.support, self.p, self.class_statistics)

    def check_shape(self, context: ClientContext) -> None:
        _check_features(self.support, self.class_statistics, context)

    def execute(self, context: ClientContext) -> tuple[SummaryReply, int]:
        plan = _plan(self.run, self.support, self.p, self.class_statistics, context)
        covariance_type = context.policy.allowed_covariance_type(self.covariance_type)
        summary = summarise_plan(plan, covariance_type)
        calibration = None
        if self.calibration and self.p == 2 and self.class_statistics == "ignored":
            calibration = context.calibration(
                len(self.support), covariance_type, self.support.points
            )
        return SummaryReply(summary, plan.distance, calibration), min(
            summary.min_cell_size, context.smallest_class(self.class_statistics)
        )

    def check(self, reply: SummaryReply) -> None:
        summary = reply.summary
        if not isinstance(summary, Summary):
            raise InputError("it is a summary by class, which was not asked for.")
        require(reply.distance is not None, "it leaves out its distance to the support.")
        require(
            summary.dimension == self.support.dimension, "it has a different number of features."
        )
        require(len(summary.weights) <= len(self.support), "it has more cells than the support.")
        require(summary.p == self.p, "it is about a different order p.")
        require(
            self.calibration or reply.calibration is None,
            "it has a calibration that was not asked for.",
        )


def _support_needs(support: Measure, p: float, class_statistics: ClassStatistics) -> Needs:
    weights: Literal["uniform", "weighted"] = "uniform" if support.is_uniform else "weighted"
    return Needs(order=p, size=len(support), support=weights, class_statistics=class_statistics)


def _plan(
    run: str, support: Measure, p: float, class_statistics: ClassStatistics, context: ClientContext
) -> Plan:
    start = _start(context.cache.transport(run), support, p)
    plan = solve(context.view(class_statistics), support, p, start)
    squares = _squares(plan.target_means(), support, p)
    context.cache.keep_transport(run, plan.g - squares, plan.target_means())
    return plan


def _start(last: tuple[Floats, Floats] | None, support: Measure, p: float) -> Floats | None:
    """The last potentials, moved with the support: a point that comes closer to the mean of its
    cell by some cost gives up as much of its potential."""
    if last is None or last[1].shape != support.points.shape:
        return None
    return np.asarray(last[0] + _squares(last[1], support, p))


def _squares(means: Floats, support: Measure, p: float) -> Floats:
    """Squared distances between the means of cells and the support; zero for other costs."""
    moves = means - support.points
    return np.asarray(np.einsum("sd,sd->s", moves, moves)) if p == 2 else np.zeros(len(moves))


def _smallest(plan: Plan, interpolant: Interpolant) -> int:
    """Fewest samples behind one atom of the interpolating measure."""
    on_samples = interpolant == "exact" or len(plan.target) > len(plan.source)
    kept = np.flatnonzero(plan.received)
    return 1 if on_samples else min_cell_size(np.searchsorted(kept, plan.cols), plan.mass)


def _check_features(
    support: Measure, class_statistics: ClassStatistics, context: ClientContext
) -> None:
    d = context.data.measure.dimension
    features = {"ignored": d, "diag": 3 * d, "full": d + d + d * d}[class_statistics]
    if support.dimension != features:
        raise InputError(
            f"A support with {support.dimension} features arrived where the data have {features};"
            " all sites need the same features."
        )
