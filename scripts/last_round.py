"""Which classes the sites of FedAvg's last round hold, in the experiment `boosting` in groups.

A tenth of the sites train in each round. What the averaged network knows in the end is mostly what
the sites of the last round taught it, so this is close to a bound on vanilla FedAvg's accuracy.
"""

from __future__ import annotations

from math import comb, sqrt

import numpy as np

from fedwad.datasets import partition
from fedwad.learning import TrainingOptions
from fedwad.learning._schedule import schedule

__all__ = ["covered", "expected"]

_CLASSES, _PAIRS, _ROUNDS = 10, 5, 10


def covered(clients: int, seed: int) -> float:
    """Percent of the classes that the sites of the last round hold, in the run of this seed."""
    y = np.repeat(np.arange(_CLASSES), clients)
    dealt = partition.class_pairs(y[:, None], y, clients, None, seed)
    names = list(dealt.indices)
    *_, last = schedule(TrainingOptions("fedavg", rounds=_ROUNDS, seed=seed), names, 0)
    groups = {int(dealt.groups[names.index(name)]) for name in last.ranking[: last.count]}
    return 100 * len(groups) / _PAIRS


def expected(clients: int) -> tuple[float, float]:
    """The mean of the same over all draws, and the deviation of one draw.

    Every pair of classes has two sites; each other site chooses a pair at random.
    """
    one, two = _missed(clients, 1), _missed(clients, 2)
    mean = 1 - one
    # Both of two pairs are there: 1 - 2 one + two.
    square = (mean + (_PAIRS - 1) * (1 - 2 * one + two)) / _PAIRS
    return 100 * mean, 100 * sqrt(max(square - mean**2, 0.0))


def _missed(clients: int, pairs: int) -> float:
    """The chance that no site of these pairs of classes trains in a round."""
    free, chance = clients - 2 * _PAIRS, pairs / _PAIRS
    trained = max(clients // _CLASSES, 1)
    return sum(
        comb(free, more)
        * chance**more
        * (1 - chance) ** (free - more)
        * comb(clients - 2 * pairs - more, trained)
        / comb(clients, trained)
        for more in range(free + 1)
    )
