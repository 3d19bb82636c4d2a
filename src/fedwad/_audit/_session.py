"""What an attacking server can use: a client's replies, and what is public."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from fedwad.errors import FedwadError, PolicyError
from fedwad.federation import (
    CellsRequest,
    Client,
    Dataset,
    Ledger,
    Moments,
    MomentsRequest,
    Policy,
    Reply,
    Request,
    SummaryReply,
    SummaryRequest,
    TransportReply,
    TransportRequest,
)
from fedwad.ot import Floats, Measure, Summary

__all__ = ["AttackSession"]

_T = 0.5


class AttackSession:
    """A client as its server sees it: requests go in, declared replies or refusals come out.

    The attacker also knows the number of records, the number of features and the policy. None of
    these is secret. Each attack gets its own client with an empty ledger, so it has all replies of
    a client's lifetime.
    """

    def __init__(self, data: Dataset, policy: Policy, kinds: Collection[str]) -> None:
        self._data = data
        self._client = Client(data, policy)
        self._kinds = kinds
        self.policy = policy
        self.count, self.features = len(data.measure), data.measure.dimension
        #: The largest norm of a record; it is public in private releases.
        self.clip_norm = float(1.01 * np.sqrt((data.measure.points**2).sum(axis=1)).max()) or 1.0
        #: The records themselves, for attacks that know all records but one.
        self.known = data.measure.points
        #: The names of classes, which a server that trains must know.
        self.classes = tuple(self._client.data.names) or (0, 1)
        self.answered = 0
        self.refusals: list[str] = []
        #: Reasons why requests do not fit the data. The policy has no part in them, so they protect
        #: nothing.
        self.unfit: list[str] = []

    @property
    def has_labels(self) -> bool:
        """Whether the records have labels."""
        return self._data.labels is not None

    @property
    def is_spent(self) -> bool:
        """Whether the policy's cap on queries is reached."""
        cap = self.policy.max_queries
        return cap is not None and self._client.ledger.queries >= cap

    def queries(self, wanted: int, reserved: int = 0) -> int:
        """Number of queries for an attack that wants `wanted`, with `reserved` ones put aside."""
        cap = self.policy.max_queries
        return wanted if cap is None else min(wanted, cap - reserved)

    @property
    def is_hopeless(self) -> bool:
        """Whether further requests of a refused kind would be refused too."""
        return not self.answered or self.is_spent

    @property
    def nothing(self) -> Floats:
        """No guesses, (0, d)."""
        return np.empty((0, self.features))

    @property
    def max_support(self) -> int:
        """The largest support that the cell size and the policy allow."""
        largest = self.count // max(1, self.policy.min_cell_size)
        return max(
            1, largest if self.policy.max_support is None else min(largest, self.policy.max_support)
        )

    def uses(self, kind: str) -> bool:
        """Whether the method uses this kind of request."""
        return kind in self._kinds

    def can(self, kind: str) -> bool:
        """Whether the method uses this kind of request and the policy allows it."""
        return self.uses(kind) and kind in self.policy.allow

    def ask(self, request: Request) -> Reply | None:
        """The reply, or None if the request was refused; the reason is recorded."""
        kind = type(request).kind
        if kind not in self._kinds:
            return None
        try:
            reply = self._client.answer(request)
        except FedwadError as error:
            reasons = self.refusals if isinstance(error, PolicyError) else self.unfit
            if str(error) not in reasons:
                reasons.append(str(error))
            return None
        self.answered += 1
        return reply

    def before_and_after(self, record: int, request: Request) -> tuple[Reply | None, Reply | None]:
        """The replies on one ledger before this record joined the data, and after."""
        kept, labels = np.arange(self.count) != record, self._data.labels
        earlier = Dataset(Measure(self.known[kept]), None if labels is None else labels[kept])
        ledger, found = Ledger(), []
        for data in (earlier, self._data):
            try:
                self._client = Client(data, self.policy, ledger)
            except FedwadError as error:
                self.refusals.append(str(error))
                return None, None
            found.append(self.ask(request))
            if found[0] is None:
                return None, None
        return found[0], found[1]

    def cell_means(self, support: Measure) -> Floats | None:
        """Cell means (S, d) from a FedWaD round or a hub request, whichever is allowed."""
        if "transport" in self._kinds and (self.can("transport") or not self.can("cells")):
            reply = self.ask(TransportRequest("audit", support, _T, 2.0, "barycentric", False))
            if not isinstance(reply, TransportReply) or len(reply.interpolant) != len(support):
                return None
            return np.asarray((reply.interpolant.points - _T * support.points) / (1 - _T))
        answer = self.ask(CellsRequest("audit", support, 2.0, "spherical"))
        if not isinstance(answer, SummaryReply) or not isinstance(answer.summary, Summary):
            return None
        if len(answer.summary.means) != len(support):  # a very light point may receive nothing
            return None
        return answer.summary.means

    def rough_moments(self) -> tuple[Floats, Floats]:
        """Rough mean and scale of the data: from the moments, a summary, or one round."""
        moments = self.ask(MomentsRequest()) if self.can("moments") else None
        if isinstance(moments, Moments):
            return moments.mean, np.maximum(moments.scale, 1e-300)
        whole = self.ask(SummaryRequest(max(1, self.policy.min_support), "diag", 2.0, 0))
        if isinstance(whole, SummaryReply) and isinstance(whole.summary, Summary):
            variances = np.broadcast_to(whole.summary.total_covariance(), self.features)
            return whole.summary.mean, np.sqrt(np.maximum(variances, 1e-300))
        rng = np.random.default_rng(0)
        size = max(2, self.policy.min_support)
        means = self.cell_means(Measure(rng.standard_normal((size, self.features))))
        if means is None:
            return np.zeros(self.features), np.ones(self.features)
        mean = means.mean(axis=0)
        return mean, np.full(self.features, float(np.abs(means - mean).mean()) or 1.0)
