"""Samples with labels: the statistics of their classes, and summaries class by class."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._solve import solve
from fedwad.ot._summary import CovarianceType, Summary, reduce_covariance, summarise

__all__ = [
    "ClassCovariance",
    "LabelledSummary",
    "as_labels",
    "class_codes",
    "class_row",
    "dataset_distance",
    "labelled",
    "summarise_classes",
]

#: What is compared between classes besides their means: standard deviations or root covariances.
ClassCovariance = Literal["diag", "full"]

_EPSILON = float(np.finfo(np.float64).eps)  # the spacing of floats at one
_FULL_UP_TO = 64  # features; beyond, "auto" means "lowrank"


def class_codes(labels: Any) -> NDArray[np.int64]:
    """Integers from 0 that are equal where the labels are equal, for labels of any type.

    >>> class_codes(["dog", "cat", "dog"]).tolist()
    [1, 0, 1]
    """
    values = as_labels(labels)
    missing = _missing(values)
    if missing:
        raise InputError(
            f"{len(missing)} label{'s are' if len(missing) > 1 else ' is'} missing (the first in"
            f" row {missing[0]}, counting from 0); fill them or remove their samples."
        )
    if values.dtype.kind != "O":
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    kinds: dict[Any, int] = {}
    try:
        for value in values:
            kinds.setdefault((type(value).__name__, value), len(kinds))
    except TypeError:
        raise InputError(
            "A label is neither a number nor a string; give one of those per sample."
        ) from None
    order = sorted(kinds, key=lambda kind: (kind[0], str(kind[1])))
    ranks = {kind: rank for rank, kind in enumerate(order)}
    return np.array([ranks[type(value).__name__, value] for value in values], dtype=np.int64)


def as_labels(labels: Any) -> NDArray[Any]:
    """Labels as a one-dimensional array; labels of different types keep their types."""
    is_masked = np.ma.isMaskedArray(labels)
    if isinstance(labels, np.ndarray) and not is_masked and labels.dtype.kind != "O":
        values = labels
    else:
        listed = labels.tolist() if hasattr(labels, "tolist") else labels
        if not isinstance(listed, list | tuple):
            raise InputError(
                f"The labels are a {type(labels).__name__}; give one label per sample."
            )
        hidden = np.ma.getmaskarray(labels).tolist() if is_masked else [False] * len(listed)
        values = _as_array(listed, hidden)
    if values.ndim != 1:
        raise InputError(f"The labels have shape {values.shape}; give one label per sample.")
    return values


def _as_array(listed: Sequence[Any], hidden: Sequence[bool]) -> NDArray[Any]:
    """Plain values as an array, None where hidden; of type object unless all have one type."""
    plain = [
        None if masked else value.item() if isinstance(value, np.generic) else value
        for value, masked in zip(listed, hidden, strict=True)
    ]
    if any(isinstance(value, list | tuple | np.ndarray) for value in plain):
        raise InputError("The labels are lists themselves; give one label per sample.")
    if len({type(value) for value in plain}) == 1 and isinstance(plain[0], str | int | float):
        return np.array(plain)
    values = np.empty(len(plain), dtype=object)
    values[:] = plain
    return values


def _missing(values: NDArray[Any]) -> list[int]:
    """Rows without a label: None, NaN, and the missing values of data frames."""
    if values.dtype.kind in "biuSU":
        return []
    if values.dtype.kind == "f":
        return np.flatnonzero(np.isnan(values)).tolist()
    empty = ("NAType", "NaTType", "MaskedConstant")
    return [
        row
        for row, value in enumerate(values.tolist())
        if value is None
        or type(value).__name__ in empty
        or (isinstance(value, float) and math.isnan(value))
    ]


def labelled(
    measure: Measure, labels: ArrayLike, covariance: ClassCovariance = "diag"
) -> LabelledMeasure:
    """The measure on points (x, m_y, s_y) that a dataset distance compares.

    m_y is the mean and s_y are the standard deviations (population form) of the class y of x; with
    covariance="full" the root of the class's covariance matrix takes the place of s_y.

    Examples
    --------
    >>> labelled(Measure([[0.0], [2.0], [5.0]]), ["a", "a", "b"]).points.tolist()
    [[0.0, 1.0, 1.0], [2.0, 1.0, 1.0], [5.0, 5.0, 0.0]]
    """
    check_choice(covariance, "covariance", ("diag", "full"))
    codes = class_codes(labels)
    if len(codes) != len(measure):
        raise InputError(
            f"{len(measure)} samples came with {len(codes)} labels; give one label per sample."
        )
    classes = [_within_class(measure, codes, code) for code in range(int(codes.max()) + 1)]
    table = np.array([class_row(part, covariance) for part in classes])
    return LabelledMeasure(measure.points, codes, table, measure.weights)


def class_row(part: Measure, covariance: ClassCovariance) -> Floats:
    """The row of a class in the table, from its samples, scaled so that squares neither vanish nor
    overflow.

    The root of a covariance comes from the singular values of the samples, because the root of the
    matrix would lose half the digits.
    """
    mean = part.mean
    deviations = part.points - mean
    unit = float(np.abs(deviations).max()) or 1.0
    deviations /= unit
    if covariance == "diag":
        return np.concatenate([mean, unit * np.sqrt(part.weights @ deviations**2)])
    _, values, vectors = np.linalg.svd(
        np.sqrt(part.weights)[:, None] * deviations, full_matrices=False
    )
    return np.concatenate([mean, unit * ((vectors.T * values) @ vectors).ravel()])


def dataset_distance(
    X: ArrayLike, y: ArrayLike, X2: ArrayLike, y2: ArrayLike, covariance: ClassCovariance = "diag"
) -> float:
    """Exact dataset distance between two labelled samples on one machine: W2 between their
    `labelled` measures.

    The points (x, m_y, s_y) are never materialised: costs are distances between features plus
    entries of a table of classes by classes, in blocks of rows.

    Examples
    --------
    # 3 between samples, 3 between means
    >>> dataset_distance([[0.0], [2.0]], ["a", "a"], [[3.0], [5.0]], [0, 0])
    4.242640687119285
    """
    return solve(
        labelled(Measure(X, name="X"), y, covariance),
        labelled(Measure(X2, name="X2"), y2, covariance),
    ).distance


def _within_class(measure: Measure, codes: NDArray[np.int64], code: int) -> Measure:
    chosen = codes == code
    return Measure(measure.points[chosen], measure.weights[chosen])


def _statistics(summary: Summary, covariance: ClassCovariance) -> Floats:
    """The row of a class in the table: its mean, then its standard deviations or its root
    covariance."""
    total = summary.total_covariance()
    if covariance == "diag":
        variances = np.diag(total) if total.ndim == 2 else np.broadcast_to(total, summary.dimension)
        return np.concatenate([summary.mean, np.sqrt(variances)])
    values, vectors = np.linalg.eigh((total + total.T) / 2)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.concatenate([summary.mean, root.ravel()])


@dataclass(frozen=True, eq=False)
class LabelledSummary:
    """Summaries of the classes of one client's data, and the mass of each class.

    Class statistics follow from them, so no label is sent. `weights` are the masses of the classes,
    `parts` their summaries, `covariance` says what is compared between classes.
    """

    weights: Floats
    parts: tuple[Summary, ...]
    covariance: ClassCovariance

    @property
    def dimension(self) -> int:
        return self.parts[0].dimension

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)

    @property
    def min_cell_size(self) -> int:
        return min(part.min_cell_size for part in self.parts)

    @property
    def covariance_type(self) -> CovarianceType:
        return self.parts[0].covariance_type

    @property
    def within_std(self) -> float:
        """(mean of |x - own cell's mean|^2)^(1/2)."""
        return math.hypot(
            *(
                math.sqrt(mass) * part.within_std
                for mass, part in zip(self.weights, self.parts, strict=True)
            )
        )

    @property
    def rounding_error(self) -> float:
        """The largest error of a row of the table.

        Variances below 1e-300 are lost. The root of a matrix with relative error eps has an error
        of sqrt(eps) (Powers and Stormer: |A^1/2 - B^1/2|^2 <= trace norm of A - B).
        """
        lost = 1e-150 * math.sqrt(self.dimension)
        small = (
            max(part.within_std for part in self.parts)
            + max(_max_abs(part.means) for part in self.parts)
            < 1e-140
        )
        if self.covariance == "diag":
            return lost if small else 0.0
        traces = [_total_variance(part) for part in self.parts]
        return math.sqrt(8 * self.dimension * _EPSILON * max(traces)) + (
            self.dimension * lost if small else 0.0
        )

    @cached_property
    def table(self) -> Measure:
        """The classes with their masses: exact mean and standard deviations, or root covariance."""
        return Measure(
            np.array([_statistics(part, self.covariance) for part in self.parts]), self.weights
        )

    @cached_property
    def cells(self) -> LabelledMeasure:
        """The cell means with the statistics of their class appended."""
        sizes = [len(part.weights) for part in self.parts]
        weights = np.concatenate(
            [mass * part.weights for mass, part in zip(self.weights, self.parts, strict=True)]
        )
        means, codes = (
            np.concatenate([part.means for part in self.parts]),
            np.repeat(np.arange(len(sizes)), sizes),
        )
        return LabelledMeasure(means, codes, self.table.points, weights)

    @cached_property
    def merged(self) -> Summary:
        """The same data without labels: all cells in one summary, with the covariance that all
        classes know exactly."""
        least = min((part.within for part in self.parts), key=np.ndim).ndim
        within = sum(
            mass * reduce_covariance(part.within, least)
            for mass, part in zip(self.weights, self.parts, strict=True)
        )
        cells = self.cells
        return Summary(
            weights=cells.weights,
            means=cells.features,
            covariance=np.asarray(within),
            count=self.count,
            within_std=self.within_std,
            p=2.0,
            min_cell_size=self.min_cell_size,
        )

    @cached_property
    def key(self) -> bytes:
        """Digest of all fields."""
        return hashlib.sha256(
            self.weights.tobytes() + b"".join(part.key for part in self.parts)
        ).digest()


def _total_variance(summary: Summary) -> float:
    total = summary.total_covariance()
    return float(
        np.trace(total) if total.ndim == 2 else np.broadcast_to(total, summary.dimension).sum()
    )


def _max_abs(means: Floats) -> float:
    return float(np.abs(means - means[0]).max())


def summarise_classes(
    measure: Measure,
    labels: NDArray[Any],
    cells: int = 10,
    covariance_type: CovarianceType = "auto",
    covariance: ClassCovariance = "diag",
    min_size: int = 10,
    seed: int = 0,
) -> LabelledSummary:
    """Summaries class by class, with `cells` in all and at least one per class.

    "auto" means the full covariance of each class up to 64 features, or if classes are compared by
    it, and otherwise "lowrank".
    """
    check_choice(covariance, "covariance", ("diag", "full"))
    codes = class_codes(labels)
    classes = int(codes.max()) + 1
    if covariance == "full" and covariance_type not in ("auto", "full"):
        raise InputError(
            "Classes are compared by their full covariance, but covariance_type is"
            f" '{covariance_type}'; use 'auto' or 'full'."
        )
    if covariance_type == "auto":
        covariance_type = (
            "full" if covariance == "full" or measure.dimension <= _FULL_UP_TO else "lowrank"
        )
    if covariance_type == "spherical":
        raise InputError(
            "Classes are compared by standard deviations, but covariance_type is 'spherical'; use"
            " 'diag', 'lowrank' or 'full'."
        )
    parts = [
        summarise(
            _within_class(measure, codes, code),
            max(1, cells // classes),
            covariance_type,
            2.0,
            min_size,
            seed,
        )
        for code in range(classes)
    ]
    order = sorted(
        range(classes), key=lambda code: parts[code].key
    )  # the order does not depend on label names
    masses = np.bincount(codes, measure.weights, classes)[order]
    return LabelledSummary(masses / masses.sum(), tuple(parts[code] for code in order), covariance)
