"""Other published ways to compare data that stay apart, written from their papers' formulas.

FedBary: Li et al., Data Valuation and Detections in Federated Learning, arXiv 2311.05304.
TriangleWad: Li and Pang, Private Wasserstein Distance, arXiv 2404.06787.
The universal metric: Elhussein and Gürsoy, arXiv 2404.18773.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import ot
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def plan(x: Floats, y: Floats) -> tuple[Floats, float]:
    """The optimal plan between two samples of equal weights, and W2."""
    cost = ot.dist(x, y)
    found = ot.emd(ot.unif(len(x)), ot.unif(len(y)), cost, numItermax=10**8)
    return found, float(np.sqrt(max((found * cost).sum(), 0.0)))


def interpolant(x: Floats, z: Floats, t: float) -> Floats:
    """The barycentric interpolating measure on as many points as z has."""
    found, _ = plan(x, z)
    return np.asarray((1 - t) * len(z) * found.T @ x + t * z)


def fedbary(sites: Sequence[Floats], z: Floats, rounds: int, t: float = 0.5) -> Floats:
    """The distance of each site to the common barycentre, after some rounds.

    In a round each site sends its interpolating measure with the shared points z. The server
    replaces z by one step of Cuturi and Doucet's free-support barycentre of what it received.
    """
    for _ in range(rounds):
        received = [interpolant(x, z, t) for x in sites]
        moved = [len(z) * plan(eta, z)[0].T @ eta for eta in received]
        z = np.mean(moved, axis=0)
    return np.array([plan(x, z)[1] for x in sites])


def triangle_message(x: Floats, gamma: Floats, t: float) -> Floats:
    """What a site sends: each of its rows moved by t towards the shared random points."""
    found, _ = plan(x, gamma)
    return np.asarray((1 - t) * x + t * len(x) * found @ gamma)


def triangle_distance(first: Floats, second: Floats, t: float) -> float:
    """W2 between two messages divided by 1 - t, by the intercept theorem."""
    return plan(first, second)[1] / (1 - t)


def hellinger(first: Floats, second: Floats, ridge: float = 1e-6) -> float:
    """The Hellinger distance between the Gaussians with the moments of two samples."""
    S, T = (np.cov(x.T, bias=True) + ridge * np.eye(x.shape[1]) for x in (first, second))
    gap, middle = first.mean(axis=0) - second.mean(axis=0), (S + T) / 2
    logs = [np.linalg.slogdet(matrix)[1] for matrix in (S, T, middle)]
    overlap = (logs[0] + logs[1]) / 4 - logs[2] / 2 - gap @ np.linalg.solve(middle, gap) / 8
    return float(np.sqrt(max(1 - np.exp(overlap), 0.0)))


def universal(
    first: tuple[Floats, NDArray[np.int64]],
    second: tuple[Floats, NDArray[np.int64]],
    weights: tuple[float, float] = (3.0, 1.0),
) -> float:
    """The universal metric between activations with labels, from 0 to 1.

    Samples of one class cost their cosine distance and the Hellinger distance of their classes'
    Gaussians, with the weights of the authors' code; samples of two classes cost the most. The
    transport is exact here, entropic there.
    """
    (a, y), (b, z) = first, second
    a, b = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in (a, b))
    cost = np.ones((len(a), len(b)))
    for code in np.intersect1d(y, z):
        rows, columns = y == code, z == code
        angles = np.clip(1 - a[rows] @ b[columns].T, 0, 1)
        apart = weights[0] * angles + weights[1] * hellinger(a[rows], b[columns])
        cost[np.ix_(rows, columns)] = apart / sum(weights)
    found = ot.emd(ot.unif(len(a)), ot.unif(len(b)), cost, numItermax=10**8)
    return float((found * cost).sum())
