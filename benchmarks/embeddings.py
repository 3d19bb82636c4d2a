"""What points of 1000 sites find, against transports between all pairs of them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import fedwad
from fedwad.transport import Measure
from fedwad.transport.many import pair_distances
from fedwad.transport.nearly import near_squares

SITES, ROWS, FEATURES, GROUPS = 1000, 60, 8, 5
NEAREST, CANDIDATES = 10, (10, 20, 50, 100)  # `nearest` takes 100 candidates for 10 sites
_ASKED = 30  # sites whose nearest ones are found by exact distances
_SHIFT = 0.3  # deviation between the means of sites of a group; that of rows is 1

Floats = NDArray[np.float64]


def sites(shift: float, count: int = SITES) -> tuple[list[Floats], NDArray[np.int64]]:
    """Normal sites in groups, and the group of each."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((GROUPS, FEATURES))
    groups = np.arange(count) % GROUPS
    means = centres[groups] + shift * rng.standard_normal((count, FEATURES))
    return list(means[:, None] + rng.standard_normal((count, ROWS, FEATURES))), groups


def _exact_rows(data: list[Floats]) -> Floats:
    """Exact distances from the first sites to all."""
    measures = {k: Measure(rows) for k, rows in enumerate(data)}
    pairs = [(i, j) for i in range(_ASKED) for j in range(i + 1, len(data))]
    found = np.zeros((len(data), len(data)))
    for (i, j), value in pair_distances(measures, pairs, n_jobs=1):
        found[i, j] = found[j, i] = value
    return found[:_ASKED]


def _all_pairs(data: list[Floats]) -> Floats:
    """Distances of all pairs by auctions, whose squares are at most 0.8% too large."""
    measures = {k: Measure(rows) for k, rows in enumerate(data)}
    pairs = [(i, j) for i in range(len(data)) for j in range(i + 1, len(data))]
    found = np.zeros((len(data), len(data)))
    for (i, j), square in near_squares(measures, pairs, 1):
        found[i, j] = found[j, i] = np.sqrt(square)
    return found


def _row(shift: float, count: int) -> dict[str, Any]:
    data, groups = sites(shift, count)
    start = time.process_time()
    found = fedwad.embed({f"s{k}": rows for k, rows in enumerate(data)})
    labels = found.cluster(GROUPS)
    embedding = time.process_time() - start
    exact = _exact_rows(data)
    order = [[k for k in np.argsort(row).tolist() if k != i] for i, row in enumerate(exact)]
    row: dict[str, Any] = {"sites": f"{count}, shifts {shift}", "embedded, processor s": embedding}
    for many in CANDIDATES:
        hits = [
            len(set(near[:NEAREST]) & set(found.candidates(f"s{i}", many)))
            for i, near in enumerate(order)
        ]
        row[f"of 10 among {many}"] = float(np.mean(hits))
    points = ((found.embedding[:_ASKED, None] - found.embedding[None]) ** 2).sum(axis=2)
    apart = np.eye(*exact.shape) == 0
    row["rank correlation"] = float(spearmanr(exact[apart], points[apart]).statistic)
    row["Rand index to groups"] = float(adjusted_rand_score(groups, labels))
    if shift:  # minutes for all pairs
        start = time.process_time()
        known = fedwad.compare.clusters.cluster(_all_pairs(data), GROUPS)
        row["all pairs, processor s"] = time.process_time() - start
        row["Rand index to all pairs"] = float(adjusted_rand_score(known, labels))
        row["of all pairs to groups"] = float(adjusted_rand_score(groups, known))
    return row


def measure(count: int = SITES) -> list[dict[str, Any]]:
    """One row where sites of a group differ, and one where they are samples of one population."""
    with threadpool_limits(1):
        return [_row(shift, count) for shift in (_SHIFT, 0.0)]
