"""From one message of each client: a summary, or a release under differential privacy."""

from __future__ import annotations

import numpy as np

from fedwad._matrix.options import (
    Found,
    MatrixOptions,
    Progress,
    counted,
    keys_of,
    pairs_of,
    same_features,
)
from fedwad.federation import (
    MeteredFederation,
    PrivateReply,
    PrivateRequest,
    SummaryReply,
    SummaryRequest,
)
from fedwad.ot import (
    lower_bounds,
    same,
    synthetic_distances,
    synthetic_transports,
    upper_bounds,
)
from fedwad.privacy import DP, denoise, noise_effect

__all__ = ["by_release", "by_summary"]


def by_summary(line: MeteredFederation, options: MatrixOptions) -> Found:
    """One message from each client, and all the rest on the server."""
    options.tell(Progress("asking clients", 0, len(options.names)))
    request = SummaryRequest(
        options.support, options.covariance_type, options.p, options.seed, options.classes
    )
    replies = line.ask(
        dict.fromkeys(options.names, request), SummaryReply, tolerate=True, at_least=2
    )
    options.tell(Progress("asking clients", len(options.names), len(options.names)))
    sites = tuple(replies)
    summaries = [reply.summary for reply in replies.values()]
    same_features({name: reply.summary.dimension for name, reply in replies.items()})
    pairs = pairs_of(len(sites))
    upper = upper_bounds(
        summaries, options.p, options.n_jobs, counted("bounding distances", len(pairs), options)
    )
    lower = lower_bounds(summaries, options.p, options.n_jobs)
    different = [pair for pair in pairs if not same(summaries[pair[0]], summaries[pair[1]])]
    value = lower.copy()
    total = synthetic_transports([summary.count for summary in summaries], different, options.seed)
    if different:
        count = counted("estimating distances", total, options)
        synthetic = synthetic_distances(
            summaries, different, options.p, options.seed, keys_of(sites), options.n_jobs, count
        )
        rows, cols = np.array(different).T
        value[rows, cols] = value[cols, rows] = synthetic[rows, cols]
    return Found(sites, value, lower, upper, summaries)


def by_release(line: MeteredFederation, options: MatrixOptions, promise: DP) -> Found:
    """One release from each client, and all the rest on the server, from noisy numbers."""
    options.tell(Progress("asking clients", 0, len(options.names)))
    replies = line.ask(
        dict.fromkeys(options.names, PrivateRequest.of(promise)),
        PrivateReply,
        tolerate=True,
        at_least=2,
    )
    options.tell(Progress("asking clients", len(options.names), len(options.names)))
    same_features({name: len(reply.mean) for name, reply in replies.items()})
    denoised = [denoise(reply) for reply in replies.values()]
    summaries = [one.summary for one in denoised]
    pairs = pairs_of(len(replies))
    total = synthetic_transports([summary.count for summary in summaries], pairs, options.seed)
    count = counted("estimating distances", total, options)
    synthetic = synthetic_distances(
        summaries, pairs, 2.0, options.seed, keys_of(tuple(replies)), options.n_jobs, count
    )
    value, lower, upper = noise_effect(denoised, options.seed).corrected(synthetic)
    return Found(tuple(replies), value, lower, upper, summaries)
