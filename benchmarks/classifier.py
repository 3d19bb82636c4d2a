"""The coreset classifier in the paper's setting: autoencoded images, two classes a client."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedwad.datasets import load, partition
from fedwad.learning import ClassifierAccuracy, classifier_accuracy
from fedwad.learning.local import autoencoder

CLIENTS, SIZES, SEEDS = (10, 20, 50, 100), (10, 20, 50, 100), (0, 1, 2)


@cache
def codes(name: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Codes and labels of the training samples that the autoencoder did not see, and of the test
    samples."""
    X, y = load(name, "train")
    halves = np.array_split(np.random.default_rng(seed).permutation(len(X)), 2)
    encoder = autoencoder.fit(X[halves[0]], seed=seed)
    test = load(name, "test")
    return encoder.encode(X[halves[1]]), y[halves[1]], encoder.encode(test[0]), test[1]


def settings(name: str, clients: int, seed: int, **options: Any) -> Iterator[ClassifierAccuracy]:
    """Accuracies for clients of two random classes each; all samples of train and test are dealt
    out to them."""
    Z, y, Z_test, y_test = codes(name)
    deal = {"classes": 2, "clients": clients, "samples": None, "seed": seed, "balanced": True}
    train = partition.classes_per_client(Z, y, **deal)
    test = partition.classes_per_client(
        Z_test, y_test, **deal
    )  # the same seed draws the same classes
    assert all(set(train[k][1]) == set(test[k][1]) for k in train)
    return classifier_accuracy(train, test, seed=seed, **options)


def row(name: str, found: list[ClassifierAccuracy]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, in percent."""
    one = found[0]
    shared, own = (
        100 * np.array([getattr(each, which) for each in found])
        for which in ("accuracy", "own_classes_accuracy")
    )
    return {
        "data": name,
        "clients": one.clients,
        "atoms a client": one.size,
        "atoms per": one.atoms_per,
        "masses": one.masses,
        "neighbours": one.n_neighbors,
        "accuracy": f"{shared.mean():.1f} +- {shared.std(ddof=1):.1f}",
        "own classes": f"{own.mean():.1f} +- {own.std(ddof=1):.1f}",
        "kB up each": one.bytes_up / one.clients / 1000,
        "fit s": float(np.mean([each.seconds for each in found])),
    }


def table(name: str, clients: tuple[int, ...] = CLIENTS, **options: Any) -> list[dict[str, Any]]:
    if find_spec("torch") is None:
        return [{"data": name, "accuracy": "skipped: it needs torch, pip install 'fedwad[learn]'"}]
    rows = []
    for count in clients:
        runs = [list(settings(name, count, seed, **options)) for seed in SEEDS]
        rows += [row(name, list(same)) for same in zip(*runs, strict=True)]
    return rows


def measure() -> list[dict[str, Any]]:
    """MNIST and FashionMNIST: atoms class by class against atoms of the client labelled by their
    nearest sample."""
    both = ("class", "site")
    return [
        *table("mnist", sizes=SIZES, atoms_per=both),
        *table("fashion_mnist", sizes=(10, 100), atoms_per=both),
    ]


def choices() -> list[dict[str, Any]]:
    """MNIST: what equal or free masses and more neighbours change."""
    options = {
        "sizes": (10, 100),
        "atoms_per": ("class", "site"),
        "n_neighbors": (1, 3, 5),
        "masses": ("equal", "free"),
    }
    return table("mnist", (10, 100), **options)
