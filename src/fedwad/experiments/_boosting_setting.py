"""Who holds what in the experiment `boosting`, how far clients are apart, and in which clusters that puts them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import fedwad
from fedwad.clusters import cluster
from fedwad.datasets import Partition, load, partition, random_code
from fedwad.ot import Floats

__all__ = ["CLUSTERS", "Setting", "clusterings", "distances", "divided", "pixels", "told"]

Data = Literal["mnist", "cifar10"]

#: Clusters that are asked for, as in the authors' code.
CLUSTERS = 5
#: Most samples of a client that distances are computed from, equally many for all; training uses all samples.
_FOR_DISTANCES = 500
_ROUNDS = 10
_AFFINITY = 5000.0  # the authors' unit of squared distances on MNIST


@dataclass(frozen=True)
class Setting:
    """A data set, dealt out to so many clients, in groups of class pairs or not."""

    data: Data
    clients: int
    structure: bool
    seed: int

    @property
    def key(self) -> str:
        return f"{self.data}-{self.clients}-{'groups' if self.structure else 'none'}-{self.seed}"


@cache
def pixels(data: Data, split: Literal["train", "test"]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Normalised pixels and labels."""
    return load(data, split)


@cache
def _codes(data: Data) -> NDArray[Any]:
    """What distances are computed from: pixels, for CIFAR-10 the code of an untrained autoencoder."""
    X, _ = pixels(data, "train")
    return random_code(X) if data == "cifar10" else X


def divided(setting: Setting) -> tuple[Partition, Partition]:
    """All training samples and all test samples, each dealt out to the clients."""
    X, y = pixels(setting.data, "train")
    deal = partition.class_pairs if setting.structure else partition.random_pairs
    train = deal(X, y, setting.clients, None, setting.seed, balanced=not setting.structure)
    return train, train.alike(*pixels(setting.data, "test"), seed=setting.seed)


def told(setting: Setting) -> dict[str, tuple[Floats, NDArray[np.int64]]]:
    """What each client computes distances from."""
    train, _ = divided(setting)
    codes, labels = _codes(setting.data), pixels(setting.data, "train")[1]
    count = min(_FOR_DISTANCES, int(train.sizes.min()))
    rows = {name: index[:count] for name, index in train.indices.items()}
    return {name: (codes[index].astype(np.float64), labels[index]) for name, index in rows.items()}


def distances(setting: Setting, method: Literal["paper 10", "paper 100", "summary"]) -> Floats:
    """Dataset distances between all clients: the paper's FedWaD with a support of 10 or 100, or our one message."""
    if method == "summary":
        return fedwad.matrix(told(setting), labels=True, seed=setting.seed).value
    support = int(method.split()[1])
    result = fedwad.matrix(
        told(setting), method="pairs", support=support, rounds=_ROUNDS, labels=True, seed=setting.seed
    )
    return np.asarray(result.fedwad)


def clusterings(setting: Setting, found: Mapping[str, Floats]) -> dict[str, NDArray[np.int64]]:
    """A label for each client, by the name of each way.

    "vanilla" is one cluster. The paper's distances are clustered as in the authors' code, by scikit-learn: with the
    affinity (c - D^2) / c, c = 5000 on MNIST (on CIFAR-10 the scale of the code is ours, so c = max D^2), and with
    graphs of the 3 and 5 nearest neighbours. "ours" is the summary's distances with the affinity "kernel".
    """
    ways = {"vanilla": np.zeros(setting.clients, dtype=np.int64)}
    if setting.structure:
        ways["true groups"] = divided(setting)[0].groups
    for method, table in found.items():
        if method == "summary":
            ways["ours"] = cluster(table, CLUSTERS, "kernel", seed=setting.seed)
        else:
            ways |= {f"{method} {way}": labels for way, labels in authors_ways(setting, table).items()}
    return ways


def authors_ways(setting: Setting, table: Floats) -> dict[str, NDArray[np.int64]]:
    """The paper's three clusterings of a matrix of distances."""
    from sklearn.cluster import SpectralClustering

    squares = table**2
    unit = _AFFINITY if setting.data == "mnist" else float(squares.max())
    common = {"n_clusters": CLUSTERS, "assign_labels": "kmeans", "n_init": 10, "random_state": setting.seed}
    ways = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # graphs in several parts: scikit-learn goes on all the same
        by_affinity = SpectralClustering(affinity="precomputed", **common)
        ways["affinity"] = by_affinity.fit_predict(np.maximum((unit - squares) / unit, 0.0))
        for neighbors in (3, 5):
            graph = SpectralClustering(affinity="precomputed_nearest_neighbors", n_neighbors=neighbors, **common)
            ways[f"sparse {neighbors}"] = graph.fit_predict(squares)
    return ways
