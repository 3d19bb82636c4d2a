"""FedAvg, FedRep and FedPer: one loop for the server, inside each group of clients, over any
federation."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice, check_whole
from fedwad._matrix.api import Progress
from fedwad.errors import FederationError, InputError
from fedwad.federation import (
    DescribeRequest,
    Description,
    EvaluateRequest,
    Evaluation,
    Federation,
    Labels,
    LabelsRequest,
    MeteredFederation,
    TrainReply,
    TrainRequest,
    agreed_names,
    choose_sites,
    local,
)
from fedwad.learning._options import Algorithm, Step, TrainingOptions, task_seed
from fedwad.learning._result import TrainingResult, TrainingRound

__all__ = ["train"]

Weights = NDArray[np.float32]


def train(
    fed: Federation | Mapping[str, Any],
    algorithm: Algorithm = "fedavg",
    model: str = "mlp",
    groups: Any = None,
    rounds: int = 10,
    fraction_train: float = 0.1,
    epochs: int = 5,
    *,
    personal: Sequence[str] | None = None,
    body_epochs: int = 1,
    last_epochs: int = 10,
    batch_size: int = 10,
    learning_rate: float = 0.01,
    momentum: float = 0.5,
    test_size: float = 0.2,
    weighting: Literal["samples", "equal"] = "samples",
    evaluate: Literal["every", "last"] = "every",
    classes: Sequence[Any] | None = None,
    clients: Sequence[str] | None = None,
    seed: int = 0,
    callback: Callable[[Progress], None] | None = None,
) -> TrainingResult:
    """Train a classifier on the data of clients that keep them, one model for each group of alike
    clients.

    Weights trained on data tell about the data: this keeps rows where they are, and promises no
    privacy.

    Parameters
    ----------
    fed : a federation, or a mapping from names to (X, y), which become local clients
    algorithm : "fedavg": one model a group. "fedper": the last layer stays with each client.
        "fedrep": the same, and a client trains first its own layer, then the shared ones.
    model : "mlp", "cnn", or the place "package.module:function" of a function of the numbers of
        features and classes that makes a `torch.nn.Module`; it must be installed at the clients,
        and their policies must list it
    groups : a label for each client, as `fedwad.matrix(...).cluster(...)` gives them, or a mapping
        from names to labels; one group when left out
    rounds, fraction_train, epochs : rounds, part of each group that trains in one, passes over its
        samples
    personal : names of the layers that stay with the clients, for fedrep and fedper; the last one
        when left out
    body_epochs, last_epochs : see `TrainingOptions`
    batch_size, learning_rate, momentum : of stochastic gradient descent
    test_size : part of its samples that each client puts aside to test with, class by class; 0
        tests on all of them
    weighting : whether a client counts by its number of samples or like any other when models are
        averaged
    evaluate : whether clients test the model after every round or after the last
    classes : names of all classes; clients are asked for them when left out
    clients : some of the names, if not all
    seed : the same seed gives the same result on the same machine

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> data = {f"site{k}": (rng.normal(size=(60, 3)) + 4 * y[:, None], y) for k in range(3)}
    >>> train(data, rounds=2, fraction_train=1.0, learning_rate=0.05)
    <fedavg on 3 clients in 1 group: accuracy 100.0%>
    """
    federation: Federation = fed if hasattr(fed, "ask") else local(fed)  # type: ignore[assignment]
    plan = TrainingOptions(
        algorithm, rounds, fraction_train, epochs, body_epochs, last_epochs, seed
    )
    check_choice(weighting, "weighting", ("samples", "equal"))
    check_choice(evaluate, "evaluate", ("every", "last"))
    if algorithm == "fedavg" and personal:
        raise InputError(
            "fedavg shares all layers; choose fedrep or fedper for layers that stay with the clients."
        )
    names = choose_sites(federation, clients, "training")
    labels = _grouped(groups, names)
    line = MeteredFederation(federation)
    described = line.ask(dict.fromkeys(names, DescribeRequest()), Description, tolerate=True)
    features = _one_dimension(described)
    if classes is None:
        told = line.ask(dict.fromkeys(described, LabelsRequest()), Labels, tolerate=True)
        classes = agreed_names({name: reply.names for name, reply in told.items()})
    network = _network(
        model, features, len(classes), seed, () if algorithm == "fedavg" else personal
    )
    loop = _Loop(
        line,
        plan,
        names,
        labels,
        network.initial()[~network.personal],
        {
            "run": os.urandom(8).hex(),
            "model": model,
            "personal": _layers(network),
            "classes": tuple(classes),
            "start": seed,
            "test_size": float(test_size),
            "split": seed,
        },
        {
            "batch_size": check_whole(batch_size, "batch_size"),
            "learning_rate": float(learning_rate),
            "momentum": float(momentum),
        },
        weighting == "samples",
        callback or (lambda _: None),
    )
    loop.run(evaluate == "every")
    sites = tuple(name for name in names if name in loop.tested)
    tests = np.array([loop.tested[name].count for name in sites], dtype=np.int64)
    correct = np.array([loop.tested[name].correct for name in sites], dtype=np.float64)
    return TrainingResult(
        sites=sites,
        accuracy=correct / tests,
        tests=tests,
        groups=np.array([labels[name] for name in sites]),
        weights=loop.weights,
        classes=tuple(classes),
        personal=loop.common["personal"],
        algorithm=algorithm,
        model=model,
        features=features,
        rounds=rounds,
        seed=seed,
        start=seed,
        history=tuple(loop.history),
        lost=line.failed,
        traffic=line.traffic,
    )


@dataclass(eq=False)
class _Loop:
    """The state of a training: the weights of each group, and how often each client has trained."""

    line: MeteredFederation
    plan: TrainingOptions
    names: tuple[str, ...]
    labels: Mapping[str, int]
    start: Weights
    common: Mapping[str, Any]
    descent: Mapping[str, Any]
    by_samples: bool
    tell: Callable[[Progress], None]
    weights: dict[int, Weights] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    history: list[TrainingRound] = field(default_factory=list)
    tested: dict[str, Evaluation] = field(default_factory=dict)

    def run(self, every: bool) -> None:
        members: dict[int, list[str]] = {}
        for name in self.names:
            members.setdefault(self.labels[name], []).append(name)
        self.weights = dict.fromkeys(sorted(members), self.start)
        self.turns = dict.fromkeys(self.names, 0)
        plans = {label: list(self.plan.steps(members[label], label)) for label in self.weights}
        total = len(plans[next(iter(plans))])
        for place in range(total):
            self.tell(Progress("training", place, total))
            since = time.perf_counter()
            loss = self._advance({label: steps[place] for label, steps in plans.items()})
            accuracy = self._test() if every or place == total - 1 else None
            self.history.append(
                TrainingRound(place + 1, loss, accuracy, time.perf_counter() - since)
            )
        self.tell(Progress("training", total, total))

    def _advance(self, steps: Mapping[int, Step]) -> float:
        """One round of all groups, in one message to each client that trains; the mean of their
        losses."""
        requests = {}
        for label, step in steps.items():
            alive = [name for name in step.ranking if name not in self.line.failed]
            for name in alive[: step.count]:
                epochs, layers = zip(*step.phases, strict=True)
                requests[name] = TrainRequest(
                    turn=self.turns[name],
                    weights=self.weights[label],
                    epochs=epochs,
                    layers=layers,
                    seed=task_seed(self.plan.seed, step.number, self.names.index(name)),
                    reply=not step.closing,
                    **self.common,
                    **self.descent,
                )
        if not requests:
            raise FederationError("No client is left to train.")
        replies = self.line.ask(requests, TrainReply, tolerate=True)
        for name in replies:
            self.turns[name] += 1
        for label, step in steps.items():
            own = [reply for name, reply in replies.items() if self.labels[name] == label]
            if own and not step.closing:
                counts = [reply.count if self.by_samples else 1 for reply in own]
                mean = np.average([reply.weights for reply in own], axis=0, weights=counts)
                self.weights[label] = mean.astype(np.float32)
        return float(np.mean([reply.loss for reply in replies.values()]))

    def _test(self) -> float:
        requests = {
            name: EvaluateRequest(
                turn=self.turns[name], weights=self.weights[self.labels[name]], **self.common
            )
            for name in self.names
            if name not in self.line.failed
        }
        self.tested = self.line.ask(requests, Evaluation, tolerate=True)
        return float(np.mean([reply.correct / reply.count for reply in self.tested.values()]))


def _grouped(groups: Any, names: tuple[str, ...]) -> dict[str, int]:
    """The group of each client, a whole number from 0."""
    if groups is None:
        return dict.fromkeys(names, 0)
    if isinstance(groups, Mapping):
        missing = [name for name in names if name not in groups]
        if missing:
            raise InputError(f"groups has no label for client '{missing[0]}'; give one for each.")
        groups = [groups[name] for name in names]
    labels = np.asarray(groups)
    if (
        labels.shape != (len(names),)
        or labels.dtype.kind not in "biu"
        or (len(labels) and labels.min() < 0)
    ):
        raise InputError(
            f"groups has shape {labels.shape}; give one whole number from 0 on for each of {len(names)}."
        )
    return {name: int(label) for name, label in zip(names, labels, strict=True)}


def _one_dimension(described: Mapping[str, Description]) -> int:
    dimensions = {name: reply.features for name, reply in described.items()}
    first, expected = next(iter(dimensions.items()))
    for name, dimension in dimensions.items():
        if dimension != expected:
            raise InputError(
                f"{first} has {expected} features and {name} has {dimension}; training needs the same features."
            )
    unlabelled = [name for name, reply in described.items() if not reply.labelled]
    if unlabelled:
        raise InputError(
            f"The data of {unlabelled[0]} have no labels; training needs them, as (X, y) or a column."
        )
    return expected


def _network(
    model: str, features: int, classes: int, seed: int, personal: Sequence[str] | None
) -> Any:
    try:
        from fedwad.learning.local.networks import build
    except ImportError:
        raise InputError("Training needs PyTorch; run: pip install 'fedwad[learn]'.") from None
    return build(model, features, classes, seed, personal)


def _layers(network: Any) -> tuple[str, ...]:
    return tuple(name for name in network.names if name in network.personal_names)
