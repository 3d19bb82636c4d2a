"""Random splits of one sample, and the estimates that a server makes from their summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._cells import effective_counts, row_slices
from fedwad.ot._classes import ClassCovariance
from fedwad.ot._measure import Floats, Indices, Measure
from fedwad.ot._nearly import near_squares
from fedwad.ot._order import sorted_generator
from fedwad.ot._split_rows import Part, SplitRows, optimal_columns
from fedwad.ot._split_samples import PartSample, Recipe, synthetic_costs
from fedwad.ot._summary import CovarianceType, resolve_covariance_type

__all__ = ["MAX_HALF", "MIN_HALF", "Split", "Splits", "effective_count"]

#: Largest number of rows in a half. It grows from the first number, for small samples, to the
#: second, from 2250 rows on.
MAX_HALF = 150, 300
#: Fewest rows in a half for which the estimator's error is measured.
MIN_HALF = 10
_SCALE_SPLITS = 12  # splits for `scale_differences`, which needs no transport
_TOTAL_ROWS = 800  # about so many rows in the first halves of all splits together
_MIN_SPLITS, _MAX_SPLITS = 4, 12
_ALL_QUARTERS_FROM = 3  # in samples of more halves than this, all pairs of quarters are taken
# Samples of up to so many halves share one matrix of inner products between all splits.
_MAX_SHARED_HALVES = 3.8
_GROUP_FRACTIONS = (0.75, 1.0)  # share of the first group in one part of `unequal_mixtures`
_MAX_MIXTURE = 120  # rows of one part of `unequal_mixtures`
_COMPILED_FROM = 3000  # rows from which the rounds with a support use compiled code

#: Two parts of the same rows.
PartPair = tuple[SplitRows, Part, Part]


@dataclass(frozen=True, eq=False)
class Split:
    """Two disjoint halves of some rows, and pairs of quarters; a quarter is half of a half."""

    rows: SplitRows
    halves: tuple[Part, Part]
    quarters: tuple[tuple[Part, Part], ...]


@dataclass(frozen=True, eq=False)
class Splits:
    """Random splits of one sample, and the estimates that a server makes from their summaries.

    Attributes
    ----------
    measure : the sample
    order : its rows in an order that depends on their values alone
    rng : seeded by the same values
    size : rows in a half
    recipe : how a server would summarise a part of the rows
    codes : number of the class of each row, or None
    class_covariance : form of the covariance of a class
    """

    measure: Measure
    order: Indices
    rng: np.random.Generator
    size: int
    recipe: Recipe
    codes: Indices | None
    class_covariance: ClassCovariance

    @classmethod
    def of(
        cls,
        measure: Measure,
        cells: int,
        covariance_type: CovarianceType,
        min_cell_size: int,
        support: Floats | None = None,
        digest: str = "",
        codes: Indices | None = None,
        class_covariance: ClassCovariance = "diag",
    ) -> Splits:
        order, rng = sorted_generator(measure, "calibration", digest)
        small, large = MAX_HALF
        size = min(len(measure) // 2, large, small + len(measure) // 15)
        if support is not None:
            support = support[rng.permutation(len(support))]
        if codes is None:  # with classes "auto" is never "diag"
            covariance_type = resolve_covariance_type(covariance_type, measure.dimension)
        # Compiled code is slow to load. Rounds with a support have loaded it already.
        compiled = support is not None and len(measure) >= _COMPILED_FROM
        recipe = Recipe(cells, covariance_type, min_cell_size, support, compiled)
        return cls(measure, order, rng, size, recipe, codes, class_covariance)

    def halves(self) -> list[Split]:
        """Random splits, enough of them that their mean varies little."""
        number = int(np.clip(_TOTAL_ROWS // self.size, _MIN_SPLITS, _MAX_SPLITS))
        return [self._split() for _ in range(number)]

    @cached_property
    def _shared(self) -> SplitRows | None:
        """All rows with their inner products, if they are few; otherwise None."""
        few = len(self.order) <= _MAX_SHARED_HALVES * self.size
        return self._rows(self.order) if few else None

    def _rows(self, rows: Indices) -> SplitRows:
        return SplitRows.of(self.measure, rows, self.codes, self.class_covariance)

    def _split(self) -> Split:
        size, quarter = self.size, self.size // 2
        places = self._drawn_positions()
        rows = self._shared
        if rows is None:
            rows, places = self._rows(self.order[places]), np.arange(2 * size)
        halves = places[:size], places[size:]
        in_quarters = [q for half in halves for q in (half[:quarter], half[size - quarter :])]
        one, two, *quarters = rows.parts([*halves, *(in_quarters if quarter else ())])
        pairs = [quarters[:2], quarters[2:]] if quarters else []
        # What halves and quarters measure is extrapolated to all rows. If these are many, quarters
        # of different halves are compared as well, so that the extrapolation varies less.
        if quarters and len(self.measure) > _ALL_QUARTERS_FROM * self.size:
            pairs += [[a, b] for a in quarters[:2] for b in quarters[2:]]
        return Split(rows, (one, two), tuple((a, b) for a, b in pairs))

    def _drawn_positions(self) -> Indices:
        """Positions of the rows of two halves, drawn at random."""
        return self.rng.choice(len(self.order), 2 * self.size, replace=False)

    def scale_differences(self) -> tuple[float, float]:
        """Two mean squared differences between halves.

        The first is that of the standard deviations, summed over features. The second is that of
        the square root of the total variance.
        """
        drawn = np.array([self._drawn_positions() for _ in range(_SCALE_SPLITS)])
        places = drawn.reshape(2 * _SCALE_SPLITS, self.size)
        if self._shared is not None:
            deviations = self._shared.deviations(places)
        else:
            deviations = _deviations(self.measure, self.order[places])
        one, two = deviations[::2], deviations[1::2]
        totals = np.linalg.norm(one, axis=1) - np.linalg.norm(two, axis=1)
        by_feature = ((one - two) ** 2).sum(axis=1)
        return float(by_feature.mean()), float((totals**2).mean())

    def effective_size(self, splits: Sequence[Split]) -> float:
        """Kish's effective number of rows in a half, averaged over the splits."""
        return float(
            np.mean(
                [
                    effective_count(split.rows.weights[half.rows])
                    for split in splits
                    for half in split.halves
                ]
            )
        )

    def samples(self, parts: Sequence[tuple[SplitRows, Part]]) -> list[PartSample]:
        """Synthetic samples as a server draws them from summaries of these parts."""
        return self.recipe.samples(parts, self.rng)

    def estimates(self, samples: Sequence[PartSample], size: int) -> list[float]:
        """The squared distances that a server estimates from two summaries after the other, with
        `size` points."""
        pairs = list(zip(samples[::2], samples[1::2], strict=True))
        if self.recipe.compiled:
            drawn = [Measure(one.draw(size, self.rng)[0]) for pair in pairs for one in pair]
            listed = [(k, k + 1) for k in range(0, len(drawn), 2)]
            return [square for _, square in near_squares(dict(enumerate(drawn)), listed)]
        found = []
        for one, two in pairs:
            costs = synthetic_costs(one, two, size, self.rng)
            found.append(float(costs[np.arange(size), optimal_columns(costs)].mean()))
        return found

    def squares(self, pairs: Sequence[PartPair]) -> list[float]:
        """The squared distance of each pair, at most 0.8% too large for samples of many rows."""
        if not self.recipe.compiled:
            return [rows.square(one, two) for rows, one, two in pairs]
        return [square for _, square in near_squares(*_measures(pairs))]

    def columns(self, pairs: Sequence[PartPair]) -> list[Floats]:
        """The same by feature."""
        if not self.recipe.compiled:
            return [rows.columns(one, two) for rows, one, two in pairs]
        found: dict[tuple[int, int], Floats] = {}
        measures, listed = _measures(pairs)
        list(near_squares(measures, listed, on_columns=found.__setitem__))
        return [found[pair] for pair in listed]

    def unequal_mixtures(self, split: Split, means: Floats) -> list[tuple[Part, Part]]:
        """Pairs of parts that mix two groups of rows in unequal fractions.

        `means` are those of cells; the groups are two sets of cells that lie apart.
        """
        first = _first_group(split.rows.points, means)
        left, right = np.flatnonzero(first), np.flatnonzero(~first)
        size = min(len(left), len(right), self.size, _MAX_MIXTURE)
        if size < MIN_HALF:
            return []
        mixed = []
        for fraction in _GROUP_FRACTIONS:
            many, few = round(fraction * size), size - round(fraction * size)
            one, two = self.rng.permutation(left), self.rng.permutation(right)
            mixed.append(np.concatenate([one[:many], two[:few]]))
            mixed.append(np.concatenate([two[few : few + many], one[many : many + few]]))
        parts = split.rows.parts(mixed)
        return list(zip(parts[::2], parts[1::2], strict=True))


def _measures(
    pairs: Sequence[PartPair],
) -> tuple[dict[int, Measure], list[tuple[int, int]]]:
    """The parts of these pairs as measures, each once, and the pairs by their numbers."""
    numbers: dict[int, int] = {}
    measures: dict[int, Measure] = {}
    for rows, *parts in pairs:
        for part in parts:
            if id(part) not in numbers:
                numbers[id(part)] = len(numbers)
                measures[numbers[id(part)]] = rows.measure(part)
    return measures, [(numbers[id(one)], numbers[id(two)]) for _, one, two in pairs]


def _deviations(measure: Measure, sets: Indices) -> Floats:
    """Standard deviations of each feature, for sets of rows (k, m): (k, d)."""
    used, places = np.unique(sets, return_inverse=True)
    members = np.zeros((len(sets), len(used)))
    members[np.arange(len(sets))[:, None], places.reshape(sets.shape)] = measure.weights[sets]
    members /= members.sum(axis=1)[:, None]
    middle = measure.rows(used[: len(sets[0])]).mean(axis=0)
    means, squares = np.zeros((2, len(sets), len(middle)))
    for block in row_slices(len(used), len(middle)):
        points = measure.rows(used[block]) - middle
        means += members[:, block] @ points
        squares += members[:, block] @ np.square(points, out=points)
    # Rounding can make a variance less than zero.
    return np.asarray(np.sqrt(np.maximum(squares - means**2, 0.0)))


def effective_count(weights: Floats) -> int:
    """Kish's effective number of rows, rounded, at least 1."""
    return max(
        1, round(float(effective_counts(np.zeros(len(weights), dtype=np.int64), weights)[0]))
    )


def _first_group(points: Floats, means: Floats) -> NDArray[np.bool_]:
    """Which rows lie in the first of two groups of cells.

    Each row lies in the cell with the nearest of the `means`. Cells are sorted along their first
    principal direction and divided so that about half of the rows lie in the first group.
    """
    if len(means) == 1:
        means = points
    middle = means.mean(axis=0)
    centred = means - middle
    cross = (points - middle) @ (-2 * centred.T)
    labels = (cross + np.einsum("kd,kd->k", centred, centred)).argmin(axis=1)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    order = np.argsort(centred @ axes[0], kind="stable")
    rows_up_to = np.cumsum(np.bincount(labels, minlength=len(means))[order])
    cut = int(np.abs(rows_up_to - len(points) / 2).argmin()) + 1
    return np.isin(labels, order[:cut])
