"""All trainings of the experiment `boosting` at once: a round of all runs is one stack of small
networks.

The schedule of rounds is that of `fedwad.learning`. A client is a set of rows of one dataset.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedwad.experiments._authors_draws import AuthorsDraws, authors_draws
from fedwad.experiments._boosting_setting import Setting, partitions, pixels
from fedwad.learning import Algorithm, TrainingOptions
from fedwad.learning._schedule import GroupRound, client_seed, schedule
from fedwad.learning.local.descent import (
    Augment,
    Phase,
    SGDOptions,
    Task,
    TensorDataset,
    correct_mask,
    train,
)
from fedwad.learning.local.networks import Network, build, mlp

__all__ = ["Run", "Training", "client_rows", "run_all", "softmax_mlp"]

Rows = dict[str, NDArray[np.int64]]

#: "ours": networks that give logits; a client's own layer starts from its first weights. "softmax":
#: the authors' MLP. "authors": their MLP, and a client that has not trained yet takes the mean of
#: the others' own layers, as in their code, where first weights are not copied. "draws": the same,
#: with the rows of each client and the clients of each round that their code draws.
Training = Literal["ours", "softmax", "authors", "draws"]

_IMAGE_SIDE, _PADDING = 32, 4
_MAX_NETWORKS = 5000  # in one stack
_SPLITS: tuple[Literal["train"], Literal["test"]] = ("train", "test")


@dataclass(eq=False)
class Run:
    """One algorithm on one clustering of one setting; `accuracy` of each client in the end."""

    setting: Setting
    labels: tuple[int, ...]
    algorithm: Algorithm
    training: Training = "ours"
    rounds: int = 10
    accuracy: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


@dataclass(eq=False)
class _Group:
    """The clients of one cluster in one run, and the weights of their model so far.

    `indices` has the place of each client among all of the run, and `own_layers` the weights of the
    layers that stay with each client, None for FedAvg.
    """

    run: Run
    indices: dict[str, int]
    steps: Iterator[GroupRound]
    weights: Tensor
    own_layers: dict[str, Tensor] | None
    train: Rows

    def weights_of(self, name: str, personal: Tensor) -> Tensor:
        """The model of a client; `personal` marks the weights of its own layers."""
        if not self.own_layers or name not in self.own_layers:
            return self.weights
        weights = self.weights.clone()
        weights[personal] = self.own_layers[name]
        return weights


def run_all(runs: Sequence[Run], device: torch.device) -> None:
    """Train all runs, of the same dataset and with the same network, and fill in their
    accuracies."""
    data, model = runs[0].setting.data, _model(runs[0])
    dataset, tests = (TensorDataset.of(*pixels(data, split), device) for split in _SPLITS)
    network = build(model, dataset.X.shape[1], 10)
    personal = torch.as_tensor(network.personal_mask, device=device)
    groups = [group for run in runs for group in _groups(run, model, device, personal)]
    augment = _shift_and_mirror if data == "cifar10" else None
    while waiting := _next_steps(groups):
        for some in _portions(waiting):
            _advance(network, dataset, personal, some, augment)
    for group in groups:
        rows = client_rows(group.run)[1]
        for name, index in group.indices.items():
            weights = group.weights_of(name, personal)
            group.run.accuracy[index] = correct_mask(network, tests, weights, rows[name]).mean()


def client_rows(run: Run) -> tuple[Rows, Rows]:
    """The training and test rows of each client."""
    if run.training == "draws":
        draws = _authors_draws(run.setting)
        train, test = (
            {_name(client): rows for client, rows in rows_of.items()}
            for rows_of in (draws.train, draws.test)
        )
        return train, test
    train_part, test_part = partitions(run.setting)
    return train_part.indices, test_part.indices


@lru_cache(maxsize=8)
def _authors_draws(setting: Setting) -> AuthorsDraws:
    train, test = (pixels(setting.data, split)[1] for split in _SPLITS)
    structure: Literal["groups", "drawn"] = "groups" if setting.structure == "groups" else "drawn"
    return authors_draws(train, test, setting.clients, structure, setting.seed)


def _name(client: int) -> str:
    return f"client{client:03d}"


def _steps(run: Run, members: Sequence[str], label: int) -> Iterator[GroupRound]:
    """The rounds of a group; those of "draws" have the clients that the authors' code chooses."""
    options = TrainingOptions(run.algorithm, rounds=run.rounds, seed=run.setting.seed)
    steps = schedule(options, members, label)
    if run.training != "draws":
        return steps
    chosen = [tuple(map(_name, clients)) for clients in _authors_draws(run.setting).rounds]
    return (
        step if step.closing else replace(step, ranking=chosen[step.number - 1]) for step in steps
    )


def _model(run: Run) -> str:
    if run.setting.data == "cifar10":
        return "cnn"
    return "mlp" if run.training == "ours" else f"{__name__}:softmax_mlp"


def _groups(run: Run, model: str, device: torch.device, personal: Tensor) -> Iterator[_Group]:
    rows, _ = client_rows(run)
    names = list(rows)
    seed, features = run.setting.seed, pixels(run.setting.data, "train")[0].shape[1]
    start = torch.as_tensor(build(model, features, 10, seed).initial_weights(), device=device)
    run.accuracy = np.zeros(len(names))
    for label in sorted(set(run.labels)):
        indices = {names[k]: k for k, other in enumerate(run.labels) if other == label}
        own_layers: dict[str, Tensor] | None = None
        if run.algorithm != "fedavg":
            copied = run.training in ("ours", "softmax")
            own_layers = dict.fromkeys(indices, start[personal]) if copied else {}
        yield _Group(run, indices, _steps(run, list(indices), label), start, own_layers, rows)


def _next_steps(groups: Sequence[_Group]) -> list[tuple[_Group, GroupRound]]:
    """The next round of each group that has one."""
    steps = ((group, next(group.steps, None)) for group in groups)
    return [(group, step) for group, step in steps if step is not None]


def _portions(
    waiting: Sequence[tuple[_Group, GroupRound]],
) -> Iterator[list[tuple[_Group, GroupRound]]]:
    """Groups with the same phases whose weights fit into memory together, those with large clients
    first."""
    for phases in sorted({step.phases for _, step in waiting}):
        same = [(group, step) for group, step in waiting if step.phases == phases]
        some: list[tuple[_Group, GroupRound]] = []
        for group, step in sorted(same, key=lambda pair: pair[0].run.setting.clients):
            if sum(other.count for _, other in some) + step.count > _MAX_NETWORKS:
                yield some
                some = []
            some.append((group, step))
        yield some


def _advance(
    network: Network,
    dataset: TensorDataset,
    personal: Tensor,
    waiting: Sequence[tuple[_Group, GroupRound]],
    augment: Augment | None,
) -> None:
    """Run one round of these groups, all with the same phases."""
    trainers = [
        (group, name, step.number) for group, step in waiting for name in step.ranking[: step.count]
    ]
    tasks = [
        Task(
            group.weights_of(name, personal),
            group.train[name],
            client_seed(group.run.setting.seed, number, group.indices[name]),
        )
        for group, name, number in trainers
    ]
    planned = waiting[0][1].phases
    phases = tuple(Phase(epochs, layers) for epochs, layers in planned)  # type: ignore[arg-type]
    # It saves half of the time of convolutions.
    half_precision = dataset.X.is_cuda and augment is not None
    trained = train(network, dataset, tasks, SGDOptions(phases), True, augment, half_precision)
    found: dict[int, list[Tensor]] = {}
    for (group, name, _), result in zip(trainers, trained, strict=True):
        if group.own_layers is not None:
            group.own_layers[name] = result.weights[personal]
        found.setdefault(id(group), []).append(result.weights)
    for group, step in waiting:
        if not step.closing:  # all clients have the same weight, as in the authors' code
            group.weights = torch.stack(found.pop(id(group))).mean(0)


def softmax_mlp(features: int, classes: int) -> nn.Module:
    """The MLP as in the authors' code: a softmax, whose result then goes into a cross-entropy that
    takes logits."""
    return nn.Sequential(
        OrderedDict([*mlp(features, classes).named_children(), ("softmax", nn.Softmax(1))])
    )


def _shift_and_mirror(x: Tensor, rng: torch.Generator) -> Tensor:
    """Images (M, batch, pixels) moved by up to four pixels either way, zeros moving in, and half of
    them mirrored."""
    side, wide = _IMAGE_SIDE, _IMAGE_SIDE + 2 * _PADDING
    images = x.reshape(-1, side, side, 3)
    count, where = len(images), x.device
    padded = x.new_zeros((count, wide, wide, 3))
    padded[:, _PADDING : _PADDING + side, _PADDING : _PADDING + side] = images
    steps = torch.arange(side, device=where)
    shift = torch.randint(2 * _PADDING + 1, (2, count, 1), device=where, generator=rng)
    mirrored = torch.rand((count, 1), device=where, generator=rng) < 0.5
    down = shift[0] + steps
    across = shift[1] + torch.where(mirrored, side - 1 - steps, steps)
    every = torch.arange(count, device=where)[:, None, None]
    return padded[every, down[:, :, None], across[:, None, :]].reshape(x.shape)
