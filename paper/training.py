"""All trainings of the experiment `boosting` at once.

One round of all runs trains their networks together: on a GPU as stacks, in which a step is one
batched product instead of many small ones. The schedule of rounds is that of `fedwad.learning`. A
client is a set of rows of one dataset. The last part draws the random numbers of the authors' code.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad.learning import Algorithm, TrainingOptions
from fedwad.learning.training import GroupRound, client_seed, schedule
from paper.boosting import Setting, partitions, pixels

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from fedwad.learning.local import Network, SGDOptions, Task, TensorDataset, TrainedNetwork

    #: Data augmentation: a function of samples (M, batch, d) of M networks and of a random
    #: generator, which returns changed samples.
    Augment = Callable[[Tensor, torch.Generator], Tensor]


#: The rows of each client.
Rows = dict[str, NDArray[np.int64]]

#: "ours": networks that give logits; a client's own layer starts from the initial weights.
#: "softmax": the same with the authors' MLP. "authors": their MLP, and a client that has not
#: trained yet has the mean of the others' own layers, as in their code, which does not copy the
#: initial weights. "draws": as "authors", with the rows of each client and the clients of each
#: round that their code draws.
Training = Literal["ours", "softmax", "authors", "draws"]

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
    import torch

    from fedwad.learning.local import TensorDataset, build, predicted_classes

    data, model = runs[0].setting.data, _model(runs[0])
    dataset, tests = (TensorDataset.of(*pixels(data, split), device) for split in _SPLITS)
    network = build(model, dataset.X.shape[1], 10)
    personal = torch.as_tensor(network.personal_mask, device=device)
    groups = [group for run in runs for group in _groups(run, model, device, personal)]
    augment = _shift_and_mirror if data == "cifar10" else None
    while next_rounds := _next_rounds(groups):
        for phases in sorted({one.phases for _, one in next_rounds}):
            same = [(group, one) for group, one in next_rounds if one.phases == phases]
            _run_round(network, dataset, personal, same, augment)
    labels = tests.y.cpu().numpy()
    for group in groups:
        rows = client_rows(group.run)[1]
        for name, index in group.indices.items():
            weights = group.weights_of(name, personal)
            predicted = predicted_classes(network, tests, weights, rows[name])
            group.run.accuracy[index] = (predicted == labels[rows[name]]).mean()


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
    options = TrainingOptions(
        run.algorithm, rounds=run.rounds, fraction_train=0.1, seed=run.setting.seed
    )
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
    import torch

    from fedwad.learning.local import build

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


def _run_round(
    network: Network,
    dataset: TensorDataset,
    personal: Tensor,
    rounds: Sequence[tuple[_Group, GroupRound]],
    augment: Augment | None,
) -> None:
    """Run one round of some groups, all with the same phases."""
    import torch

    from fedwad.learning.local import Phase, SGDOptions, Task, train

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
    options = SGDOptions(phases)
    if dataset.X.is_cuda or augment is not None:
        trained = _train_in_memory(network, dataset, tasks, options, augment)
    else:
        trained = train(network, dataset, tasks, options)
    weights: dict[int, list[Tensor]] = {}  # by group
    for (group, name, _), result in zip(trainers, trained, strict=True):
        if group.own_layers is not None:
            group.own_layers[name] = result.weights[personal]
        weights.setdefault(id(group), []).append(result.weights)
    for group, one in rounds:
        if not one.closing:  # all clients have the same weight, as in the authors' code
            group.weights = torch.stack(weights.pop(id(group))).mean(0)


def _train_in_memory(
    network: Network,
    dataset: TensorDataset,
    tasks: Sequence[Task],
    options: SGDOptions,
    augment: Augment | None,
) -> list[TrainedNetwork]:
    """Train in as few stacks as half of a GPU's free memory holds, with tasks of similar size."""
    import torch

    size, device = len(tasks), dataset.X.device
    if dataset.X.is_cuda:
        free, _ = torch.cuda.mem_get_info(device)
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        # Weights, gradients and momentum, and two more copies while networks are joined.
        size = max(1, int(free / 2 / (4 * network.size * 5)))
    ranked = sorted(range(len(tasks)), key=lambda index: -len(tasks[index].rows))
    trained: dict[int, TrainedNetwork] = {}
    # Half precision halves the time of convolutions.
    half_precision = dataset.X.is_cuda and augment is not None
    for start in range(0, len(ranked), size):
        chosen = ranked[start : start + size]
        stack = [tasks[index] for index in chosen]
        found = train_stack(network, dataset, stack, options, augment, half_precision)
        trained |= zip(chosen, found, strict=True)
    return [trained[index] for index in range(len(tasks))]


def train_stack(
    network: Network,
    dataset: TensorDataset,
    tasks: Sequence[Task],
    options: SGDOptions,
    augment: Augment | None = None,
    half_precision: bool = False,
) -> list[TrainedNetwork]:
    """Train one network for each task, all at once, with the gradients of `torch.func.vmap`.

    The weights of M networks are stacked, W: (M, out, in). Results differ from training one by one
    only by rounding. Tasks with fewer batches finish an epoch earlier; tasks are sorted by their
    number of samples, so that those that still have batches are always the first of the stack.

    Parameters
    ----------
    augment : data augmentation, in phases in which shared layers learn. Its random numbers depend
        on which networks are stacked.
    half_precision : keep weights in float32 and compute in bfloat16, which is faster on a GPU and
        has two to three significant digits
    """
    import torch

    from fedwad.learning.local import TrainedNetwork, learning_parameters

    device = dataset.X.device
    network.module.to(device).train()
    ranked = sorted(range(len(tasks)), key=lambda index: -len(tasks[index].rows))
    sorted_tasks = [tasks[index] for index in ranked]
    flat = torch.stack([task.weights.to(device) for task in sorted_tasks])
    weights = {name: value.contiguous() for name, value in network.tensors(flat).items()}
    steps = np.array([-(-len(task.rows) // options.batch_size) for task in sorted_tasks])
    losses, epoch = np.full(len(tasks), np.nan), 0  # NaN also if the training diverged
    for phase in options.phases:
        learning = learning_parameters(network, phase.layers)
        step = _stacked_step(network.module, weights, learning, options, half_precision)
        generator = torch.Generator(device).manual_seed(sorted_tasks[0].seed + epoch)
        for _ in range(phase.epochs):
            rows, row_weights = _batches(sorted_tasks, epoch, options.batch_size, device)
            total = torch.zeros(len(tasks), device=device)
            for batch in range(steps[0]):
                active = int(np.searchsorted(-steps, -batch))  # tasks with more batches
                chosen = rows[batch, :active]
                x = dataset.X[chosen]
                if augment is not None and phase.layers != "personal":
                    x = augment(x, generator)
                total[:active] += step(x, dataset.y[chosen], row_weights[batch, :active])
            losses = total.double().cpu().numpy() / steps
            epoch += 1
    vectors = torch.cat([weights[name].flatten(1) for name in network.names], dim=1)
    trained = {
        index: TrainedNetwork(vector, float(loss) if epoch else None)
        for index, vector, loss in zip(ranked, vectors, losses, strict=True)
    }
    return [trained[index] for index in range(len(tasks))]


def _stacked_step(
    module: nn.Module,
    weights: dict[str, Tensor],
    learning: Sequence[str],
    options: SGDOptions,
    half_precision: bool,
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A function of samples (A, batch, ...), labels (A, batch) and row weights (A, batch), which
    moves the weights of the first A networks by one step and returns the loss of each."""
    import torch
    from torch.func import functional_call, grad_and_value, vmap
    from torch.optim.sgd import sgd

    momentum = {name: torch.zeros_like(weights[name]) for name in learning}

    def loss(
        moving: dict[str, Tensor], fixed: dict[str, Tensor], x: Tensor, y: Tensor, weight: Tensor
    ) -> Tensor:
        values = moving | fixed
        if half_precision:
            values, x = {name: value.bfloat16() for name, value in values.items()}, x.bfloat16()
        logits = functional_call(module, values, (x,)).float()
        return -(torch.log_softmax(logits, 1).gather(1, y[:, None])[:, 0] * weight).sum()

    gradient = vmap(grad_and_value(loss))

    def step(x: Tensor, y: Tensor, row_weight: Tensor) -> Tensor:
        first = {name: value[: len(x)] for name, value in weights.items()}
        moving = {name: first[name] for name in momentum}
        fixed = {name: value for name, value in first.items() if name not in momentum}
        gradients, losses = gradient(moving, fixed, x, y, row_weight)
        sgd(
            list(moving.values()),
            [gradients[name] for name in moving],
            [momentum[name][: len(x)] for name in moving],
            fused=True,
            weight_decay=0.0,
            momentum=options.momentum,
            lr=options.learning_rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        return losses  # type: ignore[no-any-return]

    return step


def _batches(
    tasks: Sequence[Task], epoch: int, batch_size: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The rows of each batch, (steps, M, batch), and the weight of each in the mean of its batch.

    Where a task has no row left, its first row fills the batch, with weight zero.
    """
    import torch

    from fedwad.learning.local import epoch_rows

    steps = -(-len(tasks[0].rows) // batch_size)
    rows = np.empty((len(tasks), steps * batch_size), dtype=np.int64)
    weights = np.zeros(rows.shape, dtype=np.float32)
    for index, task in enumerate(tasks):
        count, full = len(task.rows), len(task.rows) // batch_size * batch_size
        rows[index, :count], rows[index, count:] = epoch_rows(task, epoch), task.rows[0]
        weights[index, :full], weights[index, full:count] = 1 / batch_size, 1 / max(count - full, 1)
    shape = len(tasks), steps, batch_size
    by_step = (
        torch.as_tensor(array, device=device).reshape(shape).transpose(0, 1)
        for array in (rows, weights)
    )
    return next(by_step), next(by_step)


def softmax_mlp(features: int, classes: int) -> nn.Module:
    """The MLP as in the authors' code: it ends in a softmax, although the cross-entropy that
    follows expects logits."""
    from torch import nn

    from fedwad.learning.local import mlp

    return nn.Sequential(
        OrderedDict([*mlp(features, classes).named_children(), ("softmax", nn.Softmax(1))])
    )


def _shift_and_mirror(x: Tensor, rng: torch.Generator) -> Tensor:
    """Images (M, batch, pixels) shifted by up to four pixels in each direction, with zeros at the
    edges, and half of them mirrored."""
    import torch

    side, padding = 32, 4
    padded_side = side + 2 * padding
    images = x.reshape(-1, side, side, 3)
    count, device = len(images), x.device
    padded = x.new_zeros((count, padded_side, padded_side, 3))
    padded[:, padding : padding + side, padding : padding + side] = images
    offsets = torch.arange(side, device=device)
    shift = torch.randint(2 * padding + 1, (2, count, 1), device=device, generator=rng)
    mirrored = torch.rand((count, 1), device=device, generator=rng) < 0.5
    rows = shift[0] + offsets
    columns = shift[1] + torch.where(mirrored, side - 1 - offsets, offsets)
    image = torch.arange(count, device=device)[:, None, None]
    return padded[image, rows[:, :, None], columns[:, None, :]].reshape(x.shape)


# Which rows clients hold and which clients train in the authors' own runs. Their code seeds NumPy
# once, so its partitions and the clients of each round follow from the seed, 0 to 4. Here the same
# random numbers are drawn in the same order. Their code is at
# https://github.com/arakotom/fedwad, in `fedavg_expe.py`, `fedavg_dataset.py` and
# `fedrep/utils/sampling.py`. It treats clients with fewer than 100 samples in a different way; no
# dataset of the paper has such clients, so that part is left out.

#: The rows of each client, by its number.
_Rows = dict[int, NDArray[np.int64]]

_CLASSES, _SHARDS_PER_CLIENT = 10, 2
_CLASS_PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))


@dataclass(frozen=True, eq=False)
class AuthorsDraws:
    """_Rows of each client in the training and the test split, and the clients of each round."""

    train: _Rows
    test: _Rows
    rounds: tuple[tuple[int, ...], ...]


def authors_draws(
    train: NDArray[Any],
    test: NDArray[Any],
    clients: int,
    structure: Literal["groups", "drawn"],
    seed: int,
    rounds: int = 10,
) -> AuthorsDraws:
    """The draws for the labels of both splits.

    Clients hold one pair of classes each ("groups") or two random shards each ("drawn").
    """
    rng = np.random.RandomState(seed)
    for _ in range(2):  # their script divides into shards twice before it reads the setting
        splits = _divide_into_shards(train, test, clients, rng)
    if structure == "groups":
        pairs = _draw_pairs(clients, rng)
        splits = _divide_by_pairs(train, pairs, rng), _divide_by_pairs(test, pairs, rng)
    else:
        splits = _divide_into_shards(train, test, clients, rng)
    count = max(clients // 10, 1)
    trainers = [rng.choice(range(clients), count, replace=False).tolist() for _ in range(rounds)]
    return AuthorsDraws(*splits, tuple(map(tuple, trainers)))


def _divide_into_shards(
    train: NDArray[Any], test: NDArray[Any], clients: int, rng: np.random.RandomState
) -> tuple[_Rows, _Rows]:
    """Both splits, with two shards of random classes for each client."""
    shuffled = list(range(_CLASSES)) * (_SHARDS_PER_CLIENT * clients // _CLASSES)
    rng.shuffle(shuffled)
    classes = np.array(shuffled).reshape(clients, _SHARDS_PER_CLIENT)
    return _draw_shards(train, classes, rng), _draw_shards(test, classes, rng)


def _draw_shards(
    labels: NDArray[Any], classes: NDArray[np.int64], rng: np.random.RandomState
) -> _Rows:
    """Divide each class into equal shards, in the order of its samples; then each client draws a
    shard of each of its classes."""
    per_class = classes.size // _CLASSES
    left: dict[int, list[NDArray[np.int64]]] = {}  # shards that no client has drawn yet
    for label in range(_CLASSES):
        rows = np.flatnonzero(labels == label)
        even = len(rows) - len(rows) % per_class
        shards = list(rows[:even].reshape(per_class, -1))
        for index, row in enumerate(rows[even:]):
            shards[index] = np.append(shards[index], row)
        left[label] = shards
    return {
        client: np.concatenate(
            [
                left[label].pop(int(rng.choice(len(left[label]), replace=False)))
                for label in own_classes
            ]
        )
        for client, own_classes in enumerate(classes)
    }


def _draw_pairs(clients: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """The index of each client's pair of classes: each pair twice, the rest at random."""
    count = len(_CLASS_PAIRS)
    more = rng.randint(0, count, (clients - 2 * count,))
    pairs = np.concatenate([np.repeat(np.arange(count), 2), more])
    rng.shuffle(pairs)  # without effect on the result, but it draws random numbers
    return np.sort(pairs)


def _divide_by_pairs(
    labels: NDArray[Any], pairs: NDArray[np.int64], rng: np.random.RandomState
) -> _Rows:
    """Divide each class evenly among the clients that hold it."""
    result: _Rows = {client: np.zeros(0, dtype=np.int64) for client in range(len(pairs))}
    for label in range(_CLASSES):
        rows = np.flatnonzero(labels == label)
        rows = rows[rng.permutation(len(rows))]
        holders = [client for client in result if label in _CLASS_PAIRS[pairs[client]]]
        sizes = [len(rows) // len(holders)] * len(holders)
        sizes[-1] += len(rows) - sum(sizes)
        rng.shuffle(sizes)
        for client, part in zip(holders, np.split(rows, np.cumsum(sizes)[:-1]), strict=True):
            joined = np.concatenate([result[client], part])
            result[client] = joined[rng.permutation(len(joined))]
    return result
