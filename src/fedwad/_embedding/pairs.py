"""Estimated distances of some pairs of an embedding, from the cells that sites sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedwad._distance.result import DistanceResult
from fedwad._distance.run import estimate_from_cells
from fedwad._distance.task import ColumnNames, DistanceTask
from fedwad.federation import ClassStatistics, SummaryReply, Traffic, client_seed
from fedwad.methods import FedWaD
from fedwad.ot import Floats, are_identical, synthetic_distances

__all__ = ["pair_distance", "pair_values", "reassign_borders"]

_REPRESENTATIVES = 3  # most central sites of a cluster, with which border sites are compared
# A border site has a squared distance to another centre of less than 1 + _MARGIN times the squared
# distance to its own.
_MARGIN = 0.1
_MAX_BORDER_SITES = 200
_PAIRS_FOR_ONE_DRAW = 500  # with so many pairs, synthetic_distances draws once


def pair_distance(
    replies: Sequence[SummaryReply],
    sites: tuple[str, str],
    seed: int,
    class_statistics: ClassStatistics,
    column_names: ColumnNames,
    support: int,
) -> DistanceResult:
    """Return the distance of two sites with its certified bounds, without asking any site.

    It is computed as by FedWaD, from the cells of the shared support of `support` points.
    """
    mu, nu = replies
    own_estimate, fedwad = estimate_from_cells(mu, nu, 2.0, seed)
    task = DistanceTask(sites, FedWaD(support=support), 2.0, seed, class_statistics)
    return task.result_from(own_estimate, mu, nu, column_names, fedwad=fedwad, traffic=Traffic())


def pair_values(
    replies: Sequence[SummaryReply],
    sites: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    seed: int,
) -> dict[tuple[int, int], float]:
    """Return the estimated distances of some pairs (i, j) of indices of `sites`.

    Each synthetic sample is drawn once for all its pairs. Two summaries that are equal in every bit
    have distance 0.
    """
    involved = sorted({site for pair in pairs for site in pair})
    position = {site: k for k, site in enumerate(involved)}
    summaries = [replies[site].summary for site in involved]
    different = [
        (position[i], position[j])
        for i, j in pairs
        if not are_identical(replies[i].summary, replies[j].summary)
    ]
    keys = [client_seed(sites[site]) for site in involved]
    synthetic = synthetic_distances(
        summaries, different, 2.0, seed, keys, total_pairs=_PAIRS_FOR_ONE_DRAW
    )
    return {(i, j): float(synthetic[position[i], position[j]]) for i, j in pairs}


def reassign_borders(
    points: Floats,
    labels: NDArray[np.int64],
    replies: Sequence[SummaryReply],
    sites: Sequence[str],
    seed: int,
) -> NDArray[np.int64]:
    """Return labels in which each border site is assigned to the nearer one of two clusters.

    A border site lies almost as near to the centre of another cluster as to its own. The nearer
    cluster is the one to whose most central sites it has the smaller estimated distances. Labels
    stay as they are if a cluster would become empty.
    """
    centres = np.array([points[labels == k].mean(axis=0) for k in range(int(labels.max()) + 1)])
    squares = _squared_distances(points, centres)
    borders = _find_borders(squares, labels)
    central = np.argsort(squares, axis=0, kind="stable")[:_REPRESENTATIVES].T
    pairs, nearest_two = [], {}
    for site in borders.tolist():
        others = squares[site].copy()
        others[labels[site]] = np.inf
        nearest_two[site] = (int(labels[site]), int(others.argmin()))
        for cluster in nearest_two[site]:
            pairs += [(site, int(one)) for one in central[cluster] if one != site]
    if not pairs:
        return labels
    values = pair_values(replies, sites, pairs, seed)
    reassigned = labels.copy()
    for site, two_clusters in nearest_two.items():
        means = [_mean_square(site, central[cluster], values) for cluster in two_clusters]
        reassigned[site] = two_clusters[int(np.argmin(means))]
    return reassigned if len(np.unique(reassigned)) == len(centres) else labels


def _mean_square(
    site: int, central: NDArray[np.int64], values: dict[tuple[int, int], float]
) -> float:
    """Return the mean squared distance of a site from the central sites other than itself."""
    squares = [values[site, int(one)] ** 2 for one in central if one != site]
    return float(np.mean(squares)) if squares else np.inf


def _squared_distances(points: Floats, centres: Floats) -> Floats:
    """Return squared Euclidean distances from points to centres, (N, k)."""
    inner = points @ centres.T
    return np.asarray(
        np.maximum((points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * inner, 0.0)
    )


def _find_borders(squares: Floats, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of border sites, at most 200, the nearest to another centre first.

    `squares` (N, k) has the squared distance of each site from each centre.
    """
    if squares.shape[1] < 2:
        return np.zeros(0, dtype=np.int64)
    own_square = squares[np.arange(len(labels)), labels]
    others = squares.copy()
    others[np.arange(len(labels)), labels] = np.inf
    excess = others.min(axis=1) - own_square
    border = np.flatnonzero(excess < _MARGIN * own_square)
    return border[np.argsort(excess[border], kind="stable")][:_MAX_BORDER_SITES]
