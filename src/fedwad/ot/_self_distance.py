"""What a server estimates for two samples of one population.

A client measures it on small parts of its rows. For many rows it is no less than what two synthetic
samples of one summary have between them, which a server can compute itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwad.ot._calibration import Calibration
from fedwad.ot._classes import LabelledSummary
from fedwad.ot._measure import Floats
from fedwad.ot._nearly import squares_with_halves
from fedwad.ot._summary import Summary
from fedwad.ot._synthetic_samples import LabelledSyntheticSample, SyntheticSample

__all__ = ["NullEstimate", "SelfDistance", "self_distance"]

# Times the rows of the client's parts, from which on a server computes it, and up to which.
_FAR, _FARTHEST = 3, 8
_CLEAR = 0.15  # error of estimates, from which on a server's computation counts in full
_LARGEST = 500  # points of a synthetic sample
#: Power at which cells of two samples of one population become equal.
_CELLS = 0.5
# Part by which both ways may be too low for each doubling of the rows, and when that ends.
_PER_DOUBLING, _PER_DOUBLING_FAR, _MOST_DOUBLINGS = 0.02, 0.01, 4.0
_DEVIATIONS = 0.75  # standard deviations by which chance may make an estimate larger


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
    half = min(_LARGEST, int(summary.count)) // 2
    rng = np.random.default_rng([half, 1])
    drawn = [drawing.draw(half, rng) for _ in range(4)]
    # Samples of the smaller size are parts of the larger ones, so that chance hardly changes their
    # ratio.
    whole, *halves = squares_with_halves((drawn[0], drawn[2]), (drawn[1], drawn[3]))
    if not min(whole, *halves) > 0:
        return None
    exponent = float(np.log2(np.mean(halves) / whole))
    return SelfDistance(whole, 2 * half, float(np.clip(exponent, 0.0, 1.1)))


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
        by_client = c.synthetic_at(n)
        if self.own is None:
            return by_client
        # Both power laws hold up to here. Where estimates are right, nothing is corrected.
        near = np.minimum(n, _FARTHEST * c.drawn)
        addition = c.synthetic / self.own.at(c.drawn) - 1
        by_server = self.own.at(near) * (1 + addition * (near / c.drawn) ** -_CELLS)
        wrong = float(np.clip((1 - c.noise / c.synthetic) / _CLEAR, 0.0, 1.0))
        higher = np.maximum(by_server / c.synthetic_at(near), 1.0)
        return np.asarray(by_client * higher**wrong)

    def at_most(self, n: Floats) -> Floats:
        """The same with what extrapolation and chance may add."""
        c = self.calibration
        doublings = np.clip(np.log2(n / c.drawn), 0.0, _MOST_DOUBLINGS)
        each = _PER_DOUBLING if self.own is None else _PER_DOUBLING_FAR
        relative = c.noise_std / c.noise if c.noise > 0 else 0.0
        chance = relative * np.sqrt(1 / max(c.splits, 1) + c.size / n)
        return np.asarray(self.at(n) * (1 + each * doublings + _DEVIATIONS * chance))
