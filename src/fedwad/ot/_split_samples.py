"""Synthetic samples of parts of a split, as a server draws them from summaries of the parts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from fedwad.errors import CertificateError
from fedwad.ot._cells import group_sums
from fedwad.ot._cost import squared_distances
from fedwad.ot._measure import Floats, Indices, Measure
from fedwad.ot._small import small_support
from fedwad.ot._solve import solve
from fedwad.ot._split_cells import Block, PartCells, labels_of_blocks, summed_cells
from fedwad.ot._split_rows import Part, SplitRows, by_class
from fedwad.ot._summary import CovarianceType, Summary
from fedwad.ot._synthetic_samples import SyntheticSample, shares

__all__ = ["PartSample", "Recipe", "synthetic_costs"]


@dataclass(frozen=True, eq=False)
class PartSample:
    """Synthetic samples of a part, class by class; one class without labels.

    With `kernel`, points are given by weights of the part's rows, and distances by the inner
    products of rows.
    """

    split: SplitRows
    part: Part
    masses: Floats
    classes: tuple[SyntheticSample, ...]
    codes: Indices
    kernel: bool

    @property
    def cell_means(self) -> Floats:
        """The means of the cells."""
        means = np.concatenate([one.summary.means for one in self.classes])
        return means @ self.split.points[self.part.rows] if self.kernel else means

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Floats, Indices]:
        """`size` points, and the class of each."""
        counts = shares(self.masses, size)
        drawn = [
            one.points(int(count), rng)
            for one, count in zip(self.classes, counts, strict=True)
            if count > 0
        ]
        return np.concatenate(drawn), np.repeat(self.codes, counts)


def synthetic_costs(
    one: PartSample, two: PartSample, size: int, rng: np.random.Generator
) -> Floats:
    """Squared distances between `size` points of each of two parts of one split."""
    (x, x_codes), (y, y_codes) = one.draw(size, rng), two.draw(size, rng)
    own, other, across = x, y, x
    if one.kernel:
        a, b = one.part.rows, two.part.rows
        own, other = x @ one.split.block(a, a), y @ one.split.block(b, b)
        across = x @ one.split.block(a, b)
    costs = across @ (-2 * y.T)
    costs += np.einsum("id,id->i", own, x)[:, None]
    costs += np.einsum("jd,jd->j", other, y)
    if one.part.table is not None and two.part.table is not None:
        costs += by_class(one.part.table, two.part.table, x_codes, y_codes)
    return np.asarray(costs)


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a server summarises: k-means cells, or those of transport to `support`.

    A part has at most `cells` k-means cells of at least `min_cell_size` rows. With a support, it
    has a cell for each point of the support, but at most one for two rows. With `compiled`,
    auctions and the solver for small supports are used.
    """

    cells: int
    covariance_type: CovarianceType
    min_cell_size: int
    support: Floats | None
    compiled: bool

    def samples(
        self, parts: Sequence[tuple[SplitRows, Part]], rng: np.random.Generator
    ) -> list[PartSample]:
        """Synthetic samples of these parts. Each class has cells of its own."""
        if not parts:
            return []
        groups = [_classes(*one) for one in parts]
        kernel = self._uses_kernel(*parts[0])
        if self.support is not None:
            cells = [[self._support_cells(*one)] for one in parts]
        else:
            cells = self._kmeans_cells(parts, groups, kernel, rng)
        found = []
        for (split, part), group, own in zip(parts, groups, cells, strict=True):
            samples = tuple(self._sample(one, len(part.rows)) for one in own)
            masses = np.array([split.weights[part.rows[one]].sum() for one in group])
            codes = [0 if split.codes is None else split.codes[part.rows[k[0]]] for k in group]
            found.append(PartSample(split, part, masses, samples, np.array(codes), kernel))
        return found

    def _uses_kernel(self, split: SplitRows, part: Part) -> bool:
        """Whether inner products of rows take less time than the rows.

        Only covariances in full do not depend on the axes.
        """
        turns = self.covariance_type not in ("diag", "spherical") and self.support is None
        return turns and split.is_wide(part)

    def _kmeans_cells(
        self,
        parts: Sequence[tuple[SplitRows, Part]],
        groups: Sequence[Sequence[Indices]],
        kernel: bool,
        rng: np.random.Generator,
    ) -> list[list[PartCells]]:
        """Cells of each class of each part, as many in all as without classes."""
        blocks: list[Block] = []
        for (split, part), group in zip(parts, groups, strict=True):
            for chosen in group:
                rows = part.rows[chosen]
                block = split.block(rows, rows) if kernel else split.points[rows]
                blocks.append((block, split.weights[rows] / split.weights[rows].sum()))
        cells = max(1, self.cells // max(len(group) for group in groups))
        labels = iter(labels_of_blocks(blocks, cells, self.min_cell_size, rng, kernel))
        known = iter(blocks)
        found = []
        for (_, part), group in zip(parts, groups, strict=True):
            own = []
            for chosen in group:
                points, weights = next(known)
                if kernel:
                    points = np.zeros((len(chosen), len(part.rows)))
                    points[np.arange(len(chosen)), chosen] = 1.0
                own.append(summed_cells(points, weights, next(labels)))
            found.append(own)
        return found

    def _support_cells(self, split: SplitRows, part: Part) -> PartCells:
        """Cells of a part by transport to the first points of the support."""
        assert self.support is not None  # noqa: S101
        count = max(1, min(len(self.support), len(part.rows) // 2))
        target = Measure(self.support[:count] - split.middle)
        rows, cols, mass = _transport(split.measure(part), target, self.compiled)
        weights = np.asarray(np.bincount(cols, mass, count), dtype=np.float64)
        points = split.points[part.rows][rows]
        means = group_sums(mass[:, None] * points, cols, count) / weights[:, None]
        return weights, means, (points - means[cols]) * np.sqrt(mass)[:, None]

    def _sample(self, cells: PartCells, count: int) -> SyntheticSample:
        """Synthetic samples with these cells, as a summary of this covariance type gives them."""
        weights, means, factor = cells
        d = means.shape[1]
        known = Summary(weights, means, np.zeros(d), count, 0.0, 2.0, self.min_cell_size)
        if self.covariance_type == "spherical":
            return SyntheticSample(known, np.full(d, np.sqrt((factor**2).sum() / d)), None)
        if self.covariance_type == "diag":
            return SyntheticSample(known, np.sqrt((factor**2).sum(axis=0)), None)
        # The deviations of the rows are a factor of the covariance. A low rank is about the same.
        return SyntheticSample(known, None, _triangle(factor) if len(factor) > d else factor)


def _transport(mu: Measure, nu: Measure, compiled: bool) -> tuple[Indices, Indices, Floats]:
    """The optimal plan, by the solver for small supports if compiled code is loaded."""
    if compiled and mu.dimension > 1:
        with suppress(CertificateError):
            return small_support(squared_distances(mu, nu), mu.weights, nu.weights)[:3]
    plan = solve(mu, nu)
    return plan.rows, plan.cols, plan.mass


def _triangle(factor: Floats) -> Floats:
    """A square factor of the same covariance."""
    with suppress(np.linalg.LinAlgError):  # singular covariances take longer
        return np.asarray(np.linalg.cholesky(factor.T @ factor).T)
    return np.asarray(np.linalg.qr(factor, mode="r"))


def _classes(split: SplitRows, part: Part) -> list[Indices]:
    """Positions in a part of the rows of each of its classes."""
    if split.codes is None:
        return [np.arange(len(part.rows))]
    codes = split.codes[part.rows]
    return [np.flatnonzero(codes == code) for code in np.unique(codes)]
