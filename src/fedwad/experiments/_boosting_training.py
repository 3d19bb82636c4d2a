"""All trainings of the experiment `boosting` at once: one round of all runs trains one stack of
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

#: The rows of each client.
Rows = dict[str, NDArray[np.int64]]

#: "ours": networks that give logits; a client's own layer starts from the initial weights.
#: "softmax": the same with the authors' MLP. "authors": their MLP, and a client that has not
#: trained yet has the mean of the others' own layers, as in their code, which does not copy the
#: initial weights. "draws": as "authors", with the rows of each client and the clients of each
#: round that their code draws.
Training = Literal["ours", "softmax", "authors", "draws"]

_IMAGE_SIDE, _PADDING = 32, 4
_MAX_NETWORKS = 5000  # that train in one stack
_SPLITS: tuple[Literal["train"], Literal["test"]] = ("train", "test")


@dataclass(eq=False)
class Run:
    """One algorithm in the clusters of one setting: `labels` has the cluster of each client, and
    `run_all` sets `accuracy` to the final accuracy of each client."""

    setting: Setting
    labels: tuple[int, ...]
    algorithm: Algorithm
    training: Training = "ours"
    rounds: int = 10
    accuracy: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


@dataclass(eq=False)
class _Group:
    """The clients of one cluster in one run, and the current weights of their model.

    `indices` has the position of each client among all clients of the run. `own_layers` has the
    weights of the layers that stay with each client, and is None for FedAvg. `train` has the
    training rows.
    """

    run: Run
    indices: dict[str, int]
    rounds: Iterator[GroupRound]
    weights: Tensor
    own_layers: dict[str, Tensor] | None
    train: Rows

    def weights_of(self, name: str, personal: Tensor) -> Tensor:
        """The weights of a client's model; `personal` marks those of its own layers."""
        if not self.own_layers or name not in self.own_layers:
            return self.weights
        weights = self.weights.clone()
        weights[personal] = self.own_layers[name]
        return weights


def run_all(runs: Sequence[Run], device: torch.device) -> None:
    """Train all runs and set their accuracies; they have the same dataset and network."""
    data, model = runs[0].setting.data, _model(runs[0])
    dataset, tests = (TensorDataset.of(*pixels(data, split), device) for split in _SPLITS)
    network = build(model, dataset.X.shape[1], 10)
    personal = torch.as_tensor(network.personal_mask, device=device)
    groups = [group for run in runs for group in _groups(run, model, device, personal)]
    augment = _shift_and_mirror if data == "cifar10" else None
    while next_rounds := _next_rounds(groups):
        for together in _fit_into_memory(next_rounds):
            _run_round(network, dataset, personal, together, augment)
    for group in groups:
        rows = client_rows(group.run)[1]
        for name, index in group.indices.items():
            weights = group.weights_of(name, personal)
            group.run.accuracy[index] = correct_mask(network, tests, weights, rows[name]).mean()


def client_rows(run: Run) -> tuple[Rows, Rows]:
    """The training rows and the test rows of each client."""
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


def _schedule(run: Run, members: Sequence[str], label: int) -> Iterator[GroupRound]:
    """The rounds of a group; with "draws" the clients that train are those of the authors' code."""
    options = TrainingOptions(run.algorithm, rounds=run.rounds, seed=run.setting.seed)
    rounds = schedule(options, members, label)
    if run.training != "draws":
        return rounds
    chosen = [tuple(map(_name, clients)) for clients in _authors_draws(run.setting).rounds]
    return (one if one.closing else replace(one, ranking=chosen[one.number - 1]) for one in rounds)


def _model(run: Run) -> str:
    if run.setting.data == "cifar10":
        return "cnn"
    return "mlp" if run.training == "ours" else f"{__name__}:softmax_mlp"


def _groups(run: Run, model: str, device: torch.device, personal: Tensor) -> Iterator[_Group]:
    rows, _ = client_rows(run)
    names = list(rows)
    seed, features = run.setting.seed, pixels(run.setting.data, "train")[0].shape[1]
    initial = torch.as_tensor(build(model, features, 10, seed).initial_weights(), device=device)
    run.accuracy = np.zeros(len(names))
    for label in sorted(set(run.labels)):
        indices = {names[k]: k for k, other in enumerate(run.labels) if other == label}
        own_layers: dict[str, Tensor] | None = None
        if run.algorithm != "fedavg":
            copies_initial = run.training in ("ours", "softmax")
            own_layers = dict.fromkeys(indices, initial[personal]) if copies_initial else {}
        rounds = _schedule(run, list(indices), label)
        yield _Group(run, indices, rounds, initial, own_layers, rows)


def _next_rounds(groups: Sequence[_Group]) -> list[tuple[_Group, GroupRound]]:
    """The next round of each group that has one."""
    rounds = ((group, next(group.rounds, None)) for group in groups)
    return [(group, one) for group, one in rounds if one is not None]


def _fit_into_memory(
    rounds: Sequence[tuple[_Group, GroupRound]],
) -> Iterator[list[tuple[_Group, GroupRound]]]:
    """Divide rounds into lists that train together: they have the same phases and at most
    `_MAX_NETWORKS` networks. Groups of runs with few clients, so with large ones, come first."""
    for phases in sorted({one.phases for _, one in rounds}):
        same = [(group, one) for group, one in rounds if one.phases == phases]
        together: list[tuple[_Group, GroupRound]] = []
        for group, one in sorted(same, key=lambda pair: pair[0].run.setting.clients):
            if sum(other.count for _, other in together) + one.count > _MAX_NETWORKS:
                yield together
                together = []
            together.append((group, one))
        yield together


def _run_round(
    network: Network,
    dataset: TensorDataset,
    personal: Tensor,
    rounds: Sequence[tuple[_Group, GroupRound]],
    augment: Augment | None,
) -> None:
    """Run one round of some groups, all with the same phases."""
    trainers = [
        (group, name, one.number) for group, one in rounds for name in one.ranking[: one.count]
    ]
    tasks = [
        Task(
            group.weights_of(name, personal),
            group.train[name],
            client_seed(group.run.setting.seed, number, group.indices[name]),
        )
        for group, name, number in trainers
    ]
    phases = tuple(Phase(*phase) for phase in rounds[0][1].phases)  # type: ignore[arg-type]
    # It halves the time of convolutions.
    half_precision = dataset.X.is_cuda and augment is not None
    trained = train(network, dataset, tasks, SGDOptions(phases), True, augment, half_precision)
    weights: dict[int, list[Tensor]] = {}  # by group
    for (group, name, _), result in zip(trainers, trained, strict=True):
        if group.own_layers is not None:
            group.own_layers[name] = result.weights[personal]
        weights.setdefault(id(group), []).append(result.weights)
    for group, one in rounds:
        if not one.closing:  # all clients have the same weight, as in the authors' code
            group.weights = torch.stack(weights.pop(id(group))).mean(0)


def softmax_mlp(features: int, classes: int) -> nn.Module:
    """The MLP as in the authors' code: it ends in a softmax, although the cross-entropy that
    follows expects logits."""
    return nn.Sequential(
        OrderedDict([*mlp(features, classes).named_children(), ("softmax", nn.Softmax(1))])
    )


def _shift_and_mirror(x: Tensor, rng: torch.Generator) -> Tensor:
    """Images (M, batch, pixels) shifted by up to four pixels in each direction, with zeros at the
    edges, and half of them mirrored."""
    side, padded_side = _IMAGE_SIDE, _IMAGE_SIDE + 2 * _PADDING
    images = x.reshape(-1, side, side, 3)
    count, device = len(images), x.device
    padded = x.new_zeros((count, padded_side, padded_side, 3))
    padded[:, _PADDING : _PADDING + side, _PADDING : _PADDING + side] = images
    offsets = torch.arange(side, device=device)
    shift = torch.randint(2 * _PADDING + 1, (2, count, 1), device=device, generator=rng)
    mirrored = torch.rand((count, 1), device=device, generator=rng) < 0.5
    rows = shift[0] + offsets
    columns = shift[1] + torch.where(mirrored, side - 1 - offsets, offsets)
    image = torch.arange(count, device=device)[:, None, None]
    return padded[image, rows[:, :, None], columns[:, None, :]].reshape(x.shape)
