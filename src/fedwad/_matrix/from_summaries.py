"""A matrix from one message of each site: a summary, or a release under differential privacy."""

from __future__ import annotations

import numpy as np

from fedwad._matrix.task import MatrixEstimates, MatrixTask, Pair, Progress, all_pairs, step_counter
from fedwad.federation import (
    MeteredFederation,
    PrivateReply,
    PrivateRequest,
    SummaryReply,
    SummaryRequest,
    client_seed,
)
from fedwad.methods import Summary
from fedwad.ot import (
    Floats,
    are_identical,
    lower_bounds,
    synthetic_distances,
    synthetic_transports,
    upper_bounds,
)
from fedwad.privacy import DP, denoise, privacy_noise_effect, sampling_noise

__all__ = ["estimate_from_releases", "estimate_from_summaries"]


def estimate_from_summaries(
    metered: MeteredFederation, task: MatrixTask, method: Summary
) -> MatrixEstimates:
    """Ask each site for one summary; estimate all distances from those."""
    task.report(Progress("asking sites", 0, len(task.names)))
    request = SummaryRequest(
        method.cells, method.covariance_type, task.p, task.seed, task.class_statistics
    )
    replies = metered.ask(
        dict.fromkeys(task.names, request), SummaryReply, allow_failures=True, at_least=2
    )
    task.report(Progress("asking sites", len(task.names), len(task.names)))
    dimensions = {name: reply.summary.dimension for name, reply in replies.items()}
    replies = metered.keep_majority(replies, dimensions)
    sites = tuple(replies)
    summaries = [reply.summary for reply in replies.values()]
    pairs = all_pairs(len(sites))
    upper = upper_bounds(
        summaries, task.p, task.n_jobs, step_counter("bounding distances", len(pairs), task)
    )
    lower = lower_bounds(summaries, task.p, task.n_jobs)
    equal = [pair for pair in pairs if are_identical(summaries[pair[0]], summaries[pair[1]])]
    excluded = set(equal)
    different = [pair for pair in pairs if pair not in excluded]
    value = lower.copy()
    columns = dict.fromkeys(equal, np.zeros(summaries[0].dimension))
    total = synthetic_transports([summary.count for summary in summaries], different, task.seed)
    if different:
        count = step_counter("estimating distances", total, task)
        keys = [client_seed(name) for name in sites]
        synthetic = synthetic_distances(
            summaries, different, task.p, task.seed, keys, task.n_jobs, count, columns=columns
        )
        rows, cols = np.array(different).T
        value[rows, cols] = value[cols, rows] = synthetic[rows, cols]
    types = tuple(summary.covariance_type for summary in summaries)
    found = [reply.calibration for reply in replies.values()]
    return MatrixEstimates(
        sites, value, lower, upper, summaries, types, calibrations=found, columns=columns
    )


def estimate_from_releases(
    metered: MeteredFederation, task: MatrixTask, guarantee: DP
) -> MatrixEstimates:
    """Ask each site for one noisy release; estimate all distances from those."""
    task.report(Progress("asking sites", 0, len(task.names)))
    replies = metered.ask(
        dict.fromkeys(task.names, PrivateRequest.of(guarantee)),
        PrivateReply,
        allow_failures=True,
        at_least=2,
    )
    task.report(Progress("asking sites", len(task.names), len(task.names)))
    replies = metered.keep_majority(
        replies, {name: len(reply.mean) for name, reply in replies.items()}
    )
    denoised = [denoise(reply) for reply in replies.values()]
    summaries = [one.summary for one in denoised]
    pairs = all_pairs(len(replies))
    total = synthetic_transports([summary.count for summary in summaries], pairs, task.seed)
    count = step_counter("estimating distances", total, task)
    keys = [client_seed(name) for name in replies]
    columns: dict[Pair, Floats] = {}
    synthetic = synthetic_distances(
        summaries, pairs, 2.0, task.seed, keys, task.n_jobs, count, columns=columns
    )
    value, lower, upper = privacy_noise_effect(denoised, task.seed).correct(synthetic)
    types = tuple(summary.covariance_type for summary in summaries)
    return MatrixEstimates(
        tuple(replies),
        value,
        lower,
        upper,
        summaries,
        types,
        columns=columns,
        noises=[one.feature_noise for one in denoised],
        chance=sampling_noise(denoised, task.seed),
    )
