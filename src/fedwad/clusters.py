"""Which clients belong together: spectral clustering of a distance matrix, as in the paper, and how
many clusters."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad._checks import check_choice, check_whole
from fedwad.errors import InputError
from fedwad.ot import Floats

__all__ = ["Suggestion", "cluster", "stability", "suggest"]

Affinity = Literal["linear", "kernel", "knn"]

_LARGEST_SUGGESTION = 15
_NOISE, _CLEAR, _STEP = 0.1, 0.5, 1.5
_ALONE = 1e-6  # weight of a client to itself, so that one without neighbours is a cluster


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A number of clusters, and the smallest eigenvalues of the graph's normalised Laplacian that
    suggest it: k clusters that are well apart make k small eigenvalues, then a gap."""

    k: int
    eigenvalues: Floats

    def __repr__(self) -> str:
        return f"<{self.k} clusters suggested>"


def cluster(
    distances: ArrayLike, k: int, affinity: Affinity = "kernel", n_neighbors: int = 3, seed: int = 0
) -> NDArray[np.int64]:
    """Spectral clustering of clients: k-means on the rows, scaled to length one, of the k
    eigenvectors of the graph's normalised Laplacian with the smallest eigenvalues (Ng, Jordan,
    Weiss 2001).

    Unlike scikit-learn's own this is right for graphs in several parts, which is what clusters look
    like.

    Parameters
    ----------
    distances : array (N, N), symmetric with zero diagonal
    k : number of clusters
    affinity : "precomputed" for weights 1 - D^2 / max D^2 between any two clients (the paper's
        first), "knn" for the sparse graph that joins each client to its nearest `n_neighbors` (the
        paper's second and third, with 3 and 5), "kernel" for the weights of `suggest`, which tell
        near from far more sharply
    seed : of the k-means step

    Returns
    -------
    array (N,) of labels, numbered in the order in which they appear

    Examples
    --------
    >>> cluster([[0, 1, 9], [1, 0, 9], [9, 9, 0]], 2).tolist()
    [0, 0, 1]
    """
    check_choice(affinity, "affinity", ("linear", "kernel", "knn"))
    checked = _checked(distances)
    count = len(checked)
    if check_whole(k, "the number of clusters") > count:
        raise InputError(
            f"{k} clusters were asked for among {count} clients; ask for at most as many."
        )
    seed = check_whole(seed, "seed", 0)
    if k == 1:
        return np.zeros(count, dtype=np.int64)
    if k == count:
        return np.arange(count)
    graph = _graph(checked, affinity, n_neighbors, k)
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    _, vectors = np.linalg.eigh(_laplacian(graph))
    rows = vectors[:, :k]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    model = KMeans(k, n_init=20, random_state=seed)
    with warnings.catch_warnings():  # clients at the same place cannot be told apart
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _in_order(model.fit_predict(rows / np.where(lengths > 0, lengths, 1.0)))


def _laplacian(graph: Floats) -> Floats:
    """The normalised Laplacian 1 - D^-1/2 W D^-1/2 of a graph with weights W and degrees D."""
    degree = graph.sum(axis=1)
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1.0))
    return np.asarray(np.eye(len(graph)) - scale[:, None] * graph * scale)


def suggest(distances: ArrayLike) -> Suggestion:
    """The number of clusters after whose eigenvalue the gap is largest, up to 15; 1 where no gap is
    clear.

    Weights between clients are exp(-(D^2 - d^2) / s): even samples of one law are apart, by about
    the smallest distance d of all, so only what exceeds it counts. Units s are tried from what
    nearest neighbours exceed it by (the median, and at least 10% of d^2, since distances are
    estimates) to half of what all do; the one with the largest gap counts. A gap is clear from 0.5
    on: k groups without a link between them make a gap of about 1.
    """
    checked = _checked(distances)
    count = len(checked)
    if count < 3:
        return Suggestion(1, np.zeros(count))
    best, found = 0.0, Suggestion(1, np.zeros(count))
    for graph in _kernels(checked):
        eigenvalues: Floats = np.linalg.eigvalsh(_laplacian(graph)).astype(np.float64)[
            : _LARGEST_SUGGESTION + 1
        ]
        gaps = np.diff(eigenvalues)[1:]  # one small eigenvalue is always there
        if gaps.max() > best:
            best = float(gaps.max())
            clear = best >= (_CLEAR if count > 3 else 1 + _CLEAR)
            found = Suggestion(int(gaps.argmax()) + 2 if clear else 1, eigenvalues)
    return found


def stability(
    distances: ArrayLike,
    k: int,
    affinity: Affinity = "kernel",
    n_neighbors: int = 3,
    draws: int = 20,
    noise: float = 0.05,
    seed: int = 0,
) -> float:
    """Mean adjusted Rand index between the clusters and those of matrices with errors drawn into
    them.

    Each distance is multiplied by exp(noise * a standard normal number); 0.05 is the size of error
    that estimates of a matrix show. One means that errors change nothing, zero that clusters are
    chance.
    """
    from sklearn.metrics import adjusted_rand_score

    if not (isinstance(noise, int | float) and 0 <= noise < 10):
        raise InputError(f"noise is {noise!r}; give a fraction of at least 0, such as 0.05.")
    checked = _checked(distances)
    reference = cluster(checked, k, affinity, n_neighbors, seed)
    rng = np.random.default_rng(seed)
    scores = []
    for draw in range(check_whole(draws, "draws")):
        factors = np.triu(np.exp(noise * rng.standard_normal(checked.shape)), 1)
        other = cluster(checked * (factors + factors.T), k, affinity, n_neighbors, seed + draw)
        scores.append(adjusted_rand_score(reference, other))
    return float(np.mean(scores))


def _graph(distances: Floats, affinity: Affinity, n_neighbors: int, k: int) -> Floats:
    """Weights between clients: between all of them, or to nearest neighbours."""
    if affinity == "linear":
        largest = float(distances.max()) or 1.0
        graph = np.asarray(1 - (distances / largest) ** 2)
        np.fill_diagonal(
            graph, _ALONE
        )  # weight 1 to itself would outdo all others, and make each client a cluster
        return graph
    if affinity == "kernel":  # the unit that tells k clusters apart best
        return max(
            _kernels(distances),
            key=lambda graph: float(np.diff(np.linalg.eigvalsh(_laplacian(graph)))[k - 1]),
        )
    if check_whole(n_neighbors, "n_neighbors") >= len(distances):
        raise InputError(
            f"{n_neighbors} neighbours were asked for among {len(distances)} clients; ask for fewer."
        )
    nearest = np.argsort(
        distances + np.diag(np.full(len(distances), np.inf)), axis=1, kind="stable"
    )[:, :n_neighbors]
    graph = np.zeros_like(distances)
    np.put_along_axis(graph, nearest, 1.0, axis=1)
    return np.asarray((graph + graph.T) / 2)


def _kernels(distances: Floats) -> list[Floats]:
    """The graphs of `suggest`, one for each unit."""
    squares = (distances / (float(distances.max()) or 1.0)) ** 2
    apart = ~np.eye(len(squares), dtype=bool)
    nearest = np.where(apart, squares, np.inf).min(axis=1)
    floor = float(nearest.min())
    # Where all have a twin at distance zero, whoever is not at zero is far.
    least = float(squares[squares > 0].min(initial=1.0)) * _NOISE
    unit = max(float(np.median(nearest)) - floor, _NOISE * floor) or least
    largest = max(unit, (float(np.median(squares[apart])) - floor) / 2)
    graphs = []
    while unit <= largest * (1 + 1e-9):
        graph = np.exp(-np.maximum(squares - floor, 0.0) / unit)
        np.fill_diagonal(graph, _ALONE)
        graphs.append(graph)
        unit *= _STEP
    return graphs


def _checked(distances: Any) -> Floats:
    try:
        array = np.asarray(distances, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError("The distances are no square matrix of numbers; give one.") from None
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not len(array):
        raise InputError(f"The distances have shape {array.shape}; give a square matrix.")
    if not np.isfinite(array).all() or (array < 0).any() or np.diag(array).any():
        raise InputError("Distances must be finite and not negative, with zeros on the diagonal.")
    if not np.allclose(array, array.T, rtol=1e-9, atol=0):
        raise InputError(
            "The distances are not symmetric; give the same number for (i, j) and (j, i)."
        )
    return array


def _in_order(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The same partition, numbered in order of appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)
