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
from fedwad.learning._schedule import Step, client_seed, schedule

__all__ = ["Server"]

Weights = NDArray[np.float32]


@dataclass(eq=False)
class Server:
    """The state of a training: the weights of each group, and how often each client has trained.

    `labels` has the group of each client, `start` the first shared weights, and `common` the fields
    that all requests share.
    """

    federation: MeteredFederation
    options: TrainingOptions
    labels: Mapping[str, int]
    start: Weights
    common: Mapping[str, Any]
    equal_weights: bool
    callback: Callable[[Progress], None]
    weights: dict[int, Weights] = field(default_factory=dict)
    times_trained: dict[str, int] = field(default_factory=dict)
    history: list[TrainingRound] = field(default_factory=list)
    tested: dict[str, Evaluation] = field(default_factory=dict)

    def run(self, test_every_round: bool) -> None:
        """Run all rounds; `weights`, `history` and `tested` have the outcome."""
        members: dict[int, list[str]] = {}
        for name, label in self.labels.items():
            members.setdefault(label, []).append(name)
        self.weights = dict.fromkeys(sorted(members), self.start)
        self.times_trained = dict.fromkeys(self.labels, 0)
        rounds = {
            label: list(schedule(self.options, members[label], label)) for label in self.weights
        }
        total = len(rounds[next(iter(rounds))])
        for index in range(total):
            self.callback(Progress("training", index, total))
            since = time.perf_counter()
            loss = self._advance({label: steps[index] for label, steps in rounds.items()})
            tests = test_every_round or index == total - 1
            accuracy = self._test() if tests else None
            self.history.append(
                TrainingRound(index + 1, loss, accuracy, time.perf_counter() - since)
            )
        self.callback(Progress("training", total, total))

    def _advance(self, steps: Mapping[int, Step]) -> float:
        """Run one round of all groups, with one message to each client that trains.

        The result is the mean of the clients' losses.
        """
        requests = {
            name: self._request(name, label, step)
            for label, step in steps.items()
            for name in self._trainers(step)
        }
        if not requests:
            raise FederationError("No client is left to train.")
        replies = self.federation.ask(requests, TrainReply, allow_failures=True)
        for name in replies:
            self.times_trained[name] += 1
        self._average({label for label, step in steps.items() if not step.closing}, replies)
        return float(np.mean([reply.loss for reply in replies.values()]))

    def _trainers(self, step: Step) -> list[str]:
        left = [name for name in step.ranking if name not in self.federation.failed]
        return left[: step.count]

    def _request(self, name: str, label: int, step: Step) -> TrainRequest:
        epochs, layers = zip(*step.phases, strict=True)
        index = list(self.labels).index(name)
        return TrainRequest(
            times_trained=self.times_trained[name],
            weights=self.weights[label],
            epochs=epochs,
            layers=layers,
            seed=client_seed(self.options.seed, step.number, index),
            return_weights=not step.closing,
            batch_size=self.options.batch_size,
            learning_rate=self.options.learning_rate,
            momentum=self.options.momentum,
            **self.common,
        )

    def _average(self, groups: Collection[int], replies: Mapping[str, TrainReply]) -> None:
        """Replace the weights of these groups by the means of what their clients sent."""
        for label in groups:
            own = [reply for name, reply in replies.items() if self.labels[name] == label]
            if own:
                counts = [1 if self.equal_weights else reply.count for reply in own]
                mean = np.average([reply.weights for reply in own], axis=0, weights=counts)
                self.weights[label] = mean.astype(np.float32)

    def _test(self) -> float:
        """Ask all clients to test; the result is their mean accuracy."""
        requests = {
            name: EvaluateRequest(
                times_trained=self.times_trained[name], weights=self.weights[label], **self.common
            )
            for name, label in self.labels.items()
            if name not in self.federation.failed
        }
        self.tested = self.federation.ask(requests, Evaluation, allow_failures=True)
        return float(np.mean([reply.correct / reply.count for reply in self.tested.values()]))
