"""From one message of each client: a summary, or a release under differential privacy."""

from __future__ import annotations

import numpy as np

from fedwad._matrix.plan import Found, Plan, Progress, counted, keys_of, pairs_of, same_features
from fedwad.federation import (
    Line,
    PrivateReply,
    PrivateRequest,
    SummaryReply,
    SummaryRequest,
)
from fedwad.ot import (
    lower_bounds,
    same,
    twin_distances,
    twin_transports,
    upper_bounds,
)
from fedwad.privacy import DP, noise_effect, picture

__all__ = ["by_release", "by_summary"]


def by_summary(line: Line, plan: Plan) -> Found:
    """One message from each client, and all the rest on the server."""
    plan.tell(Progress("asking clients", 0, len(plan.names)))
    request = SummaryRequest(plan.support, plan.form, plan.p, plan.seed, plan.classes)
    replies = line.gather(dict.fromkeys(plan.names, request), SummaryReply)
    plan.tell(Progress("asking clients", len(plan.names), len(plan.names)))
    ids = tuple(replies)
    summaries = [reply.summary for reply in replies.values()]
    same_features({name: reply.summary.dimension for name, reply in replies.items()})
    pairs = pairs_of(len(ids))
    upper = upper_bounds(summaries, plan.p, plan.threads, counted("bounding distances", len(pairs), plan))
    lower = lower_bounds(summaries, plan.p, plan.threads)
    different = [pair for pair in pairs if not same(summaries[pair[0]], summaries[pair[1]])]
    value = lower.copy()
    total = twin_transports([summary.count for summary in summaries], different, plan.seed)
    if different:
        count = counted("estimating distances", total, plan)
        twins = twin_distances(summaries, different, plan.p, plan.seed, keys_of(ids), plan.threads, count)
        rows, cols = np.array(different).T
        value[rows, cols] = value[cols, rows] = twins[rows, cols]
    return Found(ids, value, lower, upper, summaries)


def by_release(line: Line, plan: Plan, promise: DP) -> Found:
    """One release from each client, and all the rest on the server, from noisy numbers."""
    plan.tell(Progress("asking clients", 0, len(plan.names)))
    replies = line.gather(dict.fromkeys(plan.names, PrivateRequest.of(promise)), PrivateReply)
    plan.tell(Progress("asking clients", len(plan.names), len(plan.names)))
    same_features({name: len(reply.mean) for name, reply in replies.items()})
    pictures = [picture(reply) for reply in replies.values()]
    summaries = [one.summary for one in pictures]
    pairs = pairs_of(len(replies))
    total = twin_transports([summary.count for summary in summaries], pairs, plan.seed)
    count = counted("estimating distances", total, plan)
    twins = twin_distances(summaries, pairs, 2.0, plan.seed, keys_of(tuple(replies)), plan.threads, count)
    value, lower, upper = noise_effect(pictures, plan.seed).corrected(twins)
    return Found(tuple(replies), value, lower, upper, summaries)
