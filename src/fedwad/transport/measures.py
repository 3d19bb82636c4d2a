"""Discrete probability measures: weighted points, checked once.

Labelled ones have the statistics of their classes, which are not copied for every sample. Orders of
rows depend on the rows and not on how they are stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Measure:
    """The measure sum_i weights_i * dirac(points_i).

    Parameters
    ----------
    points : array (n, d), or (n,) for one feature
        Finite numbers of any type; kept as float64 in C order.
    weights : array (n,), optional
        Non-negative; scaled to sum to one. Uniform when left out. Points of
        weight zero are not part of a measure and are dropped.

    Examples
    --------
    >>> mu = Measure([[0.0, 0.0], [2.0, 0.0]], weights=[1, 3])
    >>> mu.weights.tolist(), mu.mean.tolist()
    ([0.25, 0.75], [1.5, 0.0])
    """

    points: Floats
    weights: Floats

    def __init__(
        self, points: ArrayLike, weights: ArrayLike | None = None, *, name: str = "points"
    ) -> None:
        checked = as_points(points, name)
        scaled = as_weights(weights, len(checked), f"the weights of {name}")
        if not scaled.all():
            checked, scaled = checked[scaled > 0], scaled[scaled > 0]
        self._set_arrays(points=checked, weights=scaled)

    def _set_arrays(self, **arrays: NDArray[Any]) -> None:
        """Store arrays as read-only views."""
        for name, array in arrays.items():
            view = array.view()
            view.setflags(write=False)
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:  # shows no points: printed text may end up in a log
        return f"{type(self).__name__}({len(self)} points, {self.dimension} features)"

    @property
    def dimension(self) -> int:
        return int(self.points.shape[1])

    def rows(self, index: Any) -> Floats:
        """The points at `index`, a row number, a slice or an array of row numbers."""
        return np.asarray(self.points[index])

    @cached_property
    def norms(self) -> Floats | None:
        """|x|^2 of each point; None if a large common offset would cost them digits."""
        return squared_norms(self.points)

    def sums_by_target(self, rows: Indices, cols: Indices, mass: Floats, targets: int) -> Floats:
        """P^T @ points for the plan P with P[rows[k], cols[k]] = mass[k].

        Row s is the mass that target s receives times the mean of that mass.
        """
        return sums_by_target(self.points, rows, cols, mass, targets)

    def moved(self, origin: Floats, factor: float = 1.0) -> Measure:
        """The measure with each point x replaced by (x - origin) * factor."""
        points = self.points - origin
        points *= factor
        return self._with(points=points, weights=self.weights)

    def ordered(self, order: Indices) -> Measure:
        """The same points in another order; each -0.0 becomes 0.0."""
        return self._with(points=self.points[order] + 0.0, weights=self.weights[order])

    def _with(self, **arrays: NDArray[Any]) -> Self:
        """A measure of the same kind with these arrays, which are not checked again."""
        result = object.__new__(type(self))
        result._set_arrays(**arrays)
        return result

    @cached_property
    def max_abs(self) -> float:
        """Largest absolute coordinate."""
        return max_abs(self.points)

    @cached_property
    def is_uniform(self) -> bool:
        return bool((self.weights == self.weights[0]).all())

    @property
    def mean(self) -> Floats:
        # Relative to a point of the measure, so that a large common offset costs no digits.
        origin = self.points[0]
        return np.asarray(origin + self.weights @ (self.points - origin))


def max_abs(points: Floats, origin: Floats | float = 0.0) -> float:
    """Largest absolute coordinate of points - origin, without forming the difference."""
    return float(np.maximum(points.max(axis=0) - origin, origin - points.min(axis=0)).max())


def squared_norms(points: Floats) -> Floats | None:
    """|x|^2 of each point; None if |mean|^2 exceeds four times the total variance."""
    mean = points.mean(axis=0)
    norms = np.einsum("id,id->i", points, points)
    return norms if float(mean @ mean) <= 0.8 * float(norms.mean()) else None


def sums_by_target(
    points: Floats, rows: Indices, cols: Indices, mass: Floats, targets: int
) -> Floats:
    """For each target, the sum of mass[k] * points[rows[k]] over all k with cols[k] = target."""
    count, d = points.shape
    if d <= 8:  # plain sums and small dense matrices are faster than a sparse one
        weighted = points.take(rows, axis=0) * mass[:, None]
        return np.column_stack([np.bincount(cols, weighted[:, k], targets) for k in range(d)])
    if targets <= 16 and targets * count <= 1 << 17:
        plan = np.bincount(cols * count + rows, mass, targets * count).reshape(targets, count)
        return np.asarray(plan @ points)
    from scipy.sparse import coo_array, csr_array

    return np.asarray(csr_array(coo_array((mass, (rows, cols)), shape=(count, targets))).T @ points)


def as_points(points: Any, name: str = "points", most: float = 1e100) -> Floats:
    """`points` as a finite (n, d) float64 array; InputError says what is wrong with them."""
    array = _as_array(points, name)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{name} holds values of type {array.dtype}; give real numbers only.", "not-a-number"
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(
            f"{name} has shape {array.shape}; reshape it to (samples, features), for images with"
            " X.reshape(len(X), -1).",
            "wrong-shape",
        )
    if array.shape[0] == 0:
        raise InputError(f"{name} is empty; give at least one sample.", "empty-table")
    if array.shape[1] == 0:
        raise InputError(
            f"{name} has no features; give at least one column of numbers.", "no-columns"
        )
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float64)
    finite = np.isfinite(array)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        count = int((~finite).sum())
        raise InputError(
            f"{name} holds {count} NaN or infinite value{'s' if count > 1 else ''} (the first in"
            f" row {row}, column {column}, counting from 0); remove or fill them first.",
            "missing-values" if np.isnan(array).any() else "infinite-values",
        )
    if max_abs(array) > most:
        raise InputError(
            f"{name} holds values beyond {most:g}; rescale the data first.", "too-large-values"
        )
    return array


def _as_array(points: Any, name: str) -> NDArray[Any]:
    if hasattr(points, "toarray") and hasattr(points, "nnz"):
        raise InputError(
            f"{name} is a sparse matrix; convert it with .toarray() first.", "not-an-array"
        )
    if isinstance(points, str | Path):
        raise InputError(
            f"{name} is a path; read the file into an array first, or give paths to"
            " fedwad.distance.",
            "not-an-array",
        )
    if np.ma.is_masked(points):
        raise InputError(
            f"{name} has masked values; fill them or remove their rows first.", "missing-values"
        )
    try:
        return np.asarray(points)
    except ValueError:
        raise InputError(
            f"{name} has rows of different lengths; give one row of numbers per sample.",
            "ragged-rows",
        ) from None
    except (TypeError, RuntimeError):  # tensors on a GPU, or with gradients
        raise InputError(
            f"{name} is a {type(points).__name__} that NumPy cannot read; convert it first.",
            "not-an-array",
        ) from None


def as_weights(weights: Any, count: int, name: str = "weights") -> Floats:
    """Check `weights` (uniform if None) and scale them to sum to one."""
    if weights is None:
        return np.full(count, 1.0 / count)
    if np.ma.is_masked(weights):
        raise InputError(
            f"{name} have masked values; fill them or remove their samples first.", "missing-values"
        )
    try:
        array = np.asarray(weights)
    except ValueError:
        raise InputError(
            f"{name} are lists of different lengths; give {count} numbers, one per sample.",
            "bad-weights",
        ) from None
    if array.dtype.kind not in "biuf" or array.shape != (count,):
        raise InputError(
            f"{name} have shape {array.shape} and type {array.dtype}; give {count} numbers, one per"
            " sample.",
            "bad-weights",
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"{name} must be finite and not negative.", "bad-weights")
    largest = array.max()
    if largest == 0:
        raise InputError(f"{name} are all zero; give at least one positive weight.", "bad-weights")
    if largest <= 1 and abs(array.sum() - 1) <= 1e-14:
        return array  # weights that were scaled before keep their bits
    array = array / largest  # so that the sum neither overflows nor vanishes
    return np.asarray(array / array.sum())


def row_slices(rows: int, columns: int, numbers: int = 1 << 17) -> Iterator[slice]:
    """Slices of consecutive rows, so short that temporary copies have about so many numbers.

    A megabyte stays in a cache. Half and twice as much take the same time within 10%
    (`python -m benchmarks.ablation --only measures`).
    """
    step = max(1, numbers // max(columns, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


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
        scaled, row_of = as_weights(weights, len(x)), np.asarray(codes, dtype=np.int64)
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
        for block in row_slices(len(self), split):
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
        features, table = self.features - origin[:split], self.table - origin[split:]
        features *= factor
        table *= factor
        return self._with(features=features, table=table, codes=self.codes, weights=self.weights)

    @cached_property
    def max_abs(self) -> float:
        return max(max_abs(self.features), max_abs(self.table))


def row_order(points: Floats, *more_columns: NDArray[np.generic]) -> NDArray[np.int64]:
    """The order that sorts rows as numbers, first by the columns of `points`, then by more columns.

    Only rows that agree in the first column are compared in full.

    Examples
    --------
    >>> row_order(np.array([[2.0, 1.0], [1.0, 5.0], [2.0, -1.0]])).tolist()
    [1, 2, 0]
    """
    first = points[:, 0]
    order = np.argsort(first, kind="stable")
    ordered = first[order]
    equal = ordered[1:] == ordered[:-1]
    tied = np.zeros(len(order), dtype=bool)
    tied[1:] |= equal
    tied[:-1] |= equal
    if tied.any():
        ties = order[tied]
        rows = np.column_stack([points[ties] + 0.0, *(column[ties] for column in more_columns)])
        order[tied] = ties[np.lexsort(rows.T[::-1])]
    return np.asarray(order, dtype=np.int64)


def sorted_generator(
    measure: Measure, purpose: str, digest: str = ""
) -> tuple[NDArray[np.int64], np.random.Generator]:
    """The order that sorts the rows, and a generator seeded by the data and the purpose.

    No request can choose another generator, and one row more or less gives an unrelated one. Rows
    that are sorted already come with their `digest`; they are neither sorted nor hashed again.
    """
    if digest:
        return np.arange(len(measure)), _generator(purpose, digest.encode())
    order = row_order(measure.points, measure.weights)
    content = hashlib.sha256((measure.points[order] + 0.0).data).digest()
    content += (measure.weights[order] / measure.weights.max()).tobytes()
    return order, _generator(purpose, content)


def data_order(
    measure: Measure, purpose: str, keys: NDArray[np.void] | None = None
) -> tuple[NDArray[np.int64], np.random.Generator]:
    """A random order of the rows and a generator, both determined by the data and the purpose.

    Rows are sorted by their digests, so the order in which they are stored plays no part. A digest
    of all rows seeds the generator that shuffles them. No request can choose a different order, and
    one row more or less gives an unrelated one, so two orders of almost the same data cannot be
    compared row by row. With `keys`, sixteen bytes for each row, the order depends on those instead
    of the features, so it is the same for every schema that encodes the rows.
    """
    digests = row_digests(measure) if keys is None else keys
    words = np.ascontiguousarray(digests).view(">u8").reshape(len(digests), 2)
    order = np.lexsort((words[:, 1], words[:, 0]))
    rng = _generator(purpose, words[order].tobytes())
    return np.asarray(order[rng.permutation(len(order))], dtype=np.int64), rng


def _generator(purpose: str, content: bytes) -> np.random.Generator:
    seed = hashlib.sha256(purpose.encode() + content).digest()
    return np.random.default_rng(np.frombuffer(seed, dtype=np.uint32).tolist())


def row_digests(measure: Measure) -> NDArray[np.void]:
    """Sixteen bytes for each row of a measure; a few rows are copied at a time."""
    weights = measure.weights / measure.weights.max()
    digests = bytearray()
    for start in range(0, len(weights), 4096):
        some = slice(start, start + 4096)
        points = np.ascontiguousarray(measure.points[some] + 0.0)  # turns -0.0 into 0.0
        for row, weight in zip(points, weights[some], strict=True):
            content = row.tobytes() + weight.tobytes()
            digests += hashlib.blake2b(content, digest_size=16).digest()
    return np.frombuffer(bytes(digests), dtype="V16")
