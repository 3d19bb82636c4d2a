"""Which clients train in which round; this depends on the seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.learning._options import Phases, TrainingOptions

__all__ = ["Step", "client_seed", "schedule"]


@dataclass(frozen=True)
class Step:
    """One round of one group of clients.

    `ranking` has all clients of the group in random order; the first `count` that answer train. In
    the closing round all clients train their own layers once more, and nothing is averaged.
    """

    number: int
    ranking: tuple[str, ...]
    count: int
    phases: Phases
    closing: bool


def schedule(options: TrainingOptions, members: Sequence[str], group: int) -> Iterator[Step]:
    """The rounds of one group, with a closing round if the algorithm has one."""
    rng = np.random.default_rng([options.seed, group])
    count = max(int(options.fraction_train * len(members)), 1)
    for number in range(1, options.rounds + 1):
        ranking = tuple(members[index] for index in rng.permutation(len(members)))
        yield Step(number, ranking, count, options.phases, False)
    if options.closing:
        yield Step(options.rounds + 1, tuple(members), len(members), options.closing, True)


def client_seed(seed: int, number: int, index: int) -> int:
    """The seed of the order of samples of the client at this index in round `number`."""
    return int(np.random.SeedSequence([seed, number, index]).generate_state(1)[0])
