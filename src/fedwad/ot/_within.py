"""The covariance within cells, pooled over them, and its principal directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure

__all__ = [
    "RANK",
    "CellRows",
    "CovarianceType",
    "principal_factors",
    "principal_factors_of_few",
    "split_diagonal",
    "within_cells",
]

#: How much of a covariance is shared: all of it, RANK principal directions and the diagonal, the
#: diagonal, or the trace.
CovarianceType = Literal["auto", "full", "lowrank", "diag", "spherical"]

RANK = 40
_BLOCK_ROWS = 1 << 14
_TINY = 1e-200  # a variance below it may be a sum of squares that vanished
_MIN_SHARE = 1e-4  # smallest share of variance within cells that is computed by subtraction


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

    def deviations(self) -> Floats:
        """Differences of all rows from the means of their cells."""
        return np.asarray(self.measure.rows(self.rows) - self.means[self.labels])

    def deviations_by_block(self) -> Iterator[tuple[slice, Floats]]:
        """The same, some thousand rows at a time."""
        for start in range(0, len(self.rows), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            yield block, self.measure.rows(self.rows[block]) - self.means[self.labels[block]]


def within_cells(
    cells: CellRows, covariance_type: CovarianceType, p: float
) -> tuple[Floats, float]:
    """Pooled covariance of this type and (mean of |x - cell mean|^p)^(1/p), from differences."""
    square = covariance_type in ("full", "lowrank")
    if isinstance(cells.measure, LabelledMeasure) and p == 2 and not square:
        return _within_classes(cells, cells.measure, covariance_type)
    d = cells.measure.dimension
    pooled = np.zeros((d, d) if square else d)
    for block, deviation in cells.deviations_by_block():
        mass = cells.mass[block]
        pooled += (deviation.T * mass) @ deviation if square else mass @ deviation**2
    trace = float(np.trace(pooled) if square else pooled.sum())
    within_std = float(np.sqrt(trace)) if p == 2 and trace > _TINY else _scaled_within_std(cells, p)
    return (np.asarray(pooled.mean()) if covariance_type == "spherical" else pooled), within_std


def _scaled_within_std(cells: CellRows, p: float) -> float:
    """(mean of |x - cell mean|^p)^(1/p) from scaled lengths: squares may vanish at small scales."""
    lengths = np.empty(len(cells.rows))
    for block, deviation in cells.deviations_by_block():
        largest = float(np.abs(deviation).max()) or 1.0
        lengths[block] = largest * np.sqrt(((deviation / largest) ** 2).sum(axis=1))
    longest = float(lengths.max()) or 1.0
    return float(longest * float(cells.mass @ (lengths / longest) ** p) ** (1 / p))


def _within_classes(
    cells: CellRows, measure: LabelledMeasure, covariance_type: CovarianceType
) -> tuple[Floats, float]:
    """`within_cells` for p = 2 without materialising the class columns.

    The variance within cells is the total minus the part between cells. If almost nothing is left,
    which would cost digits, it is computed from differences.
    """
    weights = np.bincount(cells.labels, cells.mass, len(cells.means))
    total = measure.variances
    variances = total - weights @ (cells.means - measure.mean) ** 2
    if not variances.sum() > _MIN_SHARE * total.sum() > 0:
        variances = _variances_by_differences(cells, measure)
    variances = np.maximum(variances, 0.0)
    within_std = float(np.sqrt(variances.sum()))
    return np.asarray(variances.mean() if covariance_type == "spherical" else variances), within_std


def _variances_by_differences(cells: CellRows, measure: LabelledMeasure) -> Floats:
    rows, labels, mass, means = cells.rows, cells.labels, cells.mass, cells.means
    split = measure.features.shape[1]
    features = np.zeros(split)
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        deviation = measure.features[rows[block]] - means[labels[block], :split]
        features += mass[block] @ deviation**2
    size = len(measure.table)
    shares = np.bincount(labels * size + measure.codes[rows], mass, len(means) * size)
    used = np.flatnonzero(shares)  # number of the cell times `size` plus the class
    table = shares[used] @ (measure.table[used % size] - means[used // size, split:]) ** 2
    return np.concatenate([features, table])


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
