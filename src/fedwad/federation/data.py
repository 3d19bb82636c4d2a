"""The data that a client holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.federation.requests import Classes
from fedwad.ot import Measure, class_codes, labelled

__all__ = ["Dataset", "aligned"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with their weights, labels where there are any, and names of the features where they have some."""

    measure: Measure
    labels: NDArray[Any] | None = None
    features: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and self.labels.shape != (len(self.measure),):
            raise InputError(
                f"{len(self.measure)} samples came with labels of shape {self.labels.shape}; give one label per sample."
            )

    def __repr__(self) -> str:  # no samples: what is printed may end up anywhere
        return f"Dataset({len(self.measure)} samples, {self.measure.dimension} features)"

    def canonical(self) -> Dataset:
        """The same data in an order that depends on the rows alone, so that no answer depends on theirs."""
        points = self.measure.points + 0.0  # -0.0 and 0.0 are the same number
        codes = None if self.labels is None else class_codes(self.labels)
        keys = points if codes is None else np.column_stack([points, codes.astype(np.float64)])
        order = np.argsort(_sortable(keys), kind="stable")
        sorted_codes = None if codes is None else codes[order]
        return Dataset(Measure(points[order], self.measure.weights[order]), sorted_codes, self.features)

    def view(self, classes: Classes) -> Measure:
        """The samples, or the samples with the statistics of their class appended."""
        if classes == "ignored":
            return self.measure
        return labelled(self.measure, self.known_labels(), classes)

    def known_labels(self) -> NDArray[Any]:
        if self.labels is None:
            raise InputError("The data have no labels; a dataset distance needs them, as (X, y) or a label column.")
        return self.labels

    def by_name(self) -> Dataset:
        """The same data with named features in alphabetical order, the order that parties can agree on unseen."""
        return self if self.features is None else self.ordered(tuple(sorted(self.features)))

    def ordered(self, features: tuple[str, ...]) -> Dataset:
        """The same data with their named features in this order."""
        order = [(self.features or ()).index(name) for name in features]
        return Dataset(Measure(self.measure.points[:, order], self.measure.weights), self.labels, features)


def _sortable(points: NDArray[np.float64]) -> NDArray[np.void]:
    """A key for each row that sorts as bytes the way the rows sort as numbers, first column first."""
    bits = points.view(np.int64)
    ordered = (bits ^ ((bits >> 63) | np.int64(-(2**63)))).astype(">i8")
    return ordered.view(f"V{8 * points.shape[1]}")[:, 0]


def aligned(datasets: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Put named features into one order; refuse data sets whose features have different names."""
    result = dict(datasets)
    named = [(name, data, data.features) for name, data in datasets.items() if data.features is not None]
    for name, data, features in named[1:]:
        first, _, wanted = named[0]
        odd = sorted(set(wanted).symmetric_difference(features))
        if not odd:
            result[name] = data.ordered(wanted)
        else:
            raise InputError(
                f"{first} and {name} differ in the names of features ({', '.join(odd[:4])}); make them agree."
            )
    return result
