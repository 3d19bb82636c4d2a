"""A matrix through a hub: all sites transport their data to one shared support.

Rounds move the support towards these data.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedwad.compare.rounds import draw_support
from fedwad.compare.task import MatrixEstimates, MatrixRound, MatrixTask, Progress
from fedwad.errors import InputError
from fedwad.federation import (
    CellsRequest,
    ClassStatistics,
    MeteredFederation,
    SummaryReply,
    ask_moments,
    public_units,
)
from fedwad.methods import Hub
from fedwad.statistics import (
    CovarianceType,
    LabelledSummary,
    Summary,
    lower_bounds,
    rounding_error,
    synthetic_distances,
)
from fedwad.statistics.summaries import feature_variances
from fedwad.transport import Floats, Measure, ground_cost, pair_distances

MAX_FULL_FEATURES = 64  # with more, "auto" asks for the diagonal only, or for it from most sites


def estimate_by_hub(metered: MeteredFederation, task: MatrixTask, method: Hub) -> MatrixEstimates:
    """Shape one support z by rounds z_s <- mean over sites c of the cell means x_s^c, then ask all
    sites for the summaries of their final cells, from which bounds and estimates follow.

    The upper bound is hypot(between, within): `between` is the distance between the cell means of
    two sites, and `within` that of the independent coupling inside their cells. The estimate takes
    only a part of within^2, the within-cell factor.
    """
    shaped = shape_support(
        metered,
        task.names,
        task.class_statistics,
        size=method.support,
        seed=task.seed,
        rounds=method.rounds,
        report=lambda done: task.report(Progress("rounds", done, method.rounds)),
        at_least=2,
    )
    support = shaped.support
    types: dict[str, CovarianceType] = dict.fromkeys(shaped.names, method.covariance_type)
    if method.covariance_type == "auto" and support.dimension > MAX_FULL_FEATURES:
        # Only a few sites send more than the diagonal; the within-cell factor is fitted to theirs.
        order = np.random.default_rng(task.seed).permutation(len(types))
        chosen = set(order[:5].tolist())
        types = {name: "lowrank" if k in chosen else "diag" for k, name in enumerate(types)}
    centre, scale = public_units(metered, task.names)
    requests = {
        name: CellsRequest(
            shaped.run,
            support,
            2.0,
            covariance_type,
            class_statistics=task.class_statistics,
            calibration=True,
            blocks=True,
            centre=centre,
            scale=scale,
        )
        for name, covariance_type in types.items()
    }
    replies = metered.ask(requests, SummaryReply, allow_failures=True, at_least=2)
    task.report(Progress("rounds", method.rounds, method.rounds))
    means = [cell_means(reply, support) for reply in replies.values()]
    summaries = [one.summary for one in replies.values() if isinstance(one.summary, Summary)]
    between = _distances_between_means(summaries, means, support.weights, task.n_jobs)
    within_std = np.array([summary.within_std for summary in summaries])
    within = np.hypot(within_std[:, None], within_std[None, :])
    factor_sites = [k for k, name in enumerate(replies) if types[name] != "diag"]
    factor_sites = factor_sites or list(range(len(summaries)))
    factor = _within_factor(summaries, factor_sites, between, within, task)
    value = np.hypot(between, math.sqrt(factor) * within)
    upper, lower = np.hypot(between, within), lower_bounds(summaries, 2.0, task.n_jobs)
    moved = np.array([reply.rounding for reply in replies.values()])
    upper = upper + moved[:, None] + moved
    lower = np.maximum(lower - moved[:, None] - moved, 0.0)
    np.fill_diagonal(upper, 0.0)
    np.fill_diagonal(value, 0.0)
    contents = [(one.count, one.cells.points.tobytes(), one.within_std) for one in summaries]
    spreads = [factor * feature_variances(one.within, support.dimension) for one in summaries]
    contributions = {}
    for i, j in combinations(range(len(summaries)), 2):
        if contents[i] == contents[j]:  # whatever covariance types the sites were asked for
            value[i, j] = value[j, i] = lower[i, j]
        # Of each feature: the means, coupled point by point of the support, and its part of within.
        squares = support.weights @ (means[i] - means[j]) ** 2 + spreads[i] + spreads[j]
        contributions[i, j] = squares * (value[i, j] ** 2 / (float(squares.sum()) or 1.0))
    return MatrixEstimates(
        sites=tuple(replies),
        value=value,
        lower=lower,
        upper=upper,
        replies=list(replies.values()),
        min_cell_size=min(summary.min_cell_size for summary in summaries),
        history=shaped.history,
        contributions=contributions,
    )


def _distances_between_means(
    summaries: Sequence[Summary | LabelledSummary],
    means: Sequence[Floats],
    weights: Floats,
    n_jobs: int,
    most_pairs: int = 1000,
) -> Floats:
    """Return distances between the cell means of all pairs.

    Cells of the same point of the support are coupled. Up to `most_pairs`, the optimal coupling is
    computed too, which gives slightly smaller distances.
    """
    flat = np.array([(np.sqrt(weights)[:, None] * one).ravel() for one in means])
    flat -= flat[0].copy()
    unit = float(np.abs(flat).max()) or 1.0  # in this unit, squares do not underflow
    flat /= unit
    between = unit * np.sqrt(ground_cost(flat, flat))
    pairs = list(combinations(range(len(summaries)), 2))
    if len(pairs) <= most_pairs:
        cells = {index: summary.cells for index, summary in enumerate(summaries)}
        for (i, j), optimal in pair_distances(cells, pairs, 2.0, n_jobs):
            between[i, j] = between[j, i] = min(optimal, float(between[i, j]))
    # Twice the error of each site's means: once for the means, once for the products above.
    errors = np.array([2 * rounding_error(summary) for summary in summaries])
    return np.asarray(np.maximum(between, between.T) + errors[:, None] + errors)


def _within_factor(
    summaries: Sequence[Summary | LabelledSummary],
    sites: Sequence[int],
    between: Floats,
    within: Floats,
    task: MatrixTask,
    most_pairs: int = 6,
) -> float:
    """Return the within-cell factor: the part, from 0 to 1, of the within-cell cost of the
    independent coupling that an estimate takes.

    It is the same for all pairs. It is fitted to synthetic samples of at most `most_pairs` pairs of
    these `sites`.
    """
    pairs = [(i, j) for i in sites for j in sites if i < j and within[i, j] > 0]
    pairs = [(i, j) for i, j in pairs if summaries[i].key != summaries[j].key]
    if not pairs:
        return 1.0
    rng = np.random.default_rng(task.seed)
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:most_pairs]]
    synthetic = synthetic_distances(
        summaries,
        chosen,
        2.0,
        task.seed,
        n_jobs=task.n_jobs,
        total_pairs=500,  # with so many, each synthetic sample is drawn once
    )
    factors = [
        (synthetic[pair] / within[pair]) ** 2 - (between[pair] / within[pair]) ** 2
        for pair in chosen
    ]
    return float(np.clip(np.median(factors), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class ShapedSupport:
    """The support after the last round, the sites that answered every round, and the rounds.

    `run` is a random name, which all requests for cells of the support carry.
    """

    run: str
    support: Measure
    names: tuple[str, ...]
    history: tuple[MatrixRound, ...]


def shape_support(
    metered: MeteredFederation,
    names: Sequence[str],
    class_statistics: ClassStatistics,
    size: int,
    seed: int,
    rounds: int,
    report: Callable[[int], None],
    at_least: int,
) -> ShapedSupport:
    """Draw a support of `size` points around the sites' pooled mean, and move it in rounds.

    Each round replaces each point by the mean over sites of the means of its cells. Before each
    round, `report` is called with the number of rounds done. Sites that fail are left out, as long
    as at least `at_least` sites remain.
    """
    moments = ask_moments(metered, names, class_statistics, at_least=at_least)
    support = draw_support(list(moments.values()), size, np.random.default_rng(seed))
    run, names, history = os.urandom(8).hex(), tuple(moments), list[MatrixRound]()
    for number in range(1, rounds + 1):
        report(number - 1)
        started = time.perf_counter()
        request = CellsRequest(run, support, 2.0, "spherical", class_statistics=class_statistics)
        replies = metered.ask(
            dict.fromkeys(names, request), SummaryReply, allow_failures=True, at_least=at_least
        )
        names = tuple(replies)
        means = [cell_means(reply, support) for reply in replies.values()]
        new_support = Measure(np.mean(means, axis=0), support.weights)
        squared_shift = support.weights @ ((new_support.points - support.points) ** 2).sum(axis=1)
        seconds = time.perf_counter() - started
        history.append(MatrixRound(number, seconds, math.sqrt(float(squared_shift))))
        support = new_support
    return ShapedSupport(run, support, names, tuple(history))


def cell_means(reply: SummaryReply, support: Measure) -> Floats:
    """Return the cell means of a reply, one for each point of the support."""
    summary = reply.summary
    if not isinstance(summary, Summary) or summary.means.shape != support.points.shape:
        raise InputError(
            "A site has too few samples to give each point of the support a cell; take a smaller"
            " support.",
            "too-few-samples",
        )
    return summary.means
