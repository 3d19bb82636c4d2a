"""An attack on data that change: replies before and after a record joined differ by that record."""

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
    record, n = int(rng.integers(session.count)), session.count
    for request in _requests(session):
        before, after = session.ask_before_and_after(record, request)
        old, new = _mean(before), _mean(after)
        if old is not None and new is not None:
            return np.asarray(n * new - (n - 1) * old)[None]
    return session.no_guesses


def _requests(session: AttackSession) -> list[Request]:
    size = max(1, session.policy.min_support)
    atoms = np.zeros((size, session.features))
    atoms[1:] += 1e6 * session.clip_norm * np.arange(1, size)[:, None]  # nobody is near these
    found: list[Request] = [
        MomentsRequest(),
        SummaryRequest(1, "diag", 2.0, 0, calibration=False),
        AtomsRequest(atoms, np.zeros(size), 0.0),
        BlocksRequest(),
        PrototypesRequest(1, "class", "free", 0),
    ]
    used = [request for request in found if session.uses(type(request).kind)]
    return [request for request in used if session.may_ask(type(request).kind)] or used[:1]


def _mean(reply: Reply | None) -> Floats | None:
    """The mean of all records, as a reply gives it."""
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
