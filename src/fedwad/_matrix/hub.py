"""Through a hub: all clients transport their data to one shared support."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence

import numpy as np

from fedwad._distance.api import pooled_start
from fedwad._matrix.options import Found, MatrixOptions, Progress, pairs_of, same_features
from fedwad._matrix.result import MatrixRound
from fedwad.errors import InputError
from fedwad.federation import (
    CellsRequest,
    MeteredFederation,
    Moments,
    MomentsRequest,
    SummaryReply,
)
from fedwad.ot import (
    CovarianceType,
    Floats,
    LabelledSummary,
    Measure,
    Summary,
    ground_cost,
    lower_bounds,
    pair_distances,
    rounding,
    same,
    synthetic_distances,
)

__all__ = ["by_hub"]

# Twins of so many pairs of so many clients tell what samples of this kind need inside cells.
_CALIBRATION_CLIENTS, _CALIBRATION_PAIRS, _ONE_DRAW = 5, 6, 500
_FULL_UP_TO = 64  # features up to which all clients of a hub tell full covariances
_BEST_COUPLINGS = 1000


def by_hub(line: MeteredFederation, options: MatrixOptions) -> Found:
    """All clients transport to one support z, which moves to the mean of their cell means: z_s <-
    mean_c x_s^c."""
    replies = line.ask(
        dict.fromkeys(options.names, MomentsRequest(options.classes)),
        Moments,
        tolerate=True,
        at_least=2,
    )
    same_features({name: len(reply.mean) for name, reply in replies.items()}, options.classes)
    support = pooled_start(
        list(replies.values()), options.support, np.random.default_rng(options.seed)
    )
    run, names, history = os.urandom(8).hex(), tuple(replies), list[MatrixRound]()
    for number in range(1, options.rounds + 1):
        options.tell(Progress("rounds", number - 1, options.rounds))
        since = time.perf_counter()
        request = CellsRequest(run, support, 2.0, "spherical", options.classes)
        told = line.ask(dict.fromkeys(names, request), SummaryReply, tolerate=True, at_least=2)
        names = tuple(told)
        means = [_means(reply, support) for reply in told.values()]
        moved = Measure(np.mean(means, axis=0), support.weights)
        shift = math.sqrt(
            float(support.weights @ ((moved.points - support.points) ** 2).sum(axis=1))
        )
        history.append(MatrixRound(number, time.perf_counter() - since, shift))
        support = moved
    covariance_types = _closing_forms(names, options, support.dimension)
    requests = {
        name: CellsRequest(run, support, 2.0, covariance_type, options.classes)
        for name, covariance_type in covariance_types.items()
    }
    closing = line.ask(requests, SummaryReply, tolerate=True, at_least=2)
    options.tell(Progress("rounds", options.rounds, options.rounds))
    summaries = [reply.summary for reply in closing.values()]
    between = _between(
        summaries,
        [_means(reply, support) for reply in closing.values()],
        support.weights,
        options.n_jobs,
    )
    within_std = np.array([summary.within_std for summary in summaries])
    within = np.hypot(within_std[:, None], within_std[None, :])
    chosen = [
        index for index, name in enumerate(closing) if covariance_types[name] != "diag"
    ] or list(range(len(summaries)))
    value = np.hypot(
        between, math.sqrt(_share(summaries, chosen, between, within, options)) * within
    )
    upper, lower = np.hypot(between, within), lower_bounds(summaries, 2.0, options.n_jobs)
    alike = [
        (summary.count, summary.cells.points.tobytes(), summary.within_std) for summary in summaries
    ]
    for i, j in pairs_of(len(summaries)):
        if alike[i] == alike[j]:  # they may have told more or less of the same covariance
            value[i, j] = value[j, i] = lower[i, j]
    np.fill_diagonal(upper, 0.0)
    np.fill_diagonal(value, 0.0)
    return Found(tuple(closing), value, lower, upper, summaries, tuple(history))


def _closing_forms(
    names: Sequence[str], options: MatrixOptions, dimension: int
) -> dict[str, CovarianceType]:
    """What each client is to tell of its covariance: when there are many features, a few clients
    tell more."""
    if options.covariance_type != "auto" or dimension <= _FULL_UP_TO:
        return dict.fromkeys(names, options.covariance_type)
    chosen = set(
        np.random.default_rng(options.seed).permutation(len(names))[:_CALIBRATION_CLIENTS].tolist()
    )
    return {name: "lowrank" if index in chosen else "diag" for index, name in enumerate(names)}


def _means(reply: SummaryReply, support: Measure) -> Floats:
    """The cell means of a reply, one for each point of the support."""
    summary = reply.summary
    if not isinstance(summary, Summary) or summary.means.shape != support.points.shape:
        raise InputError(
            "A client's samples do not reach all points of the support; take a smaller one."
        )
    return summary.means


def _between(
    summaries: Sequence[Summary | LabelledSummary],
    means: Sequence[Floats],
    weights: Floats,
    n_jobs: int,
) -> Floats:
    """Distances between the cell means of all pairs: cells of the same point of the hub are
    coupled.

    Unless there are many pairs, the best coupling, which is a little better, is looked for.
    """
    flat = np.array([(np.sqrt(weights)[:, None] * one).ravel() for one in means])
    flat -= flat[0].copy()
    unit = float(np.abs(flat).max()) or 1.0  # in which squares do not vanish
    flat /= unit
    between = unit * np.sqrt(ground_cost(flat, flat))
    pairs = pairs_of(len(summaries))
    if len(pairs) <= _BEST_COUPLINGS:
        cells = {index: summary.cells for index, summary in enumerate(summaries)}
        for (i, j), best in pair_distances(cells, pairs, 2.0, n_jobs):
            between[i, j] = between[j, i] = min(best, float(between[i, j]))
    rounding_error = np.array([rounding(summary, summary) for summary in summaries])
    return np.asarray(
        np.maximum(between, between.T) + rounding_error[:, None] + rounding_error[None, :]
    )


def _share(
    summaries: Sequence[Summary | LabelledSummary],
    among: Sequence[int],
    between: Floats,
    within: Floats,
    options: MatrixOptions,
) -> float:
    """How much of the upper bound's second term, independent coupling inside cells, samples of this
    kind need.

    Between one and zero, the same for all pairs, from the twins of a few clients.
    """
    pairs = [(i, j) for i in among for j in among if i < j and within[i, j] > 0]
    pairs = [(i, j) for i, j in pairs if not same(summaries[i], summaries[j])]
    if not pairs:
        return 1.0
    rng = np.random.default_rng(options.seed)
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:_CALIBRATION_PAIRS]]
    synthetic = synthetic_distances(
        summaries, chosen, 2.0, options.seed, n_jobs=options.n_jobs, among=_ONE_DRAW
    )
    shares = [
        (synthetic[pair] / within[pair]) ** 2 - (between[pair] / within[pair]) ** 2
        for pair in chosen
    ]
    return float(np.clip(np.median(shares), 0.0, 1.0))
