"""Splits of one sample at random, and what a server makes of the summaries of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._cells import effective_counts, group_sums, kmeans_cells
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._order import sorted_generator
from fedwad.ot._solve import solve
from fedwad.ot._summary import CovarianceType, Summary
from fedwad.ot._synthetic import SyntheticSample as Synthetic

__all__ = ["MAX_HALF", "MIN_HALF", "Indices", "Splits", "effective_count"]

#: Largest number of rows in a half: for samples below and above some thousand rows.
MAX_HALF = 200, 400
#: Fewest rows in a half for which the estimator's error is measured.
MIN_HALF = 10
_SCALE_SPLITS = 12  # for `scale_differences`, which needs no transport
_TOTAL_ROWS = 800  # of one half, over all splits
_MIN_SPLITS, _MAX_SPLITS = 4, 12
_DRAWS = 2  # synthetic samples per estimate
_GROUP_FRACTIONS = (0.75, 1.0)  # of the first group in one part of `unequal_mixtures`
_KMEANS_ITERATIONS = 8

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Splits:
    """Splits of one sample, and what a server makes of their summaries."""

    measure: Measure
    order: Indices
    rng: np.random.Generator
    cells: int
    covariance_type: CovarianceType
    min_cell_size: int
    size: int
    support: Floats | None = None

    @classmethod
    def of(
        cls,
        measure: Measure,
        cells: int,
        covariance_type: CovarianceType,
        min_cell_size: int,
        support: Floats | None = None,
        digest: str = "",
    ) -> Splits:
        order, rng = sorted_generator(measure, "calibration", digest)
        small, large = MAX_HALF
        size = min(len(measure) // 2, large, small + len(measure) // 15)
        if support is not None:
            support = support[rng.permutation(len(support))]
        return cls(measure, order, rng, cells, covariance_type, min_cell_size, size, support)

    def halves(self) -> Iterator[tuple[Indices, Indices]]:
        for _ in range(int(np.clip(_TOTAL_ROWS // self.size, _MIN_SPLITS, _MAX_SPLITS))):
            order = self._some_rows()
            yield order[: self.size], order[self.size :]

    def _some_rows(self) -> Indices:
        """Rows of two halves, drawn at random."""
        return self.order[self.rng.choice(len(self.order), 2 * self.size, replace=False)]

    def quarters(self, half: tuple[Indices, Indices]) -> list[tuple[Indices, Indices]]:
        size = self.size // 2
        return [(rows[:size], rows[size : 2 * size]) for rows in half] if size else []

    def scale_differences(self) -> tuple[float, float]:
        """How far standard deviations of halves are apart, by feature and in total."""
        found = []
        for _ in range(_SCALE_SPLITS):
            order = self._some_rows()
            one, two = (
                _standard_deviations(self.part(rows))
                for rows in (order[: self.size], order[self.size :])
            )
            total = float(np.linalg.norm(one) - np.linalg.norm(two))
            found.append((float(((one - two) ** 2).sum()), total**2))
        by_feature, total = np.mean(found, axis=0)
        return float(by_feature), float(total)

    def part(self, rows: Indices) -> Measure:
        return Measure(self.measure.rows(rows), self.measure.weights[rows])

    def transport(self, a: Indices, b: Indices) -> Floats:
        """Squared distance between two parts of the rows, by feature."""
        one, two = self.part(a), self.part(b)
        if one.is_uniform and two.is_uniform and len(a) == len(b):
            return np.asarray(
                ((one.points - two.points[_optimal_assignment(one, two)]) ** 2).mean(axis=0)
            )
        plan = solve(one, two)
        return np.asarray(plan.mass @ (one.points[plan.rows] - two.points[plan.cols]) ** 2)

    def effective_size(self, halves: list[tuple[Indices, Indices]]) -> float:
        return float(
            np.mean(
                [effective_count(self.measure.weights[rows]) for half in halves for rows in half]
            )
        )

    def estimates(
        self, a: Indices, b: Indices, sizes: Sequence[int], draws: int = _DRAWS
    ) -> list[float]:
        """Squares that a server estimates from the summaries of two parts, drawn at some sizes."""
        one, two = (self._synthetic(self.part(rows)) for rows in (a, b))

        def square(size: int) -> float:
            x, y = one.draw(size, self.rng), two.draw(size, self.rng)
            return float(((x.points - y.points[_optimal_assignment(x, y)]) ** 2).sum() / size)

        return [float(np.mean([square(size) for _ in range(draws)])) for size in sizes]

    def _synthetic(self, part: Measure) -> Synthetic:
        weights, means, factor = (
            self._kmeans_cells(part) if self.support is None else self._support_cells(part)
        )
        known = (weights, means, np.zeros(part.dimension), len(part), 0.0, 2.0, self.min_cell_size)
        if self.covariance_type == "spherical":
            level = np.sqrt((factor**2).sum() / part.dimension)
            return Synthetic(Summary(*known), np.full(part.dimension, level), None)
        if self.covariance_type == "diag":
            return Synthetic(Summary(*known), np.sqrt((factor**2).sum(axis=0)), None)
        # The deviations of the rows, or a triangle as small as their covariance, are a factor
        # of it, which saves the covariance and its eigenvectors. A low rank is about the same.
        if len(factor) > part.dimension:
            factor = np.asarray(np.linalg.qr(factor, mode="r"))
        return Synthetic(Summary(*known), None, factor)

    def _kmeans_cells(self, part: Measure) -> tuple[Floats, Floats, Floats]:
        """Weights and means of cells, and a factor of the covariance within them."""
        labels = kmeans_cells(part, self.cells, self.min_cell_size, 0, _KMEANS_ITERATIONS)
        groups = int(labels.max()) + 1
        weights = np.asarray(np.bincount(labels, part.weights, groups), dtype=np.float64)
        means = group_sums(part.weights[:, None] * part.points, labels, groups) / weights[:, None]
        return weights, means, (part.points - means[labels]) * np.sqrt(part.weights)[:, None]

    def _support_cells(self, part: Measure) -> tuple[Floats, Floats, Floats]:
        """The same of the cells of a support that both parts share.

        It has fewer points, so that cells have as many rows as those of all rows have.
        """
        assert self.support is not None  # noqa: S101
        count = max(1, round(len(self.support) * len(part) / len(self.measure)))
        plan = solve(part, Measure(self.support[:count]))
        weights = np.asarray(np.bincount(plan.cols, plan.mass, count), dtype=np.float64)
        points = part.points[plan.rows]
        means = group_sums(plan.mass[:, None] * points, plan.cols, count) / weights[:, None]
        return weights, means, (points - means[plan.cols]) * np.sqrt(plan.mass)[:, None]

    def unequal_mixtures(self) -> Iterator[tuple[Indices, Indices]]:
        """Pairs of parts with unequal fractions of two groups of cells that lie apart."""
        order = self._some_rows()
        left, right = (
            order[mask] for mask in _two_groups(self.part(order), self.cells, self.min_cell_size)
        )
        size = min(len(left), len(right), self.size)
        for fraction in _GROUP_FRACTIONS if size >= MIN_HALF else ():
            many, few = round(fraction * size), size - round(fraction * size)
            one, two = self.rng.permutation(left), self.rng.permutation(right)
            yield (
                np.concatenate([one[:many], two[:few]]),
                np.concatenate([two[few : few + many], one[many : many + few]]),
            )


def _optimal_assignment(one: Measure, two: Measure) -> Indices:
    """The optimal assignment of equally many rows of equal weight.

    It carries no proof, since nothing certified rests on it. Costs that are reduced by their
    smallest entries have the same optimum and are solved in half the time.
    """
    from scipy.optimize import linear_sum_assignment

    x, y = one.points - one.mean, two.points - one.mean
    cost = x @ (-2 * y.T)
    cost += (y**2).sum(axis=1)
    cost -= cost.min(axis=1)[:, None]
    cost -= cost.min(axis=0)
    return np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)


def _standard_deviations(part: Measure) -> Floats:
    return np.asarray(np.sqrt(part.weights @ (part.points - part.mean) ** 2))


def effective_count(weights: Floats) -> int:
    """Kish's effective number of rows."""
    return max(
        1, round(float(effective_counts(np.zeros(len(weights), dtype=np.int64), weights)[0]))
    )


def _two_groups(
    part: Measure, cells: int, min_cell_size: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Cells dealt into two groups of about half the rows each, along their main direction."""
    labels = kmeans_cells(part, cells, min_cell_size, 0, _KMEANS_ITERATIONS)
    groups = int(labels.max()) + 1
    means = np.array([part.points[labels == cell].mean(axis=0) for cell in range(groups)])
    if groups == 1:
        means, labels = part.points, np.arange(len(part))
    centred = means - means.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    along = np.argsort(centred @ axes[0], kind="stable")
    before = np.cumsum(np.bincount(labels)[along])
    cut = int(np.abs(before - len(part) / 2).argmin()) + 1
    left = np.isin(labels, along[:cut])
    return left, ~left
