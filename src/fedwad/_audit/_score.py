"""Scores of reconstructions, compared with that of a fresh sample from the same population."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedwad.ot import Floats, ground_cost

__all__ = ["ReconstructionScorer", "Score"]

_EXACT, _NEAR = 1e-6, 0.1  # in typical distances between nearest neighbours
_CHUNK_ROWS = 512  # rows of distances that are computed at once
_MAX_RECORDS = 5000  # whose nearest neighbours are found, for the baseline


@dataclass(frozen=True)
class Score:
    """How many records were reconstructed.

    exact : within a millionth of the typical nearest-neighbour distance
    near : within a tenth of it, the exact ones included
    closest : median over records of the distance to the closest guess, in typical nearest-neighbour
        distances
    """

    exact: int = 0
    near: int = 0
    closest: float = math.inf


class ReconstructionScorer:
    """Scores reconstructions in units of the nearest-neighbour distances of the data.

    A guess close to a record means little if records lie close to each other. Therefore distances
    are divided by the median distance of a record to its nearest neighbour, where records that have
    a copy do not count, and every score is compared with the `baseline`: the score of the other
    n - 1 records as guesses of each record. These are a fresh sample from the same population.
    """

    def __init__(self, points: Floats) -> None:
        self._points = points
        chosen = np.arange(len(points))
        if len(points) > _MAX_RECORDS:  # the baseline is estimated from a random part
            chosen = np.sort(np.random.default_rng(0).permutation(len(points))[:_MAX_RECORDS])
        distances = np.sqrt(_closest(points[chosen], points, indices=chosen)[0])
        largest = float(np.abs(points - points.mean(axis=0)).max()) or 1.0
        distances[distances <= 1e-9 * largest] = 0.0  # copies of a record
        positive = distances[distances > 0]
        #: The median distance of a record without a copy to its nearest neighbour; 1 if all have
        #: copies.
        self.typical = float(np.median(positive)) if len(positive) else 1.0
        ratio, score = len(points) / len(chosen), self._score(distances)
        self.baseline = Score(round(ratio * score.exact), round(ratio * score.near), score.closest)

    def score(self, guesses: Floats) -> Score:
        """The score of the guesses, of which at most as many count as there are records."""
        guesses = self._usable(guesses)
        return self._score(np.sqrt(_closest(self._points, guesses)[0])) if len(guesses) else Score()

    def nearest(self, records: Floats, guesses: Floats) -> Floats:
        """For each of these records the guess that is closest to it."""
        guesses = self._usable(guesses)
        return np.asarray(guesses[_closest(records, guesses)[1]])

    def _usable(self, guesses: Floats) -> Floats:
        """The finite guesses, at most as many as there are records."""
        return np.asarray(guesses[np.isfinite(guesses).all(axis=1)][: len(self._points)])

    def _score(self, distances: Floats) -> Score:
        """The score of records at these distances from their closest guess."""
        ratios = distances / self.typical
        exact, near = int((ratios <= _EXACT).sum()), int((ratios <= _NEAR).sum())
        return Score(exact, near, float(np.median(ratios)))


def _closest(
    points: Floats, others: Floats, indices: np.ndarray | None = None
) -> tuple[Floats, np.ndarray]:
    """The squared distance of each point to the closest of the others, and the index of that one.

    If the points are among the others, `indices` are their own, which do not count.
    """
    squares, which = np.empty(len(points)), np.empty(len(points), dtype=np.int64)
    for start in range(0, len(points), _CHUNK_ROWS):
        chunk = slice(start, start + _CHUNK_ROWS)
        cost = ground_cost(points[chunk], others)
        if indices is not None:
            cost[np.arange(len(cost)), indices[chunk]] = np.inf
        which[chunk] = cost.argmin(axis=1)
        # From the difference itself: |x|^2 - 2 x.y + |y|^2 loses all digits if guess and record
        # agree.
        squares[chunk] = ((points[chunk] - others[which[chunk]]) ** 2).sum(axis=1)
    if indices is not None and len(others) == 1:
        squares[:] = np.inf
    return squares, which
