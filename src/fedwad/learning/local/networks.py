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

__all__ = ["BUILT_IN", "Network", "build", "device"]

_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_generator_lock = Lock()  # initial weights come from PyTorch's one generator


def mlp(features: int, classes: int) -> nn.Module:
    """The paper's network for MNIST: fully connected, features-512-256-64-classes with ReLU.

    It gives logits. The authors' code applies a softmax before a cross-entropy that expects logits,
    which trains slowly and never to certainty.
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

    Each convolution is followed by pooling by 2.

    It takes square images of one or three channels as rows of side * side * channels features,
    channels last.
    """
    channels = 3 if features % 3 == 0 and math.isqrt(features // 3) ** 2 == features // 3 else 1
    side = math.isqrt(features // channels)
    if side * side * channels != features or side < 16:
        raise InputError(
            f"Samples of {features} features are not square images of one or three channels with a"
            " side of at least 16; take the model 'mlp'."
        )
    left = ((side - 4) // 2 - 4) // 2
    layers: OrderedDict[str, nn.Module] = OrderedDict(image=Image(side, channels))
    for name, into in (("first", channels), ("second", 64)):
        layers[f"{name}_patches"] = Patches()
        layers[name] = nn.Linear(25 * into, 64)
        layers[f"{name}_pool"] = MaxPool()
        layers[f"{name}_rectifier"] = nn.ReLU()  # after pooling: the same result, but cheaper
    layers["flat"] = nn.Flatten()
    for name, into, out in (("third", 64 * left * left, 120), ("fourth", 120, 64)):
        layers[name] = nn.Linear(into, out)
        layers[f"{name}_rectifier"] = nn.ReLU()
    layers["head"] = nn.Linear(64, classes)
    return nn.Sequential(layers)


#: The networks that every client can build.
BUILT_IN: dict[str, Callable[[int, int], nn.Module]] = {"mlp": mlp, "cnn": cnn}


@dataclass(frozen=True, eq=False)
class Network:
    """A network, and which of its parameters are personal: those stay with the client.

    Weights travel as one vector of float32, all parameters in the network's own order.
    `personal_mask` marks the entries of that vector that do not travel.
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

    def initial(self) -> NDArray[np.float32]:
        """The weights that the network was built with."""
        return np.concatenate([p.detach().numpy().ravel() for p in self.module.parameters()])

    def joined(
        self, travelling: NDArray[np.float32], personal: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """The whole vector from the shared and the personal part."""
        whole = np.empty(self.size, dtype=np.float32)
        whole[~self.personal_mask], whole[self.personal_mask] = travelling, personal
        return whole

    def tensors(self, flat: Tensor) -> dict[str, Tensor]:
        """Parameters by name as views of vectors (..., size)."""
        parts = torch.split(flat, [shape.numel() for shape in self.shapes], dim=-1)
        return {
            name: part.reshape(*flat.shape[:-1], *shape)
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }

    def flat(self, tensors: dict[str, Tensor]) -> Tensor:
        """The vectors (M, size) of stacked parameters (M, ...)."""
        return torch.cat([tensors[name].flatten(1) for name in self.names], dim=1)

    def body_and_head(self) -> tuple[nn.Sequential, nn.Sequential] | None:
        """The layers before the personal ones, and the personal ones; None unless the module is a
        sequence that ends in its personal layers."""
        if not isinstance(self.module, nn.Sequential):
            return None
        children = list(self.module.named_children())
        owners = [self._owners(name, child) for name, child in children]
        first = next((at for at, owner in enumerate(owners) if owner == {True}), len(children))
        shared, personal = set().union(*owners[:first]), set().union(*owners[first:])
        if not 0 < first < len(children) or False in personal or True in shared:
            return None
        return (
            nn.Sequential(OrderedDict(children[:first])),
            nn.Sequential(OrderedDict(children[first:])),
        )

    def _owners(self, name: str, child: nn.Module) -> set[bool]:
        """Whether the parameters of a layer are personal; empty for a layer without any."""
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
        none when empty
    """
    factory = BUILT_IN.get(model) or _imported(model)
    with _generator_lock, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _make_module(factory, model, features, classes)
    parameters = dict(module.named_parameters())
    if not parameters or any(p.dtype != torch.float32 for p in parameters.values()):
        raise InputError(f"The model {model!r} must have parameters, all of float32.")
    if any(True for _ in module.buffers()):
        raise InputError(
            f"The model {model!r} keeps running statistics, which cannot be averaged between"
            " clients; take GroupNorm or LayerNorm instead of BatchNorm."
        )
    chosen = _personal(tuple(parameters), personal)
    marks = [np.full(p.numel(), name in chosen) for name, p in parameters.items()]
    return Network(
        module,
        tuple(parameters),
        tuple(p.shape for p in parameters.values()),
        chosen,
        np.concatenate(marks),
    )


def device() -> torch.device:
    """The device that trains fastest: CUDA if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _imported(model: str) -> Callable[[int, int], Any]:
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


def _personal(names: tuple[str, ...], wanted: Sequence[str] | None) -> frozenset[str]:
    """Names of the parameters of the wanted layers; those of the last layer by default."""
    if wanted is None:
        wanted = (_layer(names[-1]),)
    chosen: set[str] = set()
    for layer in wanted:
        found = {name for name in names if name == layer or name.startswith(f"{layer}.")}
        if not found:
            layers = dict.fromkeys(map(_layer, names))
            raise InputError(f"The model has no layer {layer!r}; it has {', '.join(layers)}.")
        chosen |= found
    if len(chosen) == len(names):
        raise InputError("All layers were named as personal; at least one has to be shared.")
    return frozenset(chosen)


def _layer(parameter: str) -> str:
    return parameter.rpartition(".")[0] or parameter
