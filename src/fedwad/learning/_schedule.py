"""Which clients of a group train in which round; the seed decides it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.learning._options import Phases, TrainingOptions

__all__ = ["GroupRound", "client_seed", "schedule"]


@dataclass(frozen=True)
class GroupRound:
    """One round of one group of clients.

    `ranking` has all clients of the group in random order. Of those that have not failed before,
    the first `count` train, in these phases. In the closing round all clients train their own
    layers once more, and nothing is averaged.
    """

    number: int
    ranking: tuple[str, ...]
    count: int
    phases: Phases
    closing: bool


def schedule(options: TrainingOptions, members: Sequence[str], group: int) -> Iterator[GroupRound]:
    """The rounds of one group, with a closing round if the algorithm has one."""
    rng = np.random.default_rng([options.seed, group])
    # 0.7 * 90 is 62.99999999999999 in floating point; it counts as 63.
    count = max(int(options.fraction_train * len(members) + 1e-9), 1)
    for number in range(1, options.rounds + 1):
        ranking = tuple(members[index] for index in rng.permutation(len(members)))
        yield GroupRound(number, ranking, count, options.phases, closing=False)
    if phases := options.closing_phases:
        yield GroupRound(options.rounds + 1, tuple(members), len(members), phases, closing=True)


def client_seed(seed: int, number: int, index: int) -> int:
    """The seed that decides the order of a client's samples in round `number`.

    `index` is the position of the client among all clients of the training.
    """
    return int(np.random.SeedSequence([seed, number, index]).generate_state(1)[0])
