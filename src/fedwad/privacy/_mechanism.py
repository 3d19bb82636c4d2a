"""The Gaussian mechanism: exact sums, and noise from the system's cryptographic source.

Proofs are about real numbers and computers have floating-point ones, whose last bits can give away
what noise was to hide (Mironov, 2012). So contributions are rounded to whole multiples of 2^-32 and
summed as whole numbers, which do not depend on the order of records; the rounding is part of the
sensitivity. The noise is a normal quantile of uniform bits of the operating system, resolved far
into its tails, and what leaves is rounded to a grid of about s / 1024, where all values can come
from all data. What then separates it from an ideal Gaussian is the accuracy of the quantile
function, about 1e-15 relative: some 1e-12 of a step of the grid for each number.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedwad.ot import Floats

__all__ = ["UNIT", "Bits", "normals", "released"]

#: So many random bytes.
Bits = Callable[[int], bytes]
#: What one contribution is rounded to.
UNIT = 2.0**-32
_STEPS = 1024  # of the grid in a standard deviation


def released(
    sums: NDArray[np.int64], sensitivity: float, mu: float, bits: Bits = os.urandom
) -> tuple[Floats, float]:
    """Sums of contributions, counted in UNITs, with Gaussian noise that costs mu; and its standard
    deviation.

    `sensitivity` is by how much the sums can change, in Euclidean length, when one record is
    replaced, before contributions were rounded.
    """
    # Each of two contributions was rounded by at most half a unit in every coordinate.
    deviation = (sensitivity + math.sqrt(sums.size) * UNIT) / mu
    step = 2.0 ** math.floor(math.log2(deviation / _STEPS))
    noise = deviation * normals(sums.size, bits).reshape(sums.shape)
    return np.asarray(np.rint((sums * UNIT + noise) / step) * step), deviation


def normals(count: int, bits: Bits = os.urandom) -> Floats:
    """Standard normal numbers from random bits: the normal quantile of uniform numbers below one
    half, and a sign."""
    from scipy.special import ndtri

    words = np.frombuffer(bits(16 * count), dtype="<u8").reshape(2, count)
    # 53 bits before and 64 behind, so that small numbers, the tails, are as finely resolved as
    # large ones.
    uniform = ((words[0] >> np.uint64(11)) + (words[1] + 0.5) * 2.0**-64) * 2.0**-54
    sign = np.where(words[0] & np.uint64(1), 1.0, -1.0)
    return np.asarray(sign * ndtri(uniform))
