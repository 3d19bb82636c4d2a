"""Changes of means and spreads, column by column, and what of them is more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad._explain.columns import Column, column_index
from fedwad.ot import Changes, ColumnMoments, Floats, changes, critical_score, shrinkage_factors

__all__ = ["ColumnChanges", "column_changes", "sum_by_column"]


@dataclass(frozen=True, eq=False)
class ColumnChanges:
    """Arrays over the K columns, in squared units; (K, 2) arrays hold location and scale.

    A number's location is the squared difference of its means, and its scale that of its standard
    deviations. A feature that is either 0 or one fixed value, such as a level of a category, can
    only change its frequency, which counts as location.

    Attributes
    ----------
    raw : array (K, 2), as measured
    unbiased : array (K, 2), `raw` minus its expectation when nothing changed, at least zero
    significant_change : array (K, 2), `unbiased` shrunk, to zero where the change may be chance
    null : array (K,), expectation of the sum of `raw` when nothing changed and tails are light
    variance : array (K,), of the sum of `unbiased`
    significant : array (K,), whether a significant change is left
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
    measured = changes(a, b)
    on_values = np.array([value for column in columns for value in column.on_values])
    is_number = np.isnan(on_values)
    location = _location_changes(measured, is_number, np.where(is_number, 1.0, on_values))
    scale = np.where(is_number, _scale_changes(measured), 0.0)
    location_score, tested_scores = _scores(columns, measured, is_number, a, b)
    critical = critical_score(tested_scores)
    location_factor = shrinkage_factors(location_score, critical)
    scale_factor = shrinkage_factors(measured.scale_score, critical)
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


def _location_changes(measured: Changes, is_number: NDArray[np.bool_], on_values: Floats) -> Floats:
    """The change of each feature's mean, (4, d): raw, unbiased, expected by chance, and variance.

    A mean of a feature that is 0 or `on_value` changes by the change of a frequency times
    `on_value`. Rows whose value changes each move by `on_value`, so the squared distance is linear
    in the change of the frequency.
    """
    square, error = measured.location, measured.location_error
    unbiased = np.maximum(square - error, 0.0)
    as_number = np.stack([square, unbiased, error, 4 * unbiased * error + 2 * error**2])
    as_frequency = np.stack(
        [
            on_values * np.sqrt(square),
            on_values * np.sqrt(unbiased),
            on_values * np.sqrt(2 / np.pi * error),
            on_values**2 * error,
        ]
    )
    return np.where(is_number, as_number, as_frequency)


def _scale_changes(measured: Changes) -> Floats:
    """The same four numbers for the change of each feature's standard deviation."""
    square, error = measured.scale, measured.scale_error
    unbiased = np.maximum(square - error, 0.0)
    variance = 4 * unbiased * error + 2 * error**2
    return np.stack([square, unbiased, measured.scale_typical, variance])


def _scores(
    columns: Sequence[Column],
    measured: Changes,
    is_number: NDArray[np.bool_],
    a: ColumnMoments,
    b: ColumnMoments,
) -> tuple[Floats, Floats]:
    """The score of each feature's mean, and the scores of all tests; a category has one test."""
    score = measured.location_score.copy()
    is_tested = np.ones(len(score), dtype=bool)
    for column in columns:
        if column.is_category:
            score[column.feature_slice] = _category_score(column, a, b)
            is_tested[column.feature_slice] = False
            is_tested[column.feature_slice.start] = True
    has_std = is_number & (a.std is not None and b.std is not None)
    return score, np.concatenate([score[is_tested], measured.scale_score[has_std]])


def _category_score(column: Column, a: ColumnMoments, b: ColumnMoments) -> float:
    """The standard normal score of Pearson's chi-square test of equal frequencies."""
    from scipy.special import chdtrc, ndtri

    on_value = column.on_values[0]
    here, there = (np.clip(one.mean[column.feature_slice] / on_value, 0.0, 1.0) for one in (a, b))
    pooled = (a.count * here + b.count * there) / (a.count + b.count)
    occurs = pooled > 0
    freedom = int(occurs.sum()) - 1
    if freedom < 1:
        return 0.0
    squares = (here - there)[occurs] ** 2 / pooled[occurs]
    statistic = float(squares.sum()) / (1 / a.count + 1 / b.count)
    tail = float(chdtrc(freedom, statistic))
    # No tail that a float can hold has a score above 38.
    return float(np.clip(-ndtri(max(tail, 1e-300) / 2), 0.0, 38.0))
