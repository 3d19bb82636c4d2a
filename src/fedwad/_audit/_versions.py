"""An attack on data that grow: replies before and after a record joined differ by that record."""

from __future__ import annotations

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad.federation import (
    AtomsRequest,
    BlocksReply,
    BlocksRequest,
    CellSums,
    Moments,
    MomentsRequest,
    Prototypes,
    PrototypesRequest,
    Reply,
    Request,
    SummaryReply,
    SummaryRequest,
)
from fedwad.ot import Floats, Summary

__all__ = ["difference_versions"]


def difference_versions(session: AttackSession, rng: np.random.Generator) -> Floats:
    """The record that joined between two replies to the same request, on one ledger."""
    n, record = session.count, int(rng.integers(session.count))
    for request in _requests(session):
        before, after = session.ask_before_and_after(record, request)
        old_mean, new_mean = _mean(before), _mean(after)
        if old_mean is not None and new_mean is not None:
            return np.asarray(n * new_mean - (n - 1) * old_mean)[None]
    return session.no_guesses


def _requests(session: AttackSession) -> list[Request]:
    """The requests of the method whose replies contain a mean of all records.

    If the policy allows none of them, the first is tried, so that its refusal is recorded.
    """
    size = max(1, session.policy.min_support)
    atoms = np.zeros((size, session.features))
    atoms[1:] += 1e6 * session.clip_norm * np.arange(1, size)[:, None]  # no record is near these
    requests: list[Request] = [
        MomentsRequest(),
        SummaryRequest(1, "diag", 2.0, 0, calibration=False),
        AtomsRequest(atoms, np.zeros(size), 0.0),
        BlocksRequest(),
        PrototypesRequest(1, "class", "free", 0),
    ]
    usable = [request for request in requests if session.uses(type(request).kind)]
    return [request for request in usable if session.may_ask(type(request).kind)] or usable[:1]


def _mean(reply: Reply | None) -> Floats | None:
    """The mean of all records that follows from a reply; None if there is no such reply."""
    if isinstance(reply, Moments):
        return reply.mean
    if isinstance(reply, SummaryReply) and isinstance(reply.summary, Summary):
        return reply.summary.mean
    if isinstance(reply, CellSums):
        return np.asarray(reply.offsets[0])
    if isinstance(reply, BlocksReply):
        return reply.centre
    if isinstance(reply, Prototypes):
        return np.asarray(reply.weights @ reply.points / reply.weights.sum())
    return None
