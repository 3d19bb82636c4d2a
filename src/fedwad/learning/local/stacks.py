"""Many networks of the same shape trained at once.

Weights are stacked, W: (M, out, in), and a step is one product of stacks instead of M small ones
(`torch.func.vmap`). The sums are those of the plain way, in another order, so results differ by
rounding alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.optim.sgd import sgd

from fedwad.learning.local.descent import Alter, Pool, Recipe, Task, Trained, moving, order
from fedwad.learning.local.networks import Network

__all__ = ["chain", "train_stack"]

_CHUNK = 8192  # samples at a time when nothing is learned from them


def train_stack(
    network: Network,
    pool: Pool,
    tasks: Sequence[Task],
    recipe: Recipe,
    alter: Alter | None = None,
    half: bool = False,
) -> list[Trained]:
    """Train all tasks at once. They must come with the most samples first: those still at work are
    the first ones."""
    where = pool.X.device
    network.module.train()
    flat = torch.stack([task.weights.to(where) for task in tasks])
    weights = {name: value.contiguous() for name, value in network.tensors(flat).items()}
    del flat
    halves = network.halves()
    epoch, losses = 0, np.full(len(tasks), np.nan)
    for phase in recipe.phases:
        if phase.epochs == 0:
            continue
        if phase.layers == "personal" and halves is not None:
            losses = _train_ends(halves, weights, pool, tasks, recipe, epoch, phase.epochs)
        else:
            learning = moving(network, phase.layers)
            used = None if phase.layers == "personal" else alter
            losses = _descend(
                network.module,
                weights,
                learning,
                pool,
                tasks,
                recipe,
                epoch,
                phase.epochs,
                used,
                half,
            )
        epoch += phase.epochs
    told = [None if np.isnan(loss) else float(loss) for loss in losses]
    return [Trained(row, loss) for row, loss in zip(network.flat(weights), told, strict=True)]


def _descend(
    module: nn.Module,
    weights: dict[str, Tensor],
    learning: Sequence[str],
    pool: Pool,
    tasks: Sequence[Task],
    recipe: Recipe,
    first: int,
    epochs: int,
    alter: Alter | None,
    half: bool,
) -> NDArray[np.float64]:
    """Move the stacked weights of these names in place; the mean loss of each task over the last
    epoch."""
    layers = None if half or alter is not None else chain(module)
    if layers is not None:
        return _descend_chain(layers, weights, learning, pool, tasks, recipe, first, epochs)

    def loss(
        learned: dict[str, Tensor], rest: dict[str, Tensor], x: Tensor, y: Tensor, share: Tensor
    ) -> Tensor:
        values = learned | rest
        if half:
            values, x = {name: value.bfloat16() for name, value in values.items()}, x.bfloat16()
        logits = functional_call(module, values, (x,)).float()
        return -(torch.log_softmax(logits, 1).gather(1, y[:, None])[:, 0] * share).sum()

    step = vmap(grad_and_value(loss))
    momentum = {name: torch.zeros_like(weights[name]) for name in learning}
    chance = torch.Generator(pool.X.device).manual_seed(tasks[0].seed + first)
    total = torch.zeros(len(tasks), device=pool.X.device)
    shares = _shares(tasks, recipe.batch_size, pool.X.device)
    steps = np.array([-(-len(task.rows) // recipe.batch_size) for task in tasks])
    for epoch in range(first, first + epochs):
        rows = _rows(tasks, epoch, recipe.batch_size, pool.X.device)
        total.zero_()
        for now in range(steps[0]):
            active = int(np.searchsorted(-steps, -now))  # tasks that have more than `now` batches
            some = rows[now, :active]
            x = pool.X[some] if alter is None else alter(pool.X[some], chance)
            learned = {name: weights[name][:active] for name in learning}
            rest = {name: value[:active] for name, value in weights.items() if name not in momentum}
            gradients, value = step(learned, rest, x, pool.y[some], shares[now, :active])
            _move(learned, gradients, {name: momentum[name][:active] for name in learning}, recipe)
            total[:active] += value
    return np.asarray(total.double().cpu().numpy() / steps)


def _move(
    weights: dict[str, Tensor],
    gradients: dict[str, Tensor],
    momentum: dict[str, Tensor],
    recipe: Recipe,
) -> None:
    """One step in place: v <- momentum v + gradient, w <- w - rate v."""
    sgd(
        list(weights.values()),
        [gradients[name] for name in weights],
        [momentum[name] for name in weights],
        fused=True,
        weight_decay=0.0,
        momentum=recipe.momentum,
        lr=recipe.learning_rate,
        dampening=0.0,
        nesterov=False,
        maximize=False,
    )


def _rows(tasks: Sequence[Task], epoch: int, batch_size: int, where: torch.device) -> Tensor:
    """Rows (steps, M, batch) of each batch; what fills up a task's batches repeats a row of it."""
    longest = -(-len(tasks[0].rows) // batch_size)
    rows = np.empty((len(tasks), longest * batch_size), dtype=np.int64)
    for place, task in enumerate(tasks):
        rows[place, : len(task.rows)] = order(task, epoch)
        rows[place, len(task.rows) :] = task.rows[0]
    return (
        torch.as_tensor(rows, device=where).reshape(len(tasks), longest, batch_size).transpose(0, 1)
    )


def _shares(tasks: Sequence[Task], batch_size: int, where: torch.device) -> Tensor:
    """The share (steps, M, batch) of each row in its batch's mean loss: zero where a batch is
    filled up."""
    longest = -(-len(tasks[0].rows) // batch_size)
    counts = torch.tensor([len(task.rows) for task in tasks], device=where)[:, None]
    place = torch.arange(longest * batch_size, device=where)
    size = torch.where(
        place < counts - counts % batch_size, batch_size, (counts % batch_size).clamp(min=1)
    )
    shares = torch.where(place < counts, 1 / size, 0.0)
    return shares.reshape(len(tasks), longest, batch_size).transpose(0, 1)


def _train_ends(
    halves: tuple[nn.Sequential, nn.Sequential],
    weights: dict[str, Tensor],
    pool: Pool,
    tasks: Sequence[Task],
    recipe: Recipe,
    first: int,
    epochs: int,
) -> NDArray[np.float64]:
    """Train the last layers: what comes before them stays, so it is worked out once for each
    sample."""
    body, end = halves
    found, moved, start = [], [], 0
    with torch.no_grad():
        for place, task in enumerate(tasks):
            values = {name: weights[name][place] for name, _ in body.named_parameters()}
            portions = torch.split(torch.as_tensor(task.rows, device=pool.X.device), _CHUNK)
            found += [functional_call(body, values, (pool.X[some],)) for some in portions]
            moved.append(replace(task, rows=np.arange(start, start + len(task.rows))))
            start += len(task.rows)
    labels = torch.cat([pool.y[torch.as_tensor(task.rows, device=pool.X.device)] for task in tasks])
    reached = Pool(torch.cat(found), labels)
    names = [name for name, _ in end.named_parameters()]
    inner = {name: weights[name] for name in names}
    return _descend(end, inner, names, reached, moved, recipe, first, epochs, None, False)


def _descend_chain(
    layers: Sequence[str],
    weights: dict[str, Tensor],
    learning: Sequence[str],
    pool: Pool,
    tasks: Sequence[Task],
    recipe: Recipe,
    first: int,
    epochs: int,
) -> NDArray[np.float64]:
    """`_descend` for linear layers with rectifiers between, x_k = relu(W_k x_{k-1} + b_k), whose
    gradient is known.

    The last layer's error is (softmax - e_y) times a row's share; the layer before has W^T error
    where x > 0, and the gradient of W is error x^T, which goes right into the momentum. Such steps
    are so small that finding the gradient takes about as long as doing them.
    """
    shares = _shares(tasks, recipe.batch_size, pool.X.device)
    steps = np.array([-(-len(task.rows) // recipe.batch_size) for task in tasks])
    momentum = {name: torch.zeros_like(weights[name]) for name in learning}
    lowest = min(layers.index(name.rpartition(".")[0]) for name in learning)
    total = torch.zeros(len(tasks), device=pool.X.device)
    for epoch in range(first, first + epochs):
        rows = _rows(tasks, epoch, recipe.batch_size, pool.X.device)
        total.zero_()
        for now in range(steps[0]):
            active = int(np.searchsorted(-steps, -now))
            some, share = rows[now, :active], shares[now, :active, :, None]
            y = pool.y[some][..., None]
            reached = [pool.X[some]]
            for layer in layers:
                weight, bias = (
                    weights[f"{layer}.weight"][:active],
                    weights[f"{layer}.bias"][:active],
                )
                value = torch.baddbmm(bias[:, None], reached[-1], weight.mT)
                reached.append(value if layer == layers[-1] else value.relu_())
            chances = torch.log_softmax(reached.pop(), 2)
            total[:active] -= (chances.gather(2, y) * share)[..., 0].sum(1)
            error = chances.exp_().scatter_add_(2, y, torch.full_like(share, -1.0)) * share
            for place in range(len(layers) - 1, lowest - 1, -1):
                layer, x = layers[place], reached.pop()
                weight = weights[f"{layer}.weight"][:active]
                below = torch.where(x > 0, error @ weight, 0.0) if place > lowest else error
                if f"{layer}.weight" in momentum:
                    moved = momentum[f"{layer}.weight"][:active].baddbmm_(
                        error.mT, x, beta=recipe.momentum
                    )
                    weight.sub_(moved, alpha=recipe.learning_rate)
                if f"{layer}.bias" in momentum:
                    shift = (
                        momentum[f"{layer}.bias"][:active].mul_(recipe.momentum).add_(error.sum(1))
                    )
                    weights[f"{layer}.bias"][:active].sub_(shift, alpha=recipe.learning_rate)
                error = below
    return np.asarray(total.double().cpu().numpy() / steps)


def chain(module: nn.Module) -> list[str] | None:
    """Names of the layers of a module that is linear layers with rectifiers between, and nothing
    else."""
    if type(module) is not nn.Sequential:
        return None
    kinds = [type(part) for part in module]
    if kinds != [nn.Linear, nn.ReLU] * (len(kinds) // 2) + [nn.Linear]:
        return None
    layers = {name: part for name, part in module.named_children() if isinstance(part, nn.Linear)}
    return None if any(part.bias is None for part in layers.values()) else list(layers)
