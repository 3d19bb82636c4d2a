"""A schema under differential privacy: centres, scales and weights from noisy sums.

A *draft* is a schema that someone wrote from public knowledge: names and kinds of columns, ranges
of numbers and levels of categories. Rows enter by sums over rows alone. A number in the range [low,
high] is mapped to u in [-1, 1] and clipped; it adds u to one sum and 2 u^2 - 1 to another. A
boolean adds 1 if it is true. A category adds 1 to the sum of its level. If the column's rule for
missing values is "indicator", a missing value adds 1 to their number. If the rule is "mean", it
counts as the draft's centre.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.privacy._mechanism import SUM_UNIT, RandomBytes, add_noise
from fedwad.tables import Conflict, Schema, SchemaColumn
from fedwad.transport import Floats


def check_draft(draft: Schema) -> None:
    """Raise InputError unless the draft is public and has the range of each number and date."""
    if not draft.public:
        raise InputError(
            "The draft of a private schema was agreed on from the sites' data, which is not"
            " private; write its ranges and levels from public knowledge into a schema file.",
            "not-public",
        )
    for column in draft.compared_columns:
        if column.kind in ("number", "date") and not column.range:
            raise InputError(
                f"Column '{column.name}' of the draft has no range, which cannot be found"
                " privately; add the smallest and the largest possible value, as in range ="
                " [0, 120].",
                "bad-schema",
            )
    if not draft.compared_columns:
        raise InputError("The draft compares no column; give at least one a kind.", "no-columns")


def release_schema(
    points: Floats, draft: Schema, mu: float, random_bytes: RandomBytes = os.urandom
) -> tuple[Floats, float]:
    """Noisy sums over the rows, and the standard deviation of the noise.

    `points` are the rows as the draft encodes them. The caller has already counted the privacy loss
    `mu` against the budget.
    """
    return add_noise(schema_sums(points, draft), schema_sensitivity(draft), mu, random_bytes)


def count_schema_sums(draft: Schema) -> int:
    """How many sums a release for this draft has."""
    return sum(map(_count_sums, draft.columns))


def schema_sensitivity(draft: Schema) -> float:
    """How much the sums change at most, in Euclidean norm, when one row is replaced.

    For a number that goes from u to v the square is |(u, 2 u^2 - 1) - (v, 2 v^2 - 1)|^2, which is
    largest at u = 1 and v = 1 - a, where 8 a^2 - 24 a + 17 = 0. From a value to a missing one it is
    smaller, at most 3. For other columns one sum falls by 1 and another rises by 1.
    """
    a = (6.0 - math.sqrt(2.0)) / 4.0
    numbers = sum(column.kind in ("number", "date") for column in draft.compared_columns)
    others = len(draft.compared_columns) - numbers
    return math.sqrt(numbers * a**2 * (1.0 + 4.0 * (2.0 - a) ** 2) + others * 2.0)


def schema_sums(points: Floats, draft: Schema) -> NDArray[np.int64]:
    """Sums over the rows as the draft encodes them, in multiples of SUM_UNIT.

    What each row adds is rounded before it is summed.
    """
    parts = [
        _contributions(column, points[:, draft.feature_slice(column.name)])
        for column in draft.compared_columns
    ]
    contributions = np.column_stack(parts)
    return np.asarray(np.rint(contributions / SUM_UNIT).astype(np.int64).sum(axis=0))


def _contributions(column: SchemaColumn, encoded: Floats) -> Floats:
    """What each row adds to the sums of a column."""
    if column.kind == "category":
        return np.asarray(encoded > 0, dtype=np.float64)
    values = column.centre + column.scale * encoded[:, 0]
    # One column of zeros and ones, or no column if the schema does not count missing values.
    missing = np.zeros((len(values), 0)) if column.missing != "indicator" else encoded[:, 1:]
    present = 1.0 - missing.sum(axis=1)
    if column.kind == "boolean":
        return np.column_stack([present * (values > 0.5), missing])
    low, high = column.range
    u = np.clip((values - (low + high) / 2.0) / ((high - low) / 2.0), -1.0, 1.0)
    return np.column_stack([present * u, present * (2.0 * u * u - 1.0), missing])


def schema_from_sums(
    draft: Schema, counts: Sequence[int], sums: Sequence[Floats], noises: Sequence[float]
) -> Schema:
    """The schema from each site's number of rows, noisy sums and standard deviation of the noise.

    If noise hides how much a column varies, it stays as in the draft, and a conflict says so.
    """
    rows, total = sum(counts), np.sum(sums, axis=0)
    noise = math.sqrt(sum(one * one for one in noises))
    columns: list[SchemaColumn] = []
    conflicts: list[Conflict] = []
    start = 0
    for column in draft.columns:
        size = _count_sums(column)
        own_sums = total[start : start + size]
        start += size
        estimated = _estimate_column(column, own_sums, rows, noise) if size else column
        columns.append(estimated or column)
        if estimated is None:
            fields = "weight" if column.kind == "category" else "centre and scale"
            sentence = (
                f"The noise hides how much column '{column.name}' varies, so it keeps the draft's"
                f" {fields}; a larger epsilon, fewer columns or a narrower range help."
            )
            conflicts.append(Conflict(column.name, (), "noise", sentence))
    return replace(draft, columns=tuple(columns), public=True, conflicts=tuple(conflicts))


def _count_sums(column: SchemaColumn) -> int:
    """How many sums a column has: one for each encoded column, and 2 u^2 - 1 for numbers."""
    return column.width + (column.kind in ("number", "date"))


def _estimate_column(
    column: SchemaColumn, sums: Floats, rows: int, noise: float, deviations: float = 2.0
) -> SchemaColumn | None:
    """The column with centre and scale, or weight, from its sums; None if noise hides them, which
    are then at most so many standard deviations of their noise."""
    if column.kind == "category":
        # The probability q that two rows have the same level is the sum of the squared frequencies
        # of levels. On average, each noisy square is too large by the variance of the noise.
        q = (float(sums @ sums) - len(sums) * noise**2) / rows**2
        q = min(max(q, 1.0 / len(sums)), 1.0)
        # The noise of q has the standard deviation 2 sqrt(q) noise / rows.
        is_visible = 1.0 - q > deviations * 2.0 * math.sqrt(q) * noise / rows
        return replace(column, weight=2.0 / (1.0 - q)) if is_visible else None
    missing = float(sums[-1]) if column.missing == "indicator" else 0.0
    present = min(float(rows), rows - missing)
    if present < max(1.0, deviations * noise):
        return None
    mean = float(sums[0]) / present
    # The noise of `variance` has the standard deviation slope * noise / present.
    if column.kind == "boolean":
        variance, slope, centre, unit = mean * (1.0 - mean), abs(1.0 - 2.0 * mean), mean, 1.0
    else:
        low, high = column.range
        variance = (float(sums[1]) / present + 1.0) / 2.0 - mean**2
        slope = math.hypot(0.5, 2.0 * mean)
        centre, unit = (low + high) / 2.0 + mean * (high - low) / 2.0, (high - low) / 2.0
    if variance <= deviations * slope * noise / present or variance <= 0.0:
        return None
    return replace(column, centre=centre, scale=unit * math.sqrt(variance))
