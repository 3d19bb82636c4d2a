"""Requests that transport the data to a support.

A TransportRequest is one round of FedWaD. A CellsRequest is FedWaD's final message, or one round of
a hub.
"""

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
    plain_bool,
    plain_choice,
    plain_run,
    plain_support,
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

    `run` names the run that the request belongs to. A client starts the transport from the last
    potentials of that run, which saves time and changes no number.
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
            plain_choice(self.interpolant, "interpolant", get_args(Interpolant)),
            plain_bool(self.with_distance, "with_distance"),
            plain_choice(self.class_statistics, "class_statistics", get_args(ClassStatistics)),
        )

    def needs(self) -> Needs:
        needs = _support_needs(self.support, self.p, self.class_statistics)
        return replace(needs, exact_interpolant=self.interpolant == "exact")

    def check_shape(self, context: ClientContext) -> None:
        _check_features(self.support, self.class_statistics, context)

    def execute(self, context: ClientContext) -> tuple[TransportReply, int]:
        plan = _plan(self.run, self.support, self.p, self.class_statistics, context)
        interpolant = interpolate(plan, self.t, self.interpolant)
        distance = plan.distance if self.with_distance else None
        return TransportReply(interpolant, distance), min(
            _min_atom_size(plan, self.interpolant), context.min_class_size(self.class_statistics)
        )

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
    """Transport the data to this support, reply with a summary in its cells.

    With `calibration`, p = 2 and class statistics "ignored", the reply also has what the site
    measures on random splits of its own rows.
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
            plain_choice(self.covariance_type, "covariance_type", get_args(CovarianceType)),
            plain_choice(self.class_statistics, "class_statistics", get_args(ClassStatistics)),
            plain_bool(self.calibration, "calibration"),
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
            summary.min_cell_size, context.min_class_size(self.class_statistics)
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
    """Transport to the support, starting from the last potentials of this run.

    The cache holds each potential less the squared distance between its point of the support and
    the mean of its cell. The start adds that of the new point: a point that comes closer to the
    mean of its cell by some cost gives up as much of its potential.
    """
    start, last = None, context.cache.transport(run)
    if last is not None and last[1].shape == support.points.shape:
        start = np.asarray(last[0] + _squared_distances(last[1], support, p))
    plan = solve(context.view(class_statistics), support, p, start)
    squares = _squared_distances(plan.target_means(), support, p)
    context.cache.keep_transport(run, plan.g - squares, plan.target_means())
    return plan


def _squared_distances(means: Floats, support: Measure, p: float) -> Floats:
    """Squared distances between the means of cells and their points; zero unless p is 2."""
    moves = means - support.points
    return np.asarray(np.einsum("sd,sd->s", moves, moves)) if p == 2 else np.zeros(len(moves))


def _min_atom_size(plan: Plan, interpolant: Interpolant) -> int:
    """Smallest number of samples that one atom of the interpolating measure averages."""
    if interpolant == "exact" or len(plan.target) > len(plan.source):
        return 1
    reached = np.flatnonzero(plan.received)
    return min_cell_size(np.searchsorted(reached, plan.cols), plan.mass)


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
