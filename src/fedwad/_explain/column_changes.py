"""Changes of means and spreads, column by column, and what of them is more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad._explain.groups import Column, column_index
from fedwad.ot import Changes, ColumnMoments, Floats, changes, critical_score, shrinkage_factors

__all__ = ["ColumnChanges", "column_changes", "sum_by_column"]


@dataclass(frozen=True, eq=False)
class ColumnChanges:
    """Arrays over the K columns, in squared units; (K, 2) arrays hold location and scale.

    A number's location is the squared difference of its means, and its scale that of its standard
    deviations. Where a feature is 0 or one value, its frequency determines its distance, all of
    which is location.

    Attributes
    ----------
    raw : array (K, 2), as measured
    unbiased : array (K, 2), minus the expectation when nothing changed
    significant_change : array (K, 2), `unbiased` shrunk to zero where the change may be chance
    null : array (K,), expectation of the sum of `raw` when nothing changed and tails are light
    variance : array (K,), of the sum of `unbiased`
    significant : array (K,)
    """

    raw: Floats
    unbiased: Floats
    significant_change: Floats
    null: Floats
    variance: Floats
    significant: NDArray[np.bool_]


def sum_by_column(columns: Sequence[Column], values: Floats) -> Floats:
    """Sums over the features of each column."""
    return np.asarray(np.bincount(column_index(columns), values, len(columns)))


def column_changes(columns: Sequence[Column], a: ColumnMoments, b: ColumnMoments) -> ColumnChanges:
    """Changes of all columns, tested together by Holm's method."""
    found = changes(a, b)
    on_values = np.array([value for column in columns for value in column.on_values])
    number = np.isnan(on_values)
    location = _location_changes(found, number, np.where(number, 1.0, on_values))
    scale = np.where(number, _scale_changes(found), 0.0)
    location_score, tests = _test_scores(columns, found, number, a, b)
    critical = critical_score(tests)
    location_factor = shrinkage_factors(location_score, critical)
    scale_factor = shrinkage_factors(found.scale_score, critical)
    significant = np.stack([location[1] * location_factor, scale[1] * scale_factor])

    def sum_columns(parts: Floats) -> Floats:
        return np.column_stack([sum_by_column(columns, part) for part in parts])

    raw, unbiased, null, variance = (np.stack([location[k], scale[k]]) for k in range(4))
    return ColumnChanges(
        raw=sum_columns(raw),
        unbiased=sum_columns(unbiased),
        significant_change=sum_columns(significant),
        null=sum_columns(null).sum(axis=1),
        variance=sum_columns(variance).sum(axis=1),
        significant=sum_columns(significant).sum(axis=1) > 0,
    )


def _location_changes(found: Changes, number: NDArray[np.bool_], on_value: Floats) -> Floats:
    """Raw, unbiased, expected by chance, and variance of the change of each feature's mean."""
    square, error = found.location, found.location_error
    remainder = np.maximum(square - error, 0.0)
    as_number = np.stack([square, remainder, error, 4 * remainder * error + 2 * error**2])
    as_share = np.stack(
        [
            on_value * np.sqrt(square),
            on_value * np.sqrt(remainder),
            on_value * np.sqrt(2 / np.pi * error),
            on_value**2 * error,
        ]
    )
    return np.where(number, as_number, as_share)


def _scale_changes(found: Changes) -> Floats:
    square, error = found.scale, found.scale_error
    remainder = np.maximum(square - error, 0.0)
    variance = 4 * remainder * error + 2 * error**2
    return np.stack([square, remainder, found.scale_typical, variance])


def _test_scores(
    columns: Sequence[Column],
    found: Changes,
    number: NDArray[np.bool_],
    a: ColumnMoments,
    b: ColumnMoments,
) -> tuple[Floats, Floats]:
    """The score of each feature's mean, and all scores that are tested: a category has one."""
    score = found.location_score.copy()
    is_tested = np.ones(len(score), dtype=bool)
    for column in columns:
        if column.is_category:
            score[column.feature_slice] = _category_score(column, a, b)
            is_tested[column.feature_slice] = False
            is_tested[column.feature_slice.start] = True
    known = number & (a.std is not None and b.std is not None)
    return score, np.concatenate([score[is_tested], found.scale_score[known]])


def _category_score(column: Column, a: ColumnMoments, b: ColumnMoments) -> float:
    """The standard normal score of Pearson's chi-square test of equal frequencies."""
    from scipy.special import chdtrc, ndtri

    on_value = column.on_values[0]
    here, there = (np.clip(one.mean[column.feature_slice] / on_value, 0.0, 1.0) for one in (a, b))
    pooled = (a.count * here + b.count * there) / (a.count + b.count)
    seen = pooled > 0
    freedom = int(seen.sum()) - 1
    if freedom < 1:
        return 0.0
    squares = (here - there)[seen] ** 2 / pooled[seen]
    statistic = float(squares.sum()) / (1 / a.count + 1 / b.count)
    tail = float(chdtrc(freedom, statistic))
    # No tail that a float can hold has a score above 38.
    return float(np.clip(-ndtri(max(tail, 1e-300) / 2), 0.0, 38.0))
