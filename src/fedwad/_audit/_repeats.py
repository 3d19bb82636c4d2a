"""Averaging of repeats: the same question again and again."""

from __future__ import annotations

import numpy as np

from fedwad._audit._session import AttackSession, Look
from fedwad.federation import SummaryReply, SummaryRequest
from fedwad.ot import Floats, Measure, Summary

__all__ = ["repeated_rounds", "repeated_summaries"]

_REPEATS = 20


def repeated_rounds(session: AttackSession, rng: np.random.Generator) -> Floats:
    """One round, asked twenty times: the cell means, averaged over the replies."""
    size = max(min(session.most, session.count // 10 or 1), session.policy.min_support)
    mean, scale = session.sketch()
    support = Measure(mean + scale * rng.standard_normal((size, session.features)))
    queries: list[Look] = []
    for _ in range(_REPEATS):
        seen = session.look(support)
        if seen is None:
            break
        queries.append(seen)
    return (
        np.mean([look.means for look in queries], axis=0)
        if queries
        else np.empty((0, session.features))
    )


def repeated_summaries(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """One summary, asked twenty times."""
    replies = []
    for _ in range(_REPEATS):
        reply = session.ask(SummaryRequest(max(1, session.most), "spherical", 2.0, 0))
        if not isinstance(reply, SummaryReply) or not isinstance(reply.summary, Summary):
            break
        replies.append(reply.summary.means)
    return np.mean(replies, axis=0) if replies else np.empty((0, session.features))
