"""Differencing: sums over nested sets of records, from which single records follow.

A support on one line sorts the records along it and cuts that order into cells. The cells of all
queries along one line describe one curve: C(q) = the sum of the first q records in that order,
where a record that is cut counts in part. The curve is linear between integers, with slope x_(i)
between i and i + 1. Two queries that cut the same record in two positions reveal it, whatever the
number of samples in each cell.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fedwad.ot import Floats

__all__ = ["Curve", "random_direction"]


class Curve:
    """Known values of C at some positions q from 0 to n."""

    def __init__(self, count: int, features: int) -> None:
        self._count = count
        self._heights: dict[Fraction, Floats] = {Fraction(0): np.zeros(features)}

    def add(self, positions: list[Fraction], sums: Floats) -> None:
        """Add the values at the ends of consecutive cells with these sums."""
        for position, height in zip(positions, np.cumsum(sums, axis=0), strict=True):
            self._heights.setdefault(position, height)

    def records(self) -> list[Floats]:
        """The records in which C is known at two positions or more, from the two farthest apart."""
        positions = sorted(self._heights)
        positions_in: dict[int, list[Fraction]] = {}
        for position in positions:
            positions_in.setdefault(int(position), []).append(position)
            if position.denominator == 1:  # an integer also ends the record before
                positions_in.setdefault(int(position) - 1, []).append(position)
        records = []
        for index, ends in positions_in.items():
            if 0 <= index < self._count and len(ends) >= 2:
                low, high = ends[0], ends[-1]
                records.append((self._heights[high] - self._heights[low]) / float(high - low))
        return records


def random_direction(features: int, rng: np.random.Generator) -> Floats:
    """A random unit vector."""
    direction = rng.standard_normal(features)
    return np.asarray(direction / np.linalg.norm(direction))
