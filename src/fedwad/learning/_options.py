"""What happens in each round of FedAvg, FedRep and FedPer: who trains, and what. It depends on the
seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from fedwad._checks import check_choice, check_whole
from fedwad.errors import InputError

__all__ = ["Algorithm", "Phases", "Step", "TrainingOptions", "task_seed"]

#: fedavg: one model for all, its mean over clients after each round (McMahan et al. 2017). fedper:
#: the last layers stay with each client, all layers train together (Arivazhagan et al. 2019).
#: fedrep: the same, but a client trains first its own layers, then the shared ones (Collins et al.
#: 2021).
Algorithm = Literal["fedavg", "fedrep", "fedper"]

#: Epochs, and the layers that learn in them: "all", "personal" or "shared".
Phases = tuple[tuple[int, str], ...]


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


@dataclass(frozen=True)
class TrainingOptions:
    """The options of one training.

    Parameters
    ----------
    algorithm : "fedavg", "fedrep" or "fedper"
    rounds : after each, the models of those who trained are averaged
    fraction_train : part of a group that trains in a round, rounded down, at least one client
    epochs : passes of a client over its samples in a round
    body_epochs : of these, how many the shared layers train at the end, for fedrep
    last_epochs : passes in the closing round, in which all clients train their own layers
    seed : decides who trains when and in which order samples come
    """

    algorithm: Algorithm = "fedavg"
    rounds: int = 10
    fraction_train: float = 0.1
    epochs: int = 5
    body_epochs: int = 1
    last_epochs: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.algorithm, "algorithm", get_args(Algorithm))
        check_whole(self.rounds, "rounds")
        check_whole(self.epochs, "epochs")
        check_whole(self.body_epochs, "body_epochs")
        check_whole(self.last_epochs, "last_epochs", 0)
        check_whole(self.seed, "seed", 0)
        check_fraction(self.fraction_train, "fraction_train")
        if self.algorithm == "fedrep" and self.body_epochs > self.epochs:
            raise InputError(
                f"body_epochs is {self.body_epochs} of {self.epochs} epochs; give at most as many."
            )

    @property
    def phases(self) -> Phases:
        if self.algorithm != "fedrep":
            return ((self.epochs, "all"),)
        return ((self.epochs - self.body_epochs, "personal"), (self.body_epochs, "shared"))

    def steps(self, members: Sequence[str], group: int) -> Iterator[Step]:
        """The rounds of one group; the closing one where layers are personal."""
        rng = np.random.default_rng([self.seed, group])
        count = max(int(self.fraction_train * len(members)), 1)
        for number in range(1, self.rounds + 1):
            ranking = tuple(members[place] for place in rng.permutation(len(members)))
            yield Step(number, ranking, count, self.phases, False)
        if self.algorithm != "fedavg" and self.last_epochs:
            yield Step(
                self.rounds + 1,
                tuple(members),
                len(members),
                ((self.last_epochs, "personal"),),
                True,
            )


def task_seed(seed: int, number: int, place: int) -> int:
    """The seed of the order in which the client at this place sees its samples in this round."""
    return int(np.random.SeedSequence([seed, number, place]).generate_state(1)[0])


def check_fraction(value: Any, name: str) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.floating)
        or not 0 < value <= 1
    ):
        raise InputError(f"{name} is {value!r}; give a part between 0 and 1.")
    return float(value)
