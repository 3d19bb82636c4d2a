"""The network that a training request is about, and how a client builds it and feeds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_integer
from fedwad.errors import FederationError, InputError
from fedwad.federation.context import ClientContext
from fedwad.federation.message import plain_run
from fedwad.federation.needs import Needs
from fedwad.federation.requests.labels import LabelName, check_names, label_names

if TYPE_CHECKING:
    from fedwad.learning.local.networks import Network

__all__ = ["NetworkFields", "Weights", "is_weights", "plain_number"]

Weights = NDArray[np.float32]

_MAX_NAME_CHARS = 200
_MAX_LAYERS = 1000
_MAX_WEIGHT = 1e9  # a training with larger weights has diverged


@dataclass(frozen=True, eq=False)
class NetworkFields:
    """The fields that training and evaluation have in common.

    Attributes
    ----------
    run : name of the training; the client keeps its personal layers under it
    times_trained : how often the client has trained in this run so far
    model : name of the network, see `fedwad.learning.local.networks`
    personal_layers : names of the layers that stay with the client; none for a model that is shared
        whole
    weights : the weights of the other layers, one after another
    classes : names of the classes, in the order of the network's outputs
    init_seed : seed of the network's initial weights, from which personal layers start
    test_size : fraction of each class that is held out for tests
    split_seed : seed of the split into training and test samples
    """

    run: str
    times_trained: int
    model: str
    personal_layers: tuple[str, ...]
    weights: Weights
    classes: tuple[LabelName, ...]
    init_seed: int
    test_size: float
    split_seed: int

    def plain_fields(self) -> dict[str, Any]:
        """Copies of these fields, each of its plain type; InputError if one is not."""
        if type(self.personal_layers) is not tuple or len(self.personal_layers) > _MAX_LAYERS:
            raise InputError("personal_layers must be a list of names of layers.")
        check_names(self.classes)
        if not is_weights(self.weights):
            raise InputError("The weights must be float32 numbers up to 1e9.")
        return {
            "run": plain_run(self.run),
            "times_trained": check_integer(self.times_trained, "times_trained", 0),
            "model": _plain_name(self.model, "model"),
            "personal_layers": tuple(
                _plain_name(name, "personal_layers") for name in self.personal_layers
            ),
            "weights": np.array(self.weights),
            "classes": self.classes,
            "init_seed": check_integer(self.init_seed, "init_seed", 0),
            "test_size": plain_number(self.test_size, "test_size", 0.0, 0.9),
            "split_seed": check_integer(self.split_seed, "split_seed", 0),
        }

    def needs(self) -> Needs:
        return Needs(model=self.model)

    def check_shape(self, context: ClientContext) -> None:
        label_names(context.data)
        self.network(context)

    def network(self, context: ClientContext) -> Network:
        """The network; InputError if the weights that arrived are not of its size."""
        try:
            from fedwad.learning.local.networks import build
        except ImportError:
            raise FederationError(
                "This site cannot train without PyTorch; run: pip install 'fedwad[learn]'."
            ) from None
        features = context.data.measure.dimension
        network = build(
            self.model, features, len(self.classes), self.init_seed, self.personal_layers
        )
        expected = int((~network.personal_mask).sum())
        if len(self.weights) != expected:
            raise InputError(
                f"{len(self.weights)} weights arrived where the model '{self.model}' for {features}"
                f" features and {len(self.classes)} classes shares {expected}; all sites need the"
                " same features."
            )
        return network

    def all_weights(self, network: Network, context: ClientContext) -> Weights:
        """The weights that arrived, joined with the client's personal layers."""
        if not network.personal_mask.any():
            return self.weights
        if self.times_trained == 0:
            return network.join(self.weights, network.initial_weights()[network.personal_mask])
        stored = context.cache.layers(self.run, self.times_trained)
        if stored is None:
            raise FederationError(
                "This site no longer has its personal layers of this training; start the training"
                " again."
            )
        return network.join(self.weights, stored)

    def class_codes(self, context: ClientContext) -> NDArray[np.int64]:
        """The index of each sample's class among those of the request."""
        class_index = {name: index for index, name in enumerate(self.classes)}
        names = label_names(context.data)
        if any(name not in class_index for name in names):
            raise InputError(
                "The data have a label that is not among the classes of this training; name all"
                " classes."
            )
        codes = np.array([class_index[name] for name in names], dtype=np.int64)
        return np.asarray(codes[context.data.require_class_codes()])

    def split_rows(self, context: ClientContext) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows to train on and rows to test on.

        `test_size` of each class is held out, rounded, and at least one sample of each stays to
        train on. With `test_size` 0 all rows serve both.
        """
        codes = context.data.require_class_codes()
        if self.test_size == 0:
            return np.arange(len(codes)), np.arange(len(codes))
        rng = np.random.default_rng(self.split_seed)
        held_out = []
        for code in range(int(codes.max()) + 1):
            rows = rng.permutation(np.flatnonzero(codes == code))
            held_out.append(rows[: min(round(self.test_size * len(rows)), len(rows) - 1)])
        tests = np.sort(np.concatenate(held_out))
        if not len(tests):
            raise InputError(
                f"A test_size of {self.test_size:g} leaves no sample for tests; give a larger one,"
                " or 0."
            )
        return np.setdiff1d(np.arange(len(codes)), tests), tests


def is_weights(weights: Any) -> bool:
    """Whether this is a one-dimensional float32 array with absolute values up to 1e9."""
    proper = type(weights) is np.ndarray and weights.dtype == np.float32 and weights.ndim == 1
    return bool(proper and (np.abs(weights) <= _MAX_WEIGHT).all())


def plain_number(value: Any, name: str, minimum: float, maximum: float) -> float:
    """A number in this range; InputError if it is not."""
    if type(value) is not float or not minimum <= value <= maximum:
        raise InputError(f"{name} must be a number from {minimum:g} to {maximum:g}.")
    return value


def _plain_name(value: Any, name: str) -> str:
    if type(value) is not str or not value.isprintable() or not 0 < len(value) <= _MAX_NAME_CHARS:
        raise InputError(
            f"{name} must be a printable name of at most {_MAX_NAME_CHARS} characters."
        )
    return value
