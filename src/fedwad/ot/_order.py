"""Orders of a client's rows that depend on the rows and not on how they are stored."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._measure import Floats, Measure

__all__ = ["data_order", "row_order", "sorted_generator"]


def row_order(points: Floats, *more_columns: NDArray[np.generic]) -> NDArray[np.int64]:
    """The order that sorts rows as numbers, first by the columns of `points`, then by more columns.

    Only rows that agree in the first column are compared in full.

    Examples
    --------
    >>> row_order(np.array([[2.0, 1.0], [1.0, 5.0], [2.0, -1.0]])).tolist()
    [1, 2, 0]
    """
    first = points[:, 0]
    order = np.argsort(first, kind="stable")
    ordered = first[order]
    equal = ordered[1:] == ordered[:-1]
    tied = np.zeros(len(order), dtype=bool)
    tied[1:] |= equal
    tied[:-1] |= equal
    if tied.any():
        ties = order[tied]
        rows = np.column_stack([points[ties] + 0.0, *(column[ties] for column in more_columns)])
        order[tied] = ties[np.argsort(_sort_keys(rows), kind="stable")]
    return np.asarray(order, dtype=np.int64)


def _sort_keys(rows: Floats) -> NDArray[np.void]:
    """A key for each row; keys sort as bytes the way rows sort as numbers."""
    bits = rows.view(np.int64)
    ordered = (bits ^ ((bits >> 63) | np.int64(-(2**63)))).astype(">i8")
    return ordered.view(f"V{8 * rows.shape[1]}")[:, 0]


def sorted_generator(
    measure: Measure, purpose: str, digest: str = ""
) -> tuple[NDArray[np.int64], np.random.Generator]:
    """The order that sorts the rows, and a generator seeded by the data and the purpose.

    No request can choose another generator, and one row more or less gives an unrelated one. Rows
    that are sorted already come with their `digest`; they are neither sorted nor hashed again.
    """
    if digest:
        return np.arange(len(measure)), _generator(purpose, digest.encode())
    order = row_order(measure.points, measure.weights)
    content = hashlib.sha256((measure.points[order] + 0.0).data).digest()
    content += (measure.weights[order] / measure.weights.max()).tobytes()
    return order, _generator(purpose, content)


def data_order(
    measure: Measure, purpose: str, keys: NDArray[np.void] | None = None
) -> tuple[NDArray[np.int64], np.random.Generator]:
    """A random order of the rows and a generator, both determined by the data and the purpose.

    Rows are sorted by their digests, so the order in which they are stored plays no part. A digest
    of all rows seeds the generator that shuffles them. No request can choose a different order, and
    one row more or less gives an unrelated one, so two orders of almost the same data cannot be
    compared row by row. With `keys`, sixteen bytes for each row, the order depends on those instead
    of the features, so it is the same for every schema that encodes the rows.
    """
    digests = _digests(measure) if keys is None else keys
    words = np.ascontiguousarray(digests).view(">u8").reshape(len(digests), 2)
    order = np.lexsort((words[:, 1], words[:, 0]))
    rng = _generator(purpose, words[order].tobytes())
    return np.asarray(order[rng.permutation(len(order))], dtype=np.int64), rng


def _generator(purpose: str, content: bytes) -> np.random.Generator:
    seed = hashlib.sha256(purpose.encode() + content).digest()
    return np.random.default_rng(np.frombuffer(seed, dtype=np.uint32).tolist())


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
