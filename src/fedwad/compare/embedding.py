"""Each of many sites as a point, by linearised transport.

Some sites shape a support, and all sites transport their data to it once. The coordinates of a site
are the means of its cells and the spread within them, on principal axes. Clusters and neighbours
need no table of all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_callback, check_choice, check_integer
from fedwad._files import SavedResult
from fedwad._html import data_frame
from fedwad._words import format_bytes, pluralize
from fedwad.compare import clusters
from fedwad.compare.api import check_class_statistics, matrix_of
from fedwad.compare.hub import MAX_FULL_FEATURES, cell_means, shape_support
from fedwad.compare.results import DistanceResult
from fedwad.compare.rounds import estimate_pairs
from fedwad.compare.task import MatrixRound, MatrixTask, Progress, index_of
from fedwad.errors import FederationError, InputError
from fedwad.federation import (
    CellsRequest,
    Federation,
    MeteredFederation,
    SummaryReply,
    Traffic,
    as_federation,
    choose_sites,
)
from fedwad.methods import FedWaD
from fedwad.statistics import (
    CovarianceType,
    Summary,
    reduce_covariance,
    summarise_plan,
    synthetic_distances,
)
from fedwad.tables import Schema
from fedwad.transport import ClassCovariance, Floats, Measure, solve

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_MAX_DIMENSION = 256  # largest number of coordinates when `dimension` is left out


def embed(
    fed: Federation | Mapping[str, Any],
    support: int = 10,
    rounds: int = 3,
    labels: bool = False,
    seed: int = 0,
    *,
    dimension: int | None = None,
    clients_per_round: int = 200,
    covariance_type: CovarianceType = "auto",
    class_covariance: ClassCovariance = "diag",
    sites: Sequence[str] | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> EmbeddingResult:
    """Give each site a point; Euclidean distances between points resemble those between sites.

    All sites transport their data to one shared support. The coordinates of a site are the means of
    its cells and the spread within them (linearised optimal transport). Time and memory grow with
    the number of sites, not with the number of pairs, so this is for thousands of sites.

    Parameters
    ----------
    fed : a federation, or a mapping from names to data, which become local sites
    support : number of points of the shared support, S; a cell has 1 / S of the rows of a site
    rounds : rounds in which some sites shape the support: each point moves to the mean of its cells
    labels, class_covariance : dataset distances between labelled data, see `fedwad.distance`
    seed : seed of the random numbers; the same seed gives the same result, bit for bit
    dimension : largest number of coordinates; 256 when left out
    clients_per_round : number of random sites that shape the support; the others send one message
    covariance_type : what sites send of the covariance within cells; "auto" is full up to 64
        features, and the diagonal beyond that
    sites : names of the sites to embed; all when left out
    callback : called with each `Progress`

    Returns
    -------
    EmbeddingResult
        `sites`, `embedding`, `traffic`, `failed`; `.cluster`, `.suggest`, `.nearest`, `.distance`,
        `.plot`, `.save`. A site that does not answer is left out and listed in `failed`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> e = fedwad.embed({"paris": rows, "oslo": rows + [3, 4], "rome": rows - [3, 4]}, support=4)
    >>> [round(e.embedded_distance(name, "oslo"), 6) for name in ("paris", "rome")]
    [5.0, 10.0]
    """
    class_statistics = check_class_statistics(labels, class_covariance, 2.0)
    check_choice(covariance_type, "covariance_type", get_args(CovarianceType))
    federation = as_federation(fed)
    names = choose_sites(federation, sites, "an embedding", least=2)
    seed, size = check_integer(seed, "seed", 0), check_integer(support, "support")
    rounds = check_integer(rounds, "rounds", 0)
    shaping = min(check_integer(clients_per_round, "clients_per_round"), len(names))
    report = check_callback(callback) or (lambda _: None)
    max_dimension = check_integer(_MAX_DIMENSION if dimension is None else dimension, "dimension")
    metered = MeteredFederation(federation)
    with single_threaded_blas():
        order = np.random.default_rng([seed, 1]).permutation(len(names))
        shaped = shape_support(
            metered,
            [names[index] for index in sorted(order[:shaping].tolist())],
            class_statistics,
            size,
            seed,
            rounds,
            report=lambda done: report(Progress("shaping the support", done, rounds)),
            at_least=1,
        )
        # A site that does not shape the support sends only this message.
        last_type = covariance_type
        if covariance_type == "auto":
            last_type = "full" if shaped.support.dimension <= MAX_FULL_FEATURES else "diag"
        request = CellsRequest(
            shaped.run, shaped.support, 2.0, last_type, class_statistics=class_statistics
        )
        replies = _ask_in_batches(metered, names, request, report)
        summaries = [one.summary for one in replies.values() if isinstance(one.summary, Summary)]
        coordinates = compute_coordinates(summaries, shaped.support.weights)
        points, explained = project(coordinates, max_dimension, seed)
        noise = sampling_noise(summaries, shaped.support, seed)
    return EmbeddingResult(
        sites=tuple(replies),
        embedding=points,
        explained=explained,
        noise=noise,
        rows=tuple(one.count for one in summaries),
        options={
            "support": size,
            "rounds": rounds,
            "dimension": points.shape[1],
            "clients_per_round": shaping,
            "covariance_type": covariance_type,
        },
        seed=seed,
        class_covariance=None if class_statistics == "ignored" else class_statistics,
        covariance_types=tuple(sorted({one.covariance_type for one in summaries})),
        min_cell_size=min(one.min_cell_size for one in summaries),
        history=shaped.history,
        traffic=metered.traffic,
        failed=metered.failed,
        replies=tuple(replies.values()),
        features=metered.features,
        schema=metered.schema,
    )


def _ask_in_batches(
    metered: MeteredFederation,
    sites: Sequence[str],
    request: CellsRequest,
    report: Callable[[Progress], None],
    at_a_time: int = 500,
) -> dict[str, SummaryReply]:
    """Return the cells of all sites that answer; not all are asked at once, to save memory."""
    names = [name for name in sites if name not in metered.failed]
    replies: dict[str, SummaryReply] = {}
    for start in range(0, len(names), at_a_time):
        report(Progress("asking sites", start, len(names)))
        batch = metered.ask(
            dict.fromkeys(names[start : start + at_a_time], request),
            SummaryReply,
            allow_failures=True,
            at_least=0,
            blame_sites=True,
        )
        for name, reply in batch.items():
            try:
                cell_means(reply, request.support)
            except InputError as problem:
                metered.leave_out(name, problem)
            else:
                replies[name] = reply
    report(Progress("asking sites", len(names), len(names)))
    if len(replies) < 2:
        reason = next(iter(metered.failed.values()), "no site answered.")
        raise FederationError(
            f"An embedding needs two sites that answer; the first said: {reason}", "too-few-sites"
        )
    return replies


def compute_coordinates(summaries: Sequence[Summary], weights: Floats) -> Floats:
    """Return the coordinates of each site, one row each: its cell means, scaled by the roots of
    their `weights`, and the root of the covariance within its cells.

    The squared distance of two rows has two parts. One is the squared distance of the cell means,
    coupled through the shared support. The other is the squared Frobenius distance of the roots of
    covariances, which is W2^2 of centred Gaussians with common axes. If any site sent only the
    diagonal or the mean variance, only that counts for all.
    """
    scale = np.sqrt(weights)[:, None]
    ndim = min(summary.within.ndim for summary in summaries)
    means = np.array([(scale * summary.means).ravel() for summary in summaries])
    within = np.array([reduce_covariance(summary.within, ndim) for summary in summaries])
    if ndim == 2:
        roots = _roots(within)
    else:
        repeated = summaries[0].dimension if ndim == 0 else 1
        roots = np.sqrt(np.maximum(within, 0.0) * repeated)
    return np.hstack([means, roots.reshape(len(summaries), -1)])


def _roots(matrices: Floats) -> Floats:
    """Return the symmetric roots of covariance matrices."""
    values, vectors = np.linalg.eigh(matrices)
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(scaled @ vectors.transpose(0, 2, 1))


def sampling_noise(
    summaries: Sequence[Summary],
    support: Measure,
    seed: int,
    measured_sites: int = 30,
    rows_per_cell: int = 50,
    edge_factor: float = 1.25,
) -> Floats:
    """Return what the sampling of each site's rows adds to its squared distances, (N,).

    The mean of a cell of n / S rows varies by S / n of the variance within it. The borders of
    cells and the covariance within them vary as well, which multiplies that by a factor. The
    factor is measured on pairs of synthetic samples of some sites, transported to the support.

    Cells at the edge are wider than the mean cell, which synthetic samples do not show. Squared
    distances of random splits were 1.1 to 1.6 times those of synthetic samples, for normal data and
    for t with 5 degrees of freedom: `edge_factor` is in the middle.
    """
    noise_of_means = np.array([len(one.weights) * one.variance / one.count for one in summaries])
    rng = np.random.default_rng([seed, 4])
    chosen = rng.permutation(len(summaries))[:measured_sites]
    measured, expected = 0.0, 0.0
    for summary in (summaries[index] for index in chosen.tolist()):
        size = min(summary.count, rows_per_cell * len(support))
        # of the type that the site sent; for "lowrank" the diagonal
        kind: Any = "diag" if summary.covariance_type == "lowrank" else summary.covariance_type
        cells = [
            summarise_plan(solve(Measure(rows), Measure(support.points, support.weights)), kind)
            for rows in (_draw_rows(summary, size, rng) for _ in range(2))
        ]
        first, second = compute_coordinates(cells, support.weights)
        measured += float(((first - second) ** 2).sum()) / 2
        expected += len(summary.weights) * summary.variance / size
    if not expected > 0:
        return noise_of_means
    return noise_of_means * edge_factor * max(1.0, measured / expected)


def _draw_rows(summary: Summary, size: int, rng: np.random.Generator) -> Floats:
    """Draw rows from a mixture of normal distributions, one for each cell of a site."""
    cells = rng.choice(len(summary.weights), size, p=summary.weights / summary.weights.sum())
    noise = rng.standard_normal((size, summary.dimension))
    within = np.asarray(summary.within)
    scaled = noise @ _roots(within[None])[0] if within.ndim == 2 else noise * np.sqrt(within)
    return np.asarray(summary.means[cells] + scaled)


def project(
    coordinates: Floats, dimension: int, seed: int, most: int = 1000
) -> tuple[Floats, float]:
    """Return the sites on at most `dimension` principal axes of their coordinates, and the fraction
    of the variance that these axes explain.

    With many sites and many coordinates, axes are computed from at most `most` random sites.
    """
    centred = coordinates - coordinates.mean(axis=0)
    count, size = centred.shape
    if size <= min(count, most):
        values, axes = np.linalg.eigh(centred.T @ centred)
    else:
        sites = centred
        if count > most:
            chosen = np.random.default_rng([seed, 2]).permutation(count)[:most]
            sites = centred[np.sort(chosen)]
        values, left = np.linalg.eigh(sites @ sites.T)
        axes = sites.T @ (left / np.sqrt(np.where(values > 0, values, 1.0)))
    beyond_rounding = values > 1e-13 * max(float(values[-1]), 0.0)
    beyond_rounding[-1] = True  # sites that all coincide have one axis too
    axes = axes[:, beyond_rounding][:, ::-1]
    # The largest entry of each axis is positive: the same coordinates give the same picture.
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    projected = centred @ axes[:, :dimension]
    total = float((centred**2).sum())
    return projected, float((projected**2).sum()) / total if total else 1.0


@dataclass(frozen=True)
class EmbeddedNeighbour:
    """Another site, the `embedded` distance of the two points, and the estimated distance `value`
    of the two sites.

    `value` is None if the embedding was loaded from a file, which does not hold the sites' cells.
    """

    site: str
    embedded: float
    value: float | None


@dataclass(frozen=True, eq=False)
class EmbeddingResult(SavedResult):
    """One point for each of N sites.

    Attributes
    ----------
    sites : tuple of str
        Names of the sites, in the order of rows.
    embedding : array (N, k)
        Points on their principal axes, the one with the largest variance first.
    explained : float
        Fraction of the variance of all coordinates that the k axes explain.
    noise : array (N,)
        What the sampling of each site's rows adds to its squared distances, measured on synthetic
        samples of some sites. In simulations, the squared distance of the points of two sites of
        one population was 0.9 to 1.3 times the sum of the noise of both.
    rows : tuple of int
        The number of rows of each site.
    options, seed, class_covariance, covariance_types, min_cell_size, traffic, history, failed
        As in MatrixResult.
    replies : tuple
        The cells that the sites sent, from which distances of pairs are estimated; not saved.
    features, schema
        Names of the features, and the schema by which tables were encoded, if known; not saved.
    """

    _format: ClassVar[str] = "fedwad embedding 1"
    _noun: ClassVar[str] = "embedding"
    _unsaved: ClassVar[tuple[str, ...]] = ("replies", "features", "schema")

    sites: tuple[str, ...]
    embedding: Floats
    explained: float
    noise: Floats
    rows: tuple[int, ...]
    options: dict[str, Any]
    seed: int
    class_covariance: str | None = None
    covariance_types: tuple[str, ...] = ()
    min_cell_size: int | None = None
    history: tuple[MatrixRound, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
    failed: Mapping[str, str] = field(default_factory=dict)
    replies: tuple[SummaryReply, ...] = ()
    features: tuple[str, ...] | None = None
    schema: Schema | None = None

    def __len__(self) -> int:
        return len(self.sites)

    def __repr__(self) -> str:
        failed = f", without {len(self.failed)}" if self.failed else ""
        return f"<embedding of {len(self)} sites in {self.embedding.shape[1]} dimensions{failed}>"

    def cluster(self, n_clusters: int, seed: int = 0) -> NDArray[np.int64]:
        """Return one label for each site, by k-means on the points."""
        k = clusters.check_count(n_clusters, len(self), "n_clusters")
        with single_threaded_blas():
            return clusters.kmeans(self.embedding, k, check_integer(seed, "seed", 0), 10)

    def suggest(self, most_sites: int = 300, noise_ratio: float = 2.0) -> clusters.Suggestion:
        """Suggest a number of clusters from the distances between at most `most_sites` sites.

        No test decides. It is 1 if no eigengap is clear; see `fedwad.compare.clusters.suggest`.
        Axes on which sites vary no more than `noise_ratio` times what sampling explains are left
        out. Noise is taken to be equal on all axes, so m of k axes carry m / k of it, which is
        subtracted from squared distances. It is a sum of about as many squares as axes remain, and
        its standard deviation is the smallest difference of squared distances that counts.
        """
        # The largest variance of n points of pure noise with variance v on each of k axes is about
        # v (1 + sqrt(k / n))^2 (Marchenko and Pastur).
        chosen = np.sort(np.random.default_rng([self.seed, 3]).permutation(len(self))[:most_sites])
        points, noise = self.embedding[chosen], self.noise[chosen]
        count, axes = points.shape
        largest = float(noise.mean()) / axes * (1 + np.sqrt(axes / count)) ** 2
        remaining = points.var(axis=0) > noise_ratio * largest
        if not remaining.any():
            remaining[:] = True
        axes_noise = noise * remaining.sum() / axes
        with single_threaded_blas():
            squares = pairwise_distances(points[:, remaining]) ** 2
            squares -= axes_noise[:, None] + axes_noise[None, :]
            distances = np.sqrt(np.maximum(squares, 0.0))
            np.fill_diagonal(distances, 0.0)
            resolution = 2 * float(axes_noise.mean()) * float(np.sqrt(2 / remaining.sum()))
            return clusters.suggest(distances, resolution)

    def embedded_distance(self, a: str, b: str) -> float:
        """Return the Euclidean distance between the points of two sites."""
        difference = self.embedding[self._index(a)] - self.embedding[self._index(b)]
        return float(np.sqrt(difference @ difference))

    def distance(self, a: str, b: str) -> DistanceResult:
        """Return the estimated distance of two sites with its certified bounds.

        It is computed from the cells that both sites have sent, so no site is asked.
        """
        i, j = self._index(a), self._index(b)
        if i == j:
            raise InputError(f"'{a}' is named twice; name two different sites.", "repeated-site")
        if not self.replies:
            raise InputError(
                "This embedding was read from a file, which does not hold what the sites sent;"
                " embed again, or use embedded_distance.",
                "not-kept",
            )
        both, column_names = {a: self.replies[i], b: self.replies[j]}, (self.features, self.schema)
        statistics: Any = self.class_covariance or "ignored"
        task = MatrixTask((a, b), self.seed, 2.0, statistics)
        first, second = sorted(both, key=lambda name: both[name].summary.key)
        with single_threaded_blas():
            estimates = estimate_pairs({(first, second): both}, (first, second), task)
            method = FedWaD(support=int(self.options["support"]))
            return DistanceResult.of(matrix_of(estimates, task, method, column_names, Traffic()))

    def nearest(
        self, name: str, count: int = 10, candidates: int | None = None
    ) -> list[EmbeddedNeighbour]:
        """Return the most similar sites, the most similar one first.

        Candidates are the nearest points. Their distances are estimated from the cells, and these
        estimates decide on the order.

        Parameters
        ----------
        name : name of a site
        count : number of neighbours to return
        candidates : number of candidates; ten times `count` when left out
        """
        count = check_integer(count, "count")
        candidates = check_integer(10 * count if candidates is None else candidates, "candidates")
        indices = self.candidates(name, max(candidates, count))
        found = [
            EmbeddedNeighbour(self.sites[k], self.embedded_distance(name, self.sites[k]), None)
            for k in indices
        ]
        if not self.replies:
            return found[:count]
        own, *others = (self.replies[k].summary for k in (self._index(name), *indices))
        different = [(0, k) for k, one in enumerate(others, 1) if own.key != one.key]
        with single_threaded_blas():
            values = synthetic_distances(
                [own, *others],
                different,
                2.0,
                self.seed,
                total_pairs=500,  # with so many, each synthetic sample is drawn once
            )[0, 1:].tolist()
        found = [replace(one, value=value) for one, value in zip(found, values, strict=True)]
        return sorted(found, key=lambda one: (one.value, one.embedded))[:count]

    def candidates(self, name: str, count: int) -> list[int]:
        """Return the indices of the `count` sites with the nearest points, the nearest first."""
        row = self._index(name)
        squares = ((self.embedding - self.embedding[row]) ** 2).sum(axis=1)
        order = np.argsort(squares, kind="stable").tolist()
        return [index for index in order if index != row][: check_integer(count, "count")]

    def to_frame(self) -> pd.DataFrame:
        """Return the points as a pandas DataFrame, one row for each site."""
        return data_frame(self.embedding, index=list(self.sites))

    def plot(
        self, clusters: Sequence[int] | NDArray[np.int64] | None = None, path: Any = None
    ) -> Figure:
        """Draw the sites on the first two axes, and write the picture if a path is given."""
        from fedwad.compare.plots import draw_embedding

        return draw_embedding(self, self.check_clusters(clusters), path)

    def check_clusters(self, labels: Any) -> NDArray[np.int64]:
        """Return labels of clusters as an array, zeros for None.

        InputError unless there is one integer for each site.
        """
        return clusters.check_labels([0] * len(self) if labels is None else labels, len(self))

    def _index(self, name: str) -> int:
        return index_of(self.sites, name, "embedding")

    def _html_rows(self) -> dict[str, str]:
        return {
            "sites": str(len(self)),
            "clusters suggested": f"{self.suggest().k}, {_UNTESTED}",
            "variance on the first two axes": f"{self.on_two_axes:.0%}",
            "sent by the sites": format_bytes(self.traffic.up),
        }

    @property
    def on_two_axes(self) -> float:
        """Fraction of the variance of all coordinates that the first two axes explain."""
        squares = (self.embedding**2).sum(axis=0)
        total = float(squares.sum())
        return self.explained * float(squares[:2].sum()) / total if total else 1.0

    def _check(self) -> None:
        size = len(set(self.sites))
        if size != len(self.sites) or len(self.rows) != size or self.noise.shape != (size,):
            raise ValueError("not one entry for each site")
        if self.embedding.ndim != 2 or len(self.embedding) != size:
            raise ValueError("not one point for each site")
        if not (np.isfinite(self.embedding).all() and np.isfinite(self.noise).all()):
            raise ValueError("not finite")
        if self.seed < 0 or type(self.options["support"]) is not int:
            raise ValueError("not a seed, or not an integer support")


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

    @property
    def texts(self) -> list[str]:
        """The attributes as tables show them, with clusters counted from 1."""
        near = ["", ""] if self.nearest is None else [str(self.nearest + 1), f"{self.distance:.4g}"]
        return [str(self.label + 1), str(self.size), self.central, f"{self.radius:.4g}", *near]


_UNTESTED = "by distances alone: it was not tested whether they differ"


def groups_in_words(sites: int, groups: int) -> str:
    """How many clusters there are, which no test decides."""
    return f"{sites} sites in {pluralize(groups, 'cluster')}, {_UNTESTED}"


def describe_clusters(
    points: Floats, labels: NDArray[np.int64], sites: Sequence[str]
) -> list[EmbeddedCluster]:
    """Return a description of each cluster, the largest first."""
    distinct = np.unique(labels)
    centres = np.array([points[labels == label].mean(axis=0) for label in distinct])
    between = pairwise_distances(centres)
    np.fill_diagonal(between, np.inf)
    descriptions = []
    for k, label in enumerate(distinct.tolist()):
        members = np.flatnonzero(labels == label)
        squares = ((points[members] - centres[k]) ** 2).sum(axis=1)
        nearest = None if len(distinct) < 2 else int(between[k].argmin())
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
