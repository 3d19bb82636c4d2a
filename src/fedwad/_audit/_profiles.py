"""An attack on the profile of a table: values of single rows that follow from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import FedwadError
from fedwad.federation import Client, Policy, ProfileReply, ProfileRequest, RawTable
from fedwad.tables import Column, ColumnStatistics

__all__ = ["count_revealed_rows", "infer_values"]

_MIN_ROWS = 10  # a value that at least so many rows have identifies none of them
_EXACT = 1e-6  # largest error of an inferred value, in standard deviations of its column


def count_revealed_rows(table: RawTable, policy: Policy) -> tuple[int, int, str]:
    """How many rows have a value that the profile reveals and that fewer than ten rows have.

    The result is this number, the number of replies (0 or 1), and the refusal if there was one.
    """
    try:
        reply = Client(table, policy).answer(ProfileRequest())
    except FedwadError as error:
        return 0, 0, str(error)
    revealed = np.zeros(table.table.rows, dtype=bool)
    if isinstance(reply, ProfileReply):
        for statistics in reply.profile.columns:
            column = table.table[statistics.name]
            for value in infer_values(statistics):
                rows = _rows_with(column, value)
                if rows.sum() < _MIN_ROWS:
                    revealed |= rows
    return int(revealed.sum()), 1, ""


def infer_values(s: ColumnStatistics) -> list[str | float]:
    """Values that the column may hold, judging by what a profile says about it.

    Some hold only under an assumption, for example that all other values are equal.
    """
    guesses: list[str | float] = [*s.levels, *s.sentinels]
    if not s.moments:
        return guesses
    codes = [(float(v), n) for v, n in zip(s.levels, s.level_counts, strict=True) if _is_number(v)]
    sentinels = list(zip(s.sentinels, s.sentinel_counts, strict=True))
    for known in ([], codes, sentinels):  # values with their numbers of rows
        guesses += _remaining_values(s, known)
    if s.count > 1:  # the one value that differs, if all others are equal
        deviation = math.sqrt(s.sum_of_squares * (s.count - 1) / s.count)
        guesses += [s.mean - deviation, s.mean + deviation]
    return guesses


def _remaining_values(s: ColumnStatistics, known: Sequence[tuple[float, int]]) -> Iterator[float]:
    """The other values of a column, if `known` has all but these, each with its number of rows.

    One or two remaining values follow from the moments. More are assumed to be equal.
    """
    remaining = s.count - sum(number for _, number in known)
    if remaining < 1:
        return
    total = s.mean * s.count - sum(value * number for value, number in known)
    squares = s.sum_of_squares + s.count * s.mean**2 - sum(v * v * number for v, number in known)
    if remaining == 2:
        difference = math.sqrt(max(0.0, 2.0 * squares - total * total))
        yield from ((total - difference) / 2, (total + difference) / 2)
    else:
        yield total / remaining


def _is_number(level: str) -> bool:
    try:
        return math.isfinite(float(level))
    except ValueError:
        return False


def _rows_with(column: Column, value: str | float) -> NDArray[np.bool_]:
    if isinstance(value, str) and column.kind in ("category", "boolean"):
        code = column.levels.index(value) if value in column.levels else len(column.levels)
        return np.asarray(column.values == code)
    if column.kind not in ("number", "date") or (isinstance(value, str) and not _is_number(value)):
        return np.zeros(len(column), dtype=bool)
    max_error = _EXACT * (float(np.nanstd(column.values)) or 1.0)
    return np.asarray(np.abs(column.values - float(value)) <= max_error)
