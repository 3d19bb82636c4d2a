"""`train`: FedAvg, FedRep and FedPer inside each group of sites, over any federation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._matrix.api import Progress
from fedwad.errors import InputError
from fedwad.federation import (
    DescribeRequest,
    Description,
    Federation,
    LabelName,
    Labels,
    LabelsRequest,
    MeteredFederation,
    as_federation,
    choose_sites,
)
from fedwad.learning._options import Algorithm, TrainingOptions
from fedwad.learning._result import TrainingResult
from fedwad.learning._server import Server

if TYPE_CHECKING:
    from fedwad.learning.local.networks import Network

__all__ = ["train", "train_with"]


def train(
    fed: Federation | Mapping[str, Any],
    options: TrainingOptions | Algorithm = "fedavg",
    *,
    groups: Any = None,
    classes: Sequence[Any] | None = None,
    clients: Sequence[str] | None = None,
    callback: Callable[[Progress], None] | None = None,
    **keywords: Any,
) -> TrainingResult:
    """Train a classifier on the data of many sites, with one model for each group of sites.

    Rows stay at their sites. Trained weights reveal something about the rows, and training gives no
    privacy guarantee.

    Parameters
    ----------
    fed : a federation, or a mapping from names to (X, y), which become local clients
    options : a `TrainingOptions`, or the name of an algorithm: "fedavg", "fedrep" or "fedper"
    groups : a label for each client, as `fedwad.matrix(...).cluster(...)` gives them, or a mapping
        from names to labels; all clients are one group by default
    classes : names of all classes; clients are asked for them by default
    clients : names of the clients to train with; all by default
    callback : called with a `Progress` before each round and after the last
    **keywords : fields of `TrainingOptions`, such as `rounds`, `learning_rate` or `seed`

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> data = {f"site{k}": (rng.normal(size=(60, 3)) + 4 * y[:, None], y) for k in range(3)}
    >>> train(data, rounds=2, fraction_train=1.0, learning_rate=0.05)
    <fedavg on 3 sites in 1 group: accuracy 100.0%, majority class 50.0%>
    """
    return train_with(
        fed,
        TrainingOptions.of(options, keywords),
        groups=groups,
        classes=classes,
        clients=clients,
        callback=callback,
    )


def train_with(
    fed: Federation | Mapping[str, Any],
    options: TrainingOptions,
    *,
    groups: Any = None,
    classes: Sequence[Any] | None = None,
    clients: Sequence[str] | None = None,
    callback: Callable[[Progress], None] | None = None,
    equal_weights: bool = False,
    test_every_round: bool = True,
) -> TrainingResult:
    """`train`, with two more options for experiments.

    With `equal_weights` models are averaged without regard to numbers of samples, as in the code of
    the paper's authors. Without `test_every_round` clients test after the last round only.
    """
    federation = as_federation(fed)
    names = choose_sites(federation, clients, "training")
    group_of = _check_groups(groups, names)
    metered = MeteredFederation(federation)
    descriptions = _describe_sites(metered, names)
    features = next(iter(descriptions.values())).features
    if classes is None:
        classes = _ask_class_names(metered, descriptions)
    else:  # as plain types, also if they come from an array such as np.unique(y)
        classes = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
    network = _build_network(options, features, len(classes))
    personal = tuple(name for name in network.names if name in network.personal_names)
    server = Server(
        metered,
        options,
        group_of,
        initial_weights=network.initial_weights()[~network.personal_mask],
        common_fields={
            "run": os.urandom(8).hex(),
            "model": options.model,
            "personal_layers": personal,
            "classes": classes,
            "init_seed": options.seed,
            "test_size": options.test_size,
            "split_seed": options.seed,
        },
        equal_weights=equal_weights,
        callback=callback or (lambda _: None),
    )
    server.run(test_every_round)
    return _make_result(server, options, features)


def _make_result(server: Server, options: TrainingOptions, features: int) -> TrainingResult:
    sites = tuple(name for name in server.groups if name in server.evaluations)
    replies = [server.evaluations[name] for name in sites]
    tests = np.array([reply.count for reply in replies], dtype=np.int64)
    return TrainingResult(
        sites=sites,
        accuracy=np.array([reply.correct for reply in replies]) / tests,
        baseline=np.array([reply.majority for reply in replies]) / tests,
        tests=tests,
        groups=np.array([server.groups[name] for name in sites]),
        weights=server.weights,
        classes=server.common_fields["classes"],
        personal=server.common_fields["personal_layers"],
        algorithm=options.algorithm,
        model=options.model,
        features=features,
        rounds=options.rounds,
        seed=options.seed,
        start=options.seed,
        history=tuple(server.history),
        failed=server.federation.failed,
        traffic=server.federation.traffic,
    )


def _check_groups(groups: Any, names: tuple[str, ...]) -> dict[str, int]:
    """The group of each client, an integer from 0 on."""
    if groups is None:
        return dict.fromkeys(names, 0)
    if isinstance(groups, Mapping):
        missing = [name for name in names if name not in groups]
        if missing:
            raise InputError(f"groups has no label for client '{missing[0]}'; give one for each.")
        groups = [groups[name] for name in names]
    labels = np.asarray(groups)
    if (
        labels.shape != (len(names),)
        or labels.dtype.kind not in "biu"
        or min(labels, default=0) < 0
    ):
        raise InputError(
            f"groups has shape {labels.shape} and type {labels.dtype}; give an integer from 0 on"
            f" for each of the {len(names)} clients."
        )
    return {name: int(label) for name, label in zip(names, labels, strict=True)}


def _describe_sites(metered: MeteredFederation, names: Sequence[str]) -> dict[str, Description]:
    """The descriptions of the sites that have labels and as many features as most sites."""
    requests = dict.fromkeys(names, DescribeRequest())
    replies = metered.ask(requests, Description, allow_failures=True)
    dimensions = {name: reply.features for name, reply in replies.items()}
    replies = metered.keep_most_frequent_dimension(replies, dimensions)
    for name in [name for name, reply in replies.items() if not reply.labelled]:
        problem = f"The data of {name} have no labels; training needs them, as (X, y) or a column."
        metered.leave_out(name, InputError(problem))
        del replies[name]
    if not replies:
        raise InputError("No site has labels; training needs them.")
    return replies


def _ask_class_names(metered: MeteredFederation, sites: Iterable[str]) -> tuple[LabelName, ...]:
    replies = metered.ask(dict.fromkeys(sites, LabelsRequest()), Labels, allow_failures=True)
    names = {site: reply.names for site, reply in replies.items()}
    return metered.keep_most_frequent_label_type(replies, names)[1]


def _build_network(options: TrainingOptions, features: int, classes: int) -> Network:
    try:
        from fedwad.learning.local.networks import build
    except ImportError:
        raise InputError("Training needs PyTorch; run: pip install 'fedwad[learn]'.") from None
    personal = () if options.algorithm == "fedavg" else options.personal
    return build(options.model, features, classes, options.seed, personal)
