"""The part of each column in a distance: what changed, how sure that is, and what is chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedwad._explain.column_changes import ColumnChanges, by_column, column_changes
from fedwad._explain.evidence import Evidence
from fedwad._explain.groups import Column, column_index
from fedwad.ot import ColumnMoments, Correlation, Floats

__all__ = ["Known", "Parts", "parts_between", "parts_of"]

_ROUGH = 0.05  # smallest relative error of a column's noise
_MANY = 8  # columns from which that error is estimated by their median
_CLEAR = 3.0  # standard errors by which a column's part must exceed changes and noise
_SURE = 2.5  # standard errors by which a remainder must exceed zero
_FAR = 10.0  # largest ratio of spreads to which noise is scaled
_ORDINARY = 1e-60, 1e60  # lengths whose fourth powers can be stored
_MEASURED = 0.9  # weight of measured noise where all of a distance is noise
_ATTENUATED = 2.0  # largest factor by which noise can lower a difference of shape
_MINOR = 0.1  # of the squared distance between populations, below which a rest is not shared out


@dataclass(frozen=True)
class Known:
    """What is known of a pair as a whole: its distances, whether it differs beyond chance, and the
    lower end of the interval of the distance between the populations."""

    value: float
    population: float | None = None
    differs: bool | None = None
    least: float = 0.0

    def in_unit(self, unit: float) -> Known:
        population = None if self.population is None else self.population / unit
        return Known(self.value / unit, population, self.differs, self.least / unit)


@dataclass(frozen=True, eq=False)
class Parts:
    """Arrays over columns, in squared units.

    Attributes
    ----------
    square : part of the squared distance between the samples
    noise : expectation of `square` for one population, zeros if unknown
    location, scale, rest : parts of the squared distance between the populations
    square_std, excess_std : standard errors of `square` and of the sum of the last three
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
        return np.asarray(self.location + self.scale + self.rest)


def parts_between(
    evidence: Evidence, columns: Sequence[Column], i: int, j: int, known: Known
) -> Parts:
    """Parts of all columns between the sites at two indices of the evidence."""
    a, b = evidence.moments[i], evidence.moments[j]
    square, changed = evidence.squares.get((min(i, j), max(i, j))), evidence.changed(i, j)
    unit = _unit(a, b)
    if unit != 1:
        a, b, known = _in_unit(a, unit), _in_unit(b, unit), known.in_unit(unit)
        square = None if square is None else square / unit / unit
        changed = tuple(replace(one, square=one.square / unit / unit) for one in changed)
    return parts_of(columns, a, b, square, changed, known)


def _unit(a: ColumnMoments, b: ColumnMoments) -> float:
    """A unit of length in which fourth powers of changes can be stored; 1 unless they are huge or
    tiny."""
    lengths = [np.abs(a.mean - b.mean), np.sqrt(a.mean_error), np.sqrt(b.mean_error)]
    largest = max(float(length.max()) for length in lengths)
    return 1.0 if largest == 0 or _ORDINARY[0] < largest < _ORDINARY[1] else largest


def _in_unit(one: ColumnMoments, unit: float) -> ColumnMoments:
    return replace(
        one,
        mean=one.mean / unit,
        std=None if one.std is None else one.std / unit,
        mean_error=one.mean_error / unit / unit,
        std_error=one.std_error / unit / unit,
        noise=None if one.noise is None else one.noise / unit / unit,
    )


def parts_of(
    columns: Sequence[Column],
    a: ColumnMoments,
    b: ColumnMoments,
    square: Floats | None,
    correlations: Sequence[Correlation],
    known: Known,
) -> Parts:
    """Parts of all columns between two sites.

    Changes of means and spreads that may be chance do not count, unless the sites differ by more
    than the significant changes explain. A changed correlation adds to both its columns. What
    remains of the squared distance between the populations is distributed over the columns whose
    part in the transport plan exceeds their changes and their noise.
    """
    changed = column_changes(columns, a, b)
    noise = _noise(columns, a, b)
    inside = np.maximum(noise - changed.null, 0.0)  # noise of neither mean nor spread
    expected = changed.raw.sum(axis=1) + inside
    whole = expected if square is None else by_column(columns, square)
    location, scale = changed.significant_change.T
    dependence = _dependence(columns, correlations)
    surplus, error = _surplus(changed, whole, inside, known)
    remainder = _remainder(changed, location + scale + dependence, known)
    weak = _weak(changed, remainder, (location + scale + dependence).any(), known)
    location, scale = location + weak[:, 0], scale + weak[:, 1]
    rest, clear = _distributed(remainder - float(weak.sum()), surplus, error)
    rest = rest + dependence
    counted = np.where(location + scale > 0, changed.variance, 0.0)
    return Parts(
        square=_blended(whole, expected, noise, known),
        noise=noise,
        location=location,
        scale=scale,
        rest=rest,
        square_std=np.sqrt(changed.variance + error**2),
        excess_std=np.sqrt(counted + np.where(rest > 0, error**2, 0.0)),
        significant=changed.significant | clear | (dependence > 0),
    )


def _noise(columns: Sequence[Column], a: ColumnMoments, b: ColumnMoments) -> Floats:
    """The geometric mean of what both sites measured, feature by feature; zeros if unknown.

    Noise grows with the variance, so what one site alone measured is scaled by both spreads.
    """
    first, second = a.noise_beside(b.count), b.noise_beside(a.count)
    if first is not None and second is not None:
        return by_column(columns, np.sqrt(first * second))
    if first is not None:
        return by_column(columns, first * _spread_ratio(b, a))
    if second is not None:
        return by_column(columns, second * _spread_ratio(a, b))
    return np.zeros(len(columns))


def _spread_ratio(one: ColumnMoments, other: ColumnMoments) -> Floats:
    """Standard deviations over those of another site, at most 10; ones where unknown."""
    if one.std is None or other.std is None:
        return np.ones_like(one.mean)
    known = other.std > 0
    return np.minimum(np.where(known, one.std / np.where(known, other.std, 1.0), 1.0), _FAR)


def _blended(whole: Floats, expected: Floats, noise: Floats, known: Known) -> Floats:
    """Parts of the squared distance between the samples, from a plan and from measured noise.

    A plan between synthetic samples has the noise of the summary's model. The larger the part of
    noise in a distance, the more weight has the noise that sites measured on their own rows.
    """
    total, other, square = float(whole.sum()), float(expected.sum()), known.value**2
    if not (noise.any() and total > 0 and other > 0 and square > 0):
        return whole
    weight = _MEASURED * min(1.0, float(noise.sum()) / square) ** 0.5
    return np.asarray(square * ((1 - weight) * whole / total + weight * expected / other))


def _dependence(columns: Sequence[Column], correlations: Sequence[Correlation]) -> Floats:
    """What changed correlations add to the columns, each of which counts in one pair only."""
    groups, found = column_index(columns), np.zeros(len(columns))
    for one in correlations:
        both = [int(groups[one.first]), int(groups[one.second])]
        if not found[both].any():
            found[both] = one.square / 2
    return found


def _surplus(
    changed: ColumnChanges, whole: Floats, inside: Floats, known: Known
) -> tuple[Floats, Floats]:
    """The part of each column in the plan minus its changes and its noise, and the error of
    that."""
    total = float(whole.sum())
    if not inside.any() or not (total > 0 and known.value > 0):
        return np.zeros(len(whole)), _ROUGH * inside
    surplus = whole * known.value**2 / total - changed.raw.sum(axis=1) - inside
    ratios = np.abs(surplus[inside > 0] / inside[inside > 0])
    rough = _ROUGH if len(ratios) < _MANY else max(_ROUGH, 1.4826 * float(np.median(ratios)))
    return surplus, rough * np.maximum(inside, float(inside.mean()))


def _remainder(changed: ColumnChanges, explained: Floats, known: Known) -> float:
    """What the columns do not explain of the squared distance between the populations."""
    if not known.population or not known.differs:
        return 0.0
    square = known.population**2
    if 0 < known.least**2 <= float(explained.sum()):
        return 0.0  # the explained part lies within the interval
    remainder = square - float(explained.sum())
    error = np.sqrt(float(np.where(explained > 0, 0.0, changed.variance).sum()))
    return remainder if remainder > max(_MINOR * square, _SURE * error) else 0.0


def _weak(changed: ColumnChanges, remainder: float, some: bool, known: Known) -> Floats:
    """Changes that are not significant one by one, (K, 2); they count if the sites differ as a
    whole and significant changes do not explain that."""
    small = np.maximum(changed.unbiased - changed.significant_change, 0.0)
    total = float(small.sum())
    if total > 0 and remainder > 0:
        return np.asarray(small * min(1.0, remainder / total))
    return small if known.differs and not some else np.zeros_like(small)


def _distributed(
    remainder: float, surplus: Floats, error: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """The remainder in proportion to each column's clear surplus, and which columns have one."""
    clear = (surplus > _CLEAR * error) & (surplus > 0)
    weights = np.where(clear, surplus, 0.0)
    if weights.sum() < remainder / _ATTENUATED:
        weights = np.maximum(surplus, 0.0)
    total = float(weights.sum())
    if not (remainder > 0 and total > 0):
        return np.zeros(len(surplus)), np.zeros(len(surplus), dtype=bool)
    return min(remainder, _ATTENUATED * total) * weights / total, clear & (weights > 0)
