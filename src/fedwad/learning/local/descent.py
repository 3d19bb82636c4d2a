"""Stochastic gradient descent on the samples of clients: the recipe, the plain way, and the choice
between the ways."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from fedwad.learning.local.networks import Network

__all__ = [
    "Alter",
    "Phase",
    "Pool",
    "Recipe",
    "Task",
    "Trained",
    "correct",
    "moving",
    "order",
    "train",
]

Layers = Literal["all", "personal", "shared"]
#: Changes samples (M, batch, d) on their way in, with a generator: data augmentation.
Alter = Callable[[Tensor, torch.Generator], Tensor]

_CHUNK = 4096  # samples at a time when nothing is learned from them
_SHARE_OF_MEMORY = 0.5
# of a stack's weights at once: themselves, gradients, momentum, and twice while they are put
# together
_COPIES = 5
_lock, _inside, _threads = (
    Lock(),
    0,
    1,
)  # how many are inside `_one_thread_each`, and PyTorch's threads outside


@dataclass(frozen=True)
class Phase:
    """So many epochs over the samples, in which these layers learn and the others stay."""

    epochs: int
    layers: Layers = "all"


@dataclass(frozen=True)
class Recipe:
    """How a client trains: phases one after another, each by SGD with a momentum that starts at
    zero.

    A step moves the weights w by v <- momentum v + gradient, w <- w - rate v, with the gradient of
    the mean cross-entropy over a batch; the last batch of an epoch has what is left.
    """

    phases: tuple[Phase, ...] = (Phase(5),)
    batch_size: int = 10
    learning_rate: float = 0.01
    momentum: float = 0.5


@dataclass(frozen=True, eq=False)
class Pool:
    """Samples (n, d) and class numbers (n,), on the device that trains."""

    X: Tensor
    y: Tensor

    @classmethod
    def of(cls, X: Any, y: Any, device: torch.device) -> Pool:
        return cls(
            torch.as_tensor(np.asarray(X, dtype=np.float32), device=device),
            torch.as_tensor(np.asarray(y, dtype=np.int64), device=device),
        )


@dataclass(frozen=True, eq=False)
class Task:
    """Weights (size,) to start from, the rows of a pool to train on, and the seed of their
    order."""

    weights: Tensor
    rows: NDArray[np.int64]
    seed: int


@dataclass(frozen=True, eq=False)
class Trained:
    """Weights (size,) and the mean loss over the batches of the last epoch; None where no epoch was
    run."""

    weights: Tensor
    loss: float | None


def train(
    network: Network,
    pool: Pool,
    tasks: Sequence[Task],
    recipe: Recipe,
    together: bool | None = None,
    alter: Alter | None = None,
    half: bool = False,
) -> list[Trained]:
    """Train one network for each task, all by the same recipe.

    Every network sees its own samples in an order that its seed alone decides.

    Parameters
    ----------
    together : stack the networks, see `fedwad.learning.local.stacks`; when left out, several are stacked
        on a GPU, and on a CPU where that is faster: if they are linear layers with rectifiers
        between. Networks with dropout are not, since each would have to draw its own numbers.
    alter : data augmentation, in phases in which shared layers learn; what it draws depends on what
        is trained together
    half : in stacks, keep weights in float32 and calculate in bfloat16: faster on a GPU, three
        digits
    """
    where = pool.X.device
    network.module.to(where)
    from fedwad.learning.local.stacks import chain, train_stack

    if together is None:
        together = len(tasks) > 1 and (where.type == "cuda" or chain(network.module) is not None)
    if not together or any(
        isinstance(part, nn.modules.dropout._DropoutNd) for part in network.module.modules()
    ):
        with (
            _one_thread_each() if where.type == "cpu" else nullcontext()
        ):  # steps are too small for more
            return [_train_alone(network, pool, task, recipe, alter) for task in tasks]
    ranked = sorted(
        range(len(tasks)), key=lambda place: -len(tasks[place].rows)
    )  # alike ones into one stack

    def trained(places: Sequence[int]) -> list[Trained]:
        own = replace(
            network, module=copy.deepcopy(network.module)
        )  # stacks at work must not share one
        return train_stack(own, pool, [tasks[place] for place in places], recipe, alter, half)

    if where.type == "cuda":
        size = _stack_size(network, where)
        stacks = [ranked[start : start + size] for start in range(0, len(ranked), size)]
        found = [trained(stack) for stack in stacks]
    # a stack for each core, with alike work for all; PyTorch's own threads would wait for each
    # other
    else:
        stacks = [
            ranked[core :: os.cpu_count() or 1]
            for core in range(min(len(ranked), os.cpu_count() or 1))
        ]
        with _one_thread_each(), ThreadPoolExecutor(len(stacks)) as cores:
            found = list(cores.map(trained, stacks))
    results = {
        place: one
        for stack, ones in zip(stacks, found, strict=True)
        for place, one in zip(stack, ones, strict=True)
    }
    return [results[place] for place in range(len(tasks))]


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let PyTorch work on one thread for each of ours, as long as any of ours is inside."""
    global _inside, _threads
    with _lock:
        if _inside == 0:
            _threads = torch.get_num_threads()
            torch.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                torch.set_num_threads(_threads)


def moving(network: Network, layers: Layers) -> list[str]:
    """Names of the parameters that learn in a phase."""
    if layers == "all":
        return list(network.names)
    return [
        name for name in network.names if (name in network.personal_names) == (layers == "personal")
    ]


def order(task: Task, epoch: int) -> NDArray[np.int64]:
    """The rows of a task in the order of its epoch with this number."""
    return np.random.default_rng([task.seed, epoch]).permutation(task.rows)


def _stack_size(network: Network, where: torch.device) -> int:
    """How many networks are stacked at once: what the memory of the device holds."""
    free, _ = torch.cuda.mem_get_info(where)
    free += torch.cuda.memory_reserved(where) - torch.cuda.memory_allocated(where)
    return max(1, int(_SHARE_OF_MEMORY * free / (4 * network.size * _COPIES)))


def _train_alone(
    network: Network, pool: Pool, task: Task, recipe: Recipe, alter: Alter | None
) -> Trained:
    """The plain way: PyTorch's own optimiser on the module itself."""
    module, where = network.module, pool.X.device
    with torch.no_grad():
        values = network.tensors(task.weights.to(where))
        for name, parameter in module.named_parameters():
            parameter.copy_(values[name])
    module.train()
    chance = torch.Generator(where).manual_seed(task.seed)
    epoch, last = 0, None
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.manual_seed(task.seed)
        for phase in recipe.phases:
            learning = moving(network, phase.layers)
            for name, parameter in module.named_parameters():
                parameter.requires_grad_(name in learning)
            chosen = [parameter for parameter in module.parameters() if parameter.requires_grad]
            optimiser = torch.optim.SGD(chosen, recipe.learning_rate, recipe.momentum)
            for _ in range(phase.epochs):
                losses = []
                for rows in torch.split(
                    torch.as_tensor(order(task, epoch), device=where), recipe.batch_size
                ):
                    x = pool.X[rows]
                    if alter is not None and phase.layers != "personal":
                        x = alter(x[None], chance)[0]
                    loss = nn.functional.cross_entropy(module(x), pool.y[rows])
                    optimiser.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
                    losses.append(loss.detach())
                epoch, last = epoch + 1, float(torch.stack(losses).mean())
    module.requires_grad_(True)
    return Trained(
        torch.cat([parameter.detach().ravel() for parameter in module.parameters()]), last
    )


def correct(
    network: Network, pool: Pool, weights: Tensor, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which of these rows the network with these weights puts into the right class."""
    where = pool.X.device
    module = network.module.to(where)
    module.eval()
    values = network.tensors(weights.to(where))
    portions = torch.split(torch.as_tensor(np.asarray(rows), device=where), _CHUNK)
    with torch.no_grad():
        right = [
            functional_call(module, values, (pool.X[some],)).argmax(1) == pool.y[some]
            for some in portions
        ]
    return np.asarray(torch.cat(right).cpu().numpy())
