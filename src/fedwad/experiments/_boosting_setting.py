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
    "CLUSTERS",
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
#: "groups": the class pairs (0, 1), (2, 3) ... (8, 9). "none": two random classes per client, each
#: class held by equally many clients. "drawn": as in the authors' code, in which a client may draw
#: one class twice.
Structure = Literal["groups", "none", "drawn"]
Distances = Literal["paper 10", "paper 100", "summary"]

#: Number of clusters, as in the authors' code.
CLUSTERS = 5
#: Distances are computed from at most so many samples of a client, equally many for all; training
#: uses all samples.
_DISTANCE_SAMPLES = 500
_ROUNDS = 10
_AFFINITY = 5000.0  # the authors' constant c of the affinity on MNIST, see `clusterings`
_CLASSES = 10


@dataclass(frozen=True)
class Setting:
    """A dataset divided among clients, with `samples` for each, or all there are."""

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
    """The features for distances: pixels, or for CIFAR-10 the code of an untrained autoencoder."""
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
    """Divide each class into equally many portions, and let each client draw two of all."""
    data, rng = LabelledSamples(X, y), np.random.default_rng(seed)
    classes = np.repeat(np.arange(_CLASSES), 2 * clients // _CLASSES)
    pairs = rng.permutation(classes).reshape(clients, 2)
    portions = np.array([np.bincount(pair, minlength=_CLASSES) for pair in pairs])
    ends = np.rint(np.cumsum(portions, axis=0) / portions.sum(axis=0) * data.class_sizes)
    _, groups = np.unique(portions, axis=0, return_inverse=True)
    counts = np.diff(ends.astype(np.int64), axis=0, prepend=0)
    return data.assign(counts, groups.reshape(-1), rng)


def distance_data(setting: Setting) -> dict[str, tuple[Floats, NDArray[np.int64]]]:
    """The data of each client that distances are computed from."""
    train, _ = partitions(setting)
    codes, labels = _codes(setting.data), pixels(setting.data, "train")[1]
    count = min(_DISTANCE_SAMPLES, int(train.sizes.min()))
    rows = {name: index[:count] for name, index in train.indices.items()}
    return {name: (codes[index].astype(np.float64), labels[index]) for name, index in rows.items()}


def distances(setting: Setting, method: Distances, on_gpu: bool = False) -> Floats:
    """Dataset distances between all clients: the paper's FedWaD with a support of 10 or 100, or our
    one message.

    `on_gpu` computes the paper's for all pairs at once, with an entropic solver.
    """
    data, seed = distance_data(setting), setting.seed
    if method == "summary":
        return fedwad.matrix(data, labels=True, seed=seed).value
    support = int(method.split()[1])
    if on_gpu:
        from fedwad.experiments._boosting_pairs import all_pairs

        return all_pairs(data, support, _ROUNDS, seed)
    options: dict[str, Any] = {"method": "pairs", "support": support, "rounds": _ROUNDS}
    return np.asarray(fedwad.matrix(data, labels=True, seed=seed, **options).fedwad)


def clusterings(setting: Setting, method: Distances, table: Floats) -> dict[str, NDArray[np.int64]]:
    """A label for each client, by the name of each clustering method.

    Distances are clustered as in the authors' code, by scikit-learn: with the affinity (c - D^2) /
    c, c = 5000 on MNIST (on CIFAR-10 the scale of the code is ours, so c = max D^2), and with
    graphs of the 3 and 5 nearest neighbours; and with our affinity "kernel". With the summary's
    distances that is "ours".
    """
    kernel = cluster(table, CLUSTERS, "kernel", seed=setting.seed)
    authors = _authors_clusterings(setting, table)
    if method == "summary":
        return {"ours": kernel} | {f"ours {name}": labels for name, labels in authors.items()}
    named = authors | {"kernel": kernel}
    return {f"{method} {name}": labels for name, labels in named.items()}


def _authors_clusterings(setting: Setting, table: Floats) -> dict[str, NDArray[np.int64]]:
    """The paper's three clusterings of a matrix of distances."""
    from sklearn.cluster import SpectralClustering

    squares = table**2
    unit = _AFFINITY if setting.data == "mnist" else float(squares.max())
    if setting.structure == "drawn":
        # Their code puts a client of one class far from all clients before it.
        single = (partitions(setting)[0].counts > 0).sum(axis=1) == 1
        far = np.triu(np.broadcast_to(single, squares.shape), 1)
        squares = np.where(far | far.T, unit, squares)
    common = {"n_clusters": CLUSTERS, "n_init": 10, "random_state": setting.seed}
    with warnings.catch_warnings():
        # scikit-learn warns of graphs in several parts, and clusters them all the same.
        warnings.simplefilter("ignore", UserWarning)
        by_affinity = SpectralClustering(affinity="precomputed", **common)
        found = {"affinity": by_affinity.fit_predict(np.maximum((unit - squares) / unit, 0.0))}
        for n_neighbors in (3, 5):
            graph = SpectralClustering(
                affinity="precomputed_nearest_neighbors", n_neighbors=n_neighbors, **common
            )
            found[f"sparse {n_neighbors}"] = graph.fit_predict(squares)
    return found


def rand_index(setting: Setting, labels: NDArray[np.int64]) -> float:
    """The adjusted Rand index of a clustering to the true groups."""
    from sklearn.metrics import adjusted_rand_score

    return round(float(adjusted_rand_score(partitions(setting)[0].groups, labels)), 4)
