"""Who holds what and who trains when in the authors' own runs of the experiment `boosting`.

The authors' code seeds NumPy once, so its partitions and the clients of each round follow from the
seed: the same numbers are drawn here in the same order (https://github.com/arakotom/fedwad,
`fedavg_expe.py`, `fedavg_dataset.py` and `fedrep/utils/sampling.py`). Seeds are 0 to 4. A branch of
theirs for clients with fewer than 100 samples, which no dataset of the paper reaches, is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["AuthorsDraws", "authors_draws"]

Rows = dict[int, NDArray[np.int64]]

_CLASSES, _SHARDS = 10, 2
_GROUPS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))


@dataclass(frozen=True, eq=False)
class AuthorsDraws:
    """Rows of each client in both splits, and the clients that train in each round."""

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
    """The draws for all labels of both splits, with the clients in pairs of classes or with two
    random shards each."""
    rng = np.random.RandomState(seed)
    for _ in range(2):  # their script deals shards twice before it looks at the setting
        dealt = _shards_of_both(train, test, clients, rng)
    if structure == "groups":
        own, pairs = _in_groups(train, clients, rng)
        dealt = own, _in_groups(test, clients, rng, pairs)[0]
    else:
        dealt = _shards_of_both(train, test, clients, rng)
    count = max(clients // 10, 1)
    trained = [rng.choice(range(clients), count, replace=False).tolist() for _ in range(rounds)]
    return AuthorsDraws(*dealt, tuple(tuple(one) for one in trained))


def _shards_of_both(
    train: NDArray[Any], test: NDArray[Any], clients: int, rng: np.random.RandomState
) -> tuple[Rows, Rows]:
    numbers = list(range(_CLASSES)) * (_SHARDS * clients // _CLASSES)
    rng.shuffle(numbers)
    classes = np.array(numbers).reshape(clients, _SHARDS)
    return _shards(train, classes, rng), _shards(test, classes, rng)


def _shards(labels: NDArray[Any], classes: NDArray[np.int64], rng: np.random.RandomState) -> Rows:
    """Each class in equal shards in the order of its samples; clients draw one after the other."""
    each = classes.size // _CLASSES
    waiting: dict[int, list[NDArray[np.int64]]] = {}
    for code in range(_CLASSES):
        own = np.flatnonzero(labels == code)
        shards = list(own[: len(own) - len(own) % each].reshape(each, -1))
        for place, row in enumerate(own[len(own) - len(own) % each :]):
            shards[place] = np.append(shards[place], row)
        waiting[code] = shards
    found: Rows = {}
    for client, own_classes in enumerate(classes):
        drawn = [
            waiting[code].pop(int(rng.choice(len(waiting[code]), replace=False)))
            for code in own_classes
        ]
        found[client] = np.concatenate(drawn)
    return found


def _in_groups(
    labels: NDArray[Any],
    clients: int,
    rng: np.random.RandomState,
    pairs: NDArray[np.int64] | None = None,
) -> tuple[Rows, NDArray[np.int64]]:
    """Two clients for each pair of classes, the others at random; a class is divided evenly."""
    if pairs is None:
        more = rng.randint(0, len(_GROUPS), (clients - 2 * len(_GROUPS),))
        pairs = np.concatenate([np.repeat(np.arange(len(_GROUPS)), 2), more])
        rng.shuffle(pairs)
        pairs = np.sort(pairs)
    found: Rows = {client: np.zeros(0, dtype=np.int64) for client in range(clients)}
    for code in range(_CLASSES):
        own = np.flatnonzero(labels == code)
        own = own[rng.permutation(len(own))]
        holders = [client for client in range(clients) if code in _GROUPS[pairs[client]]]
        sizes = [len(own) // len(holders)] * len(holders)
        sizes[-1] += len(own) - sum(sizes)
        rng.shuffle(sizes)
        for client, rows in zip(holders, np.split(own, np.cumsum(sizes)[:-1]), strict=True):
            joined = np.concatenate([found[client], rows])
            found[client] = joined[rng.permutation(len(joined))]
    return found, pairs
