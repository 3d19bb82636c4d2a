"""A matrix through a hub: all sites transport their data to one shared support."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedwad._matrix.saved import MatrixRound
from fedwad._matrix.shaping import cell_means, shape_support
from fedwad._matrix.task import MatrixEstimates, MatrixTask, Pair, Progress, all_pairs
from fedwad.federation import CellsRequest, MeteredFederation, SummaryReply
from fedwad.methods import Hub
from fedwad.ot import (
    CovarianceType,
    Floats,
    LabelledSummary,
    Measure,
    Summary,
    are_identical,
    ground_cost,
    lower_bounds,
    pair_distances,
    rounding,
    synthetic_distances,
)

__all__ = ["estimate_by_hub"]

# The within-cell factor of all pairs is fitted to synthetic samples of a few pairs of a few sites.
_MAX_FACTOR_SITES, _MAX_FACTOR_PAIRS = 5, 6
_PAIRS_FOR_ONE_DRAW = 500  # with so many pairs, synthetic_distances draws once
_MAX_FULL_FEATURES = 64  # with more features, "auto" asks most sites for the diagonal only
_MAX_PAIRS_FOR_OPTIMAL_COUPLING = 1000


def estimate_by_hub(metered: MeteredFederation, task: MatrixTask, method: Hub) -> MatrixEstimates:
    """Shape one support z by rounds z_s <- mean over sites c of the cell means x_s^c, then ask all
    sites for the summaries of their final cells."""
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
    types = _final_covariance_types(shaped.names, task.seed, method, support.dimension)
    requests = {
        name: CellsRequest(
            shaped.run, support, 2.0, covariance_type, task.class_statistics, calibration=True
        )
        for name, covariance_type in types.items()
    }
    final_replies = metered.ask(requests, SummaryReply, allow_failures=True, at_least=2)
    task.report(Progress("rounds", method.rounds, method.rounds))
    return _estimates(final_replies, support, types, task, shaped.history)


def _final_covariance_types(
    names: Sequence[str], seed: int, method: Hub, dimension: int
) -> dict[str, CovarianceType]:
    """Return the covariance type to ask each site for.

    With many features, only a few sites send more than the diagonal; the within-cell factor is
    fitted to their covariances.
    """
    if method.covariance_type != "auto" or dimension <= _MAX_FULL_FEATURES:
        return dict.fromkeys(names, method.covariance_type)
    order = np.random.default_rng(seed).permutation(len(names))
    chosen = set(order[:_MAX_FACTOR_SITES].tolist())
    return {name: "lowrank" if index in chosen else "diag" for index, name in enumerate(names)}


def _estimates(
    replies: dict[str, SummaryReply],
    support: Measure,
    requested_types: dict[str, CovarianceType],
    task: MatrixTask,
    history: tuple[MatrixRound, ...],
) -> MatrixEstimates:
    """Return bounds and estimates for all pairs from the final summaries.

    The upper bound is hypot(between, within): `between` is the distance between the cell means of
    two sites, and `within` that of the independent coupling inside their cells. The estimate takes
    only a part of within^2, the within-cell factor.
    """
    summaries = [reply.summary for reply in replies.values()]
    means = [cell_means(reply, support) for reply in replies.values()]
    between = _distances_between_means(summaries, means, support.weights, task.n_jobs)
    within_std = np.array([summary.within_std for summary in summaries])
    within = np.hypot(within_std[:, None], within_std[None, :])
    factor_sites = [k for k, name in enumerate(replies) if requested_types[name] != "diag"]
    factor_sites = factor_sites or list(range(len(summaries)))
    factor = _within_factor(summaries, factor_sites, between, within, task)
    value = np.hypot(between, math.sqrt(factor) * within)
    upper, lower = np.hypot(between, within), lower_bounds(summaries, 2.0, task.n_jobs)
    for i, j in _same_data(summaries):
        value[i, j] = value[j, i] = lower[i, j]
    np.fill_diagonal(upper, 0.0)
    np.fill_diagonal(value, 0.0)
    return MatrixEstimates(
        sites=tuple(replies),
        value=value,
        lower=lower,
        upper=upper,
        summaries=summaries,
        covariance_types=tuple(summary.covariance_type for summary in summaries),
        history=history,
        calibrations=[reply.calibration for reply in replies.values()],
        contributions=_contributions(summaries, means, support.weights, factor, value),
    )


def _contributions(
    summaries: Sequence[Summary | LabelledSummary],
    means: Sequence[Floats],
    weights: Floats,
    factor: float,
    value: Floats,
) -> dict[Pair, Floats]:
    """Return each feature's contribution to the squared distance of each pair.

    It is the squared difference of the cell means, coupled point by point of the support, plus the
    within-cell variances times the within-cell factor. Contributions are scaled to sum to value^2.
    """
    within_costs = []
    for summary in summaries:
        assert isinstance(summary, Summary)  # noqa: S101
        within = np.diag(summary.within) if summary.within.ndim == 2 else summary.within
        within_costs.append(factor * np.broadcast_to(within, summary.dimension))
    contributions = {}
    for i, j in all_pairs(len(summaries)):
        squares = weights @ (means[i] - means[j]) ** 2 + within_costs[i] + within_costs[j]
        contributions[i, j] = squares * (value[i, j] ** 2 / (float(squares.sum()) or 1.0))
    return contributions


def _same_data(summaries: Sequence[Summary | LabelledSummary]) -> list[Pair]:
    """Return pairs of sites with the same data, whatever covariance types they were asked for."""
    contents = [(one.count, one.cells.points.tobytes(), one.within_std) for one in summaries]
    return [(i, j) for i, j in all_pairs(len(summaries)) if contents[i] == contents[j]]


def _distances_between_means(
    summaries: Sequence[Summary | LabelledSummary],
    means: Sequence[Floats],
    weights: Floats,
    n_jobs: int,
) -> Floats:
    """Return distances between the cell means of all pairs.

    Cells of the same point of the support are coupled. Unless there are many pairs, the optimal
    coupling is computed too, which gives slightly smaller distances.
    """
    flat = np.array([(np.sqrt(weights)[:, None] * one).ravel() for one in means])
    flat -= flat[0].copy()
    unit = float(np.abs(flat).max()) or 1.0  # in this unit, squares do not underflow
    flat /= unit
    between = unit * np.sqrt(ground_cost(flat, flat))
    pairs = all_pairs(len(summaries))
    if len(pairs) <= _MAX_PAIRS_FOR_OPTIMAL_COUPLING:
        cells = {index: summary.cells for index, summary in enumerate(summaries)}
        for (i, j), optimal in pair_distances(cells, pairs, 2.0, n_jobs):
            between[i, j] = between[j, i] = min(optimal, float(between[i, j]))
    # Twice the error of each site's means: once for the means, once for the products above.
    rounding_error = np.array([rounding(summary, summary) for summary in summaries])
    return np.asarray(
        np.maximum(between, between.T) + rounding_error[:, None] + rounding_error[None, :]
    )


def _within_factor(
    summaries: Sequence[Summary | LabelledSummary],
    sites: Sequence[int],
    between: Floats,
    within: Floats,
    task: MatrixTask,
) -> float:
    """Return the within-cell factor: the part, from 0 to 1, of the within-cell cost of the
    independent coupling that an estimate takes.

    It is the same for all pairs. It is fitted to synthetic samples of some pairs of these `sites`.
    """
    pairs = [(i, j) for i in sites for j in sites if i < j and within[i, j] > 0]
    pairs = [(i, j) for i, j in pairs if not are_identical(summaries[i], summaries[j])]
    if not pairs:
        return 1.0
    rng = np.random.default_rng(task.seed)
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:_MAX_FACTOR_PAIRS]]
    synthetic = synthetic_distances(
        summaries, chosen, 2.0, task.seed, n_jobs=task.n_jobs, total_pairs=_PAIRS_FOR_ONE_DRAW
    )
    factors = [
        (synthetic[pair] / within[pair]) ** 2 - (between[pair] / within[pair]) ** 2
        for pair in chosen
    ]
    return float(np.clip(np.median(factors), 0.0, 1.0))
