"""Spectral clustering of a distance matrix, and the number of clusters."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad._checks import check_choice, check_integer, check_number, format_value
from fedwad.errors import InputError
from fedwad.ot import Floats

__all__ = ["Suggestion", "agreement", "cluster", "in_order", "stability", "suggest"]

Affinity = Literal["linear", "kernel", "knn"]

_MAX_CLUSTERS = 15  # that `suggest` considers
_MIN_BANDWIDTH = 0.1  # as a fraction of the smallest squared distance
_BANDWIDTH_RATIO = 1.5  # of each bandwidth that is tried to the one before
_CLEAR_GAP = 0.5  # smallest eigengap that suggests clusters
_SELF_AFFINITY = 1e-6  # of a site to itself, so that one without neighbours is a cluster


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A number of clusters, and the smallest eigenvalues of the graph's normalised Laplacian.

    k well-separated clusters make k small eigenvalues, then a gap. `too_small` names the sites that
    have too few rows to be judged. `by_distance` is the number that distances alone suggest, where
    `k` is 1 because nothing differs by more than chance; else it is `k`.
    """

    k: int
    eigenvalues: Floats
    too_small: tuple[str, ...] = ()
    by_distance: int = 1

    def __repr__(self) -> str:
        return f"<{self.k} clusters suggested>"


def cluster(
    distances: ArrayLike,
    k: int,
    affinity: Affinity = "kernel",
    n_neighbors: int = 3,
    seed: int = 0,
    resolution: float = 0.0,
) -> NDArray[np.int64]:
    """Cluster sites by spectral clustering (Ng, Jordan, Weiss 2001).

    k-means runs on the rows, scaled to length one, of the k eigenvectors of the graph's normalised
    Laplacian with the smallest eigenvalues. Unlike scikit-learn's SpectralClustering this is right
    for graphs with several components.

    Parameters
    ----------
    distances : array (N, N), symmetric with zero diagonal
    k : number of clusters
    affinity : "kernel" for the Gaussian kernel of `suggest`, "linear" for 1 - D^2 / max D^2 (the
        paper's first affinity), "knn" for the same between each site and its `n_neighbors` nearest
        ones only. (The paper's second and third are like "knn" with 3 and 5 neighbours, but with
        weights 0 and 1.)
    n_neighbors : neighbours of each site in the graph of "knn"
    seed : of the k-means step
    resolution : standard error of a squared distance, the smallest bandwidth of "kernel"

    Returns
    -------
    array (N,) of labels, numbered in the order in which they appear

    Examples
    --------
    >>> cluster([[0, 1, 9], [1, 0, 9], [9, 9, 0]], 2).tolist()
    [0, 0, 1]
    """
    check_choice(affinity, "affinity", ("linear", "kernel", "knn"))
    check_integer(n_neighbors, "n_neighbors")
    resolution = check_number(resolution, "resolution")
    matrix = _check_distances(distances)
    count = len(matrix)
    if check_integer(k, "k") > count:
        raise InputError(
            f"{k} clusters were asked for among {count} sites; ask for at most as many."
        )
    seed = check_integer(seed, "seed", 0)
    if k == 1:
        return np.zeros(count, dtype=np.int64)
    if k == count:
        return np.arange(count)
    graph = _affinity_graph(matrix, affinity, n_neighbors, k, resolution)
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    _, vectors = np.linalg.eigh(_laplacian(graph))
    rows = vectors[:, :k]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    model = KMeans(k, n_init=20, random_state=seed)
    with warnings.catch_warnings():  # k-means warns about sites at distance zero
        warnings.simplefilter("ignore", ConvergenceWarning)
        return in_order(model.fit_predict(rows / np.where(lengths > 0, lengths, 1.0)))


def _laplacian(graph: Floats) -> Floats:
    """Return the normalised Laplacian 1 - D^-1/2 W D^-1/2 of a graph with degrees D."""
    degree = graph.sum(axis=1)
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1.0))
    return np.asarray(np.eye(len(graph)) - scale[:, None] * graph * scale)


def suggest(distances: ArrayLike, resolution: float = 0.0) -> Suggestion:
    """Suggest the number of clusters with the largest eigengap, up to 15; 1 if no gap is clear.

    Affinity is exp(-(D^2 - d^2)/s), where d is the smallest distance: two samples of one
    distribution are still about d apart. We scan the bandwidth s from the median nearest-neighbour
    excess (at least 0.1 d^2) up to half the median excess, and keep the s with the largest
    eigengap. A gap is clear from 0.5 on: k groups without links between them have a gap of about 1.
    No bandwidth is below `resolution`, the standard error of a squared distance.
    """
    resolution = check_number(resolution, "resolution")
    matrix = _check_distances(distances)
    count = len(matrix)
    if count < 3:
        return Suggestion(1, np.zeros(count))
    largest_gap, suggestion = 0.0, Suggestion(1, np.zeros(count))
    for graph in _kernel_graphs(matrix, resolution):
        eigenvalues: Floats = np.linalg.eigvalsh(_laplacian(graph)).astype(np.float64)[
            : _MAX_CLUSTERS + 1
        ]
        gaps = np.diff(eigenvalues)[1:]  # the first eigenvalue is always 0
        if gaps.max() > largest_gap:
            largest_gap = float(gaps.max())
            # Of three sites, a chain has a gap of 1, and two with the third apart have a gap of 2.
            clear = largest_gap >= (_CLEAR_GAP if count > 3 else 1 + _CLEAR_GAP)
            number = int(gaps.argmax()) + 2 if clear else 1
            suggestion = Suggestion(number, eigenvalues, by_distance=number)
    return suggestion


def check_noise(noise: Any) -> None:
    """Raise InputError unless `noise`, the relative size of errors, is at least 0 and below 10."""
    if not (isinstance(noise, int | float) and 0 <= noise < 10):
        raise InputError(
            f"noise is {format_value(noise)}; give a fraction of at least 0 and below 10, such as"
            " 0.05."
        )


def stability(
    distances: ArrayLike,
    k: int,
    affinity: Affinity = "kernel",
    n_neighbors: int = 3,
    draws: int = 20,
    noise: float = 0.05,
    seed: int = 0,
) -> float:
    """Return the mean adjusted Rand index between the clusters and those of perturbed matrices.

    Each distance is multiplied by exp(noise * z) with standard normal z; estimates of a matrix have
    errors of about 0.05. One means that errors change nothing, zero that clusters are chance.
    """
    check_noise(noise)
    matrix = _check_distances(distances)
    rng = np.random.default_rng(check_integer(seed, "seed", 0))

    def perturb() -> Floats:
        factors = np.triu(np.exp(noise * rng.standard_normal(matrix.shape)), 1)
        return np.asarray(matrix * (factors + factors.T))

    others = (perturb() for _ in range(check_integer(draws, "draws")))
    return agreement(matrix, others, k, affinity, n_neighbors, seed)


def agreement(
    distances: ArrayLike,
    others: Iterable[Floats],
    k: int,
    affinity: Affinity = "kernel",
    n_neighbors: int = 3,
    seed: int = 0,
    resolution: float = 0.0,
) -> float:
    """Return the mean adjusted Rand index between the clusters of `distances` and of `others`."""
    from sklearn.metrics import adjusted_rand_score

    reference = cluster(distances, k, affinity, n_neighbors, seed, resolution)
    labels = (
        cluster(other, k, affinity, n_neighbors, seed + draw, resolution)
        for draw, other in enumerate(others)
    )
    return float(np.mean([adjusted_rand_score(reference, other) for other in labels]))


def _affinity_graph(
    distances: Floats, affinity: Affinity, n_neighbors: int, k: int, resolution: float
) -> Floats:
    """Return affinities between all sites, or to nearest neighbours."""
    linear = np.asarray(1 - (distances / (float(distances.max()) or 1.0)) ** 2)
    if affinity == "linear":
        # With an affinity of 1 to itself each site would be its own cluster.
        np.fill_diagonal(linear, _SELF_AFFINITY)
        return linear
    if affinity == "kernel":  # with the bandwidth that separates k clusters best
        return max(
            _kernel_graphs(distances, resolution),
            key=lambda graph: float(np.diff(np.linalg.eigvalsh(_laplacian(graph)))[k - 1]),
        )
    if n_neighbors >= len(distances):
        raise InputError(
            f"n_neighbors is {n_neighbors} for {len(distances)} sites; give a smaller number."
        )
    to_others = distances + np.diag(np.full(len(distances), np.inf))
    nearest = np.argsort(to_others, axis=1, kind="stable")[:, :n_neighbors]
    graph = np.zeros_like(distances)
    np.put_along_axis(graph, nearest, 1.0, axis=1)
    # Near links count more: in a group of few sites, some neighbours are outside the group.
    return np.asarray((graph + graph.T) / 2 * np.maximum(linear, _SELF_AFFINITY))


def _kernel_graphs(distances: Floats, resolution: float) -> list[Floats]:
    """Return the graphs of `suggest`, one for each bandwidth."""
    largest_distance = float(distances.max()) or 1.0
    squares = (distances / largest_distance) ** 2
    off_diagonal = ~np.eye(len(squares), dtype=bool)
    nearest = np.where(off_diagonal, squares, np.inf).min(axis=1)
    smallest = float(nearest.min())
    # If every site has a copy at distance zero, any other distance is large.
    fallback = float(squares[squares > 0].min(initial=1.0)) * _MIN_BANDWIDTH
    least = max(_MIN_BANDWIDTH * smallest, resolution / largest_distance / largest_distance)
    bandwidth = max(float(np.median(nearest)) - smallest, least) or fallback
    widest = max(bandwidth, (float(np.median(squares[off_diagonal])) - smallest) / 2)
    graphs = []
    while bandwidth <= widest * (1 + 1e-9):
        graph = np.exp(-np.maximum(squares - smallest, 0.0) / bandwidth)
        np.fill_diagonal(graph, _SELF_AFFINITY)
        graphs.append(graph)
        bandwidth *= _BANDWIDTH_RATIO
    return graphs


def _check_distances(distances: Any) -> Floats:
    """Return the distances as an array; InputError unless they form a distance matrix."""
    try:
        array = np.asarray(distances, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError("The distances are not a matrix of numbers; give a square one.") from None
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not len(array):
        raise InputError(f"The distances have shape {array.shape}; give a square matrix.")
    if not np.isfinite(array).all() or (array < 0).any() or np.diag(array).any():
        raise InputError("Distances must be finite and not negative, with zeros on the diagonal.")
    if not np.allclose(array, array.T, rtol=1e-9, atol=0):
        raise InputError(
            "The distances are not symmetric; give the same number for (i, j) and (j, i)."
        )
    return array


def in_order(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the same clusters, numbered in the order in which they appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)
