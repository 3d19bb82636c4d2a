"""What a curious server has of a client: the one door, and what is public anyway."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from fedwad.errors import FedwadError, PolicyError
from fedwad.federation import (
    CellsRequest,
    Client,
    Dataset,
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

__all__ = ["AttackSession", "Look"]

_T = 0.5


@dataclass(frozen=True)
class Look:
    """The means of the cells that a support makes of the data, and which of its points they belong
    to."""

    points: tuple[int, ...]
    means: Floats


class AttackSession:
    """A client as its server meets it: questions go in, declared replies or a refusal come out.

    An attacker knows besides how many records there are, how many features they have, and the
    policy: none of these is a secret. Each attack gets a client of its own, with an empty ledger:
    all answers of a lifetime.
    """

    def __init__(self, data: Dataset, policy: Policy, kinds: Collection[str]) -> None:
        self._client = Client(data, policy)
        self._kinds = kinds
        self.policy = policy
        self.count, self.features = len(data.measure), data.measure.dimension
        #: How far from the origin records can lie: of private releases that is public.
        self.clip_norm = float(1.01 * np.sqrt((data.measure.points**2).sum(axis=1)).max()) or 1.0
        #: The records themselves, only for attacks that say that they know all but one.
        self.known = data.measure.points
        self.answered = 0
        self.refusals: list[str] = []
        #: Why questions do not fit the data; no policy stands behind these, so they protect
        #: nothing.
        self.unfit: list[str] = []

    @property
    def is_spent(self) -> bool:
        """Whether the lifetime cap on answers ended the attack."""
        cap = self.policy.max_queries
        return cap is not None and self._client.ledger.queries >= cap

    @property
    def most(self) -> int:
        """The largest support that the floor and the policy leave."""
        most = self.count // max(1, self.policy.min_cell_size)
        return max(
            1, most if self.policy.max_support is None else min(most, self.policy.max_support)
        )

    def can(self, kind: str) -> bool:
        return kind in self._kinds and kind in self.policy.allow

    def ask(self, request: Request) -> Reply | None:
        """The reply, or None if it was refused; the reason is kept."""
        kind = type(request).kind
        if kind not in self._kinds:
            return None
        try:
            reply = self._client.answer(request)
        except FedwadError as error:
            told = self.refusals if isinstance(error, PolicyError) else self.unfit
            if str(error) not in told:
                told.append(str(error))
            return None
        self.answered += 1
        return reply

    def look(self, support: Measure) -> Look | None:
        """Cell means, by a round of FedWaD or by the cells of a hub, whichever is answered."""
        if "transport" in self._kinds and (self.can("transport") or not self.can("cells")):
            reply = self.ask(TransportRequest("audit", support, _T, 2.0, "barycentric", False))
            if not isinstance(reply, TransportReply) or len(reply.interpolant) != len(support):
                return None
            means = (reply.interpolant.points - _T * support.points) / (1 - _T)
            return Look(tuple(range(len(support))), means)
        answer = self.ask(CellsRequest("audit", support, 2.0, "spherical"))
        if not isinstance(answer, SummaryReply) or not isinstance(answer.summary, Summary):
            return None
        if len(answer.summary.means) != len(support):  # a point so light that it received nothing
            return None
        return Look(tuple(range(len(support))), answer.summary.means)

    def sketch(self) -> tuple[Floats, Floats]:
        """Where the data are and how widely spread: from their moments, a summary, or guessed from
        one round."""
        moments = self.ask(MomentsRequest()) if self.can("moments") else None
        if isinstance(moments, Moments):
            return moments.mean, np.maximum(moments.scale, 1e-300)
        whole = self.ask(SummaryRequest(max(1, self.policy.min_support), "diag", 2.0, 0))
        if isinstance(whole, SummaryReply) and isinstance(whole.summary, Summary):
            within_std = np.broadcast_to(whole.summary.total_covariance(), self.features)
            return whole.summary.mean, np.sqrt(np.maximum(within_std, 1e-300))
        rng = np.random.default_rng(0)
        seen = self.look(
            Measure(rng.standard_normal((max(2, self.policy.min_support), self.features)))
        )
        if seen is None:
            return np.zeros(self.features), np.ones(self.features)
        mean = seen.means.mean(axis=0)
        return mean, np.full(self.features, float(np.abs(seen.means - mean).mean()) or 1.0)
