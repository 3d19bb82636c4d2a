"""Clusters of embedded sites, without a table of all pairs."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from fedwad import clusters
from fedwad.ot import Floats

__all__ = ["kmeans", "pairwise", "suggest"]

_SAMPLE = 300  # sites among which the number of clusters is read


def pairwise(points: Floats) -> Floats:
    """Return Euclidean distances between a few points, symmetric with zero diagonal."""
    from scipy.spatial.distance import pdist, squareform

    return np.asarray(squareform(pdist(points)))


def kmeans(points: Floats, k: int, seed: int) -> NDArray[np.int64]:
    """Return labels of k-means, numbered in the order in which they appear."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # fewer places than clusters
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clusters.in_order(KMeans(k, n_init=10, random_state=seed).fit_predict(points))


def suggest(points: Floats, noise: Floats, seed: int) -> clusters.Suggestion:
    """Suggest a number of clusters from the distances of some hundred random sites.

    What sampling adds to squared distances is taken away first.
    """
    order = np.random.default_rng([seed, 3]).permutation(len(points))[:_SAMPLE]
    chosen = np.sort(order)
    squares = pairwise(points[chosen]) ** 2
    squares -= noise[chosen][:, None] + noise[chosen][None, :]
    distances = np.sqrt(np.maximum(squares, 0.0))
    np.fill_diagonal(distances, 0.0)
    return clusters.suggest(distances)
