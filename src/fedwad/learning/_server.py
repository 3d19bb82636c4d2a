"""The server's loop of a training: ask clients to train, average their weights, ask for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._matrix.api import Progress
from fedwad.errors import FederationError
from fedwad.federation import (
    EvaluateRequest,
    Evaluation,
    MeteredFederation,
    TrainReply,
    TrainRequest,
)
from fedwad.learning._options import TrainingOptions
from fedwad.learning._result import TrainingRound
from fedwad.learning._schedule import GroupRound, client_seed, schedule

__all__ = ["Server"]

Weights = NDArray[np.float32]


@dataclass(eq=False)
class Server:
    """The state of a training: the weights of each group, and how often each client has trained.

    `groups` has the group of each client. `initial_weights` are those of the shared layers.
    `common_fields` are the fields that are the same in all requests. With `equal_weights` models
    are averaged without regard to the numbers of samples.
    """

    federation: MeteredFederation
    options: TrainingOptions
    groups: Mapping[str, int]
    initial_weights: Weights
    common_fields: Mapping[str, Any]
    equal_weights: bool
    callback: Callable[[Progress], None]
    weights: dict[int, Weights] = field(default_factory=dict)
    times_trained: dict[str, int] = field(default_factory=dict)
    history: list[TrainingRound] = field(default_factory=list)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    def run(self, test_every_round: bool) -> None:
        """Run all rounds; `weights`, `history` and `evaluations` have the outcome."""
        members: dict[int, list[str]] = {}
        for name, group in self.groups.items():
            members.setdefault(group, []).append(name)
        self.weights = dict.fromkeys(sorted(members), self.initial_weights)
        self.times_trained = dict.fromkeys(self.groups, 0)
        schedules = [schedule(self.options, members[group], group) for group in self.weights]
        rounds = list(zip(*schedules, strict=True))
        for number, group_rounds in enumerate(rounds, start=1):
            self.callback(Progress("training", number - 1, len(rounds)))
            start = time.perf_counter()
            loss = self._run_round(dict(zip(self.weights, group_rounds, strict=True)))
            accuracy = self._test() if test_every_round or number == len(rounds) else None
            self.history.append(TrainingRound(number, loss, accuracy, time.perf_counter() - start))
        self.callback(Progress("training", len(rounds), len(rounds)))

    def _run_round(self, group_rounds: Mapping[int, GroupRound]) -> float:
        """Run one round of all groups, with one message to each client that trains.

        The result is the mean of the clients' losses.
        """
        requests = {
            name: self._request(name, group, group_round)
            for group, group_round in group_rounds.items()
            for name in self._trainers(group_round)
        }
        if not requests:
            raise FederationError("No client is left to train.")
        replies = self.federation.ask(requests, TrainReply, allow_failures=True)
        for name in replies:
            self.times_trained[name] += 1
        averaged = [group for group, one in group_rounds.items() if not one.closing]
        self._average(averaged, replies)
        return float(np.mean([reply.loss for reply in replies.values()]))

    def _trainers(self, group_round: GroupRound) -> list[str]:
        remaining = [name for name in group_round.ranking if name not in self.federation.failed]
        return remaining[: group_round.count]

    def _request(self, name: str, group: int, group_round: GroupRound) -> TrainRequest:
        epochs, layers = zip(*group_round.phases, strict=True)
        index = list(self.groups).index(name)
        return TrainRequest(
            times_trained=self.times_trained[name],
            weights=self.weights[group],
            epochs=epochs,
            layers=layers,
            seed=client_seed(self.options.seed, group_round.number, index),
            return_weights=not group_round.closing,
            batch_size=self.options.batch_size,
            learning_rate=self.options.learning_rate,
            momentum=self.options.momentum,
            **self.common_fields,
        )

    def _average(self, groups: Collection[int], replies: Mapping[str, TrainReply]) -> None:
        """Replace the weights of each of these groups by the mean of those its clients sent."""
        for group in groups:
            own = [reply for name, reply in replies.items() if self.groups[name] == group]
            if own:
                counts = [1 if self.equal_weights else reply.count for reply in own]
                mean = np.average([reply.weights for reply in own], axis=0, weights=counts)
                self.weights[group] = mean.astype(np.float32)

    def _test(self) -> float:
        """Ask all clients to test; the result is their mean accuracy."""
        requests = {
            name: EvaluateRequest(
                times_trained=self.times_trained[name],
                weights=self.weights[group],
                **self.common_fields,
            )
            for name, group in self.groups.items()
            if name not in self.federation.failed
        }
        self.evaluations = self.federation.ask(requests, Evaluation, allow_failures=True)
        return float(np.mean([reply.correct / reply.count for reply in self.evaluations.values()]))
