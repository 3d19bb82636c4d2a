"""The Gaussian mechanism: exact sums, and noise from the system's cryptographic source.

Privacy proofs use real numbers. The last bits of floating-point noise can reveal what the noise
should hide (Mironov, 2012). Therefore contributions are rounded to multiples of 2^-32 and summed as
integers, so sums do not depend on the order of records. The rounding is part of the sensitivity.
The noise is the normal quantile of uniform bits from the operating system, resolved far into the
tails. The released numbers are rounded to a grid of about s / 1024, on which every value can come
from any data. Rounding is post-processing, so the mechanism is mu-GDP like the ideal Gaussian. It
differs from the ideal only by the accuracy of the quantile function, about 1e-15 relative, which
is about 1e-12 of a grid step for each number.

OpenDP's sampler was considered and not taken. It draws an exact discrete Gaussian by rejection
(Canonne, Kamath, Steinke, 2020), which removes even that 1e-12. But its guarantee is zCDP, so
`_accounting` would lose its exact mu-GDP composition. It takes no random source from outside, so
the mechanism could not be tested bit for bit. Its wheel (0.16) has 47 MB, and the moments of 256
features take 2 s instead of 3 ms.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedwad.ot import Floats

__all__ = ["UNIT", "RandomBytes", "normals", "released"]

#: Returns the given number of random bytes.
RandomBytes = Callable[[int], bytes]
#: Contributions are rounded to multiples of this.
UNIT = 2.0**-32
_STEPS = 1024  # grid steps in a standard deviation


def released(
    sums: NDArray[np.int64], sensitivity: float, mu: float, random_bytes: RandomBytes = os.urandom
) -> tuple[Floats, float]:
    """Add Gaussian noise with the privacy loss mu to sums in UNITs; return them and the noise's
    standard deviation.

    `sensitivity` is the largest change of the sums, in Euclidean norm, when one record is replaced,
    before contributions are rounded.
    """
    # Each of two contributions was rounded by at most half a unit in every coordinate.
    deviation = (sensitivity + math.sqrt(sums.size) * UNIT) / mu
    step = 2.0 ** math.floor(math.log2(deviation / _STEPS))
    noise = deviation * normals(sums.size, random_bytes).reshape(sums.shape)
    return np.asarray(np.rint((sums * UNIT + noise) / step) * step), deviation


def normals(count: int, random_bytes: RandomBytes = os.urandom) -> Floats:
    """Standard normal numbers: the normal quantile of a uniform number below one half, and a
    random sign."""
    from scipy.special import ndtri

    words = np.frombuffer(random_bytes(16 * count), dtype="<u8").reshape(2, count)
    # 53 leading and 64 trailing bits: small numbers, which are the tails, are resolved as finely as
    # large ones.
    uniform = ((words[0] >> np.uint64(11)) + (words[1] + 0.5) * 2.0**-64) * 2.0**-54
    sign = np.where(words[0] & np.uint64(1), 1.0, -1.0)
    return np.asarray(sign * ndtri(uniform))
