"""Training on one machine: networks by name, and steps on the samples of one client or of many.

It needs PyTorch (the extra `learn`) and knows nothing of federations.
"""

from __future__ import annotations

import copy
import importlib
import math
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from fedwad._blas import SharedSetting
from fedwad.errors import InputError

Layers = Literal["all", "personal", "shared"]

_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_generator_lock = Lock()  # while PyTorch's global generator is used


def _one_thread() -> int:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    return threads


#: PyTorch uses no threads besides the calling one while any thread of this process is inside a
#: block `with single_threaded_torch():`. Sums over several threads would depend on their number.
single_threaded_torch = SharedSetting(_one_thread, torch.set_num_threads)


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


class _Images(nn.Module):
    """Rows of pixels, channels last, as images with channels first, as PyTorch has them."""

    def __init__(self, side: int, channels: int) -> None:
        super().__init__()
        self.shape = side, side, channels

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, *self.shape).permute(0, 3, 1, 2)


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
            " side of at least 16; take the model 'mlp'.",
            "bad-model",
        )
    pooled_side = ((side - 4) // 2 - 4) // 2  # after two convolutions with pooling
    layers: OrderedDict[str, nn.Module] = OrderedDict(image=_Images(side, channels))
    for name, into in (("first", channels), ("second", 64)):
        layers[name] = nn.Conv2d(into, 64, 5)
        layers[f"{name}_pool"] = nn.MaxPool2d(2)
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
        try:
            module = factory(features, classes)
        except InputError:
            raise
        except Exception:
            raise InputError(
                f"The model {model!r} cannot be made for {features} features and {classes}"
                " classes.",
                "bad-model",
            ) from None
    if not isinstance(module, nn.Module):
        raise InputError(
            f"{model!r} made a {type(module).__name__}; it must make a torch.nn.Module.",
            "bad-model",
        )
    parameters = dict(module.named_parameters())
    if not parameters or any(p.dtype != torch.float32 for p in parameters.values()):
        raise InputError(f"The model {model!r} must have parameters, all of float32.", "bad-model")
    if any(True for _ in module.buffers()):
        raise InputError(
            f"The model {model!r} has buffers, such as running statistics, which cannot be averaged"
            " between clients; take GroupNorm or LayerNorm instead of BatchNorm.",
            "bad-model",
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
            " 'package.module:function'.",
            "unknown-model",
        )
    module, name = model.split(":")
    try:
        factory = getattr(importlib.import_module(module), name)
    except Exception:
        raise InputError(
            f"The model {model!r} cannot be imported here; install its package.", "bad-model"
        ) from None
    if not callable(factory):
        raise InputError(f"{model!r} is not a function that makes a model.", "bad-model")
    return cast("Callable[[int, int], Any]", factory)


def _parameters_of_layers(names: tuple[str, ...], layers: Sequence[str] | None) -> frozenset[str]:
    """Those of the names that belong to these layers, by default to the last layer."""
    if layers is None:
        layers = (_layer(names[-1]),)
    chosen: set[str] = set()
    for layer in layers:
        own = {name for name in names if name == layer or name.startswith(f"{layer}.")}
        if not own:
            existing = dict.fromkeys(map(_layer, names))
            raise InputError(
                f"The model has no layer {layer!r}; it has {', '.join(existing)}.", "bad-model"
            )
        chosen |= own
    if len(chosen) == len(names):
        raise InputError(
            "All layers would be personal; at least one has to be shared.", "bad-model"
        )
    return frozenset(chosen)


def _layer(parameter: str) -> str:
    """The layer of a parameter: "head" for "head.weight"."""
    return parameter.rpartition(".")[0] or parameter


@dataclass(frozen=True)
class Phase:
    """A number of epochs in which these layers learn and the others do not change."""

    epochs: int
    layers: Layers = "all"


#: Optimizers by name.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


@dataclass(frozen=True)
class SGDOptions:
    """How a client trains: one phase after another, each by stochastic gradients from a new
    optimizer.

    A step of "sgd" is v <- momentum v + gradient, w <- w - learning_rate v. The gradient is that of
    the loss over a batch; the last batch of an epoch has the samples that are left. The loss is the
    mean "cross_entropy", or "balanced": the same with each class of a client's training samples
    weighted by n / (classes * samples of the class). `proximal` adds
    proximal / 2 times the squared distance from the weights at the start (FedProx, Li et al. 2020).
    """

    phases: tuple[Phase, ...] = (Phase(5),)
    batch_size: int = 10
    learning_rate: float = 0.01
    momentum: float = 0.5
    optimizer: str = "sgd"
    weight_decay: float = 0.0
    loss: str = "cross_entropy"
    proximal: float = 0.0


@dataclass(frozen=True, eq=False)
class TensorDataset:
    """Samples (n, d) and class numbers (n,), on the device that trains."""

    X: Tensor
    y: Tensor

    @classmethod
    def of(cls, X: Any, y: Any, device: torch.device) -> TensorDataset:
        return cls(
            torch.as_tensor(np.asarray(X, dtype=np.float32), device=device),
            torch.as_tensor(np.asarray(y, dtype=np.int64), device=device),
        )


@dataclass(frozen=True, eq=False)
class Task:
    """A network to train: initial weights (size,), its rows, and the seed of their order."""

    weights: Tensor
    rows: NDArray[np.int64]
    seed: int


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """Weights (size,), and the mean loss over the batches of the last epoch; None if there was no
    epoch."""

    weights: Tensor
    loss: float | None


def learning_parameters(network: Network, layers: Layers) -> list[str]:
    """Names of the parameters that learn in a phase."""
    if layers == "all":
        return list(network.names)
    personal = layers == "personal"
    return [name for name in network.names if (name in network.personal_names) == personal]


def epoch_rows(task: Task, epoch: int) -> NDArray[np.int64]:
    """The rows of a task in the random order in which an epoch goes through them."""
    return np.random.default_rng([task.seed, epoch]).permutation(task.rows)


def train(
    network: Network, dataset: TensorDataset, tasks: Sequence[Task], options: SGDOptions
) -> list[TrainedNetwork]:
    """Train one network for each task, all with the same options.

    The seed of a task alone decides the order in which its network sees the samples. On a CPU as
    many networks train at once as there are cores, unless they draw random numbers as dropout
    does: PyTorch has one generator for all threads.
    """
    device = dataset.X.device
    network.module.to(device).train()
    one_by_one = device.type == "cuda" or _draws_random_numbers(network.module, dataset.X[:1])
    train_one = _train_seeded if one_by_one else _train_one
    cores = 1 if one_by_one else min(len(tasks), os.cpu_count() or 1)
    with single_threaded_torch(), ThreadPoolExecutor(cores) as threads:
        return list(threads.map(lambda task: train_one(network, dataset, task, options), tasks))


def _draws_random_numbers(module: nn.Module, x: Tensor) -> bool:
    with torch.no_grad(), _generator_lock, torch.random.fork_rng(devices=[]):
        before = torch.random.get_rng_state()
        module(x)
        return not torch.equal(before, torch.random.get_rng_state())


def _train_seeded(
    network: Network, dataset: TensorDataset, task: Task, options: SGDOptions
) -> TrainedNetwork:
    """Train with random numbers, such as those of dropout, that the seed of the task decides."""
    device = dataset.X.device
    devices = [device] if device.type == "cuda" else []
    with _generator_lock, torch.random.fork_rng(devices=devices):
        torch.manual_seed(task.seed)
        return _train_one(network, dataset, task, options)


def _train_one(
    network: Network, dataset: TensorDataset, task: Task, options: SGDOptions
) -> TrainedNetwork:
    module, device = copy.deepcopy(network.module), dataset.X.device
    with torch.no_grad():
        for name, value in network.tensors(task.weights.to(device)).items():
            module.get_parameter(name).copy_(value)
    epoch, loss, weight = 0, None, None
    start = [parameter.detach().clone() for parameter in module.parameters()]
    if options.loss == "balanced":
        counts = torch.bincount(dataset.y[torch.as_tensor(task.rows, device=device)])
        weight = counts.sum() / (counts.count_nonzero() * counts.clamp(min=1))
    for phase in options.phases:
        names = learning_parameters(network, phase.layers)
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name in names)
        learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
        momentum = {"momentum": options.momentum} if options.optimizer == "sgd" else {}
        optimizer = OPTIMIZERS[options.optimizer](
            learning,
            options.learning_rate,
            weight_decay=options.weight_decay,
            fused=True,
            **momentum,
        )
        for _ in range(phase.epochs):
            rows = torch.as_tensor(epoch_rows(task, epoch), device=device)
            batches = (
                torch.split(data[rows], options.batch_size) for data in (dataset.X, dataset.y)
            )
            losses = []
            for x, y in zip(*batches, strict=True):
                logits = module(x)
                if weight is not None and len(weight) < logits.shape[1]:
                    weight = nn.functional.pad(weight, (0, logits.shape[1] - len(weight)))
                value = nn.functional.cross_entropy(logits, y, weight)
                optimizer.zero_grad()
                value.backward()  # type: ignore[no-untyped-call]
                if options.proximal:
                    for parameter, old in zip(module.parameters(), start, strict=True):
                        if parameter.grad is not None and parameter.requires_grad:
                            parameter.grad.add_(parameter.detach() - old, alpha=options.proximal)
                optimizer.step()
                losses.append(value.detach())
            loss = float(torch.stack(losses).mean())
            epoch += 1
    weights = [parameter.detach().ravel() for parameter in module.parameters()]
    return TrainedNetwork(torch.cat(weights), loss)


def predicted_classes(
    network: Network, dataset: TensorDataset, weights: Tensor, rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The classes that the network with these weights gives these rows, 4096 rows at a time."""
    device = dataset.X.device
    module = network.module.to(device)
    module.eval()
    values = network.tensors(weights.to(device))
    chunks = torch.split(torch.as_tensor(np.asarray(rows), device=device), 4096)
    with torch.no_grad():
        found = [functional_call(module, values, (dataset.X[rows],)).argmax(1) for rows in chunks]
    return np.asarray(torch.cat(found).cpu().numpy())
