"""A schema under differential privacy: centres, scales and weights from noisy sums.

The names and kinds of columns, the ranges of numbers and the levels of categories are public: they
come from a draft of the schema. What rows say enters by sums alone. A number in the range [low,
high] becomes u in [-1, 1], clipped, and adds (u, 2 u^2 - 1); a boolean adds whether it is true, a
category adds 1 to its level, and a missing value adds 1 to their number. Values of a column whose
rule for missing ones is "mean" count at the centre of the draft.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.privacy._mechanism import UNIT, RandomBytes, released
from fedwad.tables import Conflict, Schema, SchemaColumn

__all__ = [
    "check_draft",
    "release_schema",
    "schema_from_sums",
    "schema_sensitivity",
    "schema_size",
    "schema_sums",
]

#: Largest |(u, 2 u^2 - 1) - (v, 2 v^2 - 1)|^2, at u - v = a and u + v = 2 - a with
#: 8 a^2 - 24 a + 17 = 0; no larger from a value to a missing one, where it is at most 3.
_A = (6.0 - math.sqrt(2.0)) / 4.0
_NUMBER = _A**2 * (1.0 + 4.0 * (2.0 - _A) ** 2)
_LEVEL = 2.0  # a row leaves one level for another
_VISIBLE = 2.0  # standard deviations of its noise that a spread must have


def check_draft(draft: Schema) -> None:
    """InputError unless the draft is public and names the range of each number."""
    if not draft.public:
        raise InputError(
            "The draft of a private schema was agreed on from the sites' data, which is not"
            " private; write its ranges and levels from public knowledge into a schema file."
        )
    for column in draft.compared_columns:
        if column.kind in ("number", "date") and not column.range:
            raise InputError(
                f"Column '{column.name}' of the draft has no range, which no private schema can"
                " find; add the smallest and the largest value that is possible, as in range ="
                " [0, 120]."
            )
    if not draft.compared_columns:
        raise InputError("The draft compares no column; give at least one a kind.")


def release_schema(
    points: Floats, draft: Schema, mu: float, random_bytes: RandomBytes = os.urandom
) -> tuple[Floats, float]:
    """Noisy sums over rows that the draft encoded, for a privacy loss mu that the caller has
    already spent; and the standard deviation of the noise."""
    return released(schema_sums(points, draft), schema_sensitivity(draft), mu, random_bytes)


def schema_size(draft: Schema) -> int:
    """How many sums a release for this draft has."""
    return sum(map(_size, draft.columns))


def schema_sensitivity(draft: Schema) -> float:
    """How much the sums change at most, in Euclidean norm, when one row is replaced."""
    numbers = sum(column.kind in ("number", "date") for column in draft.compared_columns)
    return math.sqrt(numbers * _NUMBER + (len(draft.compared_columns) - numbers) * _LEVEL)


def schema_sums(points: Floats, draft: Schema) -> NDArray[np.int64]:
    """Sums over rows that the draft encoded, in UNITs; each row by itself."""
    parts = [
        _added(column, points[:, draft.feature_slice(column.name)])
        for column in draft.compared_columns
    ]
    added = np.column_stack(parts)
    return np.asarray(np.rint(added / UNIT).astype(np.int64).sum(axis=0))


def _added(column: SchemaColumn, encoded: Floats) -> Floats:
    """What each row adds to the sums of a column."""
    if column.kind == "category":
        return np.asarray(encoded > 0, dtype=np.float64)
    values = column.centre + column.scale * encoded[:, 0]
    lost = np.zeros((len(values), 0)) if column.missing != "indicator" else encoded[:, 1:]
    present = 1.0 - lost.sum(axis=1)
    if column.kind == "boolean":
        return np.column_stack([present * (values > 0.5), lost])
    low, high = column.range
    u = np.clip((values - (low + high) / 2.0) / ((high - low) / 2.0), -1.0, 1.0)
    return np.column_stack([present * u, present * (2.0 * u * u - 1.0), lost])


def schema_from_sums(
    draft: Schema, counts: Sequence[int], sums: Sequence[Floats], noises: Sequence[float]
) -> Schema:
    """The schema from each site's number of rows, noisy sums and standard deviation of the noise.

    Where the noise hides a spread, the column stays as the draft has it, and a conflict says so.
    """
    rows, total = sum(counts), np.sum(sums, axis=0)
    noise = math.sqrt(sum(one * one for one in noises))
    columns: list[SchemaColumn] = []
    hidden: list[Conflict] = []
    start = 0
    for column in draft.columns:
        size = _size(column)
        found = _made(column, total[start : start + size], rows, noise) if size else column
        start += size
        columns.append(found or column)
        if found is None:
            hidden.append(_hidden(column))
    return replace(draft, columns=tuple(columns), public=True, conflicts=tuple(hidden))


def _size(column: SchemaColumn) -> int:
    return column.width + (column.kind in ("number", "date"))


def _made(column: SchemaColumn, sums: Floats, rows: int, noise: float) -> SchemaColumn | None:
    """The column with its centre and scale, or its weight; None if noise hides them."""
    if column.kind == "category":
        # Squares of noise add up; levels are disjoint, so the sum of squared shares is known to
        # twice the noise.
        same = (float(sums @ sums) - len(sums) * noise**2) / rows**2
        same = min(max(same, 1.0 / len(sums)), 1.0)
        seen = 1.0 - same > _VISIBLE * 2.0 * math.sqrt(same) * noise / rows
        return replace(column, weight=2.0 / (1.0 - same)) if seen else None
    lost = float(sums[-1]) if column.missing == "indicator" else 0.0
    present = min(float(rows), rows - lost)
    if present < max(1.0, _VISIBLE * noise):
        return None
    mean = float(sums[0]) / present
    if column.kind == "boolean":
        variance, error, centre, unit = mean * (1.0 - mean), abs(1.0 - 2.0 * mean), mean, 1.0
    else:
        low, high = column.range
        variance = (float(sums[1]) / present + 1.0) / 2.0 - mean**2
        error = math.hypot(0.5, 2.0 * mean)
        centre, unit = (low + high) / 2.0 + mean * (high - low) / 2.0, (high - low) / 2.0
    if variance <= _VISIBLE * error * noise / present or variance <= 0.0:
        return None
    return replace(column, centre=centre, scale=unit * math.sqrt(variance))


def _hidden(column: SchemaColumn) -> Conflict:
    kept = "weight" if column.kind == "category" else "centre and scale"
    sentence = (
        f"The noise hides how much column '{column.name}' varies, so it keeps the draft's {kept};"
        " a larger epsilon, fewer columns or a narrower range help."
    )
    return Conflict(column.name, (), "noise", sentence)
