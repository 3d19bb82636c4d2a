"""Names of labels, on which sites agree before they train together; a few labelled points that
represent the data, for a nearest-neighbour classifier; training of a network on the client's
samples, and its accuracy on samples that were held out.

Weights trained on data reveal something about the data; nothing here guarantees privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.messages.message import (
    Count,
    LabelName,
    Needs,
    Reply,
    Request,
    Run,
    Whole,
    check_weights,
    is_finite,
    require,
)
from fedwad.statistics import AtomsPer, Masses
from fedwad.transport import Floats

_TYPES: dict[type, str] = {str: "strings", int: "integers", bool: "booleans"}


@dataclass(frozen=True)
class Labels(Reply):
    """The names of a client's labels, in ascending order."""

    names: tuple[LabelName, ...]

    def check_values(self) -> None:
        check_names(self.names)


@dataclass(frozen=True)
class LabelsRequest(Request):
    """Ask which labels occur. Labels with fewer samples than `min_cell_size` are left out."""

    kind: ClassVar[str] = "labels"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = Labels

    def needs(self) -> Needs:
        return Needs(label_names=True)


def check_names(names: tuple[LabelName, ...], most: int = 10_000, most_chars: int = 200) -> None:
    """Raise InputError unless these are different names of one type, short and printable, at `most`
    so many."""
    if not 1 <= len(names) <= most:
        raise InputError(
            f"There are {len(names)} different labels; give at least one and up to {most}.",
            "bad-labels",
        )
    kinds = sorted({_TYPES[type(name)] for name in names})
    if len(kinds) > 1:
        raise InputError(
            f"Labels are {' and '.join(kinds)}; give all of one type, strings or integers.",
            "bad-labels",
        )
    for name in names:
        short = name.isprintable() and len(name) <= most_chars if isinstance(name, str) else True
        if not short or (isinstance(name, int) and not -(2**63) <= name < 2**63):
            raise InputError(
                f"A label is not a printable string of up to {most_chars} characters, or a number"
                " of up to 64 bits; rename it.",
                "bad-labels",
            )
    if len(set(names)) < len(names):
        raise InputError("Two labels have the same name; give each class its own.", "bad-labels")


def all_label_names(labels: Mapping[str, tuple[LabelName, ...]]) -> tuple[LabelName, ...]:
    """The labels that occur at any site, in ascending order; InputError if their types differ.

    >>> all_label_names({"paris": (0, 3), "oslo": (3, 7)})
    (0, 3, 7)
    """
    first, expected = next((client, _TYPES[type(names[0])]) for client, names in labels.items())
    for client, names in labels.items():
        kind = _TYPES[type(names[0])]
        if kind != expected:
            raise InputError(
                f"The labels of {first} are {expected} and those of {client} are {kind}; make all"
                " of one type.",
                "bad-labels",
            )
    return tuple(sorted(set().union(*labels.values())))


@dataclass(frozen=True, eq=False)
class Prototypes(Reply):
    """Atoms of a client's data.

    Attributes
    ----------
    points, weights : arrays (S, d) and (S,)
        The atoms and their masses, sum one.
    labels : array (S,) of int64
        The index of each atom's label in `names`.
    names : tuple
        Names of the labels that the client sends, in ascending order.
    complete : bool
        Whether all classes are here; False if some had too few samples for the client's policy.
    """

    points: Floats
    weights: Floats
    labels: NDArray[np.int64]
    names: tuple[LabelName, ...]
    complete: bool

    def check_values(self) -> None:
        require(is_finite(self.points, 2) and self.points.size > 0, "atoms are not finite.")
        check_weights(self.weights, len(self.points))
        check_names(self.names)
        require(list(self.names) == sorted(self.names), "names of labels are not in order.")
        require(self.labels.shape == self.weights.shape, "it does not label each atom.")
        in_range = (self.labels >= 0) & (self.labels < len(self.names))
        require(bool(in_range.all()), "labels are out of range.")


@dataclass(frozen=True)
class PrototypesRequest(Request):
    """Ask for `size` labelled atoms of the samples, made class by class or from all together.

    See `fedwad.statistics.distil_labelled`. Each atom averages at least `min_cell_size` samples, so
    there may be fewer atoms than asked for. Classes with fewer samples are left out. If atoms are
    made class by class, every other class has at least one.
    """

    kind: ClassVar[str] = "prototypes"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = Prototypes
    size: Count
    atoms_per: AtomsPer
    masses: Masses
    seed: Whole

    def needs(self) -> Needs:
        return Needs(size=self.size, label_names=True)

    def check(self, reply: Prototypes) -> None:
        limit = self.size if self.atoms_per == "site" else max(self.size, len(reply.names))
        require(len(reply.points) <= limit, "it has more atoms than were asked for.")


Weights = NDArray[np.float32]
Optimizer = Literal["sgd", "adam", "adamw"]
Loss = Literal["cross_entropy", "balanced"]

Name = Annotated[str, Meta(min_length=1, max_length=200)]


@dataclass(frozen=True, eq=False)
class NetworkRequest(Request):
    """The fields that training and evaluation have in common.

    Attributes
    ----------
    run : name of the training; the client keeps its personal layers under it
    times_trained : how often the client has trained in this run so far
    model : name of the network, see `fedwad.learning.local`
    personal_layers : names of the layers that stay with the client; none for a model that is shared
        whole
    weights : the weights of the other layers, one after another
    classes : names of the classes, in the order of the network's outputs
    init_seed : seed of the network's initial weights, from which personal layers start
    test_size : fraction of each class that is held out for tests
    split_seed : seed of the split into training and test samples
    """

    run: Run
    times_trained: Whole
    model: Name
    personal_layers: Annotated[tuple[Name, ...], Meta(max_length=1000)]
    weights: Weights
    classes: tuple[LabelName, ...]
    init_seed: Whole
    test_size: Annotated[float, Meta(ge=0, le=0.9)]
    split_seed: Whole

    def check_values(self) -> None:
        check_names(self.classes)
        if not all(map(str.isprintable, (self.model, *self.personal_layers))):
            raise InputError("Names of models and layers must be printable.", "bad-request")
        if not is_finite(self.weights, 1, 1e9):
            raise InputError("The weights must be float32 numbers up to 1e9.", "bad-request")

    def needs(self) -> Needs:
        return Needs(model=self.model)


@dataclass(frozen=True, eq=False)
class TrainReply(Reply):
    """What a client sends after training.

    `weights` are those of the shared layers; they are empty unless the request asks for them.
    `count` is the number of training samples, and `loss` their mean loss in the last epoch.
    """

    weights: Weights
    count: Count
    loss: float

    def check_values(self) -> None:  # a training with larger weights has diverged
        require(is_finite(self.weights, 1, 1e9), "weights are not numbers up to 1e9.")
        require(math.isfinite(self.loss), "its loss is not a finite number.")


@dataclass(frozen=True, eq=False)
class Evaluation(Reply):
    """How many of `count` test samples the model classifies correctly.

    `majority` is how many a constant prediction classifies correctly: that of the class which is
    most frequent among the client's training samples. `balanced` is the mean, over the `classes`
    classes with at least `min_cell_size` test samples, of the fraction of their samples that is
    classified correctly; None if there is no such class.
    """

    correct: Whole
    count: Count
    majority: Whole
    balanced: Annotated[float, Meta(ge=0, le=1)] | None = None
    classes: Whole = 0

    def check_values(self) -> None:
        counted = max(self.correct, self.majority) <= self.count
        fits = (self.balanced is None) == (self.classes == 0)
        require(counted and fits, "its counts contradict each other.")


@dataclass(frozen=True, eq=False)
class EvaluateRequest(NetworkRequest):
    """Ask how many held-out samples a network classifies correctly.

    The fields are those of NetworkRequest.
    """

    kind: ClassVar[str] = "evaluate"
    reply_type: ClassVar[type[Reply]] = Evaluation


@dataclass(frozen=True, eq=False)
class TrainRequest(NetworkRequest):
    """Train a network on the samples that are not held out.

    The first fields are those of NetworkRequest. Training runs in phases: phase i trains the layers
    `layers[i]` ("all", "personal" or "shared") for `epochs[i]` epochs and freezes the rest.
    The other options of a step are those of `fedwad.learning.local.SGDOptions`. `seed` determines
    the order of the samples. `return_weights` says whether the client sends the shared weights. The
    weights of personal layers never leave the client.
    """

    kind: ClassVar[str] = "train"
    reply_type: ClassVar[type[Reply]] = TrainReply
    epochs: tuple[Whole, ...]
    layers: tuple[Literal["all", "personal", "shared"], ...]
    batch_size: Count
    learning_rate: Annotated[float, Meta(ge=1e-12, le=100)]
    momentum: Annotated[float, Meta(ge=0, le=0.999999)]
    seed: Whole
    return_weights: bool
    optimizer: Optimizer = "sgd"
    weight_decay: Annotated[float, Meta(ge=0, le=1)] = 0.0
    loss: Loss = "cross_entropy"
    proximal: Annotated[float, Meta(ge=0, le=1000)] = 0.0

    def check_values(self) -> None:
        super().check_values()
        if len(self.epochs) != len(self.layers) or not 1 <= sum(self.epochs) <= 1000:
            raise InputError("Ask for 1 to 1000 epochs, with their layers.", "bad-request")

    def check(self, reply: TrainReply) -> None:
        expected = len(self.weights) if self.return_weights else 0
        require(len(reply.weights) == expected, "it has another number of weights.")
