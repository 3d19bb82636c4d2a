"""Clusters of embedded sites, without a table of all pairs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad import clusters
from fedwad.ot import Floats

__all__ = ["EmbeddedCluster", "describe", "kmeans", "pairwise", "suggest"]

_SAMPLE = 300  # sites among which the number of clusters is read
_UNEVEN = 2.0  # times its mean over all axes, the most that is expected of the noise on an axis


@dataclass(frozen=True)
class EmbeddedCluster:
    """A cluster of points: its size, its most central site, and the nearest other cluster.

    `radius` is the root mean square distance of its points from their mean. `distance` is that of
    the means of both clusters. Without another cluster, `nearest` is None and `distance` is 0.
    """

    label: int
    size: int
    central: str
    radius: float
    nearest: int | None
    distance: float


def describe(
    points: Floats, labels: NDArray[np.int64], sites: Sequence[str]
) -> list[EmbeddedCluster]:
    """Return a description of each cluster, the largest first."""
    numbers = np.unique(labels)
    centres = np.array([points[labels == number].mean(axis=0) for number in numbers])
    apart = pairwise(centres) if len(numbers) > 1 else np.zeros((1, 1))
    found = []
    for k, number in enumerate(numbers.tolist()):
        members = np.flatnonzero(labels == number)
        squares = ((points[members] - centres[k]) ** 2).sum(axis=1)
        others = np.where(np.arange(len(numbers)) == k, np.inf, apart[k])
        near = None if len(numbers) < 2 else int(others.argmin())
        found.append(
            EmbeddedCluster(
                label=number,
                size=len(members),
                central=sites[int(members[squares.argmin()])],
                radius=float(np.sqrt(squares.mean())),
                nearest=None if near is None else int(numbers[near]),
                distance=0.0 if near is None else float(apart[k, near]),
            )
        )
    return sorted(found, key=lambda one: (-one.size, one.label))


def pairwise(points: Floats) -> Floats:
    """Return Euclidean distances between a few points, symmetric with zero diagonal."""
    from scipy.spatial.distance import pdist, squareform

    return np.asarray(squareform(pdist(points)))


def kmeans(points: Floats, k: int, seed: int) -> NDArray[np.int64]:
    """Return labels of k-means, numbered in the order in which they appear."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # fewer distinct points than clusters
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clusters.in_order(KMeans(k, n_init=10, random_state=seed).fit_predict(points))


def suggest(points: Floats, noise: Floats, seed: int) -> clusters.Suggestion:
    """Suggest a number of clusters from the distances of some hundred random sites.

    Axes on which sites vary no more than sampling explains are left out, and so is the noise on
    them. What is left of the noise is subtracted from squared distances. Its standard deviation is
    the smallest difference that counts; noise is a sum of about as many squares as there are axes.
    """
    order = np.random.default_rng([seed, 3]).permutation(len(points))[:_SAMPLE]
    chosen = np.sort(order)
    some, own = points[chosen], noise[chosen]
    kept = _beyond_noise(some, float(own.mean()))
    own = own * kept.sum() / len(kept)
    squares = pairwise(some[:, kept]) ** 2
    squares -= own[:, None] + own[None, :]
    distances = np.sqrt(np.maximum(squares, 0.0))
    np.fill_diagonal(distances, 0.0)
    resolution = 2 * float(own.mean()) * float(np.sqrt(2 / max(1, kept.sum())))
    return clusters.suggest(distances, resolution)


def _beyond_noise(points: Floats, noise: float) -> NDArray[np.bool_]:
    """Return the axes on which points vary more than noise that is spread over all axes can.

    The largest variance of n points of pure noise with variance v on each of k axes is about
    v (1 + sqrt(k / n))^2 (Marchenko and Pastur). All axes are kept if none exceeds it.
    """
    count, axes = points.shape
    largest = noise / axes * (1 + np.sqrt(axes / count)) ** 2
    kept = np.asarray(points.var(axis=0) > _UNEVEN * largest)
    return kept if kept.any() else np.ones(axes, dtype=np.bool_)
