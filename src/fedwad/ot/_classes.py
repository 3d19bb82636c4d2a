"""Samples with labels: the statistics of their classes, and summaries class by class."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._labels import class_codes
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._solve import solve
from fedwad.ot._summary import (
    CovarianceType,
    Summary,
    feature_variances,
    reduce_covariance,
    summarise,
)

__all__ = [
    "ClassCovariance",
    "LabelledSummary",
    "class_row",
    "dataset_distance",
    "labelled",
    "summarise_classes",
]

#: What is compared between classes besides their means: standard deviations or root covariances.
ClassCovariance = Literal["diag", "full"]

_EPSILON = float(np.finfo(np.float64).eps)  # the spacing of floats at one
_MAX_FEATURES_FULL = 64  # with more features, "auto" means "lowrank"


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
    classes = [_samples_of(measure, codes, code) for code in range(int(codes.max()) + 1)]
    table = np.array([class_row(part, covariance) for part in classes])
    return LabelledMeasure(measure.points, codes, table, measure.weights)


def class_row(part: Measure, covariance: ClassCovariance) -> Floats:
    """The row of a class in the table: its mean, then standard deviations or root covariance.

    Samples are scaled so that squares neither vanish nor overflow. The root covariance comes from
    the singular values of the samples, because the root of the matrix would lose half the digits.
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


def _samples_of(measure: Measure, codes: NDArray[np.int64], code: int) -> Measure:
    chosen = codes == code
    return Measure(measure.points[chosen], measure.weights[chosen])


def _row_from_summary(summary: Summary, covariance: ClassCovariance) -> Floats:
    """`class_row` from the summary of a class."""
    total = summary.total_covariance()
    if covariance == "diag":
        variances = feature_variances(total, summary.dimension)
        return np.concatenate([summary.mean, np.sqrt(variances)])
    values, vectors = np.linalg.eigh((total + total.T) / 2)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.concatenate([summary.mean, root.ravel()])


@dataclass(frozen=True, eq=False)
class LabelledSummary:
    """Summaries of the classes of one client's data, and the mass of each class.

    Class statistics follow from the summaries, so no label is sent. `weights` are the masses of the
    classes, `parts` their summaries, `covariance` says what is compared between classes.
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
        """(mean of |x - mean of the cell of x|^2)^(1/2)."""
        parts = zip(self.weights, self.parts, strict=True)
        return math.hypot(*(math.sqrt(mass) * part.within_std for mass, part in parts))

    @property
    def rounding_error(self) -> float:
        """The largest error of a row of the table.

        Variances below 1e-300 are lost. The root of a matrix with relative error eps has an error
        of sqrt(eps) (Powers and Stormer: |A^1/2 - B^1/2|^2 <= trace norm of A - B).
        """
        size = max(part.within_std for part in self.parts)
        size += max(float(np.abs(part.means - part.means[0]).max()) for part in self.parts)
        lost = 1e-150 * math.sqrt(self.dimension) if size < 1e-140 else 0.0
        if self.covariance == "diag":
            return lost
        d = self.dimension
        traces = [float(feature_variances(s.total_covariance(), d).sum()) for s in self.parts]
        return math.sqrt(8 * d * _EPSILON * max(traces)) + d * lost

    @cached_property
    def table(self) -> Measure:
        """The classes with their masses: exact mean and standard deviations, or root covariance."""
        return Measure(
            np.array([_row_from_summary(part, self.covariance) for part in self.parts]),
            self.weights,
        )

    @cached_property
    def cells(self) -> LabelledMeasure:
        """The cell means with the statistics of their class appended."""
        sizes = [len(part.weights) for part in self.parts]
        weights = np.concatenate(
            [mass * part.weights for mass, part in zip(self.weights, self.parts, strict=True)]
        )
        means = np.concatenate([part.means for part in self.parts])
        codes = np.repeat(np.arange(len(sizes)), sizes)
        return LabelledMeasure(means, codes, self.table.points, weights)

    @cached_property
    def merged(self) -> Summary:
        """The same data without labels: all cells in one summary, with what is known exactly of the
        covariances of all classes."""
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
        """Digest of the weights and of the keys of the parts."""
        return hashlib.sha256(
            self.weights.tobytes() + b"".join(part.key for part in self.parts)
        ).digest()


def summarise_classes(
    measure: Measure,
    labels: NDArray[Any],
    cells: int = 10,
    covariance_type: CovarianceType = "auto",
    covariance: ClassCovariance = "diag",
    min_size: int = 10,
    seed: int = 0,
) -> LabelledSummary:
    """Summaries class by class, with at most `cells` in all, or one for each class if there are
    more classes.

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
            "full" if covariance == "full" or measure.dimension <= _MAX_FEATURES_FULL else "lowrank"
        )
    if covariance_type == "spherical":
        raise InputError(
            "Classes are compared by standard deviations, but covariance_type is 'spherical'; use"
            " 'diag', 'lowrank' or 'full'."
        )
    each = max(1, cells // classes)
    parts = [
        summarise(_samples_of(measure, codes, code), each, covariance_type, 2.0, min_size, seed)
        for code in range(classes)
    ]
    # By digest, so that the order does not depend on the names of labels.
    order = sorted(range(classes), key=lambda code: parts[code].key)
    masses = np.bincount(codes, measure.weights, classes)[order]
    return LabelledSummary(masses / masses.sum(), tuple(parts[code] for code in order), covariance)
