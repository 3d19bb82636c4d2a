"""Estimates for the pairs of an embedding that matter, from the cells that sites sent."""

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

_REPRESENTATIVES = 3  # sites of a cluster that a site between two clusters is compared with
_MARGIN = 0.1  # part of the squared distance to the own centre that makes a site a border site
_MOST_BORDER = 200
_PAIRS_FOR_ONE_DRAW = 500


def pair_distance(
    replies: Sequence[SummaryReply],
    sites: tuple[str, str],
    seed: int,
    class_statistics: ClassStatistics,
    names: ColumnNames,
    support: int,
) -> DistanceResult:
    """Return the distance of two sites with its certified interval, without asking any site.

    It is computed as by FedWaD, from the cells of the shared support.
    """
    mu, nu = replies
    found, fedwad = estimate_from_cells(mu, nu, 2.0, seed)
    task = DistanceTask(sites, FedWaD(support=support), 2.0, seed, class_statistics)
    return task.result_from(found, mu, nu, names, fedwad=fedwad, traffic=Traffic())


def pair_values(
    replies: Sequence[SummaryReply],
    names: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    seed: int,
) -> dict[tuple[int, int], float]:
    """Return the estimates of some pairs; each synthetic sample is drawn once for all its pairs."""
    used = sorted({site for pair in pairs for site in pair})
    index = {site: k for k, site in enumerate(used)}
    summaries = [replies[site].summary for site in used]
    different = [
        (index[i], index[j])
        for i, j in pairs
        if not are_identical(replies[i].summary, replies[j].summary)
    ]
    keys = [client_seed(names[site]) for site in used]
    found = synthetic_distances(
        summaries, different, 2.0, seed, keys, total_pairs=_PAIRS_FOR_ONE_DRAW
    )
    return {(i, j): float(found[index[i], index[j]]) for i, j in pairs}


def reassign_borders(
    points: Floats,
    labels: NDArray[np.int64],
    replies: Sequence[SummaryReply],
    names: Sequence[str],
    seed: int,
) -> NDArray[np.int64]:
    """Return labels in which each site between two clusters is assigned to the nearer one.

    The nearer one is that whose most central sites have smaller estimated distances.
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
    values = pair_values(replies, names, pairs, seed)
    reassigned = labels.copy()
    for site, two_clusters in nearest_two.items():
        means = [_mean_square(site, central[cluster], values) for cluster in two_clusters]
        reassigned[site] = two_clusters[int(np.argmin(means))]
    none_empty = len(np.unique(reassigned)) == len(centres)
    return reassigned if none_empty else labels


def _mean_square(
    site: int, central: NDArray[np.int64], values: dict[tuple[int, int], float]
) -> float:
    found = [values[site, int(one)] ** 2 for one in central if one != site]
    return float(np.mean(found)) if found else np.inf


def _squared_distances(points: Floats, centres: Floats) -> Floats:
    """Return squared distances from points to centres."""
    inner = points @ centres.T
    return np.asarray(
        np.maximum((points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * inner, 0.0)
    )


def _find_borders(squares: Floats, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sites that are almost as near to another centre as to their own, at most 200."""
    if squares.shape[1] < 2:
        return np.zeros(0, dtype=np.int64)
    own_square = squares[np.arange(len(labels)), labels]
    others = squares.copy()
    others[np.arange(len(labels)), labels] = np.inf
    excess = others.min(axis=1) - own_square
    border = np.flatnonzero(excess < _MARGIN * own_square)
    return border[np.argsort(excess[border], kind="stable")][:_MOST_BORDER]
