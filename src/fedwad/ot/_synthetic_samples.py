"""Synthetic samples with the cells of a summary: normal distributions around its cell means."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._classes import LabelledSummary
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._summary import Summary

__all__ = ["LabelledSyntheticSample", "NestedNormals", "Normals", "SyntheticSample", "shares"]

_MANY_GROUPS = 50  # of rows, from which on one addition is faster than a loop
_MANY_FEATURES = 100  # from which on Cholesky's factor is worth a try before eigenvectors


class Normals(Protocol):
    """A source of normal random numbers, such as `numpy.random.Generator`."""

    def standard_normal(self, size: tuple[int, int], /) -> Floats: ...


class NestedNormals:
    """Parts of one array of normal numbers for each call.

    Samples that are drawn from its parts are the parts of one larger sample. So the mean distance
    of small samples differs from the distance of the large one by size alone, and hardly by chance.
    """

    def __init__(self, key: Sequence[int], keep: bool) -> None:
        self._key, self._keep = key, keep
        self._kept: dict[int, Floats] = {}
        self._part, self._parts, self._calls = 0, 1, 0

    def part(self, number: int, of: int) -> NestedNormals:
        """The source of part `number` of so many."""
        found = NestedNormals(self._key, self._keep)
        found._kept, found._part, found._parts = self._kept, number, of
        return found

    def standard_normal(self, size: tuple[int, int], /) -> Floats:
        """This part's rows of the next array; the k-th calls of all parts share one array."""
        call, rows = self._calls, size[0]
        self._calls += 1
        found = self._kept.get(call)
        if found is None or len(found) < rows * self._parts:
            rng = np.random.default_rng([*self._key, call])
            found = rng.standard_normal((rows * self._parts, size[1]))
            if self._keep:
                self._kept[call] = found
        return found[rows * self._part : rows * (self._part + 1)].copy()


@dataclass(frozen=True, eq=False)
class SyntheticSample:
    """Synthetic samples with the cells of a summary: Gaussians around its cell means, with
    covariance factors^T factors + diag(deviations^2)."""

    summary: Summary
    deviations: Floats | None  # (d,)
    factors: Floats | None  # (k, d)

    @classmethod
    def of(cls, summary: Summary) -> SyntheticSample:
        if summary.covariance_type != "full":
            return cls(
                summary,
                np.sqrt(np.broadcast_to(summary.covariance, summary.dimension)),
                summary.factors,
            )
        return cls(summary, None, _factor(summary.covariance))

    def draw(self, size: int, rng: Normals) -> Measure:
        """`size` points, distributed over cells by weight.

        The mean of each cell that has points is exact, unless there are fewer than two points for
        such a cell on average.
        """
        return Measure(self.points(size, rng))

    def points(self, size: int, rng: Normals) -> Floats:
        """The points of `draw`."""
        summary = self.summary
        counts = shares(summary.weights, size)
        occupied = np.flatnonzero(counts)
        counts = counts[occupied]
        fixed = size >= 2 * len(occupied)  # cells of one point would lose all of their variance
        points: Floats = np.zeros((size, summary.dimension))
        if self.deviations is not None:
            points = rng.standard_normal((size, len(self.deviations)))
            if fixed:
                _subtract_means(points, counts)
            points *= self.deviations
        if self.factors is not None:
            noise = rng.standard_normal((size, len(self.factors)))
            if fixed:
                _subtract_means(noise, counts)
            points += noise @ self.factors
        if fixed:  # fixing the means removed this fraction of the variance
            points *= np.sqrt(size / (size - len(occupied)))
        _add_by_group(points, summary.means[occupied], counts)
        return points


@dataclass(frozen=True, eq=False)
class LabelledSyntheticSample:
    """Synthetic samples class by class, with the statistics of the real classes."""

    summary: LabelledSummary
    parts: tuple[SyntheticSample, ...]
    table: Floats

    @classmethod
    def of(cls, summary: LabelledSummary) -> LabelledSyntheticSample:
        return cls(summary, tuple(map(SyntheticSample.of, summary.parts)), summary.table.points)

    def draw(self, size: int, rng: Normals) -> LabelledMeasure:
        counts = shares(self.summary.weights, size)
        drawn = [
            synthetic.points(int(count), rng)
            for synthetic, count in zip(self.parts, counts, strict=True)
            if count > 0
        ]
        return LabelledMeasure(
            np.concatenate(drawn), np.repeat(np.arange(len(counts)), counts), self.table
        )


def _factor(covariance: Floats) -> Floats:
    """A matrix F with F^T F = covariance."""
    if len(covariance) >= _MANY_FEATURES:
        with suppress(np.linalg.LinAlgError):  # singular matrices need eigenvectors
            return np.asarray(np.linalg.cholesky(covariance).T)
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def shares(weights: Floats, size: int) -> NDArray[np.int64]:
    """Integers in proportion to the weights that sum to `size`."""
    ends = np.rint(np.cumsum(weights) / weights.sum() * size).astype(np.int64)
    ends[1:] -= ends[:-1].copy()
    return np.asarray(ends)


def _subtract_means(noise: Floats, counts: NDArray[np.int64]) -> None:
    """Make the mean over each group of rows zero."""
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    _add_by_group(noise, np.add.reduceat(noise, starts, axis=0) / -counts[:, None], counts)


def _add_by_group(rows: Floats, vectors: Floats, counts: NDArray[np.int64]) -> None:
    """Add a vector to each of so many rows; a loop over groups needs no second array."""
    if len(counts) > _MANY_GROUPS:
        rows += np.repeat(vectors, counts, axis=0)
        return
    stop = 0
    for vector, count in zip(vectors, counts.tolist(), strict=True):
        rows[stop : stop + count] += vector
        stop += count
