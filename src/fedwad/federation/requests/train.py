"""Train a network on the client's samples, and tell how well one does on samples that it did not
train on.

Weights trained on data tell about the data; nothing here promises privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_whole
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation.message import Reply, Request, is_count, plain_run, plain_word, require
from fedwad.federation.requests.labels import LabelName, check_names, label_names

if TYPE_CHECKING:
    from fedwad.federation.context import ClientContext
    from fedwad.federation.policy import Policy
    from fedwad.learning.local.networks import Network

__all__ = ["EvaluateRequest", "Evaluation", "TrainReply", "TrainRequest", "alike", "train_together"]

Weights = NDArray[np.float32]

_LAYERS = ("all", "personal", "shared")
_LONGEST_NAME = 200
_MOST_LAYERS = 1000
_MOST_EPOCHS = 1000


@dataclass(frozen=True, eq=False)
class TrainReply(Reply):
    """The shared weights after training (none when they were not asked for), samples trained on,
    and the last loss."""

    weights: Weights
    count: int
    loss: float

    def check_alone(self) -> None:
        require(_is_weights(self.weights), "weights are not finite.")
        require(is_count(self.count), "it tells no number of samples.")
        require(
            isinstance(self.loss, float) and math.isfinite(self.loss),
            "its loss is not a finite number.",
        )


@dataclass(frozen=True, eq=False)
class Evaluation(Reply):
    """How many of `count` test samples the model classifies correctly.

    `majority` of them belong to the class that is most frequent among the training samples, so
    predicting that class always would be correct for these.
    """

    correct: int
    count: int
    majority: int

    def check_alone(self) -> None:
        counts = (self.correct, self.majority)
        proper = is_count(self.count) and all(
            type(number) is int and 0 <= number <= self.count for number in counts
        )
        require(proper, "its numbers of samples make no sense.")


@dataclass(frozen=True, eq=False)
class EvaluateRequest(Request):
    """How well does this network do on the samples that the client has put aside?

    Fields
    ------
    run : word for the training; under it the client keeps its own layers
    turn : how often the client has trained in this run so far
    model : word for the network, see `fedwad.learning.local.networks`
    personal : names of the layers that stay with the client; none for a model that is shared whole
    weights : the other layers' weights, one after another
    classes : names of the classes, in the order of the network's outputs
    start : seed of the network's first weights, with which a client's own layers begin
    test_size : part of each class that is put aside for tests, and with `split`, the seed by which
        it is chosen
    """

    kind: ClassVar[str] = "evaluate"
    answer: ClassVar[type[Reply]] = Evaluation
    run: str
    turn: int
    model: str
    personal: tuple[str, ...]
    weights: Weights
    classes: tuple[LabelName, ...]
    start: int
    test_size: float
    split: int

    def validate(self) -> EvaluateRequest:
        return EvaluateRequest(**_plain_common(self))

    def admit(self, policy: Policy) -> None:
        _may_build(self.model, policy)

    def check_shape(self, context: ClientContext) -> None:
        label_names(context.data)
        _network(self, context)

    def execute(self, context: ClientContext) -> tuple[Evaluation, int]:
        from fedwad.learning.local.descent import Pool, correct
        from fedwad.learning.local.networks import device

        network = _network(self, context)
        (trained, rows), labels = _divided(self, context), _labels(self, context)
        weights = _whole(self, network, context)
        pool = Pool.of(context.data.measure.points[rows], labels[rows], device())
        right = int(correct(network, pool, _tensor(weights), np.arange(len(rows))).sum())
        most_frequent = np.bincount(labels[trained]).argmax()
        majority = int((labels[rows] == most_frequent).sum())
        return Evaluation(right, len(rows), majority), len(rows)


@dataclass(frozen=True, eq=False)
class TrainRequest(Request):
    """Train this network on the samples that are not put aside, by SGD on the mean cross-entropy.

    The first fields are those of EvaluateRequest; then `epochs` and `layers` ("all", "personal" or
    "shared") of each phase, `batch`, `rate`, `momentum`, the `seed` of the samples' order, and
    whether the client is to `reply` with the shared weights. Its own layers stay with it in any
    case.
    """

    kind: ClassVar[str] = "train"
    answer: ClassVar[type[Reply]] = TrainReply
    run: str
    turn: int
    model: str
    personal: tuple[str, ...]
    weights: Weights
    classes: tuple[LabelName, ...]
    start: int
    test_size: float
    split: int
    epochs: tuple[int, ...]
    layers: tuple[str, ...]
    batch_size: int
    learning_rate: float
    momentum: float
    seed: int
    reply: bool

    def validate(self) -> TrainRequest:
        if (
            type(self.epochs) is not tuple
            or type(self.layers) is not tuple
            or len(self.epochs) != len(self.layers)
        ):
            raise InputError("epochs and layers must be lists of the same length.")
        epochs = tuple(check_whole(number, "epochs", 0) for number in self.epochs)
        if not 1 <= sum(epochs) <= _MOST_EPOCHS:
            raise InputError(f"{sum(epochs)} epochs were asked for; ask for 1 to {_MOST_EPOCHS}.")
        if type(self.reply) is not bool:
            raise InputError("reply must be true or false.")
        return TrainRequest(
            **_plain_common(self),
            epochs=epochs,
            layers=tuple(plain_word(word, "layers", _LAYERS) for word in self.layers),
            batch_size=check_whole(self.batch_size, "batch_size"),
            learning_rate=_plain_number(self.learning_rate, "learning_rate", 1e-12, 100.0),
            momentum=_plain_number(self.momentum, "momentum", 0.0, 0.999999),
            seed=check_whole(self.seed, "seed", 0),
            reply=self.reply,
        )

    def admit(self, policy: Policy) -> None:
        _may_build(self.model, policy)

    def check_shape(self, context: ClientContext) -> None:
        label_names(context.data)
        _network(self, context)

    def execute(self, context: ClientContext) -> tuple[TrainReply, int]:
        return train_together([self], [context])[0]

    def check(self, reply: TrainReply) -> None:
        expected = len(self.weights) if self.reply else 0
        require(len(reply.weights) == expected, "it has another number of weights.")


def alike(requests: Sequence[Any]) -> bool:
    """Whether these can be worked on together: trainings of one network by one recipe."""
    if not all(type(request) is TrainRequest for request in requests):
        return False
    names = (
        "model",
        "personal",
        "classes",
        "epochs",
        "layers",
        "batch_size",
        "learning_rate",
        "momentum",
    )
    return len({tuple(getattr(request, name) for name in names) for request in requests}) == 1


def train_together(
    requests: Sequence[TrainRequest], desks: Sequence[ClientContext]
) -> list[tuple[TrainReply, int]]:
    """The work on requests that are alike, each at its own desk, as one stack of networks."""
    if not requests:
        return []
    from fedwad.learning.local.descent import Phase, Pool, Recipe, Task, train
    from fedwad.learning.local.networks import device

    first = requests[0]
    network = _network(first, desks[0])
    tasks, samples, labels, start = [], [], [], 0
    for request, context in zip(requests, desks, strict=True):
        rows = _divided(request, context)[0]
        samples.append(context.data.measure.points[rows].astype(np.float32))
        labels.append(_labels(request, context)[rows])
        whole = _whole(request, network, context)
        tasks.append(Task(_tensor(whole), np.arange(start, start + len(rows)), request.seed))
        start += len(rows)
    phases = tuple(
        Phase(epochs, layers)  # type: ignore[arg-type]
        for epochs, layers in zip(first.epochs, first.layers, strict=True)
    )
    recipe = Recipe(phases, first.batch_size, first.learning_rate, first.momentum)
    trained = train(
        network, Pool.of(np.concatenate(samples), np.concatenate(labels), device()), tasks, recipe
    )
    replies = []
    for request, context, task, result in zip(requests, desks, tasks, trained, strict=True):
        weights = result.weights.cpu().numpy()
        if not np.isfinite(weights).all() or result.loss is None or not math.isfinite(result.loss):
            hint = "scale features to about 1, or take a smaller one"
            raise InputError(
                f"The training went to infinity at rate {request.learning_rate:g}; {hint}."
            )
        if network.personal.any():
            context.cache.keep_layers(request.run, request.turn + 1, weights[network.personal])
        told = weights[~network.personal] if request.reply else np.zeros(0, dtype=np.float32)
        replies.append((TrainReply(told, len(task.rows), result.loss), len(task.rows)))
    return replies


def _plain_common(request: Any) -> dict[str, Any]:
    """The fields that both requests have, each of its plain type."""
    if type(request.personal) is not tuple or len(request.personal) > _MOST_LAYERS:
        raise InputError("personal must be a list of names of layers.")
    check_names(request.classes)
    if not _is_weights(request.weights):
        raise InputError("The weights must be finite numbers of float32.")
    return {
        "run": plain_run(request.run),
        "turn": check_whole(request.turn, "turn", 0),
        "model": _plain_name(request.model, "model"),
        "personal": tuple(_plain_name(name, "personal") for name in request.personal),
        "weights": np.array(request.weights),
        "classes": request.classes,
        "start": check_whole(request.start, "start", 0),
        "test_size": _plain_number(request.test_size, "test_size", 0.0, 0.9),
        "split": check_whole(request.split, "split", 0),
    }


def _plain_name(value: Any, name: str) -> str:
    if type(value) is not str or not value.isprintable() or not 0 < len(value) <= _LONGEST_NAME:
        raise InputError(f"{name} must be a printable word of at most {_LONGEST_NAME} letters.")
    return value


def _plain_number(value: Any, name: str, least: float, most: float) -> float:
    if type(value) is not float or not least <= value <= most:
        raise InputError(f"{name} must be a number from {least:g} to {most:g}.")
    return value


def _is_weights(weights: Any) -> bool:
    proper = type(weights) is np.ndarray and weights.dtype == np.float32 and weights.ndim == 1
    return bool(proper and np.isfinite(weights).all())


def _may_build(model: str, policy: Policy) -> None:
    if model not in policy.models and "*" not in policy.models:
        raise PolicyError(
            f"The model '{model}' is not among those that this client's policy lets it build."
        )


def _network(request: TrainRequest | EvaluateRequest, context: ClientContext) -> Network:
    """The network, of the size that was sent; InputError if it is of another."""
    try:
        from fedwad.learning.local.networks import build
    except ImportError:
        raise FederationError(
            "This client cannot train without PyTorch; run: pip install 'fedwad[learn]'."
        ) from None
    features = context.data.measure.dimension
    network = build(request.model, features, len(request.classes), request.start, request.personal)
    expected = int((~network.personal).sum())
    if len(request.weights) != expected:
        raise InputError(
            f"{len(request.weights)} weights arrived where the model '{request.model}' for {features} features and"
            f" {len(request.classes)} classes shares {expected}; all parties need the same features."
        )
    return network


def _whole(
    request: TrainRequest | EvaluateRequest, network: Network, context: ClientContext
) -> Weights:
    """All weights: those that were sent, and the client's own."""
    if not network.personal.any():
        return request.weights
    own = network.initial()[network.personal] if request.turn == 0 else None
    if request.turn:
        own = context.cache.recall_layers(request.run, request.turn)
    if own is None:
        raise FederationError(
            "This client no longer has its own layers of this training; start the training again."
        )
    return network.joined(request.weights, own)


def _labels(request: TrainRequest | EvaluateRequest, context: ClientContext) -> NDArray[np.int64]:
    """The number of each sample's class among those of the request."""
    place = {name: number for number, name in enumerate(request.classes)}
    names = label_names(context.data)
    if any(name not in place for name in names):
        raise InputError(
            "The data have a label that is not among the classes of this training; name all classes."
        )
    codes: NDArray[np.int64] = np.array([place[name] for name in names], dtype=np.int64)[
        context.data.known_labels()
    ]
    return codes


def _divided(
    request: TrainRequest | EvaluateRequest, context: ClientContext
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on and rows put aside: the given part of each class, rounded, at least one to
    train on.

    Without a holdout the same samples serve both.
    """
    codes = context.data.known_labels()
    if request.test_size == 0:
        return np.arange(len(codes)), np.arange(len(codes))
    rng = np.random.default_rng(request.split)
    aside = []
    for code in range(int(codes.max()) + 1):
        rows = rng.permutation(np.flatnonzero(codes == code))
        aside.append(rows[: min(round(request.test_size * len(rows)), len(rows) - 1)])
    tests = np.sort(np.concatenate(aside))
    if not len(tests):
        raise InputError(
            f"A part of {request.test_size:g} leaves no sample for tests; give a larger one, or 0."
        )
    return np.setdiff1d(np.arange(len(codes)), tests), tests


def _tensor(weights: Weights) -> Any:
    import torch

    return torch.as_tensor(weights)
