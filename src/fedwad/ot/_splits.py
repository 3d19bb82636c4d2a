"""Random splits of one sample, and the estimates that a server makes from their summaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._cells import effective_counts, group_sums
from fedwad.ot._cost import ground_cost, paired_squares
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._nearly import near_assignment
from fedwad.ot._order import sorted_generator
from fedwad.ot._plan_columns import pair_columns, plan_columns
from fedwad.ot._solve import solve
from fedwad.ot._split_cells import PartCells, cells_of_parts
from fedwad.ot._summary import CovarianceType, Summary
from fedwad.ot._synthetic import SyntheticSample as Synthetic

__all__ = [
    "MAX_HALF",
    "MIN_HALF",
    "Drawing",
    "Half",
    "Indices",
    "Splits",
    "effective_count",
    "optimal_assignment",
]

#: Largest number of rows in a half: for samples below and above some thousand rows.
MAX_HALF = 150, 300
#: Fewest rows in a half for which the estimator's error is measured.
MIN_HALF = 10
_SCALE_SPLITS = 12  # for `scale_differences`, which needs no transport
_TOTAL_ROWS = 800  # of one half, over all splits
_MIN_SPLITS, _MAX_SPLITS = 4, 12
_DRAWS = 1  # synthetic samples per estimate
_ENTRIES = 1 << 20  # numbers of halves that are held at once
_FAR = 3  # a sample with more halves than this has many rows
_GROUP_FRACTIONS = (0.75, 1.0)  # of the first group in one part of `unequal_mixtures`
_MIXED = 120  # rows of a mixture
_MANY_SAMPLES = 3000  # with a support, these are transported by compiled code

Indices = NDArray[np.int64]
#: Rows of two disjoint parts of equal size.
Half = tuple[Indices, Indices]


class Drawing(Protocol):
    """Something that synthetic samples are drawn from."""

    def draw(self, size: int, rng: np.random.Generator) -> Measure: ...


@dataclass(frozen=True, eq=False)
class Splits:
    """Random splits of one sample, and the estimates that a server makes from their summaries."""

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

    def halves(self) -> list[Half]:
        number = int(np.clip(_TOTAL_ROWS // self.size, _MIN_SPLITS, _MAX_SPLITS))
        return [self._two_parts() for _ in range(number)]

    def _two_parts(self) -> Half:
        """Rows of two halves, drawn at random."""
        rows = self.order[self.rng.choice(len(self.order), 2 * self.size, replace=False)]
        return rows[: self.size], rows[self.size :]

    def quarters(self, half: Half) -> list[Half]:
        """Pairs of quarters of two halves.

        With many rows in the sample all six pairs are taken, since numbers of quarters and halves
        are extrapolated to all rows.
        """
        size = self.size // 2
        if not size:
            return []
        one, two, three, four = (part for rows in half for part in (rows[:size], rows[-size:]))
        pairs = [(one, two), (three, four)]
        if len(self.measure) > _FAR * self.size:
            pairs += [(one, three), (one, four), (two, three), (two, four)]
        return pairs

    def scale_differences(self) -> tuple[float, float]:
        """Mean squared differences of two halves: of the standard deviations, summed over features,
        and of the roots of total variances."""
        found = []
        at_once = max(1, _ENTRIES // (2 * self.size * self.measure.dimension))
        for start in range(0, _SCALE_SPLITS, at_once):
            rows = np.array(
                [self._two_parts() for _ in range(start, min(start + at_once, _SCALE_SPLITS))]
            )
            one, two = _standard_deviations(self.measure, rows).transpose(1, 0, 2)
            totals = np.linalg.norm(one, axis=1) - np.linalg.norm(two, axis=1)
            found.append(np.column_stack([((one - two) ** 2).sum(axis=1), totals**2]))
        by_feature, total = np.concatenate(found).mean(axis=0)
        return float(by_feature), float(total)

    def part(self, rows: Indices) -> Measure:
        return self.measure.part(rows)

    def transport(self, a: Indices, b: Indices) -> Floats:
        """Squared distance between two parts of the rows, by feature."""
        one, two = self.part(a), self.part(b)
        if one.is_uniform and two.is_uniform and len(a) == len(b):
            cols = self._assigned(one, two)
            return pair_columns(one, two, np.arange(len(a)), cols, one.weights)
        return plan_columns(solve(one, two))

    def _assigned(self, one: Measure, two: Measure) -> Indices:
        """The optimal assignment, or a nearly optimal one if a support of the server is used."""
        compiled = self.support is not None and len(self.measure) >= _MANY_SAMPLES
        found = near_assignment(one, two) if compiled else None
        return optimal_assignment(one, two) if found is None else found

    def effective_size(self, halves: list[Half]) -> float:
        """Rows in a half, Kish's effective number if they are weighted."""
        return float(
            np.mean(
                [effective_count(self.measure.weights[rows]) for half in halves for rows in half]
            )
        )

    def estimate(self, pair: Sequence[Drawing], size: int, draws: int | None = None) -> float:
        """The squared distance that a server estimates from two summaries, with `size` points."""
        squares = []
        for _ in range(draws or _DRAWS):
            x, y = (one.draw(size, self.rng) for one in pair)
            cols = self._assigned(x, y)
            squares.append(float(paired_squares(x, y, np.arange(size), cols).mean()))
        return float(np.mean(squares))

    def synthetic(self, parts: Sequence[Indices]) -> Sequence[Drawing]:
        """Synthetic samples as a server draws them from summaries of parts of equal size."""
        measures = [self.part(rows) for rows in parts]
        if self.support is None:
            cells = cells_of_parts(
                [one.points for one in measures],
                [one.weights for one in measures],
                self.cells,
                self.min_cell_size,
                self.rng,
            )
        else:
            cells = [self._support_cells(one) for one in measures]
        return [self.drawing(len(rows), found) for rows, found in zip(parts, cells, strict=True)]

    def drawing(self, count: int, cells: PartCells) -> Synthetic:
        """Synthetic samples with these cells, as a summary of this covariance type gives them."""
        weights, means, factor = cells
        d = means.shape[1]
        known = Summary(weights, means, np.zeros(d), count, 0.0, 2.0, self.min_cell_size)
        if self.covariance_type == "spherical":
            return Synthetic(known, np.full(d, np.sqrt((factor**2).sum() / d)), None)
        if self.covariance_type == "diag":
            return Synthetic(known, np.sqrt((factor**2).sum(axis=0)), None)
        # The deviations D of the rows, or the triangle R of their QR decomposition, are a factor of
        # the covariance D^T D, so neither it nor its eigenvectors are needed. "lowrank" is close.
        if len(factor) > d:
            factor = np.asarray(np.linalg.qr(factor, mode="r"))
        return Synthetic(known, None, factor)

    def _support_cells(self, part: Measure) -> PartCells:
        """Cells of a part by transport to the first points of the support.

        The number of points is reduced, so that a cell has as many rows as with the whole sample.
        """
        assert self.support is not None  # noqa: S101
        count = max(1, round(len(self.support) * len(part) / len(self.measure)))
        plan = solve(part, Measure(self.support[:count]))
        weights = np.asarray(np.bincount(plan.cols, plan.mass, count), dtype=np.float64)
        points = part.points[plan.rows]
        means = group_sums(plan.mass[:, None] * points, plan.cols, count) / weights[:, None]
        return weights, means, (points - means[plan.cols]) * np.sqrt(plan.mass)[:, None]

    def cell_means(self, drawing: Drawing) -> Floats:
        """The means of the cells that synthetic samples are drawn from."""
        return drawing.summary.means if isinstance(drawing, Synthetic) else np.zeros((1, 1))

    def unequal_mixtures(self, half: Half, means: Floats) -> Iterator[Half]:
        """Pairs of parts with unequal fractions of two groups of cells that lie apart."""
        rows = np.concatenate(half)
        first = _first_group(self.measure.rows(rows), means)
        left, right = rows[first], rows[~first]
        size = min(len(left), len(right), self.size, _MIXED)
        for fraction in _GROUP_FRACTIONS if size >= MIN_HALF else ():
            many, few = round(fraction * size), size - round(fraction * size)
            one, two = self.rng.permutation(left), self.rng.permutation(right)
            yield (
                np.concatenate([one[:many], two[:few]]),
                np.concatenate([two[few : few + many], one[many : many + few]]),
            )


def optimal_assignment(one: Measure, two: Measure) -> Indices:
    """The optimal assignment of equally many rows of equal weight.

    It carries no proof, since nothing certified rests on it. Costs that are reduced by their
    smallest entries have the same optimum and are solved in half the time.
    """
    from scipy.optimize import linear_sum_assignment

    if isinstance(one, LabelledMeasure) and isinstance(two, LabelledMeasure):
        cost = _shifted_squares(one.features, two.features)
        cost += ground_cost(one.table, two.table)[np.ix_(one.codes, two.codes)]
    else:
        cost = _shifted_squares(one.points, two.points)
    cost -= cost.min(axis=1)[:, None]
    cost -= cost.min(axis=0)
    return np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)


def _shifted_squares(x: Floats, y: Floats) -> Floats:
    """|x - y|^2 minus the squared norm of each row of x, which changes no optimal assignment."""
    middle = x.mean(axis=0)
    y = y - middle
    cost = np.asarray((x - middle) @ (-2 * y.T))
    cost += np.einsum("jd,jd->j", y, y)
    return cost


def _standard_deviations(measure: Measure, rows: Indices) -> Floats:
    """Standard deviations of each feature, for sets of rows (..., m): (..., d)."""
    points = measure.rows(rows)
    points -= points.mean(axis=-2, keepdims=True)
    weights = measure.weights[rows]
    weights = (weights / weights.sum(axis=-1, keepdims=True))[..., None, :]
    variances = weights @ points**2 - (weights @ points) ** 2
    # Rounding can leave less than zero.
    return np.asarray(np.sqrt(np.maximum(variances[..., 0, :], 0.0)))


def effective_count(weights: Floats) -> int:
    """Kish's effective number of rows."""
    return max(
        1, round(float(effective_counts(np.zeros(len(weights), dtype=np.int64), weights)[0]))
    )


def _first_group(points: Floats, means: Floats) -> NDArray[np.bool_]:
    """Which rows lie in the first of two groups of cells.

    Cells are sorted along their first principal direction and divided where half the rows are.
    """
    if len(means) == 1:
        means = points
    middle = means.mean(axis=0)
    centred = means - middle
    costs = (points - middle) @ (-2 * centred.T)
    labels = (costs + np.einsum("kd,kd->k", centred, centred)).argmin(axis=1)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    along = np.argsort(centred @ axes[0], kind="stable")
    before = np.cumsum(np.bincount(labels, minlength=len(means))[along])
    cut = int(np.abs(before - len(points) / 2).argmin()) + 1
    return np.isin(labels, along[:cut])
