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
    """One setting and its accuracy.

    Attributes
    ----------
    clients : int
        Number of sites.
    size, atoms_per, masses, n_neighbors, seed
        The options of the `CoresetClassifier`.
    accuracy : float
        Accuracy of the shared classifier on each site's own test samples, averaged over sites.
    own_classes_accuracy : float
        The same when predictions are restricted to the classes of the site's training samples.
    atoms, bytes_up, seconds
        Atoms of the classifier, bytes that sites sent for it, and the time to fit it.
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
    """Fit the classifier to all sites' training data in every setting, and yield its accuracy on
    their test data.

    Each site tests on its own data, and the mean is taken, as for personalised models. So the rows
    can be compared with FedRep and FedPer.

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

    missing = sorted(set(train) ^ set(test))
    if missing:
        raise InputError(
            f"Client '{missing[0]}' has no training or no test data; give both for each."
        )
    federation = local(train)
    for size, one_per, one_masses in product(sizes, atoms_per, masses):
        model = CoresetClassifier(size=size, atoms_per=one_per, masses=one_masses, seed=seed)
        start = time.perf_counter()
        model.fit(federation)
        seconds = time.perf_counter() - start
        for neighbors in n_neighbors:
            model.set_params(n_neighbors=neighbors)
            shared, own = _scores(model, train, test)
            yield ClassifierAccuracy(
                len(train),
                size,
                one_per,
                one_masses,
                neighbors,
                seed,
                shared,
                own,
                len(model.points_),
                model.traffic_.up,
                seconds,
            )


def _scores(
    model: CoresetClassifier, train: Mapping[str, Any], test: Mapping[str, Any]
) -> tuple[float, float]:
    shared, own = [], []
    for name, (X, y) in test.items():
        labels = np.asarray(y)
        shared.append(np.mean(model.predict(X) == labels))
        classes = np.unique(np.asarray(train[name][1])).tolist()
        own.append(np.mean(model.predict(X, classes=classes) == labels))
    return float(np.mean(shared)), float(np.mean(own))
