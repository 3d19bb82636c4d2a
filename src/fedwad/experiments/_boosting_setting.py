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
from fedwad.datasets._partition import Labelled
from fedwad.ot import Floats

__all__ = [
    "CLUSTERS",
    "Distances",
    "Setting",
    "Structure",
    "agreement",
    "clusterings",
    "distances",
    "divided",
    "pixels",
]

Data = Literal["mnist", "cifar10"]
#: "groups": the class pairs (0, 1), (2, 3) ... (8, 9). "none": two random classes a client, each
#: class held by equally many clients. "drawn": as in the authors' code, in which a client may draw
#: one class twice.
Structure = Literal["groups", "none", "drawn"]
Distances = Literal["paper 10", "paper 100", "summary"]

#: Clusters that are asked for, as in the authors' code.
CLUSTERS = 5
#: Most samples of a client that distances are computed from, equally many for all; training uses
#: all samples.
_FOR_DISTANCES = 500
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
def divided(setting: Setting) -> tuple[Partition, Partition]:
    """The training samples and all test samples, each divided among the clients."""
    X, y = pixels(setting.data, "train")
    if setting.structure == "drawn":
        train = _drawn(X, y, setting.clients, setting.seed)
    else:
        deal = partition.class_pairs if setting.structure == "groups" else partition.random_pairs
        balanced = setting.structure == "none"
        train = deal(X, y, setting.clients, setting.samples, setting.seed, balanced=balanced)
    return train, train.apply(*pixels(setting.data, "test"), seed=setting.seed)


def _drawn(X: NDArray[Any], y: NDArray[Any], clients: int, seed: int) -> Partition:
    """Each class is divided into equally many portions, and each client draws two of all
    portions."""
    data, rng = Labelled(X, y), np.random.default_rng(seed)
    drawn = rng.permutation(np.repeat(np.arange(_CLASSES), 2 * clients // _CLASSES)).reshape(
        clients, 2
    )
    portions = np.array([np.bincount(pair, minlength=_CLASSES) for pair in drawn])
    ends = np.rint(np.cumsum(portions, axis=0) / portions.sum(axis=0) * data.supply).astype(
        np.int64
    )
    _, groups = np.unique(portions, axis=0, return_inverse=True)
    return data.assign(np.diff(ends, axis=0, prepend=0), groups.reshape(-1), rng)


def distance_data(setting: Setting) -> dict[str, tuple[Floats, NDArray[np.int64]]]:
    """The data of each client that distances are computed from."""
    train, _ = divided(setting)
    codes, labels = _codes(setting.data), pixels(setting.data, "train")[1]
    count = min(_FOR_DISTANCES, int(train.sizes.min()))
    rows = {name: index[:count] for name, index in train.indices.items()}
    return {name: (codes[index].astype(np.float64), labels[index]) for name, index in rows.items()}


def distances(setting: Setting, method: Distances, at_once: bool = False) -> Floats:
    """Dataset distances between all clients: the paper's FedWaD with a support of 10 or 100, or our
    one message.

    `at_once` computes the paper's for all pairs at once with an entropic solver, on a GPU.
    """
    if method == "summary":
        return fedwad.matrix(distance_data(setting), labels=True, seed=setting.seed).value
    support = int(method.split()[1])
    if at_once:
        from fedwad.experiments._boosting_pairs import all_pairs

        return all_pairs(distance_data(setting), support, _ROUNDS, setting.seed)
    result = fedwad.matrix(
        distance_data(setting),
        method="pairs",
        support=support,
        rounds=_ROUNDS,
        labels=True,
        seed=setting.seed,
    )
    return np.asarray(result.fedwad)


def clusterings(setting: Setting, method: Distances, table: Floats) -> dict[str, NDArray[np.int64]]:
    """A label for each client, by the name of each clustering method.

    Distances are clustered as in the authors' code, by scikit-learn: with the affinity (c - D^2) /
    c, c = 5000 on MNIST (on CIFAR-10 the scale of the code is ours, so c = max D^2), and with
    graphs of the 3 and 5 nearest neighbours; and with our affinity "kernel". With the summary's
    distances that is "ours".
    """
    kernel = cluster(table, CLUSTERS, "kernel", seed=setting.seed)
    if method == "summary":
        return {"ours": kernel} | {
            f"ours {way}": labels for way, labels in _authors_clusterings(setting, table).items()
        }
    ways = _authors_clusterings(setting, table) | {"kernel": kernel}
    return {f"{method} {way}": labels for way, labels in ways.items()}


def _authors_clusterings(setting: Setting, table: Floats) -> dict[str, NDArray[np.int64]]:
    """The paper's three clusterings of a matrix of distances."""
    from sklearn.cluster import SpectralClustering

    squares = table**2
    unit = _AFFINITY if setting.data == "mnist" else float(squares.max())
    if (
        setting.structure == "drawn"
    ):  # their code puts a client of one class far from all clients before it
        single = (divided(setting)[0].counts > 0).sum(axis=1) == 1
        far = np.triu(np.broadcast_to(single, squares.shape), 1)
        squares = np.where(far | far.T, unit, squares)
    common = {
        "n_clusters": CLUSTERS,
        "assign_labels": "kmeans",
        "n_init": 10,
        "random_state": setting.seed,
    }
    ways = {}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # graphs in several parts: scikit-learn goes on all the same
        by_affinity = SpectralClustering(affinity="precomputed", **common)
        ways["affinity"] = by_affinity.fit_predict(np.maximum((unit - squares) / unit, 0.0))
        for n_neighbors in (3, 5):
            graph = SpectralClustering(
                affinity="precomputed_nearest_neighbors", n_neighbors=n_neighbors, **common
            )
            ways[f"sparse {n_neighbors}"] = graph.fit_predict(squares)
    return ways


def agreement(setting: Setting, labels: NDArray[np.int64]) -> float:
    """The adjusted Rand index of a clustering to the true groups."""
    from sklearn.metrics import adjusted_rand_score

    return round(float(adjusted_rand_score(divided(setting)[0].groups, labels)), 4)
