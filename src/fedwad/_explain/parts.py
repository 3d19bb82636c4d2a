"""The part of each column in a distance: what changed, how sure that is, and what is chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedwad._explain.column_changes import ColumnChanges, column_changes, sum_by_column
from fedwad._explain.columns import Column, column_index
from fedwad._explain.evidence import Evidence
from fedwad.ot import ColumnMoments, Correlation, Floats

__all__ = ["PairDistance", "Parts", "parts_between"]

_MIN_NOISE_ERROR = 0.05  # smallest relative error of a column's noise
_MIN_COLUMNS_FOR_MEDIAN = 8  # columns from which on that error is estimated by a median over them
_CLEAR_SURPLUS = 3.0  # standard errors by which a column's part must exceed changes and noise
_CLEAR_REMAINDER = 2.5  # standard errors by which a remainder must exceed zero
_MAX_SPREAD_RATIO = 10.0  # largest ratio of standard deviations by which noise is scaled
_SAFE_LENGTHS = 1e-60, 1e60  # between these the fourth power of a length can be stored
_MAX_NOISE_WEIGHT = 0.9  # weight of measured noise where all of a distance is noise
_MAX_ATTENUATION = 2.0  # largest factor by which noise can lower a difference of shape
_MIN_REMAINDER = 0.1  # of the squared distance between populations; a smaller one does not count


@dataclass(frozen=True)
class PairDistance:
    """The distance of a pair of sites: between the samples (`value`) and between the populations.

    `differs` says whether the sites differ by more than chance explains. `population_lower` is the
    lower end of the interval of `population`. None stands for unknown.
    """

    value: float
    population: float | None = None
    differs: bool | None = None
    population_lower: float = 0.0

    def rescaled(self, unit: float) -> PairDistance:
        """The same distance in another unit of length."""
        population = None if self.population is None else self.population / unit
        lower = self.population_lower / unit
        return PairDistance(self.value / unit, population, self.differs, lower)


@dataclass(frozen=True, eq=False)
class Parts:
    """Arrays over columns, in squared units.

    Attributes
    ----------
    square : part of the squared distance between the samples
    noise : expectation of `square` for one population, zeros if unknown
    location, scale, rest : parts of the squared distance between the populations
    square_std, excess_std : standard errors of `square` and of `excess`
    significant : whether a change is more than chance explains
    """

    square: Floats
    noise: Floats
    location: Floats
    scale: Floats
    rest: Floats
    square_std: Floats
    excess_std: Floats
    significant: NDArray[np.bool_]

    @property
    def excess(self) -> Floats:
        """The parts of the squared distance between the populations."""
        return np.asarray(self.location + self.scale + self.rest)


def parts_between(
    evidence: Evidence, columns: Sequence[Column], i: int, j: int, pair: PairDistance
) -> Parts:
    """Parts of all columns between the sites at two indices of the evidence."""
    a, b = evidence.moments[i], evidence.moments[j]
    square = evidence.squares.get((min(i, j), max(i, j)))
    correlations = evidence.correlations_between(i, j)
    unit = _choose_unit(a, b)
    if unit != 1:
        a, b, pair = _rescale(a, unit), _rescale(b, unit), pair.rescaled(unit)
        square = None if square is None else square / unit / unit
        correlations = tuple(replace(x, square=x.square / unit / unit) for x in correlations)
    return _compute_parts(columns, a, b, square, correlations, pair)


def _choose_unit(a: ColumnMoments, b: ColumnMoments) -> float:
    """A unit of length in which fourth powers of changes can be stored, mostly 1."""
    lengths = [np.abs(a.mean - b.mean), np.sqrt(a.mean_error), np.sqrt(b.mean_error)]
    largest = max(float(length.max()) for length in lengths)
    return 1.0 if largest == 0 or _SAFE_LENGTHS[0] < largest < _SAFE_LENGTHS[1] else largest


def _rescale(moments: ColumnMoments, unit: float) -> ColumnMoments:
    return replace(
        moments,
        mean=moments.mean / unit,
        std=None if moments.std is None else moments.std / unit,
        mean_error=moments.mean_error / unit / unit,
        std_error=moments.std_error / unit / unit,
        noise=None if moments.noise is None else moments.noise / unit / unit,
    )


def _compute_parts(
    columns: Sequence[Column],
    a: ColumnMoments,
    b: ColumnMoments,
    square: Floats | None,
    correlations: Sequence[Correlation],
    pair: PairDistance,
) -> Parts:
    """Parts of all columns between two sites; `square` has the parts of features in a plan.

    Changes of means and spreads that may be chance do not count, unless the sites differ by more
    than the significant changes explain. A changed correlation adds to both its columns. What
    remains of the squared distance between the populations is distributed over the columns whose
    part in the transport plan exceeds their changes and their noise.
    """
    changed = column_changes(columns, a, b)
    noise = _noise(columns, a, b)
    other_noise = np.maximum(noise - changed.null, 0.0)  # neither of means nor of spreads
    expected = changed.raw.sum(axis=1) + other_noise
    plan_parts = expected if square is None else sum_by_column(columns, square)
    location, scale = changed.significant_change.T
    dependence = _dependence_parts(columns, correlations)
    surplus, error = _surplus(changed, plan_parts, other_noise, pair)
    remainder = _remainder(changed, location + scale + dependence, pair)
    weak = _weak_changes(changed, remainder, (location + scale + dependence).any(), pair)
    location, scale = location + weak[:, 0], scale + weak[:, 1]
    rest, is_clear = _distribute(remainder - float(weak.sum()), surplus, error)
    rest = rest + dependence
    counted_variance = np.where(location + scale > 0, changed.variance, 0.0)
    return Parts(
        square=_blend(plan_parts, expected, noise, pair),
        noise=noise,
        location=location,
        scale=scale,
        rest=rest,
        square_std=np.sqrt(changed.variance + error**2),
        excess_std=np.sqrt(counted_variance + np.where(rest > 0, error**2, 0.0)),
        significant=changed.significant | is_clear | (dependence > 0),
    )


def _noise(columns: Sequence[Column], a: ColumnMoments, b: ColumnMoments) -> Floats:
    """The noise of each column: the geometric mean of both sites' by feature; zeros if unknown.

    Noise grows with the variance. If only one site measured its noise, that is multiplied by the
    ratio of the other's standard deviations to its own.
    """
    first, second = a.noise_against(b.count), b.noise_against(a.count)
    if first is not None and second is not None:
        return sum_by_column(columns, np.sqrt(first * second))
    if first is not None:
        return sum_by_column(columns, first * _spread_ratio(b, a))
    if second is not None:
        return sum_by_column(columns, second * _spread_ratio(a, b))
    return np.zeros(len(columns))


def _spread_ratio(one: ColumnMoments, other: ColumnMoments) -> Floats:
    """Standard deviations of a site over those of another, at most 10; ones where unknown."""
    if one.std is None or other.std is None:
        return np.ones_like(one.mean)
    varies = other.std > 0
    ratio = np.where(varies, one.std / np.where(varies, other.std, 1.0), 1.0)
    return np.minimum(ratio, _MAX_SPREAD_RATIO)


def _blend(plan_parts: Floats, expected: Floats, noise: Floats, pair: PairDistance) -> Floats:
    """Parts of the squared distance between the samples, from a plan and from measured noise.

    A plan between synthetic samples has the noise of the distributions that they were drawn from.
    The larger the part of noise in a distance, the more weight have the `expected` parts, whose
    noise sites measured on their own rows.
    """
    total, other, square = float(plan_parts.sum()), float(expected.sum()), pair.value**2
    if not (noise.any() and total > 0 and other > 0 and square > 0):
        return plan_parts
    weight = _MAX_NOISE_WEIGHT * min(1.0, float(noise.sum()) / square) ** 0.5
    return np.asarray(square * ((1 - weight) * plan_parts / total + weight * expected / other))


def _dependence_parts(columns: Sequence[Column], correlations: Sequence[Correlation]) -> Floats:
    """What changed correlations add to the columns; each column counts in one correlation only."""
    index, parts = column_index(columns), np.zeros(len(columns))
    for correlation in correlations:
        both = [int(index[correlation.first]), int(index[correlation.second])]
        if not parts[both].any():
            parts[both] = correlation.square / 2
    return parts


def _surplus(
    changed: ColumnChanges, plan_parts: Floats, other_noise: Floats, pair: PairDistance
) -> tuple[Floats, Floats]:
    """What the plan has beyond changes and noise, by column, and its standard error."""
    total = float(plan_parts.sum())
    if not other_noise.any() or not (total > 0 and pair.value > 0):
        return np.zeros(len(plan_parts)), _MIN_NOISE_ERROR * other_noise
    surplus = plan_parts * pair.value**2 / total - changed.raw.sum(axis=1) - other_noise
    ratios = np.abs(surplus[other_noise > 0] / other_noise[other_noise > 0])
    relative_error = _MIN_NOISE_ERROR
    if len(ratios) >= _MIN_COLUMNS_FOR_MEDIAN:  # by the median absolute deviation
        relative_error = max(relative_error, 1.4826 * float(np.median(ratios)))
    return surplus, relative_error * np.maximum(other_noise, float(other_noise.mean()))


def _remainder(changed: ColumnChanges, explained: Floats, pair: PairDistance) -> float:
    """What the explained parts of columns leave of the squared distance between the populations.

    It is zero unless it is clearly positive.
    """
    if not pair.population or not pair.differs:
        return 0.0
    square = pair.population**2
    if 0 < pair.population_lower**2 <= float(explained.sum()):
        return 0.0  # the explained part lies within the interval
    remainder = square - float(explained.sum())
    error = np.sqrt(float(np.where(explained > 0, 0.0, changed.variance).sum()))
    return remainder if remainder > max(_MIN_REMAINDER * square, _CLEAR_REMAINDER * error) else 0.0


def _weak_changes(
    changed: ColumnChanges, remainder: float, any_significant: bool, pair: PairDistance
) -> Floats:
    """Changes that are not significant one by one, (K, 2).

    They count if the sites differ as a whole and significant changes do not explain that.
    """
    weak = np.maximum(changed.unbiased - changed.significant_change, 0.0)
    total = float(weak.sum())
    if total > 0 and remainder > 0:
        return np.asarray(weak * min(1.0, remainder / total))
    return weak if pair.differs and not any_significant else np.zeros_like(weak)


def _distribute(
    remainder: float, surplus: Floats, error: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """The remainder in proportion to each column's clear surplus, and which columns have one."""
    is_clear = (surplus > _CLEAR_SURPLUS * error) & (surplus > 0)
    weights = np.where(is_clear, surplus, 0.0)
    if weights.sum() < remainder / _MAX_ATTENUATION:
        weights = np.maximum(surplus, 0.0)
    total = float(weights.sum())
    if not (remainder > 0 and total > 0):
        return np.zeros(len(surplus)), np.zeros(len(surplus), dtype=bool)
    return min(remainder, _MAX_ATTENUATION * total) * weights / total, is_clear & (weights > 0)
