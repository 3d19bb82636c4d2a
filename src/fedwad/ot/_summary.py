"""A summary: a description of one client's data in one small message."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice
from fedwad.ot._cells import cell_sums, effective_counts, kmeans_cells
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import Plan
from fedwad.ot._within import (
    CellRows,
    CovarianceType,
    principal_factors,
    principal_factors_of_few,
    split_diagonal,
    within_cells,
)

__all__ = [
    "CovarianceType",
    "Summary",
    "feature_variances",
    "min_cell_size",
    "reduce_covariance",
    "resolve_covariance_type",
    "summarise",
    "summarise_plan",
]

_MAX_FEATURES_FULL = 1024  # with more features, "auto" sends the diagonal of the covariance only


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
        Covariance within cells, averaged over all samples (divisor n, not n - 1): the full matrix,
        its diagonal, or the mean of the diagonal. With `factors`, what they leave of the diagonal.
    factors : array (r, d) or None
        Scaled principal directions F. The covariance within cells is then approximated by
        F^T F + diag(covariance), whose diagonal is exact.
    count : int
        Number of samples, or Kish's effective number when they are weighted.
    within_std : float
        (mean over samples x of |x - mean of the cell of x|^p)^(1/p); for p = 2, the root of the
        trace of the covariance within cells.
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
        if self.factors is None:
            return self.covariance
        return np.asarray(self.covariance + (self.factors**2).sum(axis=0))

    @property
    def variance(self) -> float:
        """Trace of the covariance within cells."""
        return float(feature_variances(self.within, self.dimension).sum())

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
        """Digest of count, weights, means and covariance, but not of `within_std` and `p`."""
        sha = hashlib.sha256(f"{self.count} {self.covariance_type} {self.means.shape}".encode())
        for array in (self.weights, self.means, self.covariance, self.factors):
            sha.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        return sha.digest()


def feature_variances(covariance: Floats, dimension: int) -> Floats:
    """Variance of each feature from a covariance, its diagonal, or the mean of its diagonal."""
    return np.diag(covariance) if covariance.ndim == 2 else np.broadcast_to(covariance, dimension)


def reduce_covariance(covariance: Floats, ndim: int) -> Floats:
    """The diagonal of a covariance (`ndim` 1) or the mean of its diagonal (`ndim` 0).

    A covariance that has no more than `ndim` array axes is returned as it is.
    """
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
    """Summary of a sample by k-means cells.

    Each cell has at least `min_size` samples; a sample with fewer is one cell.
    """
    labels = kmeans_cells(measure, cells, min_size, seed)
    count = int(labels.max()) + 1  # of cells
    origin = measure.points[0]
    weights: Floats = np.asarray(np.bincount(labels, measure.weights, count), dtype=np.float64)
    sums = cell_sums(measure.points, measure.weights, labels, count, origin)
    means = origin + sums / weights[:, None]
    cell_rows = CellRows(measure, np.arange(len(measure)), labels, measure.weights, means)
    return _build_summary(cell_rows, weights, covariance_type, p)


def summarise_plan(plan: Plan, covariance_type: CovarianceType = "auto") -> Summary:
    """Summary of plan.source, whose cell s is the mass that goes to point s of plan.target."""
    weights = plan.received
    kept = np.flatnonzero(weights)  # a target of almost no weight may receive nothing by rounding
    labels = np.searchsorted(kept, plan.cols)
    cells = CellRows(plan.source, plan.rows, labels, plan.mass, plan.target_means()[kept])
    return _build_summary(cells, weights[kept], covariance_type, plan.p)


def resolve_covariance_type(covariance_type: CovarianceType, dimension: int) -> CovarianceType:
    """The type that "auto" stands for with so many features and no classes; others stay."""
    if covariance_type != "auto":
        return covariance_type
    return "full" if dimension <= _MAX_FEATURES_FULL else "diag"


def _build_summary(
    cells: CellRows, weights: Floats, covariance_type: CovarianceType, p: float
) -> Summary:
    check_choice(covariance_type, "covariance_type", get_args(CovarianceType))
    dimension = cells.measure.dimension
    covariance_type = resolve_covariance_type(covariance_type, dimension)
    factors = None
    if covariance_type == "lowrank" and len(cells.rows) < dimension:
        diagonal, within_std = within_cells(cells, "diag", p)
        factors = principal_factors_of_few(cells.deviations() * np.sqrt(cells.mass)[:, None])
        pooled, factors = split_diagonal(diagonal, factors)
    else:
        pooled, within_std = within_cells(cells, covariance_type, p)
        if covariance_type == "lowrank":
            pooled, factors = split_diagonal(np.diag(pooled), principal_factors(pooled))
    return Summary(
        weights=np.asarray(weights / weights.sum()),
        means=cells.means,
        covariance=pooled,
        count=_effective_count(cells.measure),
        within_std=within_std,
        p=p,
        min_cell_size=min_cell_size(cells.labels, cells.mass),
        factors=factors,
    )


def min_cell_size(labels: NDArray[np.int64], mass: Floats) -> int:
    """Effective number of samples in the cell that has fewest.

    A cell of ten equal weights has ten; a cell of one heavy and some light samples has about one.
    """
    return int(effective_counts(labels, mass).min() + 1e-9)


def _effective_count(measure: Measure) -> int:
    one_cell = np.zeros(len(measure), dtype=np.int64)
    return max(1, round(float(effective_counts(one_cell, measure.weights)[0])))
