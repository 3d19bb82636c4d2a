"""A discrete probability measure: weighted points, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad.errors import InputError

__all__ = [
    "Floats",
    "Indices",
    "Measure",
    "as_points",
    "as_weights",
    "max_abs",
    "squared_norms",
    "sums_by_target",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_SUM_TOLERANCE = 1e-14  # weights whose sum differs from one by no more are not rescaled
_MAX_ABS = 1e100  # of a coordinate
# Beyond this ratio of |mean|^2 to the mean of |x|^2, squared norms lose digits by cancellation.
_MAX_OFFSET_RATIO = 0.8
# Up to these sizes, plain sums and dense matrices are faster than a sparse matrix.
_FEW_FEATURES, _FEW_TARGETS, _BLOCK_ENTRIES = 8, 16, 1 << 17


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
        result = object.__new__(Measure)
        result._set_arrays(points=points, weights=self.weights)
        return result

    def ordered(self, order: Indices) -> Measure:
        """The same points in another order; each -0.0 becomes 0.0."""
        points = self.points[order]
        points += 0.0
        result = object.__new__(Measure)
        result._set_arrays(points=points, weights=self.weights[order])
        return result

    @cached_property
    def max_abs(self) -> float:
        """Largest absolute coordinate."""
        return max(float(self.points.max()), -float(self.points.min()))

    @cached_property
    def is_uniform(self) -> bool:
        return bool((self.weights == self.weights[0]).all())

    @property
    def mean(self) -> Floats:
        # Relative to a point of the measure, so that a large common offset costs no digits.
        origin = self.points[0]
        return np.asarray(origin + self.weights @ (self.points - origin))


def max_abs(points: Floats, origin: Floats) -> float:
    """Largest absolute coordinate of points - origin, without forming the difference."""
    return float(np.maximum(points.max(axis=0) - origin, origin - points.min(axis=0)).max())


def squared_norms(points: Floats) -> Floats | None:
    """|x|^2 of each point; None if |mean|^2 exceeds four times the total variance."""
    mean = points.mean(axis=0)
    norms = np.einsum("id,id->i", points, points)
    return norms if float(mean @ mean) <= _MAX_OFFSET_RATIO * float(norms.mean()) else None


def sums_by_target(
    points: Floats, rows: Indices, cols: Indices, mass: Floats, targets: int
) -> Floats:
    """For each target, the sum of mass[k] * points[rows[k]] over all k with cols[k] = target."""
    count, d = points.shape
    if d <= _FEW_FEATURES:
        weighted = points.take(rows, axis=0) * mass[:, None]
        return np.column_stack([np.bincount(cols, weighted[:, k], targets) for k in range(d)])
    if targets <= _FEW_TARGETS and targets * count <= _BLOCK_ENTRIES:
        plan = np.bincount(cols * count + rows, mass, targets * count).reshape(targets, count)
        return np.asarray(plan @ points)
    from scipy.sparse import coo_array, csr_array

    return np.asarray(csr_array(coo_array((mass, (rows, cols)), shape=(count, targets))).T @ points)


def as_points(points: Any, name: str = "points") -> Floats:
    """`points` as a finite (n, d) float64 array; InputError says what is wrong with them."""
    array = _numeric_table(points, name)
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float64)
    finite = np.isfinite(array)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        count = int((~finite).sum())
        raise InputError(
            f"{name} holds {count} NaN or infinite value{'s' if count > 1 else ''} (the first in"
            f" row {row}, column {column}, counting from 0); remove or fill them first."
        )
    if max_abs(array, np.zeros(array.shape[1])) > _MAX_ABS:
        raise InputError(f"{name} holds values beyond {_MAX_ABS:g}; rescale the data first.")
    return array


def _numeric_table(points: Any, name: str) -> NDArray[Any]:
    """`points` as an (n, d) array of numbers with at least one row and one column."""
    array = _as_array(points, name)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} holds values of type {array.dtype}; give real numbers only.")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(
            f"{name} has shape {array.shape}; reshape it to (samples, features), for images with"
            " X.reshape(len(X), -1)."
        )
    if array.shape[0] == 0:
        raise InputError(f"{name} is empty; give at least one sample.")
    if array.shape[1] == 0:
        raise InputError(f"{name} has no features; give at least one column of numbers.")
    return array


def _as_array(points: Any, name: str) -> NDArray[Any]:
    if hasattr(points, "toarray") and hasattr(points, "nnz"):
        raise InputError(f"{name} is a sparse matrix; convert it with .toarray() first.")
    if isinstance(points, str | Path):
        raise InputError(
            f"{name} is a path; read the file into an array first, or give paths to"
            " fedwad.distance."
        )
    if np.ma.is_masked(points):
        raise InputError(f"{name} has masked values; fill them or remove their rows first.")
    try:
        return np.asarray(points)
    except ValueError:
        raise InputError(
            f"{name} has rows of different lengths; give one row of numbers per sample."
        ) from None
    except (TypeError, RuntimeError):  # tensors on a GPU, or with gradients
        raise InputError(
            f"{name} is a {type(points).__name__} that NumPy cannot read; convert it first."
        ) from None


def as_weights(weights: Any, count: int, name: str = "weights") -> Floats:
    """Check `weights` (uniform if None) and scale them to sum to one."""
    if weights is None:
        return np.full(count, 1.0 / count)
    if np.ma.is_masked(weights):
        raise InputError(f"{name} have masked values; fill them or remove their samples first.")
    try:
        array = np.asarray(weights)
    except ValueError:
        raise InputError(
            f"{name} are lists of different lengths; give {count} numbers, one per sample."
        ) from None
    if array.dtype.kind not in "biuf" or array.shape != (count,):
        raise InputError(
            f"{name} have shape {array.shape} and type {array.dtype}; give {count} numbers, one per"
            " sample."
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"{name} must be finite and not negative.")
    largest = array.max()
    if largest == 0:
        raise InputError(f"{name} are all zero; give at least one positive weight.")
    if largest <= 1 and abs(array.sum() - 1) <= _SUM_TOLERANCE:
        return array  # weights that were scaled before keep their bits
    array = array / largest  # so that the sum neither overflows nor vanishes
    return np.asarray(array / array.sum())
