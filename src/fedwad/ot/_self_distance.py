"""What a server estimates for two samples of one population.

A client measures it on small parts of its rows. For many rows it is nearly what two synthetic
samples of one summary have between them, which a server can compute itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwad.ot._calibration import Calibration
from fedwad.ot._classes import LabelledSummary
from fedwad.ot._measure import Floats
from fedwad.ot._nearly import near_squares
from fedwad.ot._summary import Summary
from fedwad.ot._synthetic_samples import LabelledSyntheticSample, SyntheticSample

__all__ = ["NullEstimate", "SelfDistance", "self_distance"]

_FAR = 3  # times the rows of the client's parts, from which on a server computes it
_LARGEST = 500  # points of a synthetic sample
_DRAWS = 1
#: Power at which cells of two samples of one population become equal.
_CELLS = 0.4
# Part by which both ways may be too low for each doubling of the rows, and when that ends.
_PER_DOUBLING, _PER_DOUBLING_FAR, _MOST_DOUBLINGS = 0.02, 0.01, 4.0
_DEVIATIONS = 0.5  # standard deviations by which chance may make an estimate larger


@dataclass(frozen=True)
class SelfDistance:
    """Squared distance of two synthetic samples of one summary, square * (n / size)^-exponent.

    Samples of one distribution come arbitrarily close, so there is no constant term.
    """

    square: float
    size: int
    exponent: float

    def at(self, n: Floats | float) -> Floats:
        return np.asarray(self.square * (n / self.size) ** -self.exponent)


def self_distance(
    summary: Summary | LabelledSummary, calibration: Calibration | None
) -> SelfDistance | None:
    """The curve of a summary with far more rows than its client measured with, otherwise None."""
    if calibration is None or summary.count < _FAR * calibration.drawn:
        return None
    drawing = (
        LabelledSyntheticSample.of(summary)
        if isinstance(summary, LabelledSummary)
        else SyntheticSample.of(summary)
    )
    size = min(_LARGEST, int(summary.count))
    squares = []
    for points, draws in ((size, _DRAWS), (size // 2, 2 * _DRAWS)):
        rng = np.random.default_rng([points, 1])
        drawn = {k: drawing.draw(points, rng) for k in range(2 * draws)}
        found = near_squares(drawn, [(2 * k, 2 * k + 1) for k in range(draws)])
        squares.append(float(np.mean([square for _, square in found])))
    whole, half = squares
    if not min(squares) > 0:
        return None
    return SelfDistance(whole, size, float(np.clip(np.log2(half / whole), 0.0, 1.1)))


@dataclass(frozen=True)
class NullEstimate:
    """What a server estimates for two samples of n rows of one population, squared.

    The cells of two samples differ, which adds to the distance of synthetic samples of one summary.
    The client measured both together; the addition falls with the number of rows.
    """

    calibration: Calibration
    own: SelfDistance | None

    def at(self, n: Floats) -> Floats:
        c = self.calibration
        if self.own is None:
            return c.synthetic_at(n)
        addition = c.synthetic / self.own.at(c.drawn) - 1
        return np.asarray(self.own.at(n) * (1 + addition * (n / c.drawn) ** -_CELLS))

    def at_most(self, n: Floats) -> Floats:
        """The same with what extrapolation and chance may add."""
        c = self.calibration
        doublings = np.clip(np.log2(n / c.drawn), 0.0, _MOST_DOUBLINGS)
        each = _PER_DOUBLING if self.own is None else _PER_DOUBLING_FAR
        relative = c.noise_std / c.noise if c.noise > 0 else 0.0
        chance = relative * np.sqrt(1 / max(c.splits, 1) + c.size / n)
        return np.asarray(self.at(n) * (1 + each * doublings + _DEVIATIONS * chance))
