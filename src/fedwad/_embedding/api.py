"""Each of many sites as a point: the public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_callback, check_choice, check_integer
from fedwad._distance.api import check_class_statistics
from fedwad._embedding.coordinates import compute_coordinates, project, sampling_noise
from fedwad._embedding.result import EmbeddingResult
from fedwad._embedding.run import EmbeddingTask, ask_cells
from fedwad._matrix.task import Progress
from fedwad.federation import Federation, MeteredFederation, as_federation, choose_sites
from fedwad.ot import ClassCovariance, CovarianceType, Summary

__all__ = ["embed"]

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
    task = EmbeddingTask(
        names=choose_sites(federation, sites, "an embedding", least=2),
        seed=check_integer(seed, "seed", 0),
        class_statistics=class_statistics,
        support=check_integer(support, "support"),
        rounds=check_integer(rounds, "rounds", 0),
        clients_per_round=check_integer(clients_per_round, "clients_per_round"),
        covariance_type=covariance_type,
        report=check_callback(callback) or (lambda _: None),
    )
    max_dimension = _MAX_DIMENSION if dimension is None else check_integer(dimension, "dimension")
    metered = MeteredFederation(federation)
    with single_threaded_blas():
        cells = ask_cells(metered, task)
        replies = cells.replies.values()
        summaries = [one.summary for one in replies if isinstance(one.summary, Summary)]
        coordinates = compute_coordinates(summaries, cells.support.weights)
        points, explained = project(coordinates, max_dimension, task.seed)
        noise = sampling_noise(summaries, cells.support, task.seed)
    return EmbeddingResult(
        sites=tuple(cells.replies),
        embedding=points,
        explained=explained,
        noise=noise,
        rows=tuple(one.count for one in summaries),
        options={
            "support": task.support,
            "rounds": task.rounds,
            "dimension": points.shape[1],
            "clients_per_round": min(task.clients_per_round, len(task.names)),
            "covariance_type": task.covariance_type,
        },
        seed=task.seed,
        class_covariance=None if class_statistics == "ignored" else class_statistics,
        covariance_types=tuple(sorted({one.covariance_type for one in summaries})),
        min_cell_size=min(one.min_cell_size for one in summaries),
        history=cells.history,
        traffic=metered.traffic,
        failed=metered.failed,
        replies=tuple(replies),
        features=metered.features,
        schema=metered.schema,
    )
