"""Data, distances and clusters of the sites in the experiment `boosting`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import fedwad
from fedwad.clusters import cluster
from fedwad.datasets import Partition, load, partition, random_code
from fedwad.datasets._partition import LabelledSamples
from fedwad.ot import Floats

__all__ = [
    "Distances",
    "Setting",
    "Structure",
    "clusterings",
    "distances",
    "partitions",
    "pixels",
    "rand_index",
]

Data = Literal["mnist", "cifar10"]
#: The classes of clients. "groups": a client holds one of the pairs (0, 1), (2, 3) ... (8, 9).
#: "none": two random classes per client, each class held by equally many clients. "drawn": two
#: random classes as in the authors' code, in which a client may draw one class twice.
Structure = Literal["groups", "none", "drawn"]
Distances = Literal["paper 10", "paper 100", "summary"]

#: Number of clusters, as in the authors' code.
_CLUSTERS = 5
#: Distances use at most so many samples of a client, equally many of all clients. Training uses all
#: samples.
_DISTANCE_SAMPLES = 500
_ROUNDS = 10  # of FedWaD
_AFFINITY_CONSTANT = 5000.0  # the authors' c of the affinity on MNIST, see `clusterings`
_CLASSES = 10


@dataclass(frozen=True)
class Setting:
    """A dataset divided among clients, with `samples` samples each; None divides all samples."""

    data: Data
    clients: int
    structure: Structure
    seed: int
    samples: int | None = None


@cache
def pixels(
    data: Data, split: Literal["train", "test"]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Normalised pixels and labels."""
    return load(data, split)


@cache
def _codes(data: Data) -> NDArray[Any]:
    """The features for distances: pixels, or for CIFAR-10 the codes of an untrained autoencoder."""
    X, _ = pixels(data, "train")
    return random_code(X) if data == "cifar10" else X


@lru_cache(maxsize=8)
def partitions(setting: Setting) -> tuple[Partition, Partition]:
    """The training samples and all test samples, each divided among the clients."""
    X, y = pixels(setting.data, "train")
    if setting.structure == "drawn":
        train = _draw_portions(X, y, setting.clients, setting.seed)
    else:
        divide = partition.class_pairs if setting.structure == "groups" else partition.random_pairs
        balanced = setting.structure == "none"
        train = divide(X, y, setting.clients, setting.samples, setting.seed, balanced=balanced)
    return train, train.apply(*pixels(setting.data, "test"), seed=setting.seed)


def _draw_portions(X: NDArray[Any], y: NDArray[Any], clients: int, seed: int) -> Partition:
    """Divide each class into equally many portions, and give each client two random portions."""
    data, rng = LabelledSamples(X, y), np.random.default_rng(seed)
    classes = np.repeat(np.arange(_CLASSES), 2 * clients // _CLASSES)
    pairs = rng.permutation(classes).reshape(clients, 2)
    portions = np.array([np.bincount(pair, minlength=_CLASSES) for pair in pairs])
    ends = np.rint(np.cumsum(portions, axis=0) / portions.sum(axis=0) * data.class_sizes)
    _, groups = np.unique(portions, axis=0, return_inverse=True)
    counts = np.diff(ends.astype(np.int64), axis=0, prepend=0)
    return data.assign(counts, groups.reshape(-1), rng)


def _distance_data(setting: Setting) -> dict[str, tuple[Floats, NDArray[np.int64]]]:
    """The data of each client that distances are computed from."""
    train, _ = partitions(setting)
    codes, labels = _codes(setting.data), pixels(setting.data, "train")[1]
    count = min(_DISTANCE_SAMPLES, int(train.sizes.min()))
    rows = {name: index[:count] for name, index in train.indices.items()}
    return {name: (codes[index].astype(np.float64), labels[index]) for name, index in rows.items()}


def distances(setting: Setting, method: Distances, on_gpu: bool = False) -> Floats:
    """Dataset distances between all clients, (N, N): by the paper's FedWaD with a support of 10 or
    100, or by our summaries.

    With `on_gpu`, those of FedWaD are computed for all pairs at once, with an entropic solver.
    """
    data, seed = _distance_data(setting), setting.seed
    if method == "summary":
        return fedwad.matrix(data, labels=True, seed=seed).value
    support = int(method.split()[1])
    if on_gpu:
        from fedwad.experiments._boosting_pairs import all_pairs

        return all_pairs(data, support, _ROUNDS, seed)
    options: dict[str, Any] = {"method": "pairs", "support": support, "rounds": _ROUNDS}
    return np.asarray(fedwad.matrix(data, labels=True, seed=seed, **options).fedwad)


def clusterings(
    setting: Setting, method: Distances, matrix: Floats
) -> dict[str, NDArray[np.int64]]:
    """The cluster of each client, for each way to cluster a matrix of distances.

    "affinity", "sparse 3" and "sparse 5" are those of the authors' code, by scikit-learn: the
    affinity (c - D^2) / c, and graphs of the 3 and 5 nearest neighbours. On MNIST c = 5000. On
    CIFAR-10 the scale of features is ours, so c = max D^2. "kernel" is our affinity. The names
    begin with `method`, or with "ours" for summaries, where "ours" alone is the kernel.
    """
    kernel = cluster(matrix, _CLUSTERS, "kernel", seed=setting.seed)
    authors = _authors_clusterings(setting, matrix)
    if method == "summary":
        return {"ours": kernel} | {f"ours {name}": labels for name, labels in authors.items()}
    all_ways = authors | {"kernel": kernel}
    return {f"{method} {name}": labels for name, labels in all_ways.items()}


def _authors_clusterings(setting: Setting, matrix: Floats) -> dict[str, NDArray[np.int64]]:
    """The paper's three clusterings of a matrix of distances."""
    from sklearn.cluster import SpectralClustering

    squares = matrix**2
    c = _AFFINITY_CONSTANT if setting.data == "mnist" else float(squares.max())
    if setting.structure == "drawn":
        # Their code sets D^2 to c between a client with one class and all clients before it.
        single = (partitions(setting)[0].counts > 0).sum(axis=1) == 1
        far = np.triu(np.broadcast_to(single, squares.shape), 1)
        squares = np.where(far | far.T, c, squares)
    common = {"n_clusters": _CLUSTERS, "n_init": 10, "random_state": setting.seed}
    with warnings.catch_warnings():
        # scikit-learn warns of graphs in several parts, and clusters them all the same.
        warnings.simplefilter("ignore", UserWarning)
        by_affinity = SpectralClustering(affinity="precomputed", **common)
        labels = {"affinity": by_affinity.fit_predict(np.maximum((c - squares) / c, 0.0))}
        for n_neighbors in (3, 5):
            graph = SpectralClustering(
                affinity="precomputed_nearest_neighbors", n_neighbors=n_neighbors, **common
            )
            labels[f"sparse {n_neighbors}"] = graph.fit_predict(squares)
    return labels


def rand_index(setting: Setting, labels: NDArray[np.int64]) -> float:
    """The adjusted Rand index between a clustering and the true groups."""
    from sklearn.metrics import adjusted_rand_score

    return round(float(adjusted_rand_score(partitions(setting)[0].groups, labels)), 4)
