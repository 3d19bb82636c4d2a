"""The one door: a client holds data and answers requests about it."""

from __future__ import annotations

from threading import Lock

import numpy as np

from fedwad.errors import InputError
from fedwad.federation.data import Dataset
from fedwad.federation.ledger import Ledger
from fedwad.federation.messages import (
    CellsRequest,
    Moments,
    MomentsRequest,
    Reply,
    Request,
    SummaryReply,
    SummaryRequest,
    TransportReply,
    TransportRequest,
    cleaned,
    kind_of,
    payload,
)
from fedwad.federation.policy import Policy
from fedwad.federation.session import Session
from fedwad.ot import Plan, interpolate, smallest_cell, solve, summarise, summarise_plan

__all__ = ["Client"]


class Client:
    """One party's data behind its policy and its ledger.

    `answer` is the only way to anything computed from the data: it asks the policy before the work and
    before the reply leaves, and writes every request into the ledger, whatever became of it.
    """

    def __init__(self, data: Dataset, policy: Policy | None = None, ledger: Ledger | None = None) -> None:
        self._data = data.canonical()
        self.policy = Policy() if policy is None else policy
        self.ledger = Ledger() if ledger is None else ledger
        self._session = Session()
        self._door = Lock()

    def answer(self, request: Request) -> Reply:
        """Reply to one request, or raise PolicyError. Requests of several threads take turns."""
        kind = kind_of(request)
        with self._door:
            try:
                request = cleaned(request)
                self._check_features(request)
                self.policy.admit(request, self.ledger.looks)
            except BaseException:
                self.ledger.record(kind, "refused")
                raise
            try:
                reply, smallest = self._work(request)
                self.policy.release(smallest)
            except BaseException:  # whatever it was, the data were looked at
                self.ledger.record(kind, "withheld")
                raise
            self.ledger.record(kind, "answered", payload(reply), smallest)
            return reply

    def _work(self, request: Request) -> tuple[Reply, int]:
        """The reply, and the number of samples that its least protected number averages."""
        measure = self._data.measure
        if isinstance(request, MomentsRequest):
            deviation = measure.points - measure.mean
            scale = np.sqrt(measure.weights @ deviation**2)
            whole = np.zeros(len(measure), dtype=np.int64)
            return Moments(len(measure), measure.mean, scale), smallest_cell(whole, measure.weights)
        if isinstance(request, SummaryRequest):
            floor = max(10, self.policy.smallest_cell)
            summary = summarise(measure, request.cells, request.covariance, request.p, floor, request.seed)
            return SummaryReply(summary, None), summary.smallest
        plan = solve(measure, request.support, request.p, start=self._session.recall(request.run))
        self._session.remember(request.run, plan.g)
        if isinstance(request, CellsRequest):
            summary = summarise_plan(plan, request.covariance)
            return SummaryReply(summary, plan.distance), summary.smallest
        moved = interpolate(plan, request.t, request.interpolant)
        return TransportReply(moved, plan.distance if request.reveal else None), _smallest(plan, request)

    def _check_features(self, request: Request) -> None:
        features = self._data.measure.dimension
        if isinstance(request, TransportRequest | CellsRequest) and request.support.dimension != features:
            raise InputError(
                f"A support with {request.support.dimension} features arrived where the data have {features};"
                " both parties need the same features."
            )


def _smallest(plan: Plan, request: TransportRequest) -> int:
    """Fewest samples behind one atom of the interpolating measure."""
    on_samples = request.interpolant == "exact" or len(plan.target) > len(plan.source)
    kept = np.flatnonzero(plan.received)
    return 1 if on_samples else smallest_cell(np.searchsorted(kept, plan.cols), plan.mass)
