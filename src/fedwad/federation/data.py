"""The data that a client holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.federation.needs import ClassStatistics
from fedwad.ot import Floats, Measure, as_labels, class_codes, labelled, row_order
from fedwad.tables import Schema, label_text

__all__ = ["Dataset", "align_columns"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with their weights, their labels if there are any, and the names of their features if
    they have some.

    `wrong_labels` says why labels were left out. `names` holds the label that each class number
    stands for, once `canonical` has numbered the classes. `schema` is the one that encoded a table;
    `features` are then its encoded columns, and `keys` digests of the rows of the table.
    """

    measure: Measure
    labels: NDArray[Any] | None = None
    features: tuple[str, ...] | None = None
    wrong_labels: str = ""
    names: tuple[Any, ...] = ()
    schema: Schema | None = None
    keys: NDArray[np.void] | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and self.labels.shape != (len(self.measure),):
            raise InputError(
                f"{len(self.measure)} samples came with labels of shape {self.labels.shape}; give"
                " one label per sample."
            )

    def __repr__(self) -> str:  # no samples, because it may be printed anywhere
        return f"Dataset({len(self.measure)} samples, {self.measure.dimension} features)"

    def canonical(self) -> Dataset:
        """The same data with their rows sorted, so that no reply depends on the order of rows.

        Classes are numbered by a digest of their samples, so no reply depends on the names of
        labels either. `names` keeps those.
        """
        order = row_order(self.measure.points, self.measure.weights)
        measure = self.measure.ordered(order)
        keys = None if self.keys is None else self.keys[order]
        try:
            codes = None if self.labels is None else class_codes(self.labels)[order]
        except InputError as error:  # raised only if classes are asked for
            return replace(self, measure=measure, labels=None, wrong_labels=str(error), keys=keys)
        names: tuple[Any, ...] = ()
        if codes is not None:
            codes = _by_content(codes, measure.points, measure.weights)
            names = tuple(
                as_labels(self.labels)[order][np.unique(codes, return_index=True)[1]].tolist()
            )
            names = tuple(self.names[name] for name in names) if self.names else names
            order = row_order(measure.points, codes, measure.weights)
            measure, codes = measure.ordered(order), codes[order]
            keys = None if keys is None else keys[order]
        return replace(self, measure=measure, labels=codes, names=names, keys=keys)

    def classed(self, names: tuple[Any, ...]) -> Dataset:
        """The same data with labels by public names; all other labels are of one class, None.

        Each label is read by itself. Without names there are no labels. InputError if there are
        names and no labels.
        """
        if not names:
            return replace(self, labels=None, names=(), wrong_labels="")
        if self.labels is None:
            raise InputError(
                "The policy has label_names and the data have no labels; name their column, or give"
                " (X, y)."
            )
        code_of = {label_text(name): code for code, name in enumerate(names)}
        codes = [code_of.get(label_text(value), len(names)) for value in self.labels.tolist()]
        return replace(self, labels=np.array(codes, dtype=np.int64), names=(*names, None))

    def view(self, class_statistics: ClassStatistics) -> Measure:
        """The samples, or the samples with the statistics of their class appended."""
        if class_statistics == "ignored":
            return self.measure
        return labelled(self.measure, self.require_class_codes(), class_statistics)

    def require_class_codes(self) -> NDArray[Any]:
        """The class number of each sample; InputError if there are no labels."""
        if self.labels is None:
            raise InputError(
                self.wrong_labels
                or "The data have no labels; a dataset distance needs them, as (X, y) or a label"
                " column."
            )
        return class_codes(self.labels)

    def by_name(self) -> Dataset:
        """The same data with named features in alphabetical order.

        Sites can agree on this order without seeing each other's data.
        """
        if self.features is None or self.schema is not None:  # a schema has an order of its own
            return self
        return self.ordered(tuple(sorted(self.features)))

    def ordered(self, features: tuple[str, ...]) -> Dataset:
        """The same data with their named features in this order."""
        order = [(self.features or ()).index(name) for name in features]
        return replace(
            self,
            measure=Measure(self.measure.points[:, order], self.measure.weights),
            features=features,
        )

    def digest(self) -> str:
        """SHA-256 of the samples, their weights and their labels. The ledger names the data by
        it."""
        sha = hashlib.sha256(str(self.measure.points.shape).encode())
        sha.update(self.measure.points.data)
        sha.update(self.measure.weights.data)
        if self.labels is not None:
            sha.update(np.ascontiguousarray(self.labels).data)
        return sha.hexdigest()


def _by_content(codes: NDArray[np.int64], points: Floats, weights: Floats) -> NDArray[np.int64]:
    """Classes numbered in the order of a digest of their samples, which are sorted."""
    keys = []
    for code in range(int(codes.max()) + 1):
        own = codes == code
        keys.append(hashlib.sha256(points[own].tobytes() + weights[own].tobytes()).digest())
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks[codes]


def align_columns(datasets: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """The same datasets with named features in alphabetical order, as nodes have them.

    InputError if the names of features differ between sites.
    """
    named = [(site, data.features) for site, data in datasets.items() if data.features is not None]
    for site, features in named[1:]:
        first, expected = named[0]
        odd = sorted(set(expected).symmetric_difference(features))
        if odd:
            where = ", ".join(
                f"{feature} only at {first if feature in expected else site}" for feature in odd[:4]
            )
            raise InputError(
                f"{first} and {site} differ in the names of features ({where}); make them agree."
            )
    return {site: data.by_name() for site, data in datasets.items()}
