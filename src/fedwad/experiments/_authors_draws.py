"""Which rows clients hold and which clients train in the authors' own runs of `boosting`.

The authors' code seeds NumPy once, so its partitions and the clients of each round follow from the
seed, 0 to 4. Here the same random numbers are drawn in the same order. Their code is at
https://github.com/arakotom/fedwad, in `fedavg_expe.py`, `fedavg_dataset.py` and
`fedrep/utils/sampling.py`. It treats clients with fewer than 100 samples in a different way; no
dataset of the paper has such clients, so that part is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["AuthorsDraws", "authors_draws"]

#: The rows of each client.
Rows = dict[int, NDArray[np.int64]]

_CLASSES, _SHARDS_PER_CLIENT = 10, 2
_CLASS_PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))


@dataclass(frozen=True, eq=False)
class AuthorsDraws:
    """Rows of each client in the training and the test split, and the clients of each round."""

    train: Rows
    test: Rows
    rounds: tuple[tuple[int, ...], ...]


def authors_draws(
    train: NDArray[Any],
    test: NDArray[Any],
    clients: int,
    structure: Literal["groups", "drawn"],
    seed: int,
    rounds: int = 10,
) -> AuthorsDraws:
    """The draws for the labels of both splits.

    Clients hold one pair of classes each ("groups") or two random shards each ("drawn").
    """
    rng = np.random.RandomState(seed)
    for _ in range(2):  # their script divides into shards twice before it reads the setting
        splits = _divide_into_shards(train, test, clients, rng)
    if structure == "groups":
        pairs = _draw_pairs(clients, rng)
        splits = _divide_by_pairs(train, pairs, rng), _divide_by_pairs(test, pairs, rng)
    else:
        splits = _divide_into_shards(train, test, clients, rng)
    count = max(clients // 10, 1)
    trainers = [rng.choice(range(clients), count, replace=False).tolist() for _ in range(rounds)]
    return AuthorsDraws(*splits, tuple(map(tuple, trainers)))


def _divide_into_shards(
    train: NDArray[Any], test: NDArray[Any], clients: int, rng: np.random.RandomState
) -> tuple[Rows, Rows]:
    """Both splits, with two shards of random classes for each client."""
    shuffled = list(range(_CLASSES)) * (_SHARDS_PER_CLIENT * clients // _CLASSES)
    rng.shuffle(shuffled)
    classes = np.array(shuffled).reshape(clients, _SHARDS_PER_CLIENT)
    return _draw_shards(train, classes, rng), _draw_shards(test, classes, rng)


def _draw_shards(
    labels: NDArray[Any], classes: NDArray[np.int64], rng: np.random.RandomState
) -> Rows:
    """Divide each class into equal shards, in the order of its samples; then each client draws a
    shard of each of its classes."""
    per_class = classes.size // _CLASSES
    left: dict[int, list[NDArray[np.int64]]] = {}  # shards that no client has drawn yet
    for label in range(_CLASSES):
        rows = np.flatnonzero(labels == label)
        even = len(rows) - len(rows) % per_class
        shards = list(rows[:even].reshape(per_class, -1))
        for index, row in enumerate(rows[even:]):
            shards[index] = np.append(shards[index], row)
        left[label] = shards
    return {
        client: np.concatenate(
            [
                left[label].pop(int(rng.choice(len(left[label]), replace=False)))
                for label in own_classes
            ]
        )
        for client, own_classes in enumerate(classes)
    }


def _draw_pairs(clients: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """The index of each client's pair of classes: each pair twice, the rest at random."""
    count = len(_CLASS_PAIRS)
    more = rng.randint(0, count, (clients - 2 * count,))
    pairs = np.concatenate([np.repeat(np.arange(count), 2), more])
    rng.shuffle(pairs)  # without effect on the result, but it draws random numbers
    return np.sort(pairs)


def _divide_by_pairs(
    labels: NDArray[Any], pairs: NDArray[np.int64], rng: np.random.RandomState
) -> Rows:
    """Divide each class evenly among the clients that hold it."""
    result: Rows = {client: np.zeros(0, dtype=np.int64) for client in range(len(pairs))}
    for label in range(_CLASSES):
        rows = np.flatnonzero(labels == label)
        rows = rows[rng.permutation(len(rows))]
        holders = [client for client in result if label in _CLASS_PAIRS[pairs[client]]]
        sizes = [len(rows) // len(holders)] * len(holders)
        sizes[-1] += len(rows) - sum(sizes)
        rng.shuffle(sizes)
        for client, part in zip(holders, np.split(rows, np.cumsum(sizes)[:-1]), strict=True):
            joined = np.concatenate([result[client], part])
            result[client] = joined[rng.permutation(len(joined))]
    return result
