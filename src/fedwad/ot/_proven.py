"""Optimal transport between one small measure and several others at once, with its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure

__all__ = ["Prepared", "parts_of", "prepare", "prove"]

_CANCELLATION = 1e-4  # as in `_cost`: below it, squares are taken from differences


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of points or of class statistics, the same minus a common centre, and their squared
    norms after that."""

    rows: Floats
    centred: Floats
    norms: Floats

    @classmethod
    def of(cls, rows: Floats, centre: Floats) -> Rows:
        centred = rows - centre
        return cls(rows, centred, np.einsum("id,id->i", centred, centred))


@dataclass(frozen=True, eq=False)
class Prepared:
    """One measure as `prove` takes it; without labels, its table has one empty class."""

    weights: Floats
    features: Rows
    table: Rows
    codes: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of points and of classes."""
        return len(self.weights), len(self.table.rows)

    @property
    def numbers(self) -> int:
        """Of all points with their class statistics."""
        return len(self.weights) * int(self.features.rows.shape[1] + self.table.rows.shape[1])


def prepare(measures: Sequence[Measure]) -> list[Prepared]:
    """The measures about a common centre."""
    parts = [parts_of(measure) for measure in measures]
    centres = [np.mean([part[side].mean(axis=0) for part in parts], axis=0) for side in (0, 1)]
    return [
        Prepared(measure.weights, Rows.of(x, centres[0]), Rows.of(table, centres[1]), codes)
        for measure, (x, table, codes) in zip(measures, parts, strict=True)
    ]


def parts_of(measure: Measure) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Features, table of classes, and the class of each point."""
    if isinstance(measure, LabelledMeasure):
        return measure.features, measure.table, measure.codes
    return measure.points, np.zeros((1, 0)), np.zeros(len(measure), dtype=np.int64)


def prove(a: Prepared, others: Sequence[Prepared]) -> tuple[Floats, Floats, Floats]:
    """Costs, relative duality gaps and marginal errors of optimal plans for the cost |x - y|^2.

    The others have equally many points and classes. The numbers of a pair depend on its two
    measures and their centre alone.
    """
    from fedwad.ot._small.dense import optimal_flows

    points = [b.features for b in others]
    costs = _squares(a.features, points)
    if a.table.rows.shape[1]:
        between = _squares(a.table, [b.table for b in others])
        for k, b in enumerate(others):
            costs[k] += between[k][a.codes][:, b.codes]
    flows, g, errors = optimal_flows(costs, a.weights, np.array([b.weights for b in others]))
    which, i, j = np.nonzero(flows)
    mass = flows[which, i, j]
    exact = _paired(a.features.rows[i], np.array([b.rows for b in points])[which, j])
    if a.table.rows.shape[1]:
        codes = np.array([b.codes for b in others])[which, j]
        tables = np.array([b.table.rows for b in others])
        exact += _paired(a.table.rows[a.codes[i]], tables[which, codes])
    f = (costs - g[:, None, :]).min(axis=2)
    primal: Floats = np.bincount(which, mass * exact, len(others)).astype(np.float64)
    slack = np.bincount(which, mass * (exact - f[which, i] - g[which, j]), len(others))
    return primal, np.where(primal > 0, slack / np.where(primal > 0, primal, 1.0), 0.0), errors


def _squares(x: Rows, others: Sequence[Rows]) -> Floats:
    """All |x_i - y_j|^2 from products and squared norms about the centre, (k, n, m)."""
    products = np.empty((len(others), len(x.rows), len(others[0].rows)))
    for product, y in zip(products, others, strict=True):
        np.matmul(x.centred, y.centred.T, out=product)
    norms = x.norms[:, None] + np.array([y.norms for y in others])[:, None, :]
    squares = np.asarray(norms - 2.0 * products)
    near = squares < _CANCELLATION * norms
    if near.any():
        which, i, j = np.nonzero(near)
        squares[near] = _paired(x.rows[i], np.array([y.rows for y in others])[which, j])
    return squares


def _paired(x: Floats, y: Floats) -> Floats:
    """|x_e - y_e|^2 from differences."""
    x = x - y
    return np.asarray(np.einsum("ed,ed->e", x, x))
