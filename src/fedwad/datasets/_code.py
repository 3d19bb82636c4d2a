"""The code of an autoencoder that was never trained."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_integer
from fedwad.errors import InputError

__all__ = ["random_code"]

_CHUNK = 4096  # samples at a time, so that little memory is needed besides the result


def random_code(X: Any, dimension: int = 784, hidden: int = 1024, seed: int = 0) -> NDArray[Any]:
    """The encoder half of a randomly initialised autoencoder, applied to samples X (n, d): (n,
    dimension).

    Two fully connected layers without biases, a rectifier between them:

        code(x) = B max(0, A x),   A: hidden x d,        A_jk ~ N(0, 2 / hidden),
                                   B: dimension x hidden, B_ij ~ N(0, 1 / dimension).

    The variances make E |code(x)|^2 = |x|^2 over the draw of A and B (the rectifier halves |A x|^2
    on average), so the scale of the data stays. The paper has CIFAR-10 in 784 dimensions this way
    without saying which network; this one is ours. A and B depend on d, dimension, hidden and seed
    alone: clients that agree on these compute codes that can be compared without any having seen
    the others' data. float32 for float32 and small integers, else float64; the same code to
    rounding on any machine.

    Examples
    --------
    >>> random_code(np.eye(3), dimension=2).shape
    (3, 2)
    """
    samples = np.asarray(X)
    if samples.ndim != 2 or 0 in samples.shape or samples.dtype.kind not in "biuf":
        raise InputError(
            f"X has shape {samples.shape} of {samples.dtype}; give numbers (n, d), one sample per"
            " row."
        )
    kind = np.result_type(samples, np.float32)
    width, dimension = check_integer(hidden, "hidden"), check_integer(dimension, "dimension")
    rng = np.random.default_rng(check_integer(seed, "seed", 0))
    first = (rng.standard_normal((samples.shape[1], width)) * np.sqrt(2 / width)).astype(kind)
    second = (rng.standard_normal((width, dimension)) * np.sqrt(1 / dimension)).astype(kind)
    result = np.empty((len(samples), dimension), dtype=kind)
    for start in range(0, len(samples), _CHUNK):
        some = samples[start : start + _CHUNK].astype(kind)
        result[start : start + _CHUNK] = np.maximum(some @ first, 0) @ second
    return result
