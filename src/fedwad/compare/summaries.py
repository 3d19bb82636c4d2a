"""A matrix from one message of each site: a summary, or a release under differential privacy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from fedwad._words import pluralize
from fedwad.compare.task import MatrixEstimates, MatrixTask, Progress, step_counter
from fedwad.errors import InputError
from fedwad.federation import (
    ClassStatistics,
    ColumnsReply,
    MeteredFederation,
    PrivateColumnsReply,
    PrivateColumnsRequest,
    SummaryReply,
    SummaryRequest,
    public_units,
)
from fedwad.messages.codec import digest
from fedwad.methods import Summary
from fedwad.privacy import DP, bin_columns, private_distances
from fedwad.statistics import Blocks, estimate
from fedwad.statistics.blocking import SMALLEST

R = TypeVar("R", SummaryReply, PrivateColumnsReply)


def summary_request(
    metered: MeteredFederation,
    names: Sequence[str],
    method: Summary | None = None,
    p: float = 2.0,
    seed: int = 0,
    class_statistics: ClassStatistics = "ignored",
    known: Mapping[str, ColumnsReply] | None = None,
) -> SummaryRequest:
    """The one question to all sites, which makes block means in the same units everywhere.

    `known` are what sites said of their columns, if they said it already.
    """
    method = method or Summary()
    metered.columns |= known or {}
    centre, scale = public_units(metered, names)
    return SummaryRequest(
        method.cells, method.covariance_type, p, seed, class_statistics, centre=centre, scale=scale
    )


def require_blocks(name: str, reply: SummaryReply) -> Blocks:
    """The blocks of a reply; InputError if it has none."""
    if reply.blocks is None:
        units = reply.summary.count if reply.order is None else reply.order.count
        if units < SMALLEST:
            raise InputError(
                f"{name} has {pluralize(units, 'row')} (or units, such as patients), and a block"
                f" takes {SMALLEST}; nothing can be tested.",
                "too-few-rows",
            )
        raise InputError(
            f"{name} sent no block means: its policy withholds them, its rows or units are too few,"
            " or rows have weights; nothing can be tested.",
            "not-tested",
        )
    return reply.blocks


def estimate_from_summaries(
    metered: MeteredFederation, task: MatrixTask, method: Summary
) -> MatrixEstimates:
    """Ask each site for one summary; estimate all distances from the summaries."""
    request = summary_request(metered, task.names, method, task.p, task.seed, task.class_statistics)
    task.report(Progress("asking sites", 0, len(task.names)))
    requests = dict.fromkeys(task.names, request)
    replies = metered.ask(requests, SummaryReply, allow_failures=True, at_least=2)
    replies = _most_alike(metered, task, replies, lambda one: one.summary.dimension)
    replies = dict(sorted(replies.items(), key=lambda item: item[1].summary.key))
    summaries = [reply.summary for reply in replies.values()]
    found = estimate(
        summaries,
        task.p,
        task.seed,
        task.n_jobs,
        progress=lambda stage, steps: step_counter(stage, steps, task),
    )
    return MatrixEstimates(
        sites=tuple(replies),
        value=found.value,
        lower=found.lower,
        upper=found.upper,
        replies=list(replies.values()),
        min_cell_size=min(summary.min_cell_size for summary in summaries),
        contributions=found.columns,
    )


def estimate_from_releases(
    metered: MeteredFederation, task: MatrixTask, guarantee: DP
) -> MatrixEstimates:
    """Ask each site for noisy histograms of its columns; estimate all distances from them.

    All of them are between populations. `lower` and `upper` are likely ranges; they are not
    certified.
    """
    request = PrivateColumnsRequest.of(guarantee, metered.schema)
    task.report(Progress("asking sites", 0, len(task.names)))
    requests = dict.fromkeys(task.names, request)
    answers = metered.ask(requests, PrivateColumnsReply, allow_failures=True, at_least=2)
    answers = _most_alike(metered, task, answers, request.dimension)
    replies = dict(sorted(answers.items(), key=lambda item: digest(item[1])))
    releases = list(replies.values())
    features, norm = request.dimension(releases[0]), guarantee.clip_norm or 0.0
    columns = bin_columns(metered.schema, features, norm, guarantee.centre_point)
    found = private_distances(releases, columns, task.seed)
    return MatrixEstimates(
        sites=tuple(replies),
        value=np.clip(found.value, found.lower, found.upper),
        lower=found.lower,
        upper=found.upper,
        private=found,
    )


def _most_alike(
    metered: MeteredFederation,
    task: MatrixTask,
    replies: dict[str, R],
    dimension: Callable[[R], int],
) -> dict[str, R]:
    """The replies of the sites with the most frequent number of features."""
    task.report(Progress("asking sites", len(task.names), len(task.names)))
    dimensions = {name: dimension(reply) for name, reply in replies.items()}
    return metered.keep_most_frequent_dimension(replies, dimensions)
