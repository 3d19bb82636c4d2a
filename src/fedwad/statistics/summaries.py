"""Summaries: a description of one client's data, or of its classes, in one small message.

A summary has the weights and means of cells, and the covariance within cells, pooled over them: all
of it, its principal directions, its diagonal, or its trace.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.statistics.cells import (
    Counted,
    cell_sums,
    effective_count,
    group_sums,
    kmeans_cells,
    nearest,
)
from fedwad.transport.labels import ClassCovariance, class_codes, samples_of
from fedwad.transport.measures import Floats, LabelledMeasure, Measure, row_slices
from fedwad.transport.plans import Plan

#: How much of a covariance is shared: all of it, RANK principal directions and the diagonal, the
#: diagonal, or the trace.
CovarianceType = Literal["auto", "full", "lowrank", "diag", "spherical"]

RANK = 40  # half and twice change no error (benchmarks/ablation.md); it limits bytes
_EPSILON = float(np.finfo(np.float64).eps)  # the spacing of floats at one


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
    present: NDArray[np.bool_] | None = None,
    units: NDArray[np.int64] | None = None,
) -> Summary:
    """Summary of a sample by k-means cells.

    Each cell has at least `min_size` samples; a sample with fewer is one cell. With `units`, the
    unit (such as a patient) of each sample, it has samples of so many units. With `present`,
    (n, c), which says where some columns have a value, no cell has few values of one of these,
    unless all have: `min_cell_size` of the result counts both.
    """
    counted = Counted(present, units)
    labels = kmeans_cells(measure, cells, min_size, seed, counted)
    count = int(labels.max()) + 1  # of cells
    origin = measure.points[0]
    weights: Floats = np.asarray(np.bincount(labels, measure.weights, count), dtype=np.float64)
    sums = cell_sums(measure.points, measure.weights, labels, count, origin)
    means = origin + sums / weights[:, None]
    cell_rows = CellRows(measure, np.arange(len(measure)), labels, measure.weights, means)
    fewest = counted.fewest(labels, measure.weights)
    return _build_summary(cell_rows, weights, covariance_type, p, fewest)


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums over rows in the cells of given centres, each row in that of the nearest; they add up.

    Attributes
    ----------
    centres : array (S, d), the same in all parts, such as the cell means of a sample
    counts : array (S,), rows of each cell
    sums : array (S, d), of x - centre
    products : array (d, d), of (x - centre) (x - centre)^T over all cells; (d,) its diagonal
    present : array (S, c), rows of each cell with a value in columns that may have none

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(3000, 2))
    >>> sample = summarise(Measure(rows[:300]))
    >>> parts = [CellSums.of(part, sample.means, "full") for part in np.array_split(rows, 3)]
    >>> merge_cells(*parts).summary("full").count
    3000
    """

    centres: Floats
    counts: Floats
    sums: Floats
    products: Floats
    present: Floats

    @classmethod
    def of(
        cls,
        points: Floats,
        centres: Floats,
        covariance_type: CovarianceType,
        present: NDArray[np.bool_] | None = None,
    ) -> CellSums:
        """The sums over these rows; `present` says where columns (n, c) have a value."""
        there = np.zeros((len(points), 0)) if present is None else present.astype(np.float64)
        seen = np.zeros((len(centres), there.shape[1]))
        middle = centres.mean(axis=0)
        square = resolve_covariance_type(covariance_type, centres.shape[1]) in ("full", "lowrank")
        counts, sums = np.zeros(len(centres)), np.zeros_like(centres)
        products = np.zeros(2 * centres.shape[1:] if square else centres.shape[1:])
        for block in row_slices(*points.shape):
            labels = nearest(points[block], centres - middle, middle)
            near = points[block] - centres[labels]
            counts += np.bincount(labels, minlength=len(centres))
            sums += group_sums(near, labels, len(centres))
            seen += group_sums(there[block], labels, len(centres))
            products += near.T @ near if square else np.einsum("id,id->d", near, near)
        return cls(centres, counts, sums, products, seen)

    @property
    def smallest(self) -> int:
        """The fewest rows that a number of the summary stands for: of a cell, or of a column that
        has values there."""
        counts = np.column_stack([self.counts, self.present])
        return int(counts[counts > 0].min())

    def summary(self, covariance_type: CovarianceType) -> Summary:
        """The summary of all rows, of order 2; cells without a row are left out."""
        kept = self.counts > 0
        counts, rows = self.counts[kept], float(self.counts.sum())
        shifts = self.sums[kept] / counts[:, None]
        wanted = resolve_covariance_type(covariance_type, self.centres.shape[1])
        if self.products.ndim == 2:
            pooled = (self.products - (shifts.T * counts) @ shifts) / rows
            trace = float(np.trace(pooled))
        else:
            pooled = np.maximum(self.products - counts @ shifts**2, 0.0) / rows
            trace = float(pooled.sum())
        pooled, factors = _part_of(pooled, wanted)
        return Summary(
            weights=counts / rows,
            means=self.centres[kept] + shifts,
            covariance=pooled,
            count=int(rows),
            within_std=math.sqrt(max(trace, 0.0)),
            p=2.0,
            min_cell_size=int(counts.min()),
            factors=factors,
        )


def merge_cells(*parts: CellSums) -> CellSums:
    """The sums over the rows of all parts, whose centres must be the same."""
    return CellSums(
        parts[0].centres,
        np.sum([part.counts for part in parts], axis=0),
        np.sum([part.sums for part in parts], axis=0),
        np.sum([part.products for part in parts], axis=0),
        np.sum([part.present for part in parts], axis=0),
    )


def summarise_plan(plan: Plan, covariance_type: CovarianceType = "auto") -> Summary:
    """Summary of plan.source, whose cell s is the mass that goes to point s of plan.target."""
    weights = plan.received
    kept = np.flatnonzero(weights)  # a target of almost no weight may receive nothing by rounding
    labels = np.searchsorted(kept, plan.cols)
    cells = CellRows(plan.source, plan.rows, labels, plan.mass, plan.target_means()[kept])
    fewest = Counted().fewest(labels, plan.mass)
    return _build_summary(cells, weights[kept], covariance_type, plan.p, fewest)


def resolve_covariance_type(
    covariance_type: CovarianceType, dimension: int, most_features: int = 1024
) -> CovarianceType:
    """The type that "auto" stands for with so many features and no classes; others stay.

    The covariance of more than `most_features` would take more than 8 MB.
    """
    if covariance_type != "auto":
        return covariance_type
    return "full" if dimension <= most_features else "diag"


def _build_summary(
    cells: CellRows, weights: Floats, covariance_type: CovarianceType, p: float, fewest: int
) -> Summary:
    check_choice(covariance_type, "covariance_type", get_args(CovarianceType))
    dimension = cells.measure.dimension
    covariance_type = resolve_covariance_type(covariance_type, dimension)
    factors: Floats | None
    if covariance_type == "lowrank" and len(cells.rows) < dimension:
        diagonal, within_std = within_cells(cells, False, p)
        deviations = np.concatenate([some for _, some in cells.deviations_by_block()])
        directions = principal_factors_of_few(deviations * np.sqrt(cells.mass)[:, None])
        pooled, factors = split_diagonal(diagonal, directions)
    else:
        pooled, within_std = within_cells(cells, covariance_type in ("full", "lowrank"), p)
        pooled, factors = _part_of(pooled, covariance_type)
    return Summary(
        weights=np.asarray(weights / weights.sum()),
        means=cells.means,
        covariance=pooled,
        count=effective_count(cells.measure.weights),
        within_std=within_std,
        p=p,
        min_cell_size=fewest,
        factors=factors,
    )


def _part_of(pooled: Floats, covariance_type: CovarianceType) -> tuple[Floats, Floats | None]:
    """What a summary of this type has of a pooled covariance, or of its diagonal, and factors."""
    if covariance_type == "lowrank":
        return split_diagonal(np.diag(pooled), principal_factors(pooled))
    return np.asarray(pooled.mean()) if covariance_type == "spherical" else pooled, None


@dataclass(frozen=True, eq=False)
class CellRows:
    """The rows of a sample in its cells: row rows[k] is in cell labels[k] with mass[k].

    A row may be in several cells, with a part of its mass in each.
    """

    measure: Measure
    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    mass: Floats
    means: Floats

    def deviations_by_block(self) -> Iterator[tuple[slice, Floats]]:
        """Differences of all rows from the means of their cells, some thousand rows at a time."""
        for block in row_slices(len(self.rows), self.means.shape[1]):
            yield block, self.measure.rows(self.rows[block]) - self.means[self.labels[block]]


def within_cells(cells: CellRows, square: bool, p: float) -> tuple[Floats, float]:
    """Pooled covariance, all of it if `square` or its diagonal, and (mean of
    |x - cell mean|^p)^(1/p)."""
    pooled = None
    if isinstance(cells.measure, LabelledMeasure) and p == 2 and not square:
        pooled = _within_classes(cells, cells.measure)
    if pooled is None:
        d = cells.measure.dimension
        pooled = np.zeros((d, d) if square else d)
        for block, deviation in cells.deviations_by_block():
            mass = cells.mass[block]
            pooled += (deviation.T * mass) @ deviation if square else mass @ deviation**2
    trace = float(np.trace(pooled) if square else pooled.sum())
    if p == 2 and trace > 1e-200:
        return pooled, math.sqrt(trace)
    return pooled, _scaled_within_std(cells, p)


def _scaled_within_std(cells: CellRows, p: float) -> float:
    """(mean of |x - cell mean|^p)^(1/p) from scaled lengths: squares may vanish at small scales."""
    lengths = np.empty(len(cells.rows))
    for block, deviation in cells.deviations_by_block():
        largest = float(np.abs(deviation).max()) or 1.0
        lengths[block] = largest * np.sqrt(((deviation / largest) ** 2).sum(axis=1))
    longest = float(lengths.max()) or 1.0
    return float(longest * float(cells.mass @ (lengths / longest) ** p) ** (1 / p))


def _within_classes(cells: CellRows, measure: LabelledMeasure) -> Floats | None:
    """The variances of `within_cells` without materialising the class columns: the total minus the
    part between cells; None if almost nothing is left, which would cost digits."""
    weights = np.bincount(cells.labels, cells.mass, len(cells.means))
    total = measure.variances
    variances = total - weights @ (cells.means - measure.mean) ** 2
    return np.maximum(variances, 0.0) if variances.sum() > 1e-4 * total.sum() > 0 else None


def split_diagonal(diagonal: Floats, factors: Floats) -> tuple[Floats, Floats]:
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


def principal_factors(covariance: Floats) -> Floats:
    """At most RANK scaled principal directions F, with F^T F close to the covariance."""
    from scipy.linalg import eigh

    d = len(covariance)
    values, vectors = eigh(covariance, subset_by_index=(d - min(RANK, d), d - 1))
    return np.ascontiguousarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def principal_factors_of_few(deviations: Floats) -> Floats:
    """The same for deviations^T deviations, from the smaller matrix deviations deviations^T.

    Single precision is enough for directions: what they leave of the diagonal is exact, see
    `split_diagonal`.
    """
    from scipy.linalg import eigh

    n = len(deviations)
    products = deviations @ deviations.T
    values, vectors = eigh(
        (products / (np.trace(products) or 1.0)).astype(np.float32),
        subset_by_index=(n - min(RANK, n), n - 1),
    )
    # An eigenvector u of value v maps to the factor u^T deviations, of length sqrt(v).
    found: Floats = np.ascontiguousarray(vectors[:, values > 0].T @ deviations)
    return found


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
    present: NDArray[np.bool_] | None = None,
    units: NDArray[np.int64] | None = None,
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
            f" '{covariance_type}'; use 'auto' or 'full'.",
            "bad-option",
        )
    if covariance_type == "auto":
        few = measure.dimension <= 64
        covariance_type = "full" if covariance == "full" or few else "lowrank"
    if covariance_type == "spherical":
        raise InputError(
            "Classes are compared by standard deviations, but covariance_type is 'spherical'; use"
            " 'diag', 'lowrank' or 'full'.",
            "bad-option",
        )
    each = max(1, cells // classes)
    parts = [
        summarise(
            samples_of(measure, codes, code),
            each,
            covariance_type,
            2.0,
            min_size,
            seed,
            None if present is None else present[codes == code],
            None if units is None else units[codes == code],
        )
        for code in range(classes)
    ]
    # By digest, so that the order does not depend on the names of labels.
    order = sorted(range(classes), key=lambda code: parts[code].key)
    masses = np.bincount(codes, measure.weights, classes)[order]
    return LabelledSummary(masses / masses.sum(), tuple(parts[code] for code in order), covariance)
