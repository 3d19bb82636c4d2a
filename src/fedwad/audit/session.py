"""What an attacking server can use: the replies of a client, and what is public about it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fedwad.errors import FedwadError, PolicyError
from fedwad.federation import (
    CellsRequest,
    Client,
    ColumnsReply,
    ColumnsRequest,
    Dataset,
    Ledger,
    Policy,
    Reply,
    Request,
    SummaryReply,
    SummaryRequest,
    TransportReply,
    TransportRequest,
)
from fedwad.statistics import Summary
from fedwad.transport import Floats, Measure

R = TypeVar("R", bound=Reply)
T = TypeVar("T")


class NothingToGuessFromError(Exception):
    """A reply that an attack cannot do without did not come."""


def need(value: T | None) -> T:
    """The value; NothingToGuessFromError if there is none."""
    if value is None:
        raise NothingToGuessFromError
    return value


def halve(
    is_reached: Callable[[float], bool], low: float, high: float, steps: int
) -> tuple[float, float]:
    """The interval, halved so often, that holds the smallest number for which it is true."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if is_reached(middle) else (middle, high)
    return low, high


class Asker:
    """A server that asks one client, and notes how often it got an answer and why it got none."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.answered = 0
        self.refusals: list[str] = []
        #: Why requests do not apply to the data; these are no refusals and protect nothing.
        self.inapplicable: list[str] = []
        #: The code of the last error; empty after an answer.
        self.code = ""

    @property
    def refused(self) -> str:
        """The sentence of a refusal, or why a request did not apply; empty without either."""
        return (self.refusals or self.inapplicable or [""])[-1]

    def ask(self, request: Request) -> Reply | None:
        """The reply, or None if the request was refused, for a reason that is noted."""
        try:
            reply = self._client.answer(request)
        except FedwadError as error:
            self.code = error.code
            reasons = self.refusals if isinstance(error, PolicyError) else self.inapplicable
            if str(error) not in reasons:
                reasons.append(str(error))
            return None
        self.answered, self.code = self.answered + 1, ""
        return reply


class AttackSession(Asker):
    """A client as its server sees it: requests go in, declared replies or refusals come out.

    The attacker also knows the number of records, the number of features and the policy. None of
    these is secret. Each attack gets its own client with an empty ledger, so it has all replies of
    a client's lifetime.
    """

    def __init__(self, data: Dataset, policy: Policy, kinds: Collection[str]) -> None:
        super().__init__(Client(data, policy))
        self._data = data
        self._kinds = kinds
        self.policy = policy
        self.count, self.features = len(data.measure), data.measure.dimension
        #: A little more than the largest norm of a record; it is public in private releases.
        self.clip_norm = float(1.01 * np.sqrt((data.measure.points**2).sum(axis=1)).max()) or 1.0
        #: The records themselves, for attacks that know all records but one.
        self.records = data.measure.points
        #: The names of classes, which a server that trains must know.
        self.classes = tuple(self._client.data.names) or (0, 1)
        #: Pooled mean and standard deviations of all sites, in whose units blocks are sent.
        stds = np.sqrt(data.measure.weights @ (self.records - data.measure.mean) ** 2)
        self.public_units = data.measure.mean, np.maximum(stds, 1e-9)
        self.has_labels = data.labels is not None

    @property
    def is_spent(self) -> bool:
        """Whether the policy's cap on queries is reached."""
        cap = self.policy.max_queries
        return cap is not None and self._client.ledger.queries >= cap

    def queries(self, wanted: int, reserved: int = 0) -> int:
        """How many of `wanted` queries the policy's cap allows if `reserved` ones are kept back."""
        cap = self.policy.max_queries
        return wanted if cap is None else min(wanted, cap - reserved)

    @property
    def should_stop(self) -> bool:
        """Whether, after a refusal, further requests of the same kind would be refused too."""
        return not self.answered or self.is_spent

    @property
    def no_guesses(self) -> Floats:
        """No guesses, (0, d)."""
        return np.empty((0, self.features))

    @property
    def max_support(self) -> int:
        """The largest support that the cell size and the policy allow."""
        by_cell_size = self.count // max(1, self.policy.min_cell_size)
        cap = self.policy.max_support
        return max(1, by_cell_size if cap is None else min(by_cell_size, cap))

    def ask_summary(self, request: Request) -> Summary | None:
        """The summary without labels that answers the request; None if there is none."""
        reply = self.ask(request)
        if isinstance(reply, SummaryReply) and isinstance(reply.summary, Summary):
            return reply.summary
        return None

    def uses(self, kind: str) -> bool:
        """Whether the method uses this kind of request."""
        return kind in self._kinds

    def may_ask(self, kind: str) -> bool:
        """Whether the method uses this kind of request and the policy allows it."""
        return self.uses(kind) and kind in self.policy.allow

    def ask(self, request: Request) -> Reply | None:
        """The reply, or None if the request was refused or the method does not use its kind."""
        return super().ask(request) if self.uses(type(request).kind) else None

    def require(self, request: Request, kind: type[R]) -> R:
        """The reply; NothingToGuessFromError if it is refused or not of this kind."""
        reply = self.ask(request)
        if not isinstance(reply, kind):
            raise NothingToGuessFromError
        return reply

    def ask_before_and_after(
        self, record: int, request: Request
    ) -> tuple[Reply | None, Reply | None]:
        """The replies before and after this record joined the data, of clients with one ledger."""
        others, labels = np.arange(self.count) != record, self._data.labels
        earlier = Dataset(Measure(self.records[others]), None if labels is None else labels[others])
        ledger, replies = Ledger(), []
        for data in (earlier, self._data):
            try:
                self._client = Client(data, self.policy, ledger)
            except FedwadError as error:
                self.refusals.append(str(error))
                return None, None
            replies.append(self.ask(request))
            if replies[0] is None:
                return None, None
        return replies[0], replies[1]

    def ask_moments(self) -> tuple[Floats, Floats] | None:
        """Mean and standard deviation of each feature, from the columns, and of those that the
        columns withhold from the cells of a support; None if the site does not send them."""
        mean, scale = np.full((2, self.features), np.nan)
        reply = self.ask(ColumnsRequest())
        if isinstance(reply, ColumnsReply):
            mean, scale = np.array([[s.mean, s.std] for s in reply.profile.columns]).T
        withheld = np.isnan(mean) | np.isnan(scale)
        if not withheld.any():
            return mean, scale
        summary = self.ask_summary(self.cells_request())
        if summary is None:
            return None
        variances = np.broadcast_to(summary.total_covariance(), self.features)
        stds = np.sqrt(np.maximum(variances, 0.0))
        return np.where(withheld, summary.mean, mean), np.where(withheld, stds, scale)

    def cells_request(self) -> CellsRequest:
        """A request for the cells of a random support, whose means average to that of all rows."""
        size = max(1, self.policy.min_support)
        points = np.random.default_rng(0).standard_normal((size, self.features))
        return CellsRequest("audit", Measure(points), 2.0, "diag")

    def cell_means(
        self, support: Measure, samples: int | None = None, draw: int = 0
    ) -> Floats | None:
        """Cell means (S, d) from a FedWaD round or a hub request, whichever is allowed; those of
        so many random `samples` from a round alone."""
        if self.uses("transport") and (self.may_ask("transport") or not self.may_ask("cells")):
            t = 0.5  # of FedWaD's interpolant
            round_ = TransportRequest("audit", support, 2.0, t, "barycentric", False)
            reply = self.ask(replace(round_, samples=samples, draw=draw))
            if not isinstance(reply, TransportReply) or len(reply.interpolant) != len(support):
                return None
            return np.asarray((reply.interpolant.points - t * support.points) / (1 - t))
        summary = self.ask_summary(CellsRequest("audit", support, 2.0, "spherical"))
        # A very light point may receive nothing.
        return summary.means if summary and len(summary.means) == len(support) else None

    def estimate_moments(self) -> tuple[Floats, Floats]:
        """A rough mean and scale of each feature, from its columns, a summary, or one round."""
        moments = self.ask_moments() if self.may_ask("columns") else None
        if moments is not None:
            return moments[0], np.maximum(moments[1], 1e-300)
        summary = self.ask_summary(SummaryRequest(max(1, self.policy.min_support), "diag", 2.0, 0))
        if summary is not None:
            variances = np.broadcast_to(summary.total_covariance(), self.features)
            return summary.mean, np.sqrt(np.maximum(variances, 1e-300))
        rng = np.random.default_rng(0)
        size = max(2, self.policy.min_support)
        means = self.cell_means(Measure(rng.standard_normal((size, self.features))))
        if means is None:
            return np.zeros(self.features), np.ones(self.features)
        mean = means.mean(axis=0)
        return mean, np.full(self.features, float(np.abs(means - mean).mean()) or 1.0)


@dataclass(frozen=True)
class Attack:
    """An attack on methods: it asks a client and returns guesses of records, (k, d).

    name : its name in tables
    requests : what it asks for, in words
    on_all : whether it is tried on all records and not on a part, since it is fast
    """

    name: str
    requests: str
    run: Callable[[AttackSession, np.random.Generator], Floats]
    on_all: bool = False

    def __call__(self, session: AttackSession, rng: np.random.Generator) -> Floats:
        try:
            return self.run(session, rng)
        except NothingToGuessFromError:
            return session.no_guesses


def attack(
    name: str, requests: str, on_all: bool = False
) -> Callable[[Callable[[AttackSession, np.random.Generator], Floats]], Attack]:
    """Make a function an `Attack`."""
    return lambda run: Attack(name, requests, run, on_all)
