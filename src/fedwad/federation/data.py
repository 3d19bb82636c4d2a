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
    """Samples with their weights, their labels and the names of their features, if they have any.

    Attributes
    ----------
    measure : the samples and their weights
    labels : the label of each sample; after `canonical`, the number of its class
    features : names of the features; for an encoded table, of the encoded columns
    label_error : why labels were left out; empty if they were not
    names : the label that each class number stands for, once classes are numbered
    schema : the schema that encoded a table
    row_digests : a digest of each row of an encoded table
    """

    measure: Measure
    labels: NDArray[Any] | None = None
    features: tuple[str, ...] | None = None
    label_error: str = ""
    names: tuple[Any, ...] = ()
    schema: Schema | None = None
    row_digests: NDArray[np.void] | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and self.labels.shape != (len(self.measure),):
            raise InputError(
                f"{len(self.measure)} samples came with labels of shape {self.labels.shape}; give"
                " one label per sample."
            )

    def __repr__(self) -> str:  # no samples, because it may be printed anywhere
        return f"Dataset({len(self.measure)} samples, {self.measure.dimension} features)"

    def canonical(self) -> Dataset:
        """The same data with sorted rows and numbered classes.

        So no reply depends on the order of rows. The numbers of classes follow from digests of
        their samples, so no reply depends on the names of labels either; `names` has these.
        """
        order = row_order(self.measure.points, self.measure.weights)
        measure = self.measure.ordered(order)
        digests = None if self.row_digests is None else self.row_digests[order]
        try:
            codes = None if self.labels is None else class_codes(self.labels)[order]
        except InputError as error:  # raised later, if a request needs the classes
            return replace(
                self, measure=measure, labels=None, label_error=str(error), row_digests=digests
            )
        names: tuple[Any, ...] = ()
        if codes is not None:
            codes = _renumber_by_content(codes, measure.points, measure.weights)
            names = tuple(
                as_labels(self.labels)[order][np.unique(codes, return_index=True)[1]].tolist()
            )
            names = tuple(self.names[name] for name in names) if self.names else names
            order = row_order(measure.points, codes, measure.weights)
            measure, codes = measure.ordered(order), codes[order]
            digests = None if digests is None else digests[order]
        return replace(self, measure=measure, labels=codes, names=names, row_digests=digests)

    def with_public_classes(self, names: tuple[Any, ...]) -> Dataset:
        """The same data with a class for each of these public names, and one for all other labels.

        The class of a sample depends on its own label alone. The name of the last class is None.
        Without names the labels are removed. InputError if there are names and no labels.
        """
        if not names:
            return replace(self, labels=None, names=(), label_error="")
        if self.labels is None:
            raise InputError(
                "The policy has label_names and the data have no labels; name their column, or give"
                " (X, y)."
            )
        code_of = {label_text(name): code for code, name in enumerate(names)}
        values = self.labels.tolist()
        if self.names:  # the labels are numbers of classes
            values = [self.names[code] for code in values]
        codes = [code_of.get(label_text(value), len(names)) for value in values]
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
                self.label_error
                or "The data have no labels; a dataset distance needs them, as (X, y) or a label"
                " column."
            )
        return class_codes(self.labels)

    def sort_features(self) -> Dataset:
        """The same data with named features in alphabetical order.

        All sites have this order without a message. Encoded tables have the order of their schema.
        """
        if self.features is None or self.schema is not None:  # a schema has an order of its own
            return self
        features = tuple(sorted(self.features))
        order = [self.features.index(name) for name in features]
        measure = Measure(self.measure.points[:, order], self.measure.weights)
        return replace(self, measure=measure, features=features)

    def digest(self) -> str:
        """SHA-256 of the samples, their weights and their labels."""
        sha = hashlib.sha256(str(self.measure.points.shape).encode())
        sha.update(self.measure.points.data)
        sha.update(self.measure.weights.data)
        if self.labels is not None:
            sha.update(np.ascontiguousarray(self.labels).data)
        return sha.hexdigest()


def _renumber_by_content(
    codes: NDArray[np.int64], points: Floats, weights: Floats
) -> NDArray[np.int64]:
    """The codes of classes numbered by the digests of their samples; the samples must be sorted."""
    digests = []
    for code in range(int(codes.max()) + 1):
        own = codes == code
        digests.append(hashlib.sha256(points[own].tobytes() + weights[own].tobytes()).digest())
    ranks = np.empty(len(digests), dtype=np.int64)
    ranks[sorted(range(len(digests)), key=digests.__getitem__)] = np.arange(len(digests))
    return ranks[codes]


def align_columns(datasets: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """The same datasets with named features in alphabetical order, as the nodes of engines do.

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
    return {site: data.sort_features() for site, data in datasets.items()}
