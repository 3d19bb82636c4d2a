"""An order of a client's rows that depends on the rows alone."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._measure import Measure

__all__ = ["data_order"]


def data_order(
    measure: Measure, purpose: str, keys: NDArray[np.void] | None = None
) -> tuple[NDArray[np.int64], np.random.Generator]:
    """A random order of the rows and a generator, both determined by the data and the purpose.

    Rows are sorted by their digests, so the order in which they are stored plays no part. A digest
    of all rows seeds the generator that shuffles them. No request can choose another order, and one
    row more or less gives an unrelated one, so two orders of almost the same data cannot be
    compared row by row. With `keys`, sixteen bytes for each row, the order depends on those instead
    of the features: rows of a table are dealt in the same order whatever schema encodes them.
    """
    digests = _digests(measure) if keys is None else keys
    words = np.ascontiguousarray(digests).view(">u8").reshape(len(digests), 2)
    order = np.lexsort((words[:, 1], words[:, 0]))
    whole = hashlib.sha256(purpose.encode() + words[order].tobytes()).digest()
    rng = np.random.default_rng(np.frombuffer(whole, dtype=np.uint32).tolist())
    return np.asarray(order[rng.permutation(len(order))], dtype=np.int64), rng


def _digests(measure: Measure) -> NDArray[np.void]:
    points = np.ascontiguousarray(measure.points + 0.0)  # turns -0.0 into 0.0
    weights = measure.weights / measure.weights.max()
    return np.array(
        [
            hashlib.blake2b(row.tobytes() + weight.tobytes(), digest_size=16).digest()
            for row, weight in zip(points, weights, strict=True)
        ],
        dtype="V16",
    )
