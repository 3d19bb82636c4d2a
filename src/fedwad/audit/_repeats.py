"""Averaging of repeats: the same question again and again."""

from __future__ import annotations

import numpy as np

from fedwad.audit._door import Door, Look
from fedwad.federation import SummaryReply, SummaryRequest
from fedwad.ot import Floats, Measure, Summary

__all__ = ["repeated_rounds", "repeated_summaries"]

_REPEATS = 20


def repeated_rounds(door: Door, rng: np.random.Generator) -> Floats:
    """One round, asked twenty times: the cell means, averaged over the replies."""
    size = max(min(door.most, door.count // 10 or 1), door.policy.smallest_support)
    mean, scale = door.sketch()
    support = Measure(mean + scale * rng.standard_normal((size, door.features)))
    looks: list[Look] = []
    for _ in range(_REPEATS):
        seen = door.look(support)
        if seen is None:
            break
        looks.append(seen)
    return np.mean([look.means for look in looks], axis=0) if looks else np.empty((0, door.features))


def repeated_summaries(door: Door, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """One summary, asked twenty times."""
    replies = []
    for _ in range(_REPEATS):
        reply = door.ask(SummaryRequest(max(1, door.most), "isotropic", 2.0, 0))
        if not isinstance(reply, SummaryReply) or not isinstance(reply.summary, Summary):
            break
        replies.append(reply.summary.means)
    return np.mean(replies, axis=0) if replies else np.empty((0, door.features))
