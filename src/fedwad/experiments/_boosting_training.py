"""All trainings of the experiment `boosting` in lockstep: a round of all runs is one stack of small
networks.

The schedule of rounds is that of `fedwad.learning`. Clients are rows of one dataset instead
of a federation.
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
from fedwad.experiments._boosting_setting import Setting, divided, pixels
from fedwad.learning import Algorithm, TrainingOptions
from fedwad.learning._schedule import Step, client_seed, schedule
from fedwad.learning.local.descent import (
    Augment,
    Phase,
    SGDOptions,
    Task,
    TensorDataset,
    correct,
    train,
)
from fedwad.learning.local.networks import Network, build, mlp

__all__ = ["Run", "Training", "rows_of", "run_all", "softmax_mlp"]

Rows = dict[str, NDArray[np.int64]]

#: "ours": networks that give logits; a client's own layer starts from its first weights. "softmax":
#: the authors' MLP. "authors": their MLP, and a client that has not trained yet takes the mean of
#: the others' own layers, as in their code, where first weights are not copied. "draws": the same,
#: with the rows of each client and the clients of each round that their code draws.
Training = Literal["ours", "softmax", "authors", "draws"]

_IMAGE_SIDE, _PADDING = 32, 4
_MOST = 5000  # networks at once
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
    run: Run
    names: dict[str, int]
    steps: Iterator[Step]
    weights: Tensor
    heads: dict[str, Tensor] | None  # the own layers of clients, where they have some
    train: Rows


def run_all(runs: Sequence[Run], device: torch.device) -> None:
    """Train all runs, of the same dataset and with the same network, and fill in their
    accuracies."""
    data, word = runs[0].setting.data, _word(runs[0])
    dataset, tests = (TensorDataset.of(*pixels(data, split), device) for split in _SPLITS)
    network = build(word, dataset.X.shape[1], 10)
    marks = torch.as_tensor(network.personal_mask, device=device)
    groups = [group for run in runs for group in _groups(run, rows_of(run)[0], word, device, marks)]
    augment = _cropped if data == "cifar10" else None
    while waiting := _next_steps(groups):
        for some in _portions(waiting):
            _advance(network, dataset, marks, some, augment)
    for group in groups:
        _judge(group, network, tests, marks, rows_of(group.run)[1])


def rows_of(run: Run) -> tuple[Rows, Rows]:
    """The training and test rows of each client."""
    if run.training == "draws":
        drawn = _drawn(run.setting)
        train, test = (
            {_name(client): rows for client, rows in own.items()}
            for own in (drawn.train, drawn.test)
        )
        return train, test
    dealt = divided(run.setting)
    return dealt[0].indices, dealt[1].indices


@lru_cache(maxsize=8)
def _drawn(setting: Setting) -> AuthorsDraws:
    train, test = (pixels(setting.data, split)[1] for split in _SPLITS)
    structure: Literal["groups", "drawn"] = "groups" if setting.structure == "groups" else "drawn"
    return authors_draws(train, test, setting.clients, structure, setting.seed)


def _name(client: int) -> str:
    return f"client{client:03d}"


def _steps(run: Run, members: Sequence[str], label: int) -> Iterator[Step]:
    """The rounds of a group; those of "draws" have the clients that the authors' code chooses."""
    options = TrainingOptions(run.algorithm, rounds=run.rounds, seed=run.setting.seed)
    steps = schedule(options, members, label)
    if run.training != "draws":
        return steps
    chosen = [tuple(map(_name, own)) for own in _drawn(run.setting).rounds]
    return (
        step if step.closing else replace(step, ranking=chosen[step.number - 1]) for step in steps
    )


def _word(run: Run) -> str:
    if run.setting.data == "cifar10":
        return "cnn"
    return "mlp" if run.training == "ours" else f"{__name__}:softmax_mlp"


def _groups(
    run: Run, rows: Rows, word: str, device: torch.device, marks: Tensor
) -> Iterator[_Group]:
    names = list(rows)
    seed, features = run.setting.seed, pixels(run.setting.data, "train")[0].shape[1]
    start = torch.as_tensor(build(word, features, 10, seed).initial(), device=device)
    run.accuracy = np.zeros(len(names))
    for label in sorted(set(run.labels)):
        members = [name for name, own in zip(names, run.labels, strict=True) if own == label]
        heads: dict[str, Tensor] | None = None
        if run.algorithm != "fedavg":
            copied = run.training in ("ours", "softmax")
            heads = dict.fromkeys(members, start[marks]) if copied else {}
        places = {name: names.index(name) for name in members}
        yield _Group(run, places, _steps(run, members, label), start, heads, rows)


def _next_steps(groups: Sequence[_Group]) -> list[tuple[_Group, Step]]:
    """The next round of each group that has one."""
    steps = ((group, next(group.steps, None)) for group in groups)
    return [(group, step) for group, step in steps if step is not None]


def _portions(waiting: Sequence[tuple[_Group, Step]]) -> Iterator[list[tuple[_Group, Step]]]:
    """Groups with the same phases whose weights fit into memory together, those with large clients
    first."""
    for phases in sorted({step.phases for _, step in waiting}):
        own = [(group, step) for group, step in waiting if step.phases == phases]
        some: list[tuple[_Group, Step]] = []
        for group, step in sorted(own, key=lambda pair: pair[0].run.setting.clients):
            if sum(other.count for _, other in some) + step.count > _MOST:
                yield some
                some = []
            some.append((group, step))
        yield some


def _advance(
    network: Network,
    dataset: TensorDataset,
    marks: Tensor,
    waiting: Sequence[tuple[_Group, Step]],
    augment: Augment | None,
) -> None:
    """Run one round of these groups, all with the same phases."""
    trainers = [
        (group, name, step.number) for group, step in waiting for name in step.ranking[: step.count]
    ]
    tasks = [_client_task(group, name, number, marks) for group, name, number in trainers]
    planned = waiting[0][1].phases
    phases = tuple(Phase(epochs, layers) for epochs, layers in planned)  # type: ignore[arg-type]
    # It saves half of the time of convolutions.
    half_precision = dataset.X.is_cuda and augment is not None
    trained = train(network, dataset, tasks, SGDOptions(phases), True, augment, half_precision)
    found: dict[int, list[Tensor]] = {}
    for (group, name, _), result in zip(trainers, trained, strict=True):
        if group.heads is not None:
            group.heads[name] = result.weights[marks]
        found.setdefault(id(group), []).append(result.weights)
    for group, step in waiting:
        if not step.closing:  # all clients have the same weight, as in the authors' code
            group.weights = torch.stack(found.pop(id(group))).mean(0)


def _client_task(group: _Group, name: str, number: int, marks: Tensor) -> Task:
    weights = group.weights
    if group.heads and name in group.heads:
        weights = weights.clone()
        weights[marks] = group.heads[name]
    seed = client_seed(group.run.setting.seed, number, group.names[name])
    return Task(weights, group.train[name], seed)


def _judge(
    group: _Group, network: Network, tests: TensorDataset, marks: Tensor, rows: Rows
) -> None:
    for name, place in group.names.items():
        weights = group.weights.clone()
        if group.heads is not None:
            weights[marks] = group.heads[name]
        group.run.accuracy[place] = correct(network, tests, weights, rows[name]).mean()


def softmax_mlp(features: int, classes: int) -> nn.Module:
    """The MLP as in the authors' code: a softmax, whose result then goes into a cross-entropy that
    takes logits."""
    return nn.Sequential(
        OrderedDict([*mlp(features, classes).named_children(), ("softmax", nn.Softmax(1))])
    )


def _cropped(x: Tensor, rng: torch.Generator) -> Tensor:
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
