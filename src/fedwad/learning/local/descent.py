"""Stochastic gradient descent on the samples of clients, one network at a time or in stacks."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from fedwad.learning.local._threads import single_threaded_torch
from fedwad.learning.local.networks import Network

__all__ = [
    "Augment",
    "Phase",
    "SGDOptions",
    "Task",
    "TensorDataset",
    "TrainedNetwork",
    "correct_mask",
    "epoch_rows",
    "learning_parameters",
    "train",
]

Layers = Literal["all", "personal", "shared"]
#: Data augmentation: a function of samples (M, batch, d) of M networks and of a random generator,
#: which returns changed samples.
Augment = Callable[[Tensor, torch.Generator], Tensor]

_CHUNK = 4096  # samples that are classified at a time
_MEMORY_FRACTION = 0.5  # part of a GPU's free memory that one stack may use
_COPIES = 5  # of a stack's weights in memory: weights, gradients, momentum, two while joining them


@dataclass(frozen=True)
class Phase:
    """A number of epochs in which these layers learn and the others do not change."""

    epochs: int
    layers: Layers = "all"


@dataclass(frozen=True)
class SGDOptions:
    """How a client trains: one phase after another, each by SGD with momentum from zero.

    A step is v <- momentum v + gradient, w <- w - learning_rate v, with the gradient of the mean
    cross-entropy over a batch. The last batch of an epoch has the samples that are left.
    """

    phases: tuple[Phase, ...] = (Phase(5),)
    batch_size: int = 10
    learning_rate: float = 0.01
    momentum: float = 0.5


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


def train(
    network: Network,
    dataset: TensorDataset,
    tasks: Sequence[Task],
    options: SGDOptions,
    stacked: bool | None = None,
    augment: Augment | None = None,
    half_precision: bool = False,
) -> list[TrainedNetwork]:
    """Train one network for each task, all with the same options.

    The seed of a task alone decides the order in which its network sees the samples.

    Parameters
    ----------
    stacked : train many networks at once, see `fedwad.learning.local.stacks`. By default networks
        are stacked where that is faster: if there are several, on a GPU, and on a CPU if they are
        linear layers with ReLU between. Networks with dropout are never stacked, because each
        would need its own random numbers.
    augment : data augmentation, in phases in which shared layers learn. Its random numbers depend
        on which networks are stacked.
    half_precision : in stacks, keep weights in float32 and compute in bfloat16. This is faster on a
        GPU and has two to three significant digits. Phases in which only the last layers learn
        compute in float32.
    """
    device = dataset.X.device
    network.module.to(device)
    if not _can_stack(network) or not _prefer_stack(network, tasks, device, stacked):
        with single_threaded_torch() if device.type == "cpu" else nullcontext():
            return [_train_alone(network, dataset, task, options, augment) for task in tasks]
    from fedwad.learning.local.stacks import train_stack

    def train_indices(indices: Sequence[int]) -> list[TrainedNetwork]:
        own = replace(network, module=copy.deepcopy(network.module))  # one for each thread
        return train_stack(
            own, dataset, [tasks[index] for index in indices], options, augment, half_precision
        )

    stacks = _divide_into_stacks(network, tasks, device)
    if device.type == "cuda":
        trained = [train_indices(stack) for stack in stacks]
    else:  # one stack for each core; several threads of PyTorch in each would wait for each other
        with single_threaded_torch(), ThreadPoolExecutor(len(stacks)) as cores:
            trained = list(cores.map(train_indices, stacks))
    by_index = dict(zip(chain(*stacks), chain(*trained), strict=True))
    return [by_index[index] for index in range(len(tasks))]


def _can_stack(network: Network) -> bool:
    dropout = nn.modules.dropout._DropoutNd
    return not any(isinstance(part, dropout) for part in network.module.modules())


def _prefer_stack(
    network: Network, tasks: Sequence[Task], device: torch.device, stacked: bool | None
) -> bool:
    from fedwad.learning.local.stacks import linear_layers

    if stacked is not None:
        return stacked
    faster = device.type == "cuda" or linear_layers(network.module) is not None
    return len(tasks) > 1 and faster


def _divide_into_stacks(
    network: Network, tasks: Sequence[Task], device: torch.device
) -> list[list[int]]:
    """Indices of the tasks of each stack; in a stack, tasks with more samples come first.

    On a GPU tasks of similar size share a stack, as many as its memory holds. On a CPU each core
    gets one stack, with a similar amount of work.
    """
    ranked = sorted(range(len(tasks)), key=lambda index: -len(tasks[index].rows))
    if device.type == "cuda":
        size = _stack_size(network, device)
        return [ranked[start : start + size] for start in range(0, len(ranked), size)]
    cores = os.cpu_count() or 1
    return [ranked[core::cores] for core in range(min(len(ranked), cores))]


def _stack_size(network: Network, device: torch.device) -> int:
    """How many networks the memory of the GPU holds at once."""
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(1, int(_MEMORY_FRACTION * free / (4 * network.size * _COPIES)))


def learning_parameters(network: Network, layers: Layers) -> list[str]:
    """Names of the parameters that learn in a phase."""
    if layers == "all":
        return list(network.names)
    personal = layers == "personal"
    return [name for name in network.names if (name in network.personal_names) == personal]


def epoch_rows(task: Task, epoch: int) -> NDArray[np.int64]:
    """The rows of a task in the random order in which an epoch goes through them."""
    return np.random.default_rng([task.seed, epoch]).permutation(task.rows)


def _train_alone(
    network: Network,
    dataset: TensorDataset,
    task: Task,
    options: SGDOptions,
    augment: Augment | None,
) -> TrainedNetwork:
    """Train the module itself with PyTorch's own optimiser."""
    module, device = network.module, dataset.X.device
    with torch.no_grad():
        values = network.tensors(task.weights.to(device))
        for name, parameter in module.named_parameters():
            parameter.copy_(values[name])
    module.train()
    generator = torch.Generator(device).manual_seed(task.seed)
    epoch, loss = 0, None
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(task.seed)
        for phase in options.phases:
            names = learning_parameters(network, phase.layers)
            for name, parameter in module.named_parameters():
                parameter.requires_grad_(name in names)
            learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
            optimizer = torch.optim.SGD(learning, options.learning_rate, options.momentum)
            phase_augment = None if phase.layers == "personal" else augment
            for _ in range(phase.epochs):
                rows = torch.as_tensor(epoch_rows(task, epoch), device=device)
                batches = torch.split(rows, options.batch_size)
                loss = _run_epoch(module, optimizer, dataset, batches, phase_augment, generator)
                epoch += 1
    module.requires_grad_(True)
    weights = [parameter.detach().ravel() for parameter in module.parameters()]
    return TrainedNetwork(torch.cat(weights), loss)


def _run_epoch(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    dataset: TensorDataset,
    batches: Sequence[Tensor],
    augment: Augment | None,
    generator: torch.Generator,
) -> float:
    """Make one step for each batch of rows; the result is the mean loss."""
    losses = []
    for rows in batches:
        x = dataset.X[rows]
        if augment is not None:
            x = augment(x[None], generator)[0]
        loss = nn.functional.cross_entropy(module(x), dataset.y[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean())


def correct_mask(
    network: Network, dataset: TensorDataset, weights: Tensor, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which of these rows the network with these weights classifies correctly."""
    device = dataset.X.device
    module = network.module.to(device)
    module.eval()
    values = network.tensors(weights.to(device))
    chunks = torch.split(torch.as_tensor(np.asarray(rows), device=device), _CHUNK)
    with torch.no_grad():
        masks = [
            functional_call(module, values, (dataset.X[chunk],)).argmax(1) == dataset.y[chunk]
            for chunk in chunks
        ]
    return np.asarray(torch.cat(masks).cpu().numpy())
