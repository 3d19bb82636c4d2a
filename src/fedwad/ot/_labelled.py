"""Samples with the statistics of their class, which are not copied for every sample."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad.errors import InputError
from fedwad.ot._measure import (
    Floats,
    Indices,
    Measure,
    as_points,
    as_weights,
    squared_norms,
    sums_by_target,
)

__all__ = ["LabelledMeasure"]

_BLOCK_ROWS = 1 << 14  # rows that are squared at a time


class LabelledMeasure(Measure):
    """The measure on points (x_i, table[code_i]): features with the row of their class appended.

    A dataset distance compares such points. Their squared distance is one between features plus one
    between rows of two small tables, so costs need the features and the tables, not n x (d + k)
    numbers.

    Parameters
    ----------
    features : array (n, d)
    codes : integers (n,), rows of the table
    table : array (classes, k)
    weights : array (n,), optional

    Examples
    --------
    >>> mu = LabelledMeasure([[0.0], [1.0], [2.0]], codes=[0, 0, 1], table=[[5.0, 6.0], [7.0, 8.0]])
    >>> mu.points.tolist()
    [[0.0, 5.0, 6.0], [1.0, 5.0, 6.0], [2.0, 7.0, 8.0]]
    """

    features: Floats
    codes: NDArray[np.int64]
    table: Floats

    def __init__(
        self,
        features: ArrayLike,
        codes: ArrayLike,
        table: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        x, rows = as_points(features, "features"), as_points(table, "table")
        row_of = np.asarray(codes)
        if row_of.dtype.kind not in "iu" or row_of.shape != (len(x),):
            raise InputError(
                f"codes have shape {row_of.shape} and type {row_of.dtype}; give one integer for"
                f" each of {len(x)} points."
            )
        if row_of.min() < 0 or row_of.max() >= len(rows):
            raise InputError(
                f"codes range from {row_of.min()} to {row_of.max()}; the table has {len(rows)}"
                " rows."
            )
        scaled, row_of = as_weights(weights, len(x)), row_of.astype(np.int64)
        if not scaled.all():
            positive = scaled > 0
            x, row_of, scaled = x[positive], row_of[positive], scaled[positive]
        self._set_arrays(features=x, codes=row_of, table=rows, weights=scaled)

    @property
    def points(self) -> Floats:
        """All points, built at each call: for small measures and for tests."""
        return self.rows(slice(None))

    @property
    def dimension(self) -> int:
        return int(self.features.shape[1] + self.table.shape[1])

    @cached_property
    def mean(self) -> Floats:
        origin = self.rows(0)
        moved = self.moved(origin)
        by_class = np.bincount(self.codes, self.weights, len(self.table))
        return np.asarray(
            origin + np.concatenate([self.weights @ moved.features, by_class @ moved.table])
        )

    @cached_property
    def variances(self) -> Floats:
        """Variance of each coordinate (population form), class columns included."""
        mean, split = self.mean, self.features.shape[1]
        by_class = np.bincount(self.codes, self.weights, len(self.table))
        features = np.zeros(split)
        for start in range(0, len(self), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            features += self.weights[block] @ (self.features[block] - mean[:split]) ** 2
        return np.concatenate([features, by_class @ (self.table - mean[split:]) ** 2])

    def rows(self, index: Any) -> Floats:
        return np.concatenate([self.features[index], self.table[self.codes[index]]], axis=-1)

    @cached_property
    def norms(self) -> Floats | None:
        """|x|^2 of the features of each point, without the table; see `Measure.norms`."""
        return squared_norms(self.features)

    def sums_by_target(self, rows: Indices, cols: Indices, mass: Floats, targets: int) -> Floats:
        n_classes = len(self.table)
        target_and_class = cols * n_classes + self.codes[rows]
        class_mass = np.bincount(target_and_class, mass, targets * n_classes)
        sums = sums_by_target(self.features, rows, cols, mass, targets)
        return np.hstack([sums, class_mass.reshape(targets, n_classes) @ self.table])

    def moved(self, origin: Floats, factor: float = 1.0) -> LabelledMeasure:
        split = self.features.shape[1]
        other = object.__new__(LabelledMeasure)
        features, table = self.features - origin[:split], self.table - origin[split:]
        if factor != 1:
            features *= factor
            table *= factor
        other._set_arrays(features=features, table=table, codes=self.codes, weights=self.weights)
        return other

    @cached_property
    def max_abs(self) -> float:
        arrays = self.features, self.table
        return max(max(float(array.max()), -float(array.min())) for array in arrays)
