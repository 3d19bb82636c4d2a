"""The one door: a client holds data and answers requests about it."""

from __future__ import annotations

import hashlib
import logging

import numpy as np

from fedwad._steady import steady
from fedwad.errors import FederationError, FedwadError, InputError, PolicyError
from fedwad.federation.codec import Letter, VersionError, digest, pack, unpack
from fedwad.federation.data import Dataset
from fedwad.federation.ledger import Ledger
from fedwad.federation.policy import Policy
from fedwad.federation.replies import (
    BundleReply,
    Description,
    Failure,
    Moments,
    Reply,
    SummaryReply,
    TransportReply,
    failure_of,
    payload,
)
from fedwad.federation.requests import (
    Bundle,
    CellsRequest,
    Classes,
    DescribeRequest,
    MomentsRequest,
    Request,
    SummaryRequest,
    TransportRequest,
    cleaned,
    kind_of,
)
from fedwad.federation.session import Session
from fedwad.ot import (
    LabelledMeasure,
    Measure,
    Plan,
    interpolate,
    smallest_cell,
    solve,
    summarise,
    summarise_classes,
    summarise_plan,
)

__all__ = ["Client"]

_LARGEST_BUNDLE = 10_000
_log = logging.getLogger("fedwad.client")


class Client:
    """One party's data behind its policy and its ledger.

    `answer` is the only way to anything computed from the data: it asks the policy before the work and
    before the reply leaves, and writes every request into the ledger, whatever became of it.
    `respond` is the same door for letters that came over a wire.
    """

    def __init__(self, data: Dataset, policy: Policy | None = None, ledger: Ledger | None = None) -> None:
        self._data = data.canonical()
        self._digest = _digest(self._data)
        self._features = "" if data.features is None else hashlib.sha256(repr(data.features).encode()).hexdigest()[:16]
        self._views: dict[Classes, Measure] = {}
        self.policy = Policy() if policy is None else policy
        self.ledger = Ledger() if ledger is None else ledger
        self._session = Session()

    def respond(self, letter: bytes) -> bytes:
        """The answer to a letter, as a letter. Errors become a Failure: our sentence, never a traceback or data."""
        ticket = ""
        message: Reply | BundleReply | Failure
        try:
            asked = self._opened(letter)
            ticket = asked.ticket
            message = (
                self.answer_all(asked.message) if isinstance(asked.message, Bundle) else self.answer(asked.message)
            )
        except VersionError as error:
            message = Failure("version", str(error))
        except FedwadError as error:
            message = failure_of(error)
        except Exception:
            _log.exception("a request failed")  # stays here, beside the data
            message = Failure("internal", "The client could not work on this request; its own log tells why.")
        return pack(Letter(message, ticket, self._features))

    def _opened(self, letter: bytes) -> Letter:
        try:
            return unpack(letter)
        except FedwadError:
            with self.ledger.turn():
                self.ledger.record("unreadable", "refused")
            raise

    def answer_all(self, bundle: Bundle) -> BundleReply:
        """Reply to each request of a bundle, or say why not."""
        if len(bundle.requests) > _LARGEST_BUNDLE:
            raise FederationError(f"A bundle of {len(bundle.requests)} requests came; send up to {_LARGEST_BUNDLE}.")
        replies: list[Reply | Failure] = []
        for request in bundle.requests:
            try:
                replies.append(self.answer(request))
            except FedwadError as error:
                replies.append(failure_of(error))
        return BundleReply(tuple(replies))

    def answer(self, request: Request) -> Reply:
        """Reply to one request, or raise PolicyError. Requests of several threads take turns."""
        kind = kind_of(request)
        with self.ledger.turn(), steady():
            try:
                request = cleaned(request)
                self.policy.admit(request, self.ledger.looks)
                self._check_features(request)
            except BaseException:
                self.ledger.record(kind, "refused", data=self._digest)
                raise
            try:
                reply, smallest = self._work(request)
                if smallest is not None:
                    self.policy.release(smallest)
            except BaseException:  # whatever it was, the data were looked at
                self.ledger.record(kind, "withheld", data=self._digest)
                raise
            self.ledger.record(kind, "answered", payload(reply), smallest or 0, digest(reply), self._digest)
            return reply

    def _work(self, request: Request) -> tuple[Reply, int | None]:
        """The reply, and the number of samples that its least protected number averages (None if it averages none)."""
        if isinstance(request, DescribeRequest):
            policy, data = self.policy, self._data
            allow = tuple(sorted(policy.allow))
            labelled = data.labels is not None
            return Description(policy.name, policy.contact, allow, data.measure.dimension, labelled), None
        if isinstance(request, SummaryRequest) and request.classes != "ignored":
            return self._summary_by_class(request)
        measure = self._view(request.classes)
        if isinstance(request, MomentsRequest):
            return _moments(measure), self._smallest_class(measure)
        form = self.policy.told(request.form) if not isinstance(request, TransportRequest) else "auto"
        if isinstance(request, SummaryRequest):
            summary = summarise(measure, request.cells, form, request.p, self._floor, request.seed)
            return SummaryReply(summary, None), summary.smallest
        plan = solve(measure, request.support, request.p, start=self._session.recall(request.run))
        self._session.remember(request.run, plan.g)
        if isinstance(request, CellsRequest):
            summary = summarise_plan(plan, form)
            return SummaryReply(summary, plan.distance), min(summary.smallest, self._smallest_class(measure))
        moved = interpolate(plan, request.t, request.interpolant)
        smallest = min(_smallest(plan, request), self._smallest_class(measure))
        return TransportReply(moved, plan.distance if request.reveal else None), smallest

    def _summary_by_class(self, request: SummaryRequest) -> tuple[SummaryReply, int]:
        if (request.classes == "full" and self.policy.form != "full") or self.policy.form == "isotropic":
            raise PolicyError("This client's policy does not tell what classes are to be compared by.")
        summary = summarise_classes(
            self._data.measure,
            self._data.known_labels(),
            request.cells,
            self.policy.told(request.form),
            "full" if request.classes == "full" else "diagonal",
            self._floor,
            request.seed,
        )
        return SummaryReply(summary, None), summary.smallest

    @property
    def _floor(self) -> int:
        return max(10, self.policy.smallest_cell)

    def _view(self, classes: Classes) -> Measure:
        if classes not in self._views:
            self._views[classes] = self._data.view(classes)
        return self._views[classes]

    def _smallest_class(self, measure: Measure) -> int:
        """Samples in the smallest class whose statistics are part of the measure; all of them if none are."""
        codes = measure.codes if isinstance(measure, LabelledMeasure) else np.zeros(len(measure), dtype=np.int64)
        return smallest_cell(codes, measure.weights)

    def _check_features(self, request: Request) -> None:
        if not isinstance(request, TransportRequest | CellsRequest):
            return
        d = self._data.measure.dimension
        features = {"ignored": d, "diagonal": 3 * d, "full": d + d + d * d}[request.classes]
        if request.support.dimension != features:
            raise InputError(
                f"A support with {request.support.dimension} features arrived where the data have {features};"
                " both parties need the same features."
            )


def _moments(measure: Measure) -> Moments:
    if isinstance(measure, LabelledMeasure):
        return Moments(len(measure), measure.mean, np.sqrt(measure.variances))
    return Moments(len(measure), measure.mean, np.sqrt(measure.weights @ (measure.points - measure.mean) ** 2))


def _smallest(plan: Plan, request: TransportRequest) -> int:
    """Fewest samples behind one atom of the interpolating measure."""
    on_samples = request.interpolant == "exact" or len(plan.target) > len(plan.source)
    kept = np.flatnonzero(plan.received)
    return 1 if on_samples else smallest_cell(np.searchsorted(kept, plan.cols), plan.mass)


def _digest(data: Dataset) -> str:
    """SHA-256 of the samples, their weights and labels: what the ledger calls the data by."""
    sha = hashlib.sha256(str(data.measure.points.shape).encode())
    sha.update(data.measure.points.data)
    sha.update(data.measure.weights.data)
    if data.labels is not None:
        sha.update(np.ascontiguousarray(data.labels).data)
    return sha.hexdigest()
