"""Spectral clustering of a distance matrix, the number of clusters, and how stable they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad._checks import check_choice, check_integer, check_number, format_value
from fedwad._html import html_table
from fedwad.errors import InputError
from fedwad.federation import KeptReply
from fedwad.statistics import Summary, SyntheticSample
from fedwad.transport import Floats, solve

Affinity = Literal["linear", "kernel", "knn", "binary"]

MAX_CLUSTERS = 15  # that `suggest` considers
_SELF_AFFINITY = 1e-6  # of a site to itself, so that one without neighbours is a cluster


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A number of clusters, and the smallest eigenvalues of the graph's normalised Laplacian.

    k well-separated clusters make k small eigenvalues, then a gap. `too_small` names the sites that
    have too few rows to be judged. `by_distance` is the number that distances alone suggest; where
    `k` is 1 although that is larger, `reason` says why.
    """

    k: int
    eigenvalues: Floats
    too_small: tuple[str, ...] = ()
    by_distance: int = 1
    reason: str = ""

    def __repr__(self) -> str:
        return f"<{self.k} clusters suggested>"

    def _repr_html_(self) -> str:
        rows = {
            "reason": self.reason,
            "too few rows": ", ".join(self.too_small),
            "eigenvalues": ", ".join(f"{abs(value):.3g}" for value in self.eigenvalues),
        }
        return html_table(repr(self), {name: text for name, text in rows.items() if text})


def cluster(
    distances: ArrayLike,
    k: int,
    affinity: Affinity = "kernel",
    n_neighbors: int = 3,
    seed: int = 0,
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
        ones only, "binary" for the graph of nearest neighbours alone, in which each site is its
        own first neighbour (the paper's second and third, with 3 and 5 neighbours)
    n_neighbors : neighbours of each site in the graph of "knn" or "binary"
    seed : of the k-means step

    Returns
    -------
    array (N,) of labels, numbered in the order in which they appear

    Examples
    --------
    >>> cluster([[0, 1, 9], [1, 0, 9], [9, 9, 0]], 2).tolist()
    [0, 0, 1]
    """
    check_choice(affinity, "affinity", ("linear", "kernel", "knn", "binary"))
    check_integer(n_neighbors, "n_neighbors")
    matrix = _check_distances(distances)
    count = len(matrix)
    k = check_count(k, count)
    seed = check_integer(seed, "seed", 0)
    if k == 1:
        return np.zeros(count, dtype=np.int64)
    if k == count:
        return np.arange(count)
    graph = _affinity_graph(matrix, affinity, n_neighbors, k)
    _, vectors = np.linalg.eigh(_laplacian(graph))
    rows = vectors[:, :k]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return kmeans(rows / np.where(lengths > 0, lengths, 1.0), k, seed, 20)


def check_count(k: Any, sites: int, name: str = "k") -> int:
    """Return the number of clusters; InputError for more than there are sites."""
    if check_integer(k, name) > sites:
        raise InputError(
            f"{k} clusters were asked for among {sites} sites; ask for at most as many.",
            "too-many-clusters",
        )
    return int(k)


def kmeans(points: Floats, k: int, seed: int, starts: int) -> NDArray[np.int64]:
    """Return the k-means cluster of each point, numbered from 0 in order of appearance."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # there may be fewer distinct points than clusters
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(k, n_init=starts, random_state=seed)
        return in_order(model.fit_predict(points))


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
            : MAX_CLUSTERS + 1
        ]
        gaps = np.diff(eigenvalues)[1:]  # the first eigenvalue is always 0
        if gaps.max() > largest_gap:
            largest_gap = float(gaps.max())
            # Of three sites, a chain has a gap of 1, and two with the third apart have a gap of 2.
            clear = largest_gap >= (0.5 if count > 3 else 1.5)
            number = int(gaps.argmax()) + 2 if clear else 1
            suggestion = Suggestion(number, eigenvalues, by_distance=number)
    return suggestion


def stability(
    distances: ArrayLike,
    k: int,
    affinity: Affinity = "kernel",
    n_neighbors: int = 3,
    draws: int = 20,
    noise: float = 0.05,
    seed: int = 0,
    resampled: Iterable[Floats] | None = None,
) -> float:
    """Return the mean adjusted Rand index between the clusters and those of `resampled` matrices.

    Without these, each distance is multiplied by exp(noise * z) with standard normal z, in so many
    `draws`; estimates of a matrix have errors of about 0.05. One means that errors change nothing,
    zero that clusters are chance.
    """
    from sklearn.metrics import adjusted_rand_score

    if not (isinstance(noise, int | float) and 0 <= noise < 10):
        raise InputError(
            f"noise is {format_value(noise)}; give a fraction of at least 0 and below 10, such as"
            " 0.05.",
            "bad-option",
        )
    matrix, count = _check_distances(distances), check_integer(draws, "draws")
    rng = np.random.default_rng(check_integer(seed, "seed", 0))

    def perturb() -> Floats:
        factors = np.triu(np.exp(noise * rng.standard_normal(matrix.shape)), 1)
        return np.asarray(matrix * (factors + factors.T))

    others = (perturb() for _ in range(count)) if resampled is None else resampled
    reference = cluster(matrix, k, affinity, n_neighbors, seed)
    scores = [
        adjusted_rand_score(reference, cluster(other, k, affinity, n_neighbors, seed + draw))
        for draw, other in enumerate(others)
    ]
    return float(np.mean(scores))


def _affinity_graph(distances: Floats, affinity: Affinity, n_neighbors: int, k: int) -> Floats:
    """Return affinities between all sites, or to nearest neighbours."""
    linear = np.asarray(1 - (distances / (float(distances.max()) or 1.0)) ** 2)
    if affinity == "linear":
        # With an affinity of 1 to itself each site would be its own cluster.
        np.fill_diagonal(linear, _SELF_AFFINITY)
        return linear
    if affinity == "kernel":  # with the bandwidth that separates k clusters best
        return max(
            _kernel_graphs(distances),
            key=lambda graph: float(np.diff(np.linalg.eigvalsh(_laplacian(graph)))[k - 1]),
        )
    if n_neighbors >= len(distances):
        raise InputError(
            f"n_neighbors is {n_neighbors} for {len(distances)} sites; give a smaller number.",
            "bad-option",
        )
    own = -np.inf if affinity == "binary" else np.inf
    to_others = distances + np.diag(np.full(len(distances), own))
    nearest = np.argsort(to_others, axis=1, kind="stable")[:, :n_neighbors]
    graph = np.zeros_like(distances)
    np.put_along_axis(graph, nearest, 1.0, axis=1)
    if affinity == "binary":
        return np.asarray((graph + graph.T) / 2)
    # Near links count more: in a group of few sites, some neighbours are outside the group.
    return np.asarray((graph + graph.T) / 2 * np.maximum(linear, _SELF_AFFINITY))


def _kernel_graphs(
    distances: Floats, resolution: float = 0.0, least_bandwidth: float = 0.1, ratio: float = 1.5
) -> list[Floats]:
    """Return the graphs of `suggest`, one for each bandwidth.

    `least_bandwidth` is a fraction of the smallest squared distance, `ratio` that of each bandwidth
    to the one before.
    """
    largest_distance = float(distances.max()) or 1.0
    squares = (distances / largest_distance) ** 2
    off_diagonal = ~np.eye(len(squares), dtype=bool)
    nearest = np.where(off_diagonal, squares, np.inf).min(axis=1)
    smallest = float(nearest.min())
    # If every site has a copy at distance zero, any other distance is large.
    fallback = float(squares[squares > 0].min(initial=1.0)) * least_bandwidth
    least = max(least_bandwidth * smallest, resolution / largest_distance / largest_distance)
    bandwidth = max(float(np.median(nearest)) - smallest, least) or fallback
    widest = max(bandwidth, (float(np.median(squares[off_diagonal])) - smallest) / 2)
    graphs = []
    while bandwidth <= widest * (1 + 1e-9):
        graph = np.exp(-np.maximum(squares - smallest, 0.0) / bandwidth)
        np.fill_diagonal(graph, _SELF_AFFINITY)
        graphs.append(graph)
        bandwidth *= ratio
    return graphs


def _check_distances(distances: Any) -> Floats:
    """Return the distances as an array; InputError unless they form a distance matrix."""
    try:
        array = np.asarray(distances, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError(
            "The distances are not a matrix of numbers; give a square one.", "bad-distances"
        ) from None
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not len(array):
        raise InputError(
            f"The distances have shape {array.shape}; give a square matrix.", "bad-distances"
        )
    if not np.isfinite(array).all() or (array < 0).any() or np.diag(array).any():
        raise InputError(
            "Distances must be finite and not negative, with zeros on the diagonal.",
            "bad-distances",
        )
    if not np.allclose(array, array.T, rtol=1e-9, atol=0):
        raise InputError(
            "The distances are not symmetric; give the same number for (i, j) and (j, i).",
            "bad-distances",
        )
    return array


def check_labels(labels: Any, count: int) -> NDArray[np.int64]:
    """Return labels of clusters as an array; InputError unless each of `count` sites has one."""
    try:
        given = np.asarray(labels)
        with np.errstate(invalid="ignore"):  # NaN equals no integer
            checked = given.astype(np.int64)
        if checked.shape == (count,) and (checked == given).all():
            return checked
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(
        f"The labels of clusters are not one integer for each of {count} sites.", "wrong-shape"
    )


def in_order(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the same clusters, numbered in the order in which they appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


_Z = NormalDist().inv_cdf(0.975)  # half the width of a 95% interval in standard errors


def kept_summaries(
    kept: Mapping[str, Sequence[KeptReply]], sites: Sequence[str]
) -> list[Summary] | None:
    """Return the summary of each site; None unless all sites allowed theirs to be kept."""
    summaries = [one.reply.summary for name in sites for one in kept.get(name, ())[:1]]
    known = [one for one in summaries if isinstance(one, Summary)]
    return known if len(known) == len(sites) else None


def _cell_changes(
    summary: Summary, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """How the k cells of a site change if its rows are drawn again, R times.

    Returns changes of the weights of cells (R, k) and of their means (R, k, d), and the expected
    squared lengths of the changes of means (k,).
    """
    cells = summary.cells
    counts = np.maximum(summary.count * cells.weights, 1.0)
    probabilities = cells.weights / cells.weights.sum()
    drawn_counts = rng.multinomial(summary.count, probabilities, draws)
    synthetic = SyntheticSample.of(summary)
    means: Floats = np.zeros((draws, *cells.points.shape))
    for part in (synthetic.deviations, synthetic.factors):
        if part is not None:
            normals = rng.standard_normal((draws, len(cells), len(part)))
            means += normals @ part if part.ndim == 2 else normals * part
    means /= np.sqrt(counts)[:, None]
    return drawn_counts / summary.count - probabilities, means, summary.variance / counts


def resample_by_intervals(
    population: Floats, interval: tuple[Floats, Floats], draws: int, seed: int
) -> Iterator[Floats]:
    """Yield distances between populations that vary with the standard errors of their intervals.

    Half of the variance of a squared distance is assigned to each of its two sites, so the
    distances of one site vary together.
    """
    rng = np.random.default_rng(seed)
    count = len(population)
    std = (interval[1] ** 2 - interval[0] ** 2) / (2 * _Z)
    for _ in range(draws):
        site_errors = rng.standard_normal(count)
        shift = std * (site_errors[:, None] + site_errors) / np.sqrt(2)
        distances = np.sqrt(np.maximum(population**2 + shift, 0.0))
        np.fill_diagonal(distances, 0.0)
        yield (distances + distances.T) / 2


def resample_rows(
    summaries: Sequence[Summary], population: Floats, draws: int, seed: int
) -> Iterator[Floats]:
    """Yield distances between populations as other samples of the same sizes would show them.

    Rows of each site are drawn again from its cells, which gives the cells other weights and means.
    All distances of a site change with its rows. The transport plan between cells stays as it is:
    a change of weights adds its product with the potentials to a squared distance, and changed
    means alter the cost of the plan. The expectation of what is quadratic in the changes of means
    is subtracted.
    """
    rng = np.random.default_rng(seed)
    changes = [_cell_changes(summary, draws, rng) for summary in summaries]
    squares = np.repeat(population[None] ** 2, draws, axis=0)
    for i, j in combinations(range(len(summaries)), 2):
        plan = solve(summaries[j].cells, summaries[i].cells)
        (weights, means, expected), (weights_b, means_b, expected_b) = changes[j], changes[i]
        gaps = plan.source.points[plan.rows] - plan.target.points[plan.cols]
        shifts = means[:, plan.rows] - means_b[:, plan.cols]
        moved = (shifts * (shifts + 2 * gaps)).sum(axis=2)
        moved -= expected[plan.rows] + expected_b[plan.cols]
        change = moved @ plan.mass + weights @ plan.f + weights_b @ plan.g
        squares[:, i, j] = squares[:, j, i] = squares[:, i, j] + change
    yield from np.sqrt(np.maximum(squares, 0.0))
