"""A distance from one message of each site: a summary, or a release under differential privacy."""

from __future__ import annotations

import numpy as np

from fedwad._distance.result import DistanceResult
from fedwad._distance.task import DistanceTask
from fedwad.federation import (
    MeteredFederation,
    PrivateReply,
    PrivateRequest,
    SummaryReply,
    SummaryRequest,
    check_same_features,
)
from fedwad.methods import Summary
from fedwad.ot import Floats, estimate, synthetic_distance
from fedwad.privacy import DP, denoise, privacy_noise_effect, sampling_noise

__all__ = ["estimate_from_releases", "estimate_from_summaries"]


def estimate_from_summaries(
    metered: MeteredFederation, task: DistanceTask, method: Summary
) -> DistanceResult:
    """Ask each site for one summary and estimate the distance from the two."""
    request = SummaryRequest(
        method.cells, method.covariance_type, task.p, task.seed, task.class_statistics
    )
    replies = metered.ask(dict.fromkeys(task.sites, request), SummaryReply)
    check_same_features({name: replies[name].summary.dimension for name in task.sites})
    mu, nu = (replies[name] for name in task.sites)
    return task.result_from(
        estimate(mu.summary, nu.summary, task.p, task.seed),
        mu,
        nu,
        (metered.features, metered.schema),
        traffic=metered.traffic,
    )


def estimate_from_releases(
    metered: MeteredFederation, task: DistanceTask, guarantee: DP
) -> DistanceResult:
    """Ask each site for one noisy release and estimate the distance from the two.

    `lower` and `upper` are a range in which the distance is likely to lie; they are not certified.
    """
    replies = metered.ask(dict.fromkeys(task.sites, PrivateRequest.of(guarantee)), PrivateReply)
    check_same_features({name: len(replies[name].mean) for name in task.sites})
    denoised = [denoise(replies[name]) for name in task.sites]
    summaries = [one.summary for one in denoised]
    # By pair, here (0, 1) only: what each feature contributes to the squared distance.
    contributions: dict[tuple[int, int], Floats] = {}
    uncorrected = synthetic_distance(
        summaries[0], summaries[1], 2.0, task.seed, columns=contributions
    )
    tables = privacy_noise_effect(denoised, task.seed).correct(np.full((2, 2), uncorrected))
    value, lower, upper = (float(table[0, 1]) for table in tables)
    return task.result(
        value=value,
        lower=lower,
        upper=upper,
        noise=float(sampling_noise(denoised, task.seed)[0, 1]),
        evidence=task.evidence(
            (metered.features, metered.schema),
            summaries,
            calibrations=(),
            contributions=contributions.get((0, 1)),
            privacy_noise=[one.feature_noise for one in denoised],
        ),
        traffic=metered.traffic,
        covariance_types=("full", "full"),
        privacy=guarantee.to_dict(),
    )
