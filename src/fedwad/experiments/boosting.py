"""Federated learning in clusters of sites with similar data, the paper's largest table.

One model for all sites ("vanilla") is compared with training inside five clusters: those of the
paper's distances with its three ways to cluster, those of our one message per site, and the true
groups where there are some. The trainings of a task run in lockstep. Without a CUDA device only
MNIST with 20 clients is measured. With one, the paper's distances are computed for all pairs at
once, with an entropic solver instead of an exact one.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.experiments._boosting_claims import draw, judge
from fedwad.experiments._boosting_setting import (
    Distances,
    Setting,
    Structure,
    agreement,
    clusterings,
    distances,
    divided,
)
from fedwad.experiments._experiment import Experiment, Row, Settings
from fedwad.learning import Algorithm

if TYPE_CHECKING:
    from fedwad.experiments._boosting_training import Training

__all__ = ["ALGORITHMS", "EXPERIMENT"]

ALGORITHMS: tuple[Algorithm, ...] = ("fedavg", "fedrep", "fedper")
_STRUCTURES: tuple[Structure, ...] = ("groups", "none")
_SEEDS = {"mnist": 5, "cifar10": 3}
_CLIENTS = (10, 20, 40, 100)
_SUPPORTS = (10, 100)  # vanilla, true groups and ours are measured with the first
#: Trained as the authors' code does: a dataset, its numbers of clients, how, and with which
#: structure.
_AS_THEIRS: tuple[tuple[str, tuple[int, ...], Training, Structure], ...] = (
    ("mnist", (20,), "softmax", "groups"),
    ("mnist", (10, 20), "authors", "groups"),
    ("mnist", (10, 20), "authors", "drawn"),
    ("cifar10", (10, 20, 40, 100), "authors", "drawn"),
    ("mnist", _CLIENTS, "draws", "groups"),
    ("mnist", _CLIENTS, "draws", "drawn"),
    ("cifar10", _CLIENTS, "draws", "groups"),
    ("cifar10", _CLIENTS, "draws", "drawn"),
)
_THEIR_SEEDS = 5  # the authors' own, for "draws"


def _tasks(quick: bool) -> list[Settings]:
    if quick:
        small = {"data": "mnist", "clients": 10, "seed": 0, "support": 10}
        small |= {"samples": 200, "rounds": 3, "training": "ours"}
        return [small | {"structure": structure} for structure in _STRUCTURES]
    table = [
        _task(data, clients, structure, seed, support, "ours")
        for data, seeds in _SEEDS.items()
        for clients, support, structure in product(_CLIENTS, _SUPPORTS, _STRUCTURES)
        for seed in range(seeds)
    ]
    theirs = [
        _task(data, clients, structure, seed, 10, training)
        for data, counts, training, structure in _AS_THEIRS
        for clients, seed in product(
            counts, range(_THEIR_SEEDS if training == "draws" else _SEEDS[data])
        )
    ]
    return table + theirs


def _task(
    data: str, clients: int, structure: Structure, seed: int, support: int, training: Training
) -> Settings:
    return {
        "data": data,
        "clients": clients,
        "structure": structure,
        "seed": seed,
        "support": support,
        "training": training,
    }


def _measure(support: int, training: Training, rounds: int = 10, **setting_of: Any) -> list[Row]:
    setting = Setting(**setting_of)
    ways, others = _clusterings(setting, support, training, at_once=_cuda())
    rows = _trained(setting, ways, training, rounds)
    if setting.structure == "groups" and training == "ours":
        rows += [{"way": way, "ARI": agreement(setting, labels)} for way, labels in others.items()]
    return rows


def _clusterings(
    setting: Setting, support: int, training: Training, at_once: bool
) -> tuple[dict[str, NDArray[np.int64]], dict[str, NDArray[np.int64]]]:
    """Labels of clients by the name of each way: those to train in, and others that are only held
    against the truth."""
    ways = {"vanilla": np.zeros(setting.clients, dtype=np.int64)}
    if training in ("softmax", "draws"):
        return ways, {}
    paper: Distances = "paper 10" if support == 10 else "paper 100"
    found = clusterings(setting, paper, distances(setting, paper, at_once))
    if training == "authors":
        return ways | {f"{paper} affinity": found[f"{paper} affinity"]}, {}
    others = {f"{paper} kernel": found.pop(f"{paper} kernel")}
    if support != 10:
        return found, others
    if setting.structure == "groups":
        ways["true groups"] = divided(setting)[0].groups
    ours = clusterings(setting, "summary", distances(setting, "summary"))
    ways["ours"] = ours.pop("ours")
    return ways | found, others | ours


def _trained(
    setting: Setting, ways: Mapping[str, NDArray[np.int64]], training: Training, rounds: int
) -> list[Row]:
    """A row for each way and algorithm; equal clusterings are trained once."""
    from fedwad.experiments._boosting_training import Run, rows_of, run_all
    from fedwad.learning.local.networks import device

    runs: dict[tuple[tuple[int, ...], Algorithm], Run] = {}
    named = []
    for way, labels in ways.items():
        same = tuple(np.unique(labels, return_inverse=True)[1].tolist())
        for algorithm in ALGORITHMS:
            run = runs.setdefault(
                (same, algorithm), Run(setting, same, algorithm, training, rounds)
            )
            named.append((way, algorithm, run))
    run_all(list(runs.values()), device())
    sizes = np.array([len(rows) for rows in rows_of(named[0][2])[1].values()])
    grouped = setting.structure == "groups" and training != "draws"
    return [
        {
            "way": way,
            "algorithm": algorithm,
            **_accuracies(run.accuracy, sizes, np.array(run.labels)),
            **({"ARI": agreement(setting, ways[way])} if grouped else {}),
        }
        for way, algorithm, run in named
    ]


def _accuracies(
    accuracy: NDArray[np.float64], sizes: NDArray[np.int64], labels: NDArray[np.int64]
) -> Row:
    """In percent: over all test samples, of the client that fares worst, and with each cluster
    counting the same."""
    by_cluster = [
        np.average(accuracy[labels == one], weights=sizes[labels == one])
        for one in np.unique(labels)
    ]
    means = {
        "accuracy": np.average(accuracy, weights=sizes),
        "worst client": accuracy.min(),
        "mean of clusters": np.mean(by_cluster),
    }
    return {name: round(100 * float(value), 2) for name, value in means.items()}


def _cuda() -> bool:
    try:
        import torch
    except ImportError:
        raise InputError(
            "The experiment boosting needs PyTorch; run: pip install 'fedwad[learn]'."
        ) from None
    return torch.cuda.is_available()


def _leaves_out(
    data: str, clients: int, training: Training, samples: int | None = None, **_: Any
) -> str | None:
    """A core would need weeks for all: a quarter of an hour and more for each task."""
    if samples is not None or (data, clients, training) == ("mnist", 20, "ours") or _cuda():
        return None
    return "without a CUDA device only MNIST with 20 clients is trained."


EXPERIMENT = Experiment(
    "boosting",
    "FedAvg, FedRep and FedPer in clusters of similar clients",
    _tasks,
    _measure,
    draw,
    judge,
    ("mnist", "cifar10"),
    _leaves_out,
)
