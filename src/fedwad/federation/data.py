"""The data that a client holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.federation.message import Classes
from fedwad.ot import Floats, Measure, as_labels, class_codes, labelled

__all__ = ["Dataset", "align_columns"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with their weights, labels where there are any, and names of the features where they
    have some."""

    measure: Measure
    labels: NDArray[Any] | None = None
    features: tuple[str, ...] | None = None
    wrong_labels: str = ""  # what is wrong with the labels that are left out
    names: tuple[
        Any, ...
    ] = ()  # the label that each class number stands for, once `canonical` has numbered them

    def __post_init__(self) -> None:
        if self.labels is not None and self.labels.shape != (len(self.measure),):
            raise InputError(
                f"{len(self.measure)} samples came with labels of shape {self.labels.shape}; give one label per sample."
            )

    def __repr__(self) -> str:  # no samples: what is printed may end up anywhere
        return f"Dataset({len(self.measure)} samples, {self.measure.dimension} features)"

    def canonical(self) -> Dataset:
        """The same data in an order that depends on the rows alone, so that no answer depends on
        theirs.

        Classes are numbered by the samples they hold, so none depends on the names of labels
        either; `names` keeps those, for answers that may tell them.
        """
        points, weights = (
            self.measure.points + 0.0,
            self.measure.weights,
        )  # -0.0 and 0.0 are the same number
        order = np.argsort(_sortable(np.column_stack([points, weights])), kind="stable")
        points, weights = points[order], weights[order]
        try:
            codes = None if self.labels is None else class_codes(self.labels)[order]
        except InputError as error:  # told to whoever asks for classes, and to nobody else
            return Dataset(Measure(points, weights), None, self.features, str(error))
        names: tuple[Any, ...] = ()
        if codes is not None:
            codes = _by_content(codes, points, weights)
            names = tuple(
                as_labels(self.labels)[order][np.unique(codes, return_index=True)[1]].tolist()
            )
            names = tuple(self.names[name] for name in names) if self.names else names
            order = np.argsort(_sortable(np.column_stack([points, codes, weights])), kind="stable")
            points, weights, codes = points[order], weights[order], codes[order]
        return Dataset(Measure(points, weights), codes, self.features, names=names)

    def view(self, classes: Classes) -> Measure:
        """The samples, or the samples with the statistics of their class appended."""
        if classes == "ignored":
            return self.measure
        return labelled(self.measure, self.known_labels(), classes)

    def known_labels(self) -> NDArray[Any]:
        if self.labels is None:
            raise InputError(
                self.wrong_labels
                or "The data have no labels; a dataset distance needs them, as (X, y) or a label column."
            )
        return class_codes(self.labels)

    def by_name(self) -> Dataset:
        """The same data with named features in alphabetical order, the order that parties can agree
        on unseen."""
        return self if self.features is None else self.ordered(tuple(sorted(self.features)))

    def ordered(self, features: tuple[str, ...]) -> Dataset:
        """The same data with their named features in this order."""
        order = [(self.features or ()).index(name) for name in features]
        return replace(
            self,
            measure=Measure(self.measure.points[:, order], self.measure.weights),
            features=features,
        )


def _by_content(codes: NDArray[np.int64], points: Floats, weights: Floats) -> NDArray[np.int64]:
    """Classes numbered in the order of a digest of their samples, which come sorted."""
    keys = []
    for code in range(int(codes.max()) + 1):
        chosen = codes == code
        keys.append(hashlib.sha256(points[chosen].tobytes() + weights[chosen].tobytes()).digest())
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks[codes]


def _sortable(points: NDArray[np.float64]) -> NDArray[np.void]:
    """A key for each row that sorts as bytes the way the rows sort as numbers, first column
    first."""
    bits = points.view(np.int64)
    ordered = (bits ^ ((bits >> 63) | np.int64(-(2**63)))).astype(">i8")
    return ordered.view(f"V{8 * points.shape[1]}")[:, 0]


def align_columns(datasets: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Put named features into one order; refuse data sets whose features have different names."""
    result = dict(datasets)
    named = [
        (name, data, data.features) for name, data in datasets.items() if data.features is not None
    ]
    for name, data, features in named[1:]:
        first, _, wanted = named[0]
        odd = sorted(set(wanted).symmetric_difference(features))
        if not odd:
            result[name] = data.ordered(wanted)
        else:
            where = ", ".join(
                f"{feature} only at {first if feature in wanted else name}" for feature in odd[:4]
            )
            raise InputError(
                f"{first} and {name} differ in the names of features ({where}); make them agree."
            )
    return result
