"""Federated learning in clusters of sites with similar data, the paper's largest table.

One model for all sites ("vanilla") is compared with one model for each of five clusters. Clusters
come from the paper's distances with its three ways to cluster, from our distances with one message
per site, or are the true groups if there are any. The column "way" of a row has the name of the
clustering. Without a CUDA device only MNIST with 20 clients is measured. With one, the paper's
distances are computed for all pairs at once, with an entropic solver instead of an exact one.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
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
    clusterings,
    distances,
    partitions,
    rand_index,
)
from fedwad.experiments._experiment import Experiment, Row, Settings, has_cuda
from fedwad.learning import Algorithm

if TYPE_CHECKING:
    from fedwad.experiments._boosting_training import Training

__all__ = ["ALGORITHMS", "EXPERIMENT"]

ALGORITHMS: tuple[Algorithm, ...] = ("fedavg", "fedrep", "fedper")
_STRUCTURES: tuple[Structure, ...] = ("groups", "none")
_SEEDS = {"mnist": 5, "cifar10": 3}  # numbers of seeds
_CLIENTS = (10, 20, 40, 100)
#: Of the paper's distances. Tasks with the first also measure vanilla, the true groups and ours.
_SUPPORTS = (10, 100)
#: Trainings as in the authors' code: a dataset, its numbers of clients, and the values of
#: `Training` and `Structure`.
_AUTHORS_CASES: tuple[tuple[str, tuple[int, ...], Training, Structure], ...] = (
    ("mnist", (20,), "softmax", "groups"),
    ("mnist", (10, 20), "authors", "groups"),
    ("mnist", (10, 20), "authors", "drawn"),
    ("cifar10", (10, 20, 40, 100), "authors", "drawn"),
    ("mnist", _CLIENTS, "draws", "groups"),
    ("mnist", _CLIENTS, "draws", "drawn"),
    ("cifar10", _CLIENTS, "draws", "groups"),
    ("cifar10", _CLIENTS, "draws", "drawn"),
)
_AUTHORS_SEEDS = 5  # number of the seeds of the authors' own runs, for "draws"


def _tasks(quick: bool) -> list[Settings]:
    if quick:
        small = {"data": "mnist", "clients": 10, "seed": 0, "support": 10}
        small |= {"samples": 200, "rounds": 3, "training": "ours"}
        return [small | {"structure": structure} for structure in _STRUCTURES]
    cases = [
        (data, clients, structure, seed, support, "ours")
        for data, seeds in _SEEDS.items()
        for clients, support, structure in product(_CLIENTS, _SUPPORTS, _STRUCTURES)
        for seed in range(seeds)
    ]
    cases += [
        (data, clients, structure, seed, 10, training)
        for data, counts, training, structure in _AUTHORS_CASES
        for clients in counts
        for seed in range(_AUTHORS_SEEDS if training == "draws" else _SEEDS[data])
    ]
    fields = "data", "clients", "structure", "seed", "support", "training"
    return [dict(zip(fields, case, strict=True)) for case in cases]


def _measure(support: int, training: Training, rounds: int = 10, **fields: Any) -> list[Row]:
    if find_spec("torch") is None:
        raise InputError("The experiment boosting needs PyTorch; run: pip install 'fedwad[learn]'.")
    setting = Setting(**fields)
    to_train, to_compare = _clusterings(setting, support, training)
    rows = _train(setting, to_train, training, rounds)
    if setting.structure == "groups" and training == "ours":
        rows += [
            {"way": way, "ARI": rand_index(setting, labels)} for way, labels in to_compare.items()
        ]
    return rows


def _clusterings(
    setting: Setting, support: int, training: Training
) -> tuple[dict[str, NDArray[np.int64]], dict[str, NDArray[np.int64]]]:
    """Cluster labels of the clients, by the name of each clustering: clusterings to train in, and
    clusterings that are only compared with the true groups."""
    to_train = {"vanilla": np.zeros(setting.clients, dtype=np.int64)}
    if training in ("softmax", "draws"):
        return to_train, {}
    method: Distances = "paper 10" if support == 10 else "paper 100"
    paper = clusterings(setting, method, distances(setting, method, on_gpu=has_cuda()))
    if training == "authors":
        return to_train | {f"{method} affinity": paper[f"{method} affinity"]}, {}
    to_compare = {f"{method} kernel": paper.pop(f"{method} kernel")}
    if support != 10:
        return paper, to_compare
    if setting.structure == "groups":
        to_train["true groups"] = partitions(setting)[0].groups
    ours = clusterings(setting, "summary", distances(setting, "summary"))
    to_train["ours"] = ours.pop("ours")
    return to_train | paper, to_compare | ours


def _train(
    setting: Setting, ways: Mapping[str, NDArray[np.int64]], training: Training, rounds: int
) -> list[Row]:
    """A row for each clustering and algorithm; equal clusterings are trained once."""
    from fedwad.experiments._boosting_training import Run, client_rows, run_all
    from fedwad.learning.local.networks import fastest_device

    runs: dict[tuple[tuple[int, ...], Algorithm], Run] = {}
    cases = []
    for way, labels in ways.items():
        codes = tuple(np.unique(labels, return_inverse=True)[1].tolist())
        for algorithm in ALGORITHMS:
            new = Run(setting, codes, algorithm, training, rounds)
            cases.append((way, algorithm, runs.setdefault((codes, algorithm), new)))
    run_all(list(runs.values()), fastest_device())
    _, test_rows = client_rows(cases[0][2])
    test_sizes = np.array([len(rows) for rows in test_rows.values()])
    has_groups = setting.structure == "groups" and training != "draws"
    return [
        {
            "way": way,
            "algorithm": algorithm,
            **_accuracies(run.accuracy, test_sizes, np.array(run.labels)),
            **({"ARI": rand_index(setting, ways[way])} if has_groups else {}),
        }
        for way, algorithm, run in cases
    ]


def _accuracies(
    accuracy: NDArray[np.float64], sizes: NDArray[np.int64], labels: NDArray[np.int64]
) -> Row:
    """Accuracies in percent: over all test samples, the lowest of a client, and the mean over
    clusters; `sizes` are the numbers of test samples."""
    clusters = [labels == label for label in np.unique(labels)]
    by_cluster = [np.average(accuracy[chosen], weights=sizes[chosen]) for chosen in clusters]
    means = {
        "accuracy": np.average(accuracy, weights=sizes),
        "worst client": accuracy.min(),
        "mean of clusters": np.mean(by_cluster),
    }
    return {name: round(100 * float(value), 2) for name, value in means.items()}


def _skip_reason(
    data: str, clients: int, training: Training, samples: int | None = None, **_: Any
) -> str | None:
    """Without a GPU a task takes a quarter of an hour or more, and all would take weeks."""
    if samples is not None or (data, clients, training) == ("mnist", 20, "ours") or has_cuda():
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
    _skip_reason,
)
