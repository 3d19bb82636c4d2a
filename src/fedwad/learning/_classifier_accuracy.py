"""The accuracy of the coreset classifier on the sites' own test data, for many settings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad.errors import InputError
from fedwad.federation import local

if TYPE_CHECKING:
    from fedwad.learning._coreset_classifier import CoresetClassifier

__all__ = ["ClassifierAccuracy", "classifier_accuracy"]


@dataclass(frozen=True)
class ClassifierAccuracy:
    """The accuracy of the classifier with one choice of its options.

    Attributes
    ----------
    clients : int
        Number of sites.
    size, atoms_per, masses, n_neighbors, seed
        The options of the `CoresetClassifier`.
    accuracy : float
        Accuracy of the shared classifier on each site's own test samples, averaged over sites.
    own_classes_accuracy : float
        The same if each site's predictions are restricted to the classes of its training samples.
    atoms, bytes_up, seconds
        Number of atoms of the classifier, bytes that all sites sent, and seconds that `fit` took.
    """

    clients: int
    size: int
    atoms_per: str
    masses: str
    n_neighbors: int
    seed: int
    accuracy: float
    own_classes_accuracy: float
    atoms: int
    bytes_up: int
    seconds: float


def classifier_accuracy(
    train: Mapping[str, tuple[Any, Any]],
    test: Mapping[str, tuple[Any, Any]],
    sizes: Sequence[int] = (10, 100),
    atoms_per: Sequence[str] = ("class",),
    n_neighbors: Sequence[int] = (1,),
    masses: Sequence[str] = ("equal",),
    seed: int = 0,
) -> Iterator[ClassifierAccuracy]:
    """Fit the classifier with every combination of options, and yield the accuracy of each.

    One classifier is fitted to the training data of all sites. Each site tests it on its own test
    data, and the accuracies are averaged over sites. Personalised models such as FedRep and FedPer
    are tested in the same way, so their accuracies can be compared with these.

    Examples
    --------
    >>> from fedwad.datasets import load, partition
    >>> X, y = load("digits")
    >>> train, test = (partition.class_pairs(*part, clients=10, samples=None, seed=0)
    ...                for part in ((X[:1200], y[:1200]), (X[1200:], y[1200:])))
    >>> [row.accuracy > 0.8 for row in classifier_accuracy(train, test, sizes=(5, 20))]
    [True, True]
    """
    from fedwad.learning._coreset_classifier import CoresetClassifier

    incomplete = sorted(set(train) ^ set(test))
    if incomplete:
        raise InputError(
            f"Site '{incomplete[0]}' has no training or no test data; give both for each."
        )
    federation = local(train)
    for size, unit, mass in product(sizes, atoms_per, masses):
        model = CoresetClassifier(size=size, atoms_per=unit, masses=mass, seed=seed)
        start = time.perf_counter()
        model.fit(federation)
        seconds = time.perf_counter() - start
        for neighbors in n_neighbors:
            model.set_params(n_neighbors=neighbors)
            accuracy, own_classes_accuracy = _mean_accuracies(model, train, test)
            yield ClassifierAccuracy(
                clients=len(train),
                size=size,
                atoms_per=unit,
                masses=mass,
                n_neighbors=neighbors,
                seed=seed,
                accuracy=accuracy,
                own_classes_accuracy=own_classes_accuracy,
                atoms=len(model.points_),
                bytes_up=model.traffic_.up,
                seconds=seconds,
            )


def _mean_accuracies(
    model: CoresetClassifier, train: Mapping[str, Any], test: Mapping[str, Any]
) -> tuple[float, float]:
    """Mean accuracy over sites, and the same with predictions restricted to a site's classes."""
    all_classes, own_classes = [], []
    for site, (X, y) in test.items():
        labels = np.asarray(y)
        all_classes.append(np.mean(model.predict(X) == labels))
        classes = np.unique(np.asarray(train[site][1])).tolist()
        own_classes.append(np.mean(model.predict(X, classes=classes) == labels))
    return float(np.mean(all_classes)), float(np.mean(own_classes))
