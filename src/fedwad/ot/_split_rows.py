"""The rows of one split, and squared distances between its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedwad.ot._classes import ClassCovariance, class_row
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Indices, Measure
from fedwad.ot._plan_columns import class_columns, plan_columns, point_columns
from fedwad.ot._solve import solve

__all__ = ["Part", "SplitRows", "by_class", "optimal_columns"]

_UNRESOLVED = 1e-9  # of the squared norms; smaller squares come from differences


@dataclass(frozen=True, eq=False)
class Part:
    """Positions of some rows of a split, and the statistics of their classes, if they have any.

    The table has a row for each class, also for those that the part lacks.
    """

    rows: Indices
    table: Floats | None = None


@dataclass(frozen=True, eq=False)
class SplitRows:
    """Rows relative to their mean, with weights and classes.

    They are the rows of two halves, or all rows, if these are few. One product of matrices has the
    inner products of all of them. Distances between halves, quarters and mixtures are blocks of it.
    """

    middle: Floats
    points: Floats
    weights: Floats
    codes: Indices | None
    classes: int
    class_covariance: ClassCovariance

    @classmethod
    def of(
        cls,
        measure: Measure,
        rows: Indices,
        codes: Indices | None = None,
        class_covariance: ClassCovariance = "diag",
    ) -> SplitRows:
        points = measure.rows(rows)
        middle = points.mean(axis=0)
        points -= middle
        classes = 0 if codes is None else int(codes.max()) + 1
        own = None if codes is None else codes[rows]
        return cls(middle, points, measure.weights[rows], own, classes, class_covariance)

    @cached_property
    def products(self) -> Floats:
        """Inner products of all rows."""
        return np.asarray(self.points @ self.points.T)

    @cached_property
    def _norms(self) -> Floats:
        return np.asarray(np.einsum("id,id->i", self.points, self.points))

    def block(self, one: Indices, two: Indices) -> Floats:
        """Inner products of some rows with others."""
        a, b = _places(one), _places(two)
        rows = self.products[a] if isinstance(a, slice) else self.products.take(a, axis=0)
        return rows[:, b] if isinstance(b, slice) else rows.take(b, axis=1)

    def is_wide(self, part: Part) -> bool:
        """Whether inner products of rows are shorter than rows."""
        return int(self.points.shape[1]) > len(part.rows)

    def deviations(self, sets: Indices) -> Floats:
        """Standard deviations of each feature, for sets of rows (k, m): (k, d)."""
        members = np.zeros((len(sets), len(self.points)))
        members[np.arange(len(sets))[:, None], sets] = self.weights[sets]
        return self._moments(members)[1]

    def _moments(self, members: Floats) -> tuple[Floats, Floats]:
        """Means and standard deviations of each feature, by the weights of rows (k, n)."""
        mass = members.sum(axis=1, keepdims=True)
        members /= np.where(mass > 0, mass, 1.0)
        means = members @ self.points
        # Rounding can leave less than zero.
        return means, np.sqrt(np.maximum(members @ self._points2 - means**2, 0.0))

    @cached_property
    def is_uniform(self) -> bool:
        return bool((self.weights == self.weights[0]).all())

    def parts(self, rows: Sequence[Indices]) -> list[Part]:
        """Parts with these positions, each with the class statistics of its own rows."""
        if self.codes is None:
            return [Part(positions) for positions in rows]
        tables = self._tables(rows) if self.class_covariance == "diag" else map(self._roots, rows)
        return [Part(positions, table) for positions, table in zip(rows, tables, strict=True)]

    def _tables(self, rows: Sequence[Indices]) -> Floats:
        """Means and standard deviations of the classes of each part."""
        assert self.codes is not None  # noqa: S101
        members = np.zeros((len(rows), self.classes, len(self.points)))
        for member, positions in zip(members, rows, strict=True):
            member[self.codes[positions], positions] = self.weights[positions]
        found = np.concatenate(self._moments(members.reshape(-1, len(self.points))), axis=1)
        return found.reshape(len(rows), self.classes, -1)

    @cached_property
    def _points2(self) -> Floats:
        return self.points**2

    def _roots(self, positions: Indices) -> Floats:
        """Means and root covariances of the classes of a part."""
        assert self.codes is not None  # noqa: S101
        d = self.points.shape[1]
        table = np.zeros((self.classes, d + d * d))
        for code in np.unique(self.codes[positions]):
            chosen = positions[self.codes[positions] == code]
            table[code] = class_row(Measure(self.points[chosen], self.weights[chosen]), "full")
        return table

    def measure(self, part: Part) -> Measure:
        """A part as a measure."""
        points, weights = self.points[part.rows], self.weights[part.rows]
        if part.table is None or self.codes is None:
            return Measure(points, weights)
        return LabelledMeasure(points, self.codes[part.rows], part.table, weights)

    def columns(self, one: Part, two: Part) -> Floats:
        """Squared distance between two parts, by feature."""
        if not self.is_uniform:
            return plan_columns(solve(self.measure(one), self.measure(two)))
        a, b = one.rows, two.rows[optimal_columns(self._costs(one, two))]
        mass = np.full(len(a), 1 / len(a))
        found = point_columns(self.points, self.points, a, b, mass)
        if one.table is None or two.table is None or self.codes is None:
            return found
        return found + class_columns(
            one.table, two.table, self.codes[a], self.codes[b], mass, len(found)
        )

    def square(self, one: Part, two: Part) -> float:
        """Squared distance between two parts."""
        if not self.is_uniform:
            return float(self.columns(one, two).sum())
        costs = self._costs(one, two)
        paired = costs[np.arange(len(costs)), optimal_columns(costs)]
        norms = float(self._norms[one.rows].mean())
        found = norms + float(paired.mean())
        return found if found > _UNRESOLVED * norms else float(self.columns(one, two).sum())

    def _costs(self, one: Part, two: Part) -> Floats:
        """Squared distances minus the squared norm of each row of the first part, which changes no
        optimal assignment."""
        a, b = one.rows, two.rows
        if self.is_wide(one):
            costs = self.block(a, b) * -2.0
        else:
            costs = self.points[a] @ (-2.0 * self.points[b].T)
        costs += self._norms[b]
        if one.table is not None and two.table is not None and self.codes is not None:
            costs += by_class(one.table, two.table, self.codes[a], self.codes[b])
        return np.asarray(costs)


def _places(rows: Indices) -> Indices | slice:
    """Consecutive positions as a slice, which needs no copy."""
    first, last = int(rows[0]), int(rows[-1])
    ends = last - first == len(rows) - 1 and bool((rows[1:] > rows[:-1]).all())
    return slice(first, last + 1) if ends else rows


def by_class(one: Floats, two: Floats, rows: Indices, cols: Indices) -> Floats:
    """Squared distances between the rows of two tables, for the classes of rows and columns."""
    between = one @ (-2.0 * two.T)
    between += np.einsum("id,id->i", one, one)[:, None]
    between += np.einsum("jd,jd->j", two, two)
    return np.asarray(np.maximum(between, 0.0)[rows].take(cols, axis=1))


def optimal_columns(costs: Floats) -> Indices:
    """The column of each row in the optimal assignment.

    It carries no proof, since nothing certified rests on it. Costs that are reduced by their
    smallest entries have the same optimum and are solved in half the time.
    """
    from scipy.optimize import linear_sum_assignment

    reduced = costs - costs.min(axis=1)[:, None]
    reduced -= reduced.min(axis=0)
    return np.asarray(linear_sum_assignment(reduced)[1], dtype=np.int64)
