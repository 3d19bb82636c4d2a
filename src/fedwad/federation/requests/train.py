"""Training of a network on the client's samples, and its accuracy on samples that were held out.

Weights trained on data reveal something about the data; nothing here guarantees privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedwad._checks import check_integer
from fedwad.errors import InputError
from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, is_count, plain_bool, plain_choice, require
from fedwad.federation.requests.networks import NetworkFields, Weights, is_weights, plain_number

__all__ = ["EvaluateRequest", "Evaluation", "TrainReply", "TrainRequest"]

_LAYERS = ("all", "personal", "shared")
_MAX_EPOCHS = 1000  # in one request, over all phases
#: Networks can be trained together, as one stack, if their requests agree in all these fields.
_SHARED_HYPERPARAMETERS = (
    "model",
    "personal_layers",
    "classes",
    "init_seed",
    "epochs",
    "layers",
    "batch_size",
    "learning_rate",
    "momentum",
)


@dataclass(frozen=True, eq=False)
class TrainReply(Reply):
    """What a client sends after training.

    `weights` are those of the shared layers; they are empty unless the request asks for them.
    `count` is the number of training samples, and `loss` their mean loss in the last epoch.
    """

    weights: Weights
    count: int
    loss: float

    def check_values(self) -> None:
        require(is_weights(self.weights), "weights are not float32 numbers up to 1e9.")
        require(is_count(self.count), "the number of samples is not a positive integer.")
        require(
            isinstance(self.loss, float) and math.isfinite(self.loss),
            "its loss is not a finite number.",
        )


@dataclass(frozen=True, eq=False)
class Evaluation(Reply):
    """How many of `count` test samples the model classifies correctly.

    `majority` is how many a constant prediction classifies correctly: that of the class which is
    most frequent among the client's training samples.
    """

    correct: int
    count: int
    majority: int

    def check_values(self) -> None:
        counts = (self.correct, self.majority)
        consistent = is_count(self.count) and all(
            type(number) is int and 0 <= number <= self.count for number in counts
        )
        require(consistent, "its counts of samples contradict each other.")


@dataclass(frozen=True, eq=False)
class EvaluateRequest(NetworkFields, Request):
    """Ask how many held-out samples a network classifies correctly.

    The fields are those of NetworkFields.
    """

    kind: ClassVar[str] = "evaluate"
    reply_type: ClassVar[type[Reply]] = Evaluation

    def validate(self) -> EvaluateRequest:
        return EvaluateRequest(**self.plain_fields())

    def execute(self, context: ClientContext) -> tuple[Evaluation, int]:
        from fedwad.learning.local.descent import TensorDataset, correct_mask
        from fedwad.learning.local.networks import fastest_device

        network = self.network(context)
        (training_rows, test_rows), labels = self.split_rows(context), self.class_codes(context)
        weights, count = self.all_weights(network, context), len(test_rows)
        points = context.data.measure.points[test_rows]
        dataset = TensorDataset.of(points, labels[test_rows], fastest_device())
        is_correct = correct_mask(network, dataset, _tensor(weights), np.arange(count))
        most_frequent = np.bincount(labels[training_rows]).argmax()
        majority = int((labels[test_rows] == most_frequent).sum())
        return Evaluation(int(is_correct.sum()), count, majority), count


@dataclass(frozen=True, eq=False)
class TrainRequest(NetworkFields, Request):
    """Train a network on the samples that are not held out, by SGD on the mean cross-entropy.

    The first fields are those of NetworkFields. Training runs in phases: phase i trains the layers
    `layers[i]` ("all", "personal" or "shared") for `epochs[i]` epochs and freezes the rest.
    `batch_size`, `learning_rate` and `momentum` are options of SGD. `seed` determines the order of
    the samples. `return_weights` says whether the client sends the shared weights. The weights of
    personal layers never leave the client.
    """

    kind: ClassVar[str] = "train"
    reply_type: ClassVar[type[Reply]] = TrainReply
    can_batch: ClassVar[bool] = True
    epochs: tuple[int, ...]
    layers: tuple[str, ...]
    batch_size: int
    learning_rate: float
    momentum: float
    seed: int
    return_weights: bool

    def validate(self) -> TrainRequest:
        if (
            type(self.epochs) is not tuple
            or type(self.layers) is not tuple
            or len(self.epochs) != len(self.layers)
        ):
            raise InputError("epochs and layers must be lists of the same length.")
        epochs = tuple(check_integer(number, "epochs", 0) for number in self.epochs)
        if not 1 <= sum(epochs) <= _MAX_EPOCHS:
            raise InputError(f"{sum(epochs)} epochs were asked for; ask for 1 to {_MAX_EPOCHS}.")
        return TrainRequest(
            **self.plain_fields(),
            epochs=epochs,
            layers=tuple(plain_choice(word, "layers", _LAYERS) for word in self.layers),
            batch_size=check_integer(self.batch_size, "batch_size"),
            learning_rate=plain_number(self.learning_rate, "learning_rate", 1e-12, 100.0),
            momentum=plain_number(self.momentum, "momentum", 0.0, 0.999999),
            seed=check_integer(self.seed, "seed", 0),
            return_weights=plain_bool(self.return_weights, "return_weights"),
        )

    def execute(self, context: ClientContext) -> tuple[TrainReply, int]:
        return _train_stack([self], [context])[0]

    @classmethod
    def execute_batch(
        cls, requests: Sequence[TrainRequest], contexts: Sequence[ClientContext]
    ) -> Sequence[tuple[Reply, int | None]]:
        """Train all networks as one stack if their hyperparameters agree, else one by one."""
        hyperparameters = {
            tuple(getattr(request, name) for name in _SHARED_HYPERPARAMETERS)
            for request in requests
        }
        if len(hyperparameters) > 1:
            return super().execute_batch(requests, contexts)
        return _train_stack(requests, contexts)

    def check(self, reply: TrainReply) -> None:
        expected = len(self.weights) if self.return_weights else 0
        require(
            len(reply.weights) == expected,
            f"{expected} weights were expected and {len(reply.weights)} came.",
        )


def _train_stack(
    requests: Sequence[TrainRequest], contexts: Sequence[ClientContext]
) -> list[tuple[TrainReply, int]]:
    """Train one network for each request, on the rows of its client; hyperparameters must agree."""
    from fedwad.learning.local.descent import Phase, SGDOptions, Task, TensorDataset, train
    from fedwad.learning.local.networks import fastest_device

    first = requests[0]
    network = first.network(contexts[0])
    tasks, samples, labels, start = [], [], [], 0
    for request, context in zip(requests, contexts, strict=True):
        rows = request.split_rows(context)[0]
        samples.append(context.data.measure.points[rows].astype(np.float32))
        labels.append(request.class_codes(context)[rows])
        weights = request.all_weights(network, context)
        tasks.append(Task(_tensor(weights), np.arange(start, start + len(rows)), request.seed))
        start += len(rows)
    phases = tuple(
        Phase(epochs, layers)  # type: ignore[arg-type]
        for epochs, layers in zip(first.epochs, first.layers, strict=True)
    )
    options = SGDOptions(phases, first.batch_size, first.learning_rate, first.momentum)
    trained = train(
        network,
        TensorDataset.of(np.concatenate(samples), np.concatenate(labels), fastest_device()),
        tasks,
        options,
    )
    outcomes = []
    for result in trained:  # all are checked before any layer is kept
        weights = result.weights.cpu().numpy()
        if not np.isfinite(weights).all() or result.loss is None or not math.isfinite(result.loss):
            raise InputError(
                f"The training diverged at learning_rate {first.learning_rate:g}; scale features"
                " to about 1, or take a smaller learning_rate."
            )
        outcomes.append((weights, result.loss))
    replies = []
    for request, context, task, (weights, loss) in zip(
        requests, contexts, tasks, outcomes, strict=True
    ):
        if network.personal_mask.any():
            context.cache.keep_layers(
                request.run, request.times_trained + 1, weights[network.personal_mask]
            )
        shared = (
            weights[~network.personal_mask]
            if request.return_weights
            else np.zeros(0, dtype=np.float32)
        )
        replies.append((TrainReply(shared, len(task.rows), loss), len(task.rows)))
    return replies


def _tensor(weights: Weights) -> Any:
    """The weights as a tensor of PyTorch, which is imported only where it is needed."""
    import torch

    return torch.as_tensor(weights)
