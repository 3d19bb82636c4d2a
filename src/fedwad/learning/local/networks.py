"""Networks by name: those of the paper's experiments, and any that can be imported."""

from __future__ import annotations

import importlib
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedwad.errors import InputError
from fedwad.learning.local._layers import Image, MaxPool, Patches

__all__ = ["BUILT_IN", "Network", "build", "fastest_device"]

_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_generator_lock = Lock()  # while initial weights are drawn from PyTorch's global generator


def mlp(features: int, classes: int) -> nn.Module:
    """The paper's network for MNIST: fully connected, features-512-256-64-classes with ReLU.

    It gives logits. The authors' network ends in a softmax, although the cross-entropy that follows
    expects logits; it trains slowly and never gets certain.
    """
    sizes = {"first": (features, 512), "second": (512, 256), "third": (256, 64)}
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for name, (into, out) in sizes.items():
        layers[name] = nn.Linear(into, out)
        layers[f"{name}_rectifier"] = nn.ReLU()
    layers["head"] = nn.Linear(64, classes)
    return nn.Sequential(layers)


def cnn(features: int, classes: int) -> nn.Module:
    """The paper's network for CIFAR-10: two 5x5 convolutions of 64 channels, then 120-64-classes.

    2x2 pooling follows each convolution. Samples are square images of one or three channels, as
    rows of side * side * channels features, channels last.
    """
    channels = 3 if features % 3 == 0 and math.isqrt(features // 3) ** 2 == features // 3 else 1
    side = math.isqrt(features // channels)
    if side * side * channels != features or side < 16:
        raise InputError(
            f"Samples of {features} features are not square images of one or three channels with a"
            " side of at least 16; take the model 'mlp'."
        )
    pooled_side = ((side - 4) // 2 - 4) // 2  # after two convolutions with pooling
    layers: OrderedDict[str, nn.Module] = OrderedDict(image=Image(side, channels))
    for name, into in (("first", channels), ("second", 64)):
        layers[f"{name}_patches"] = Patches()
        layers[name] = nn.Linear(25 * into, 64)
        layers[f"{name}_pool"] = MaxPool()
        layers[f"{name}_rectifier"] = nn.ReLU()  # after pooling: the same result, but cheaper
    layers["flat"] = nn.Flatten()
    for name, into, out in (("third", 64 * pooled_side**2, 120), ("fourth", 120, 64)):
        layers[name] = nn.Linear(into, out)
        layers[f"{name}_rectifier"] = nn.ReLU()
    layers["head"] = nn.Linear(64, classes)
    return nn.Sequential(layers)


#: The networks that every client can build.
BUILT_IN: dict[str, Callable[[int, int], nn.Module]] = {"mlp": mlp, "cnn": cnn}


@dataclass(frozen=True, eq=False)
class Network:
    """A network, and which of its parameters are personal, which means that they stay with each
    client.

    Its weights are one vector of float32, with all parameters in the order of the module.
    `personal_mask` marks the entries of that vector that are personal.
    """

    module: nn.Module
    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    personal_names: frozenset[str]
    personal_mask: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """The number of weights."""
        return len(self.personal_mask)

    def initial_weights(self) -> NDArray[np.float32]:
        """The weights that the network was built with, as long as it is not trained."""
        return np.concatenate([p.detach().numpy().ravel() for p in self.module.parameters()])

    def join(
        self, shared: NDArray[np.float32], personal: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """The vector of all weights from the shared and the personal ones."""
        weights = np.empty(self.size, dtype=np.float32)
        weights[~self.personal_mask], weights[self.personal_mask] = shared, personal
        return weights

    def tensors(self, flat: Tensor) -> dict[str, Tensor]:
        """The parameters by name, of one vector of weights (size,) or of many (..., size)."""
        parts = torch.split(flat, [shape.numel() for shape in self.shapes], dim=-1)
        return {
            name: part.reshape(*flat.shape[:-1], *shape)
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }

    def flatten(self, tensors: dict[str, Tensor]) -> Tensor:
        """The vectors of weights (M, size) of M networks, from stacked parameters (M, ...)."""
        return torch.cat([tensors[name].flatten(1) for name in self.names], dim=1)

    def body_and_head(self) -> tuple[nn.Sequential, nn.Sequential] | None:
        """The layers before the personal ones, and the personal ones; None unless the module is a
        sequence that ends in its personal layers."""
        if not isinstance(self.module, nn.Sequential):
            return None
        # Unlike `named_children`, this lists a module twice that is used twice, such as one ReLU.
        children = list(self.module._modules.items())
        flags = [self._personal_flags(name, child) for name, child in children]
        first = next((at for at, flag in enumerate(flags) if flag == {True}), len(children))
        body_flags, head_flags = set().union(*flags[:first]), set().union(*flags[first:])
        if not 0 < first < len(children) or False in head_flags or True in body_flags:
            return None
        return (
            nn.Sequential(OrderedDict(children[:first])),
            nn.Sequential(OrderedDict(children[first:])),
        )

    def _personal_flags(self, name: str, child: nn.Module) -> set[bool]:
        """Whether parameters of a layer are personal: {True} if all are, {False} if none is, both
        values if only some are, and the empty set for a layer without parameters."""
        return {f"{name}.{inner}" in self.personal_names for inner, _ in child.named_parameters()}


def build(
    model: str, features: int, classes: int, seed: int = 0, personal: Sequence[str] | None = None
) -> Network:
    """A network with random initial weights; the same seed gives the same weights.

    Parameters
    ----------
    model : "mlp", "cnn", or "package.module:function". The function takes the numbers of features
        and classes and returns a `torch.nn.Module` that maps rows (n, features) to logits (n,
        classes).
    personal : names of layers or parameters that stay with each client; the last layer by default,
        no layer if empty
    """
    factory = BUILT_IN.get(model) or _import_factory(model)
    with _generator_lock, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _make_module(factory, model, features, classes)
    parameters = dict(module.named_parameters())
    if not parameters or any(p.dtype != torch.float32 for p in parameters.values()):
        raise InputError(f"The model {model!r} must have parameters, all of float32.")
    if any(True for _ in module.buffers()):
        raise InputError(
            f"The model {model!r} has buffers, such as running statistics, which cannot be averaged"
            " between clients; take GroupNorm or LayerNorm instead of BatchNorm."
        )
    personal_names = _parameters_of_layers(tuple(parameters), personal)
    masks = [np.full(p.numel(), name in personal_names) for name, p in parameters.items()]
    return Network(
        module,
        tuple(parameters),
        tuple(p.shape for p in parameters.values()),
        personal_names,
        np.concatenate(masks),
    )


def fastest_device() -> torch.device:
    """A GPU with CUDA if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _import_factory(model: str) -> Callable[[int, int], Any]:
    if not isinstance(model, str) or not _IMPORT_PATH.fullmatch(model):
        raise InputError(
            f"There is no model {model!r}; choose {', '.join(BUILT_IN)}, or give"
            " 'package.module:function'."
        )
    module, name = model.split(":")
    try:
        factory = getattr(importlib.import_module(module), name)
    except Exception:
        raise InputError(
            f"The model {model!r} cannot be imported here; install its package."
        ) from None
    if not callable(factory):
        raise InputError(f"{model!r} is not a function that makes a model.")
    return cast("Callable[[int, int], Any]", factory)


def _make_module(
    factory: Callable[[int, int], Any], model: str, features: int, classes: int
) -> nn.Module:
    try:
        module = factory(features, classes)
    except InputError:
        raise
    except Exception:
        raise InputError(
            f"The model {model!r} cannot be made for {features} features and {classes} classes."
        ) from None
    if not isinstance(module, nn.Module):
        raise InputError(
            f"{model!r} made a {type(module).__name__}; it must make a torch.nn.Module."
        )
    return module


def _parameters_of_layers(names: tuple[str, ...], layers: Sequence[str] | None) -> frozenset[str]:
    """Those of the names that belong to these layers, by default to the last layer."""
    if layers is None:
        layers = (_layer(names[-1]),)
    chosen: set[str] = set()
    for layer in layers:
        own = {name for name in names if name == layer or name.startswith(f"{layer}.")}
        if not own:
            existing = dict.fromkeys(map(_layer, names))
            raise InputError(f"The model has no layer {layer!r}; it has {', '.join(existing)}.")
        chosen |= own
    if len(chosen) == len(names):
        raise InputError("All layers would be personal; at least one has to be shared.")
    return frozenset(chosen)


def _layer(parameter: str) -> str:
    """The layer of a parameter: "head" for "head.weight"."""
    return parameter.rpartition(".")[0] or parameter
