"""The coreset classifier in the paper's setting: autoencoded images, two classes a client."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedwad.datasets import partition
from paper import autoencoder
from paper.classifier import ClassifierAccuracy, classifier_accuracy
from paper.data import load

CLIENTS, SIZES, SEEDS = (10, 20, 50, 100), (10, 20, 50, 100), (0, 1, 2)
FEW = 12_000  # samples of the short tables


@cache
def codes(
    name: str, samples: int | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Codes and labels of the training samples that the autoencoder did not see, and of the test
    samples; of so many training samples, or all."""
    X, y = (part[:samples] for part in load(name, "train"))
    halves = np.array_split(np.random.default_rng(seed).permutation(len(X)), 2)
    encoder = autoencoder.fit(X[halves[0]], seed=seed)
    test = load(name, "test")
    return encoder.encode(X[halves[1]]), y[halves[1]], encoder.encode(test[0]), test[1]


def settings(
    name: str, clients: int, seed: int, samples: int | None, **options: Any
) -> Iterator[ClassifierAccuracy]:
    """Accuracies for clients of two random classes each; all samples of train and test are dealt
    out to them."""
    Z, y, Z_test, y_test = codes(name, samples)
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

    def over_seeds(values: np.ndarray) -> str:
        deviation = f" +- {values.std(ddof=1):.1f}" if len(values) > 1 else ""
        return f"{values.mean():.1f}{deviation}"

    return {
        "data": name,
        "clients": one.clients,
        "atoms a client": one.size,
        "atoms per": one.atoms_per,
        "masses": one.masses,
        "neighbours": one.n_neighbors,
        "accuracy": over_seeds(shared),
        "own classes": over_seeds(own),
        "kB up each": one.bytes_up / one.clients / 1000,
        "fit s": float(np.mean([each.seconds for each in found])),
    }


def table(
    name: str, clients: tuple[int, ...], full: bool, **options: Any
) -> Iterator[dict[str, Any]]:
    """One row a setting, over three seeds of the partition; or over one, of fewer samples."""
    if find_spec("torch") is None:
        yield {"data": name, "accuracy": "skipped: it needs torch, pip install 'fedwad[learn]'"}
        return
    for count in clients:
        seeds, samples = (SEEDS, None) if full else (SEEDS[:1], FEW)
        runs = [settings(name, count, seed, samples, **options) for seed in seeds]
        for same in zip(*runs, strict=True):
            yield row(name, list(same))


def measure(full: bool = False) -> Iterator[dict[str, Any]]:
    """MNIST and FashionMNIST: atoms class by class against atoms of the client labelled by their
    nearest sample."""
    both = ("class", "site")
    if full:
        yield from table("mnist", CLIENTS, full, sizes=SIZES, atoms_per=both)
        yield from table("fashion_mnist", CLIENTS, full, sizes=(10, 100), atoms_per=both)
    else:
        yield from table("mnist", (20,), full, sizes=(10, 50), atoms_per=both)
