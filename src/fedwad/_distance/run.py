"""FedWaD between two sites of a federation: the start, the rounds, and the final message."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fedwad._distance.result import DistanceResult
from fedwad._distance.rounds import FedWaDLoop, Round
from fedwad._distance.task import DistanceTask
from fedwad.federation import (
    CellsRequest,
    MeteredFederation,
    Moments,
    MomentsRequest,
    SummaryReply,
    TransportReply,
    check_same_features,
)
from fedwad.methods import FedWaD
from fedwad.ot import Estimate, Measure, estimate, lower_bound, upper_bound

__all__ = ["draw_support", "estimate_from_cells", "run_fedwad"]


def run_fedwad(
    metered: MeteredFederation,
    task: DistanceTask,
    method: FedWaD,
    callback: Callable[[Round], None] | None,
) -> DistanceResult:
    """Run Algorithm 1, then ask both sites once more for their distance and their cells."""
    rng = np.random.default_rng(task.seed)
    loop = FedWaDLoop(
        _choose_start(metered, task, method, rng), method, task.p, rng, task.class_statistics
    )
    while len(loop.history) < method.rounds and not loop.has_converged():
        replies = metered.ask(dict.fromkeys(task.sites, loop.request()), TransportReply)
        record = loop.advance(*(replies[name] for name in task.sites))
        if callback is not None:
            callback(record)
    final_request = CellsRequest(
        loop.run,
        loop.support,
        task.p,
        method.covariance_type,
        task.class_statistics,
        calibration=task.p == 2,
    )
    final_replies = metered.ask(dict.fromkeys(task.sites, final_request), SummaryReply)
    mu, nu = (final_replies[name] for name in task.sites)
    own_estimate, fedwad = estimate_from_cells(mu, nu, task.p, task.seed)
    return task.result_from(
        own_estimate,
        mu,
        nu,
        (metered.features, metered.schema),
        fedwad=fedwad,
        history=loop.completed_history(fedwad, own_estimate.upper),
        support=loop.support,
        traffic=metered.traffic,
    )


def _choose_start(
    metered: MeteredFederation, task: DistanceTask, method: FedWaD, rng: np.random.Generator
) -> Measure:
    """Return the given support, or one drawn around the sites' pooled mean."""
    if isinstance(method.init, Measure):
        return method.init
    replies = metered.ask(dict.fromkeys(task.sites, MomentsRequest(task.class_statistics)), Moments)
    check_same_features(
        {name: len(replies[name].mean) for name in task.sites}, task.class_statistics
    )
    return draw_support([replies[name] for name in task.sites], method.support, rng)


def draw_support(moments: Sequence[Moments], size: int, rng: np.random.Generator) -> Measure:
    """Draw a support of `size` points around the sites' pooled mean with their pooled scale."""
    counts = np.array([one.count for one in moments], dtype=np.float64)
    site_weights = counts / counts.sum()
    origin = moments[0].mean  # sums relative to it keep digits when data have a large offset
    mean = origin + sum(
        weight * (one.mean - origin) for weight, one in zip(site_weights, moments, strict=True)
    )
    scale = np.zeros_like(mean)
    for weight, one in zip(site_weights, moments, strict=True):
        # hypot neither overflows nor underflows at extreme scales, unlike a root of squares.
        scale = np.hypot(scale, math.sqrt(weight) * np.hypot(one.scale, one.mean - mean))
    return Measure(mean + scale * rng.standard_normal((size, len(mean))))


def estimate_from_cells(
    mu: SummaryReply, nu: SummaryReply, p: float, seed: int, total_pairs: int | None = None
) -> tuple[Estimate, float]:
    """Return our estimate with its certified bounds, and the paper's, from the final replies.

    For p other than 2, our estimate is the paper's within our bounds. `total_pairs` is the number
    of pairs of a matrix; the more there are, the fewer synthetic samples are drawn for each.
    """
    fedwad = (mu.distance or 0.0) + (nu.distance or 0.0)  # replies to CellsRequest have distances
    a, b = mu.summary, nu.summary
    contributions = None
    if p == 2:
        own = estimate(a, b, 2.0, seed, total_pairs)
        value, lower, upper, contributions = own.value, own.lower, own.upper, own.columns
    else:
        value, lower, upper = fedwad, lower_bound(a, b, p), upper_bound(a, b, p)
    # The composed coupling never costs more than fedwad in exact arithmetic; the minimum keeps that
    # in floating point.
    upper = min(fedwad, upper)
    lower = min(lower, upper)
    return Estimate(min(max(value, lower), upper), lower, upper, contributions), fedwad
