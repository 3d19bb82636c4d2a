"""A summary: a description of one client's data in one small message."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice
from fedwad.ot._cells import effective_counts, group_sums, kmeans_cells
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import Plan

__all__ = [
    "CovarianceType",
    "Summary",
    "min_cell_size",
    "reduce_covariance",
    "summarise",
    "summarise_plan",
]

#: How much of a covariance is shared: all of it, RANK principal directions and the diagonal, the
#: diagonal, or the trace.
CovarianceType = Literal["auto", "full", "lowrank", "diag", "spherical"]

RANK = 40
_FULL_UP_TO = 1024  # features; beyond, "auto" sends the diagonal only
_ROWS = 1 << 14
_LEFT = 1e-4  # smallest share of variance within cells that is computed by subtraction


@dataclass(frozen=True, eq=False)
class Summary:
    """S cells of one client's data.

    Attributes
    ----------
    weights : array (S,)
        Mass of each cell, sum one.
    means : array (S, d)
        Mean of each cell.
    covariance : array (d, d), (d,) or ()
        Covariance within cells, pooled over them (population form): the full matrix, its diagonal,
        or the mean of the diagonal.
    factors : array (r, d) or None
        Principal directions F of a covariance F^T F + diag(covariance), whose diagonal is exact.
    count : int
        Number of samples, or Kish's effective number when they are weighted.
    within_std : float
        (mean of |x - own cell's mean|^p)^(1/p), for p = 2 the root of the covariance's trace.
    p : float
        The order that `within_std` belongs to.
    min_cell_size : int
        Number of samples in the smallest cell, Kish's effective number when they are weighted.
    """

    weights: Floats
    means: Floats
    covariance: Floats
    count: int
    within_std: float
    p: float
    min_cell_size: int
    factors: Floats | None = None

    @property
    def dimension(self) -> int:
        return int(self.means.shape[1])

    @property
    def cells(self) -> Measure:
        """The cell means as a measure."""
        return Measure(self.means, self.weights)

    @property
    def mean(self) -> Floats:
        """Mean of the data, exact."""
        return self.cells.mean

    @property
    def covariance_type(self) -> CovarianceType:
        """Which part of the covariance is known: "full", "lowrank", "diag" or "spherical"."""
        if self.factors is not None:
            return "lowrank"
        covariance_types: tuple[CovarianceType, ...] = ("spherical", "diag", "full")
        return covariance_types[self.covariance.ndim]

    @property
    def within(self) -> Floats:
        """The exactly known part of the covariance within cells: the matrix, its diagonal, or the
        mean of the diagonal."""
        return (
            self.covariance
            if self.factors is None
            else self.covariance + (self.factors**2).sum(axis=0)
        )

    @property
    def variance(self) -> float:
        """Trace of the covariance within cells."""
        within = self.within
        return float(
            np.trace(within) if within.ndim == 2 else np.broadcast_to(within, self.dimension).sum()
        )

    def total_covariance(self) -> Floats:
        """The exactly known part of the data's covariance: within cells plus between them."""
        centred = self.means - self.mean
        within = self.within
        if within.ndim == 2:
            return np.asarray(within + (centred.T * self.weights) @ centred)
        between = self.weights @ centred**2
        return np.asarray(within + (between if within.ndim == 1 else between.mean()))

    @cached_property
    def key(self) -> bytes:
        """Digest of all fields. Equal digests mean data that no summary can distinguish."""
        sha = hashlib.sha256(f"{self.count} {self.covariance_type} {self.means.shape}".encode())
        for array in (self.weights, self.means, self.covariance, self.factors):
            sha.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        return sha.digest()


def reduce_covariance(covariance: Floats, ndim: int) -> Floats:
    """A covariance reduced to at most `ndim` axes: its diagonal (1), or its mean variance (0)."""
    if covariance.ndim <= ndim:
        return covariance
    if covariance.ndim == 2:
        covariance = np.diag(covariance)
    return np.asarray(covariance if ndim == 1 else covariance.mean())


def summarise(
    measure: Measure,
    cells: int = 10,
    covariance_type: CovarianceType = "auto",
    p: float = 2.0,
    min_size: int = 10,
    seed: int = 0,
) -> Summary:
    """Summary of a sample from k-means cells of at least `min_size` samples, if it has so many."""
    labels = kmeans_cells(measure, cells, min_size, seed)
    groups = int(labels.max()) + 1
    origin = measure.points[0]
    weights: Floats = np.asarray(np.bincount(labels, measure.weights, groups), dtype=np.float64)
    means = (
        origin
        + group_sums(measure.weights[:, None] * (measure.points - origin), labels, groups)
        / weights[:, None]
    )
    return _summary(
        measure,
        np.arange(len(measure)),
        labels,
        measure.weights,
        weights,
        means,
        covariance_type,
        p,
    )


def summarise_plan(plan: Plan, covariance_type: CovarianceType = "auto") -> Summary:
    """Summary of plan.source; each point of plan.target receives one cell."""
    weights = plan.received
    kept = np.flatnonzero(weights)  # a target lighter than rounding may receive nothing
    labels = np.searchsorted(kept, plan.cols)
    means = plan.target_means()[kept]
    return _summary(
        plan.source, plan.rows, labels, plan.mass, weights[kept], means, covariance_type, plan.p
    )


def _summary(
    measure: Measure,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    mass: Floats,
    weights: Floats,
    means: Floats,
    covariance_type: CovarianceType,
    p: float,
) -> Summary:
    check_choice(covariance_type, "covariance_type", get_args(CovarianceType))
    if covariance_type == "auto":
        covariance_type = "full" if measure.dimension <= _FULL_UP_TO else "diag"
    factors = None
    if covariance_type == "lowrank" and len(rows) < measure.dimension:
        diagonal, within_std = _within(measure, rows, labels, mass, means, "diag", p)
        factors = _main_directions_of_few(
            (measure.rows(rows) - means[labels]) * np.sqrt(mass)[:, None]
        )
        pooled, factors = _split_diagonal(diagonal, factors)
    else:
        pooled, within_std = _within(measure, rows, labels, mass, means, covariance_type, p)
        if covariance_type == "lowrank":
            pooled, factors = _split_diagonal(np.diag(pooled), _main_directions(pooled))
    return Summary(
        weights=np.asarray(weights / weights.sum()),
        means=means,
        covariance=pooled,
        count=_effective_count(measure),
        within_std=within_std,
        p=p,
        min_cell_size=min_cell_size(labels, mass),
        factors=factors,
    )


def _within(
    measure: Measure,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    mass: Floats,
    means: Floats,
    covariance_type: CovarianceType,
    p: float,
) -> tuple[Floats, float]:
    """Pooled covariance of this type and (mean of |x - cell mean|^p)^(1/p), from differences."""
    if isinstance(measure, LabelledMeasure) and p == 2 and covariance_type in ("diag", "spherical"):
        return _within_classes(measure, rows, labels, mass, means, covariance_type)
    d = measure.dimension
    square = covariance_type in ("full", "lowrank")
    pooled = np.zeros((d, d) if square else d)
    lengths = np.empty(len(rows))
    for start in range(0, len(rows), _ROWS):
        block = slice(start, start + _ROWS)
        deviation = measure.rows(rows[block]) - means[labels[block]]
        pooled += (deviation.T * mass[block]) @ deviation if square else mass[block] @ deviation**2
        # From scaled lengths: squares may vanish at small scales.
        largest = float(np.abs(deviation).max()) or 1.0
        lengths[block] = largest * np.sqrt(((deviation / largest) ** 2).sum(axis=1))
    longest = float(lengths.max()) or 1.0
    within_std = longest * float(mass @ (lengths / longest) ** p) ** (1 / p)
    return (np.asarray(pooled.mean()) if covariance_type == "spherical" else pooled), within_std


def _within_classes(
    measure: LabelledMeasure,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    mass: Floats,
    means: Floats,
    covariance_type: CovarianceType,
) -> tuple[Floats, float]:
    """The same for p = 2 without materialising the class columns, which are equal within a class.

    The variance within cells is the whole minus the part between cells. If almost nothing is left,
    which would cost digits, it is computed from differences.
    """
    weights = np.bincount(labels, mass, len(means))
    whole = measure.variances
    variances = whole - weights @ (means - measure.mean) ** 2
    if not variances.sum() > _LEFT * whole.sum() > 0:
        variances = _by_differences(measure, rows, labels, mass, means)
    variances = np.maximum(variances, 0.0)
    within_std = float(np.sqrt(variances.sum()))
    return np.asarray(variances.mean() if covariance_type == "spherical" else variances), within_std


def _by_differences(
    measure: LabelledMeasure,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    mass: Floats,
    means: Floats,
) -> Floats:
    split = measure.features.shape[1]
    features = np.zeros(split)
    for start in range(0, len(rows), _ROWS):
        block = slice(start, start + _ROWS)
        deviation = measure.features[rows[block]] - means[labels[block], :split]
        features += mass[block] @ deviation**2
    size = len(measure.table)
    shares = np.bincount(labels * size + measure.codes[rows], mass, len(means) * size)
    kinds = np.flatnonzero(shares)
    table = shares[kinds] @ (measure.table[kinds % size] - means[kinds // size, split:]) ** 2
    return np.concatenate([features, table])


def _split_diagonal(diagonal: Floats, factors: Floats) -> tuple[Floats, Floats]:
    """The part of a diagonal that F^T F leaves, and F, so that both together give the diagonal.

    An eigenvalue is off by roundings of the largest one. A feature that hardly varies would then
    get a variance from F that it does not have, and its standard deviation would be off by
    sqrt(epsilon). Such columns of F are scaled down until F^T F does not exceed the diagonal.
    """
    explained = (factors**2).sum(axis=0)
    above = explained > diagonal
    if above.any():
        downwards = 1 - (len(factors) + 4) * float(np.finfo(np.float64).eps)
        scale = np.sqrt(diagonal[above] / explained[above]) * downwards
        factors = factors.copy()
        factors[:, above] *= scale
        explained = (factors**2).sum(axis=0)
    return np.maximum(diagonal - explained, 0.0), factors


def _main_directions(covariance: Floats) -> Floats:
    """At most RANK factors F with F^T F close to the covariance."""
    from scipy.linalg import eigh

    d = len(covariance)
    values, vectors = eigh(covariance, subset_by_index=(d - min(RANK, d), d - 1))
    return np.ascontiguousarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def _main_directions_of_few(deviations: Floats) -> Floats:
    """The same for deviations^T deviations, from the smaller matrix deviations deviations^T."""
    from scipy.linalg import eigh

    n = len(deviations)
    values, vectors = eigh(deviations @ deviations.T, subset_by_index=(n - min(RANK, n), n - 1))
    # An eigenvector u of value v maps to the factor u^T deviations, of length sqrt(v).
    found: Floats = np.ascontiguousarray(vectors[:, values > 0].T @ deviations)
    return found


def min_cell_size(labels: NDArray[np.int64], mass: Floats) -> int:
    """Effective number of samples in the cell that has fewest.

    A cell of ten equal weights has ten; a cell of one heavy and some light samples has about one.
    """
    return int(effective_counts(labels, mass).min() + 1e-9)


def _effective_count(measure: Measure) -> int:
    whole = np.zeros(len(measure), dtype=np.int64)
    return max(1, round(float(effective_counts(whole, measure.weights)[0])))
