"""Averaging of repeats: the same request many times."""

from __future__ import annotations

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad.federation import SummaryReply, SummaryRequest
from fedwad.ot import Floats, Measure, Summary

__all__ = ["repeated_rounds", "repeated_summaries"]

_REPEATS = 20


def repeated_rounds(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Ask for one round twenty times and average the cell means."""
    size = max(min(session.max_support, session.count // 10 or 1), session.policy.min_support)
    mean, scale = session.rough_moments()
    support = Measure(mean + scale * rng.standard_normal((size, session.features)))
    replies = []
    for _ in range(_REPEATS):
        means = session.cell_means(support)
        if means is None:
            break
        replies.append(means)
    return np.mean(replies, axis=0) if replies else session.nothing


def repeated_summaries(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """Ask for one summary twenty times and average the cell means."""
    replies = []
    for _ in range(_REPEATS):
        reply = session.ask(SummaryRequest(max(1, session.max_support), "spherical", 2.0, 0))
        if not isinstance(reply, SummaryReply) or not isinstance(reply.summary, Summary):
            break
        replies.append(reply.summary.means)
    return np.mean(replies, axis=0) if replies else session.nothing
