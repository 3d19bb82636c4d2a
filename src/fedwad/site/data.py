"""The data that a client holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.messages.message import ClassStatistics
from fedwad.tables import Schema, label_text
from fedwad.transport import Floats, Measure, as_labels, class_codes, labelled, row_order


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
    units : the number of the unit, such as a patient, that each sample belongs to; None if each is
        one by itself
    unit_name, unit_found : the column of a table that named the units, and whether it was found
        and not chosen
    """

    measure: Measure
    labels: NDArray[Any] | None = None
    features: tuple[str, ...] | None = None
    label_error: str = ""
    names: tuple[Any, ...] = ()
    schema: Schema | None = None
    row_digests: NDArray[np.void] | None = None
    units: NDArray[np.int64] | None = None
    unit_name: str = ""
    unit_found: bool = False

    def __post_init__(self) -> None:
        for what, given in (("label", self.labels), ("unit", self.units)):
            if given is not None and given.shape != (len(self.measure),):
                raise InputError(
                    f"{len(self.measure)} samples came with {what}s of shape {given.shape}; give"
                    f" one {what} per sample.",
                    "wrong-shape",
                )

    @property
    def record(self) -> float:
        """The weight of the heaviest record: of a row, or of all rows of a unit."""
        weights = self.measure.weights
        return float((weights if self.units is None else np.bincount(self.units, weights)).max())

    def __repr__(self) -> str:  # no samples, because it may be printed anywhere
        return f"Dataset({len(self.measure)} samples, {self.measure.dimension} features)"

    def canonical(self) -> Dataset:
        """The same data with sorted rows and numbered classes.

        So no reply depends on the order of rows. The numbers of classes follow from digests of
        their samples, so no reply depends on the names of labels either; `names` has these.
        """
        by_unit = () if self.units is None else (self.units,)
        order = row_order(self.measure.points, self.measure.weights, *by_unit)
        data, names = self.taken(order), tuple[Any, ...]()
        try:
            codes = None if self.labels is None else class_codes(self.labels)[order]
        except InputError as error:  # raised later, if a request needs the classes
            data, names, codes = replace(data, label_error=str(error)), self.names, None
        if codes is not None:
            measure = data.measure
            codes = _renumber_by_content(codes, measure.points, measure.weights)
            first = np.unique(codes, return_index=True)[1]
            names = tuple(as_labels(self.labels)[order][first].tolist())
            names = tuple(self.names[name] for name in names) if self.names else names
            order = row_order(measure.points, codes, measure.weights)
            data, codes = data.taken(order), codes[order]
        return replace(data, labels=codes, names=names, units=_renumber(data.units))

    def taken(self, order: NDArray[np.int64]) -> Dataset:
        """These rows in this order; their weights sum to one."""
        arrays = {"labels": self.labels, "row_digests": self.row_digests, "units": self.units}
        taken: dict[str, Any] = {
            name: array[order] for name, array in arrays.items() if array is not None
        }
        measure = self.measure.ordered(order)
        if len(order) < len(self.measure):
            measure = Measure(measure.points, measure.weights)
        return replace(self, measure=measure, **taken)

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
                " (X, y).",
                "missing-labels",
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
                or "The data have no labels; give them as (X, y) or name a label column.",
                "missing-labels",
            )
        return class_codes(self.labels)

    @property
    def block_options(self) -> tuple[float | None, tuple[int, ...]]:
        """For block means: the sum of the features' variances, and which ones are indicators;
        nothing without a schema."""
        if self.schema is None:
            return None, ()
        return float(len(self.schema.compared_columns)), self.schema.indicators

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
        """SHA-256 of the samples, their weights, their labels and their units."""
        sha = hashlib.sha256(str(self.measure.points.shape).encode())
        for array in (self.measure.points, self.measure.weights, self.labels, self.units):
            if array is not None:
                sha.update(np.ascontiguousarray(array).data)
        return sha.hexdigest()


def _renumber(units: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """The units numbered in the order of rows, whatever they are called."""
    if units is None:
        return None
    _, first, codes = np.unique(units, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[codes.ravel()])


def _renumber_by_content(
    codes: NDArray[np.int64], points: Floats, weights: Floats
) -> NDArray[np.int64]:
    """The codes of classes numbered by the digests of their samples; the samples must be sorted."""
    digests = []
    for code in range(int(codes.max()) + 1):
        own = codes == code
        digests.append(hashlib.sha256(points[own].tobytes() + weights[own].tobytes()).digest())
    ranks = np.argsort(sorted(range(len(digests)), key=digests.__getitem__))
    return np.asarray(ranks[codes])


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
                f"{first} and {site} differ in the names of features ({where}); make them agree.",
                "different-columns",
            )
    return {site: data.sort_features() for site, data in datasets.items()}
