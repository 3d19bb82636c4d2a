"""The code of an autoencoder that was never trained."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_integer
from fedwad.errors import InputError

__all__ = ["random_code"]

_CHUNK = 4096  # samples encoded at a time, so that little memory is needed besides the result


def random_code(X: Any, dimension: int = 784, hidden: int = 1024, seed: int = 0) -> NDArray[Any]:
    """Encode samples X (n, d) as (n, dimension) by a randomly initialised autoencoder's encoder.

    The encoder has two fully connected layers without biases and a rectifier between them:

        code(x) = B max(0, A x),   A: hidden x d,        A_jk ~ N(0, 2 / hidden),
                                   B: dimension x hidden, B_ij ~ N(0, 1 / dimension).

    The variances make E |code(x)|^2 = |x|^2 over the draw of A and B (the rectifier halves |A x|^2
    on average), so the scale of the data stays. The paper encodes CIFAR-10 in 784 dimensions this
    way without saying by which network; this one is ours. A and B depend on d, dimension, hidden
    and seed alone, so clients that agree on these compute comparable codes without seeing each
    other's data. The result is float32 for floats of up to 32 bits and integers of up to 16, else
    float64. It is the same on any machine, up to rounding.

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
    dtype = np.result_type(samples, np.float32)
    hidden, dimension = check_integer(hidden, "hidden"), check_integer(dimension, "dimension")
    rng = np.random.default_rng(check_integer(seed, "seed", 0))
    first = (rng.standard_normal((samples.shape[1], hidden)) * np.sqrt(2 / hidden)).astype(dtype)
    second = (rng.standard_normal((hidden, dimension)) * np.sqrt(1 / dimension)).astype(dtype)
    result = np.empty((len(samples), dimension), dtype=dtype)
    for start in range(0, len(samples), _CHUNK):
        chunk = samples[start : start + _CHUNK].astype(dtype)
        result[start : start + _CHUNK] = np.maximum(chunk @ first, 0) @ second
    return result
