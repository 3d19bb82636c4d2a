"""A summary: what a client may tell about its data in one small message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.ot._cells import group_sums, kmeans_cells
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import Plan

__all__ = ["Covariance", "Summary", "summarise", "summarise_plan"]

Covariance = Literal["auto", "full", "diagonal", "isotropic"]

_FULL_UP_TO = 1024  # features; beyond, "auto" sends the diagonal only
_ROWS = 1 << 14


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
        Covariance within cells, pooled over them (population form): the full matrix, its diagonal, or
        the mean of the diagonal alone.
    count : int
        Number of samples, or Kish's effective number when they are weighted.
    spread : float
        (mean of |x - own cell's mean|^p)^(1/p), for p = 2 the root of the covariance's trace.
    p : float
        The order that `spread` belongs to.
    smallest : int
        Number of samples in the smallest cell.
    """

    weights: Floats
    means: Floats
    covariance: Floats
    count: int
    spread: float
    p: float
    smallest: int

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
    def form(self) -> Covariance:
        """Which part of the covariance is known: "full", "diagonal" or "isotropic"."""
        forms: tuple[Covariance, ...] = ("isotropic", "diagonal", "full")
        return forms[self.covariance.ndim]

    def total_covariance(self) -> Floats:
        """Covariance of the data in the form that is known, exact: within cells plus between them."""
        centred = self.means - self.mean
        if self.form == "full":
            return np.asarray(self.covariance + (centred.T * self.weights) @ centred)
        between = self.weights @ centred**2
        return np.asarray(self.covariance + (between if self.form == "diagonal" else between.mean()))

    def is_same_as(self, other: Summary) -> bool:
        """Whether both summaries agree in every bit."""
        return (
            self.count == other.count
            and np.array_equal(self.weights, other.weights)
            and np.array_equal(self.means, other.means)
            and np.array_equal(self.covariance, other.covariance)
        )


def summarise(
    measure: Measure, cells: int = 10, covariance: Covariance = "auto", p: float = 2.0, floor: int = 10, seed: int = 0
) -> Summary:
    """Summary of a sample from k-means cells, each of at least `floor` samples where there are that many."""
    labels = kmeans_cells(measure, cells, floor, seed)
    groups = int(labels.max()) + 1
    origin = measure.points[0]
    weights: Floats = np.asarray(np.bincount(labels, measure.weights, groups), dtype=np.float64)
    means = origin + group_sums(measure.weights[:, None] * (measure.points - origin), labels, groups) / weights[:, None]
    return _summary(measure, np.arange(len(measure)), labels, measure.weights, weights, means, covariance, p)


def summarise_plan(plan: Plan, covariance: Covariance = "auto") -> Summary:
    """Summary of plan.source whose cells are what each point of plan.target receives."""
    weights, means = plan.target.weights, plan.target_means()
    return _summary(plan.source, plan.rows, plan.cols, plan.mass, weights, means, covariance, plan.p)


def _summary(
    measure: Measure,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    mass: Floats,
    weights: Floats,
    means: Floats,
    covariance: Covariance,
    p: float,
) -> Summary:
    if covariance not in get_args(Covariance):
        raise InputError(f"covariance is {covariance!r}; choose one of {', '.join(get_args(Covariance))}.")
    if covariance == "auto":
        covariance = "full" if measure.dimension <= _FULL_UP_TO else "diagonal"
    pooled, power = _within(measure.points, rows, labels, mass, means, covariance, p)
    return Summary(
        weights=np.asarray(weights / weights.sum()),
        means=means,
        covariance=pooled,
        count=_effective_count(measure),
        spread=power ** (1 / p),
        p=p,
        smallest=int(np.bincount(labels).min()),
    )


def _within(
    points: Floats,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    mass: Floats,
    means: Floats,
    form: Covariance,
    p: float,
) -> tuple[Floats, float]:
    """Pooled covariance in the wanted form and mean of |x - cell mean|^p, from differences (no cancellation)."""
    d = points.shape[1]
    pooled = np.zeros((d, d) if form == "full" else d)
    power = 0.0
    for start in range(0, len(rows), _ROWS):
        block = slice(start, start + _ROWS)
        deviation = points[rows[block]] - means[labels[block]]
        squares = deviation**2
        pooled += (deviation.T * mass[block]) @ deviation if form == "full" else mass[block] @ squares
        power += float(mass[block] @ squares.sum(axis=1) ** (p / 2))
    return (np.asarray(pooled.mean()) if form == "isotropic" else pooled), power


def _effective_count(measure: Measure) -> int:
    if measure.is_uniform:
        return len(measure)
    return max(1, round(1 / float((measure.weights**2).sum())))
