"""A matrix from one message of each site: a summary, or a release under differential privacy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
    LabelledSummary,
    are_identical,
    count_synthetic_transports,
    lower_bounds,
    synthetic_distances,
    upper_bounds,
)
from fedwad.ot import Summary as CellSummary
from fedwad.privacy import DP, denoise, privacy_noise_effect, sampling_noise

__all__ = ["estimate_from_releases", "estimate_from_summaries"]


def estimate_from_summaries(
    metered: MeteredFederation, task: MatrixTask, method: Summary
) -> MatrixEstimates:
    """Ask each site for one summary; estimate all distances from the summaries."""
    request = SummaryRequest(
        method.cells, method.covariance_type, task.p, task.seed, task.class_statistics
    )
    with _report_asking(task):
        replies = metered.ask(
            dict.fromkeys(task.names, request), SummaryReply, allow_failures=True, at_least=2
        )
    dimensions = {name: reply.summary.dimension for name, reply in replies.items()}
    replies = metered.keep_most_frequent_dimension(replies, dimensions)
    summaries = [reply.summary for reply in replies.values()]
    pairs = all_pairs(len(summaries))
    upper = upper_bounds(
        summaries, task.p, task.n_jobs, step_counter("bounding distances", len(pairs), task)
    )
    lower = lower_bounds(summaries, task.p, task.n_jobs)
    # Two summaries that are equal in every bit have the lower bound as their estimate.
    value = lower.copy()
    equal = {(i, j) for i, j in pairs if are_identical(summaries[i], summaries[j])}
    contributions = dict.fromkeys(sorted(equal), np.zeros(summaries[0].dimension))
    different = [pair for pair in pairs if pair not in equal]
    if different:
        synthetic = _synthetic_distances(tuple(replies), summaries, different, task, contributions)
        i, j = np.array(different).T
        value[i, j] = value[j, i] = synthetic[i, j]
    return MatrixEstimates(
        sites=tuple(replies),
        value=value,
        lower=lower,
        upper=upper,
        summaries=summaries,
        covariance_types=tuple(summary.covariance_type for summary in summaries),
        calibrations=[reply.calibration for reply in replies.values()],
        contributions=contributions,
    )


def estimate_from_releases(
    metered: MeteredFederation, task: MatrixTask, guarantee: DP
) -> MatrixEstimates:
    """Ask each site for one noisy release; estimate all distances from the releases.

    `lower` and `upper` are a range in which a distance is likely to lie; they are not certified.
    """
    requests = dict.fromkeys(task.names, PrivateRequest.of(guarantee))
    with _report_asking(task):
        replies = metered.ask(requests, PrivateReply, allow_failures=True, at_least=2)
    replies = metered.keep_most_frequent_dimension(
        replies, {name: len(reply.mean) for name, reply in replies.items()}
    )
    denoised = [denoise(reply) for reply in replies.values()]
    summaries = [one.summary for one in denoised]
    contributions: dict[Pair, Floats] = {}
    synthetic = _synthetic_distances(
        tuple(replies), summaries, all_pairs(len(summaries)), task, contributions
    )
    value, lower, upper = privacy_noise_effect(denoised, task.seed).correct(synthetic)
    return MatrixEstimates(
        sites=tuple(replies),
        value=value,
        lower=lower,
        upper=upper,
        summaries=summaries,
        covariance_types=tuple(summary.covariance_type for summary in summaries),
        contributions=contributions,
        privacy_noise=[one.feature_noise for one in denoised],
        sampling_noise=sampling_noise(denoised, task.seed),
    )


@contextmanager
def _report_asking(task: MatrixTask) -> Iterator[None]:
    """Report the start and the end of the round in which all sites are asked."""
    task.report(Progress("asking sites", 0, len(task.names)))
    yield
    task.report(Progress("asking sites", len(task.names), len(task.names)))


def _synthetic_distances(
    sites: Sequence[str],
    summaries: Sequence[CellSummary | LabelledSummary],
    pairs: Sequence[Pair],
    task: MatrixTask,
    contributions: dict[Pair, Floats],
) -> Floats:
    """Return the estimates of these pairs, (N, N); add what features contribute to each."""
    total = count_synthetic_transports([one.count for one in summaries], pairs, task.seed)
    return synthetic_distances(
        summaries,
        pairs,
        task.p,
        task.seed,
        keys=[client_seed(name) for name in sites],
        n_jobs=task.n_jobs,
        on_pair=step_counter("estimating distances", total, task),
        columns=contributions,
    )
