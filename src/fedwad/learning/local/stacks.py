"""Many networks of the same shape, trained at once.

The weights of M networks are stacked, W: (M, out, in), so a step is one batched product instead of
M small ones. Results differ from training one by one only by rounding, because sums have a
different order.

`torch.func.vmap` computes the gradient of any module. Linear layers with ReLU between have a
hand-written step, `_linear_step`, because the overhead of `torch.func` takes as long as their
arithmetic. With `vmap` instead, stacks of one or two networks take 1.7 to 3.3 times as long, and
2.8 to 4.6 times when only the last layer learns. Stacks are that small when two of twenty sites
train in a round. Stacks of ten and fifty take 1.1 to 2.1 times as long (`python -m benchmarks
gradients`, processor time of one thread).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.optim.sgd import sgd

from fedwad.learning.local.descent import (
    Augment,
    SGDOptions,
    Task,
    TensorDataset,
    TrainedNetwork,
    epoch_rows,
    learning_parameters,
)
from fedwad.learning.local.networks import Network

__all__ = ["linear_layers", "train_stack"]

_CHUNK = 8192  # samples at a time on which layers that do not learn are evaluated

#: A function of samples (A, batch, ...), labels (A, batch) and row weights (A, batch). It moves the
#: weights of the first A networks of a stack by one step and returns the loss of each.
Step = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class _Stack:
    """Networks in training: their stacked weights by name, and the momentum of the weights that
    learn."""

    weights: dict[str, Tensor]
    momentum: dict[str, Tensor]
    options: SGDOptions

    @classmethod
    def of(cls, weights: dict[str, Tensor], learning: Sequence[str], options: SGDOptions) -> _Stack:
        return cls(weights, {name: torch.zeros_like(weights[name]) for name in learning}, options)

    def learning_weights(self, active: int) -> dict[str, Tensor]:
        """The weights that learn, of the first `active` networks."""
        return {name: self.weights[name][:active] for name in self.momentum}

    def fixed_weights(self, active: int) -> dict[str, Tensor]:
        """The weights that do not change, of the first `active` networks."""
        names = (name for name in self.weights if name not in self.momentum)
        return {name: self.weights[name][:active] for name in names}


def train_stack(
    network: Network,
    dataset: TensorDataset,
    tasks: Sequence[Task],
    options: SGDOptions,
    augment: Augment | None = None,
    half_precision: bool = False,
) -> list[TrainedNetwork]:
    """Train all tasks at once. Tasks must be sorted, those with more samples first.

    A task with fewer batches finishes an epoch earlier. So the tasks that still have batches, the
    active ones, are always the first of the stack.
    """
    device = dataset.X.device
    network.module.train()
    flat = torch.stack([task.weights.to(device) for task in tasks])
    weights = {name: value.contiguous() for name, value in network.tensors(flat).items()}
    del flat
    body_and_head = network.body_and_head()
    first_epoch = 0
    losses: NDArray[np.float64] | None = None  # NaN if the training diverged
    for phase in options.phases:
        epochs = range(first_epoch, first_epoch + phase.epochs)
        first_epoch += phase.epochs
        if not epochs:
            continue
        if phase.layers == "personal" and body_and_head is not None:
            losses = _train_last_layers(body_and_head, weights, dataset, tasks, options, epochs)
            continue
        stack = _Stack.of(weights, learning_parameters(network, phase.layers), options)
        if phase.layers == "personal" or augment is None:
            step = _step(network.module, stack, half_precision)
        else:
            generator = torch.Generator(device).manual_seed(tasks[0].seed + epochs[0])
            vmap_step = _vmap_step(network.module, stack, half_precision)
            step = _with_augmentation(vmap_step, augment, generator)
        losses = _descend(step, dataset, tasks, options.batch_size, epochs)
    return [
        TrainedNetwork(vector, None if losses is None else float(losses[index]))
        for index, vector in enumerate(network.flatten(weights))
    ]


def _train_last_layers(
    body_and_head: tuple[nn.Sequential, nn.Sequential],
    weights: dict[str, Tensor],
    dataset: TensorDataset,
    tasks: Sequence[Task],
    options: SGDOptions,
    epochs: range,
) -> NDArray[np.float64]:
    """Train the last layers only; the layers before them are evaluated once for each sample."""
    body, head = body_and_head
    device = dataset.X.device
    outputs, head_tasks, labels, start = [], [], [], 0
    with torch.no_grad():
        for index, task in enumerate(tasks):
            body_weights = {name: weights[name][index] for name, _ in body.named_parameters()}
            rows = torch.as_tensor(task.rows, device=device)
            labels.append(dataset.y[rows])
            outputs += [
                functional_call(body, body_weights, (dataset.X[chunk],))
                for chunk in torch.split(rows, _CHUNK)
            ]
            head_tasks.append(replace(task, rows=np.arange(start, start + len(rows))))
            start += len(rows)
    names = [name for name, _ in head.named_parameters()]
    stack = _Stack.of({name: weights[name] for name in names}, names, options)
    head_data = TensorDataset(torch.cat(outputs), torch.cat(labels))
    step = _step(head, stack, half_precision=False)
    return _descend(step, head_data, head_tasks, options.batch_size, epochs)


def _descend(
    step: Step, dataset: TensorDataset, tasks: Sequence[Task], batch_size: int, epochs: range
) -> NDArray[np.float64]:
    """Make a step for every batch; the result is the mean loss of each task over the last epoch."""
    device = dataset.X.device
    total = torch.zeros(len(tasks), device=device)
    row_weights = _row_weights(tasks, batch_size, device)
    steps = np.array([-(-len(task.rows) // batch_size) for task in tasks])
    for epoch in epochs:
        rows = _batch_rows(tasks, epoch, batch_size, device)
        total.zero_()
        for batch in range(steps[0]):
            active = int(np.searchsorted(-steps, -batch))  # tasks with more than `batch` batches
            chosen = rows[batch, :active]
            losses = step(dataset.X[chosen], dataset.y[chosen], row_weights[batch, :active])
            total[:active] += losses
    return np.asarray(total.double().cpu().numpy() / steps)


def _step(module: nn.Module, stack: _Stack, half_precision: bool) -> Step:
    """The hand-written step for linear layers in full precision, else that of `vmap`."""
    layers = None if half_precision else linear_layers(module)
    if layers is None:
        return _vmap_step(module, stack, half_precision)
    return _linear_step(layers, stack)


def _with_augmentation(step: Step, augment: Augment, generator: torch.Generator) -> Step:
    return lambda x, y, row_weight: step(augment(x, generator), y, row_weight)


def _vmap_step(module: nn.Module, stack: _Stack, half_precision: bool) -> Step:
    """A step of any module, with the gradient of `torch.func`."""

    def loss(
        learning: dict[str, Tensor],
        fixed: dict[str, Tensor],
        x: Tensor,
        y: Tensor,
        row_weight: Tensor,
    ) -> Tensor:
        values = learning | fixed
        if half_precision:
            values, x = {name: value.bfloat16() for name, value in values.items()}, x.bfloat16()
        logits = functional_call(module, values, (x,)).float()
        return -(torch.log_softmax(logits, 1).gather(1, y[:, None])[:, 0] * row_weight).sum()

    gradient = vmap(grad_and_value(loss))

    def step(x: Tensor, y: Tensor, row_weight: Tensor) -> Tensor:
        active = len(x)
        learning = stack.learning_weights(active)
        gradients, value = gradient(learning, stack.fixed_weights(active), x, y, row_weight)
        sgd(
            list(learning.values()),
            [gradients[name] for name in learning],
            [stack.momentum[name][:active] for name in learning],
            fused=True,
            weight_decay=0.0,
            momentum=stack.options.momentum,
            lr=stack.options.learning_rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        losses: Tensor = value
        return losses

    return step


def _linear_step(layers: Sequence[str], stack: _Stack) -> Step:
    """A step of linear layers with ReLU between, x_k = relu(W_k x_{k-1} + b_k).

    The error of a layer is the gradient of the loss with respect to its output before ReLU. For the
    last layer it is (softmax - one-hot label) times the row's weight. For the layer before it is
    W^T error where x > 0, else 0. The gradient of W is error x^T, which is added to the momentum.
    """
    # No error is needed below the first layer that learns.
    lowest = min(layers.index(name.rpartition(".")[0]) for name in stack.momentum)

    def forward(x: Tensor) -> list[Tensor]:
        """The input of each layer, then the logits."""
        values = [x]
        for layer in layers:
            weight, bias = (stack.weights[f"{layer}.{part}"] for part in ("weight", "bias"))
            output = torch.baddbmm(bias[: len(x), None], values[-1], weight[: len(x)].mT)
            values.append(output if layer == layers[-1] else output.relu_())
        return values

    def move(layer: str, x: Tensor, error: Tensor) -> None:
        """Move the weights of a layer, if they learn."""
        active, rate, momentum = len(x), stack.options.learning_rate, stack.options.momentum
        name = f"{layer}.weight"
        if name in stack.momentum:
            moved = stack.momentum[name][:active].baddbmm_(error.mT, x, beta=momentum)
            stack.weights[name][:active].sub_(moved, alpha=rate)
        name = f"{layer}.bias"
        if name in stack.momentum:
            moved = stack.momentum[name][:active].mul_(momentum).add_(error.sum(1))
            stack.weights[name][:active].sub_(moved, alpha=rate)

    def step(x: Tensor, y: Tensor, row_weight: Tensor) -> Tensor:
        y, row_weight = y[..., None], row_weight[..., None]
        values = forward(x)
        log_probabilities = torch.log_softmax(values.pop(), 2)
        loss = -(log_probabilities.gather(2, y) * row_weight)[..., 0].sum(1)
        error = (
            log_probabilities.exp_().scatter_add_(2, y, torch.full_like(row_weight, -1.0))
            * row_weight
        )
        for index in range(len(layers) - 1, lowest - 1, -1):
            inputs, error_before = values.pop(), error
            if index > lowest:  # computed before the weights move
                weight = stack.weights[f"{layers[index]}.weight"][: len(x)]
                error_before = torch.where(inputs > 0, error @ weight, 0.0)
            move(layers[index], inputs, error)
            error = error_before
        return loss

    return step


def linear_layers(module: nn.Module) -> list[str] | None:
    """Names of the linear layers, if a module consists of different linear layers with bias, and
    ReLU between; None for any other module."""
    if type(module) is not nn.Sequential:
        return None
    kinds = [type(part) for part in module]
    if kinds != [nn.Linear, nn.ReLU] * (len(kinds) // 2) + [nn.Linear]:
        return None
    layers = {name: part for name, part in module.named_children() if isinstance(part, nn.Linear)}
    is_used_twice = len(layers) < kinds.count(nn.Linear)
    has_all_biases = all(part.bias is not None for part in layers.values())
    return list(layers) if has_all_biases and not is_used_twice else None


def _batch_rows(tasks: Sequence[Task], epoch: int, batch_size: int, device: torch.device) -> Tensor:
    """Rows of each batch, (steps, M, batch).

    Where a task has no row left, its first row fills the batch; `_row_weights` gives it no weight.
    """
    max_steps = -(-len(tasks[0].rows) // batch_size)
    rows = np.empty((len(tasks), max_steps * batch_size), dtype=np.int64)
    for index, task in enumerate(tasks):
        rows[index, : len(task.rows)] = epoch_rows(task, epoch)
        rows[index, len(task.rows) :] = task.rows[0]
    return (
        torch.as_tensor(rows, device=device)
        .reshape(len(tasks), max_steps, batch_size)
        .transpose(0, 1)
    )


def _row_weights(tasks: Sequence[Task], batch_size: int, device: torch.device) -> Tensor:
    """The weight of each row in the mean loss of its batch, (steps, M, batch).

    Rows that only fill a batch have weight zero.
    """
    max_steps = -(-len(tasks[0].rows) // batch_size)
    counts = torch.tensor([len(task.rows) for task in tasks], device=device)[:, None]
    row = torch.arange(max_steps * batch_size, device=device)
    size = torch.where(
        row < counts - counts % batch_size, batch_size, (counts % batch_size).clamp(min=1)
    )
    row_weights = torch.where(row < counts, 1 / size, 0.0)
    return row_weights.reshape(len(tasks), max_steps, batch_size).transpose(0, 1)
