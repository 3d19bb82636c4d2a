"""Clusters of embedded sites, without a table of all pairs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad import clusters
from fedwad.ot import Floats

__all__ = ["EmbeddedCluster", "describe_clusters", "kmeans", "pairwise_distances", "suggest"]

_MAX_SITES = 300  # at most this many random sites decide the number of clusters
_MAX_NOISE_RATIO = 2.0  # largest ratio of the noise on one axis to its mean over all axes


@dataclass(frozen=True)
class EmbeddedCluster:
    """A cluster of embedded sites.

    Attributes
    ----------
    label : the number of the cluster
    size : number of sites
    central : name of the site that is nearest to the mean of the cluster
    radius : root mean square distance of the points from their mean
    nearest : label of the other cluster with the nearest mean; None if there is no other
    distance : distance between the means of these two clusters; 0 if there is no other
    """

    label: int
    size: int
    central: str
    radius: float
    nearest: int | None
    distance: float


def describe_clusters(
    points: Floats, labels: NDArray[np.int64], sites: Sequence[str]
) -> list[EmbeddedCluster]:
    """Return a description of each cluster, the largest first."""
    distinct = np.unique(labels)
    centres = np.array([points[labels == label].mean(axis=0) for label in distinct])
    between = pairwise_distances(centres) if len(distinct) > 1 else np.zeros((1, 1))
    descriptions = []
    for k, label in enumerate(distinct.tolist()):
        members = np.flatnonzero(labels == label)
        squares = ((points[members] - centres[k]) ** 2).sum(axis=1)
        to_others = np.where(np.arange(len(distinct)) == k, np.inf, between[k])
        nearest = None if len(distinct) < 2 else int(to_others.argmin())
        descriptions.append(
            EmbeddedCluster(
                label=label,
                size=len(members),
                central=sites[int(members[squares.argmin()])],
                radius=float(np.sqrt(squares.mean())),
                nearest=None if nearest is None else int(distinct[nearest]),
                distance=0.0 if nearest is None else float(between[k, nearest]),
            )
        )
    return sorted(descriptions, key=lambda cluster: (-cluster.size, cluster.label))


def pairwise_distances(points: Floats) -> Floats:
    """Return the Euclidean distances between all pairs of a few points, (N, N)."""
    from scipy.spatial.distance import pdist, squareform

    return np.asarray(squareform(pdist(points)))


def kmeans(points: Floats, k: int, seed: int) -> NDArray[np.int64]:
    """Return the k-means cluster of each point, numbered from 0 in order of appearance."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # there may be fewer distinct points than clusters
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clusters.in_order(KMeans(k, n_init=10, random_state=seed).fit_predict(points))


def suggest(points: Floats, noise: Floats, seed: int) -> clusters.Suggestion:
    """Suggest a number of clusters from the distances between at most 300 random sites.

    `noise` (N,) is what the sampling of each site's rows adds to its squared distances. Axes on
    which sites vary no more than sampling explains are left out. Noise is taken to be equal on all
    axes, so m of k axes carry m / k of it. The noise on the remaining axes is subtracted from
    squared distances. It is a sum of about as many squares as axes remain, and its standard
    deviation is the smallest difference of squared distances that counts.
    """
    order = np.random.default_rng([seed, 3]).permutation(len(points))[:_MAX_SITES]
    chosen = np.sort(order)
    points, noise = points[chosen], noise[chosen]
    remaining = _axes_beyond_noise(points, float(noise.mean()))
    axes_noise = noise * remaining.sum() / len(remaining)
    squares = pairwise_distances(points[:, remaining]) ** 2
    squares -= axes_noise[:, None] + axes_noise[None, :]
    distances = np.sqrt(np.maximum(squares, 0.0))
    np.fill_diagonal(distances, 0.0)
    resolution = 2 * float(axes_noise.mean()) * float(np.sqrt(2 / max(1, remaining.sum())))
    return clusters.suggest(distances, resolution)


def _axes_beyond_noise(points: Floats, noise: float) -> NDArray[np.bool_]:
    """Return a mask of the axes with a larger variance than noise can give them; of all axes if
    there is none.

    `noise` is the sum of the noise variances of all axes. The largest variance of n points of pure
    noise with variance v on each of k axes is about v (1 + sqrt(k / n))^2 (Marchenko and Pastur).
    An axis must exceed `_MAX_NOISE_RATIO` times that.
    """
    count, axes = points.shape
    largest_variance = noise / axes * (1 + np.sqrt(axes / count)) ** 2
    beyond = np.asarray(points.var(axis=0) > _MAX_NOISE_RATIO * largest_variance)
    return beyond if beyond.any() else np.ones(axes, dtype=np.bool_)
