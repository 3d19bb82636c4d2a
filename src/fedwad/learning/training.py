"""Federated training: FedAvg, FedRep and FedPer inside each group of sites, over any federation.

From top to bottom: the options, who trains in which round, the result, the server's loop, and
`train`, which puts them together.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedwad._checks import check_choice, format_value
from fedwad._files import SavedResult, read_fields, to_plain
from fedwad.compare import Progress
from fedwad.errors import FederationError, InputError
from fedwad.federation import (
    DescribeRequest,
    Description,
    EvaluateRequest,
    Evaluation,
    Federation,
    Labels,
    LabelsRequest,
    MeteredFederation,
    Traffic,
    TrainReply,
    TrainRequest,
    as_federation,
    choose_sites,
)
from fedwad.messages.learning import Loss, Optimizer, Weights
from fedwad.messages.message import Count, Whole

if TYPE_CHECKING:
    from torch import nn


#: fedavg: one model for all sites, the mean of their models after each round (McMahan et al. 2017).
#: fedper: the last layers stay with each site, and all layers train together (Arivazhagan et al.
#: 2019). fedrep: the last layers stay with each site, which trains them before the shared ones
#: (Collins et al. 2021).
Algorithm = Literal["fedavg", "fedrep", "fedper"]

#: Epochs, and the layers that learn in them: "all", "personal" or "shared".
Phases = tuple[tuple[int, str], ...]

#: The words of errors for the kinds of values that msgspec names.
_WORDS = {"int": "an integer", "float": "a number", "str": "a string", "array": "a list"}

#: Options that only some algorithms take: these algorithms, and the default in them.
_ALGORITHM_OPTIONS: dict[str, tuple[tuple[str, ...], int | None]] = {
    "personal": (("fedrep", "fedper"), None),
    "last_epochs": (("fedrep", "fedper"), 10),
    "body_epochs": (("fedrep",), 1),
}


@dataclass(frozen=True)
class TrainingOptions:
    """The options of a training; values out of range raise an InputError, as clients refuse them.

    Parameters
    ----------
    algorithm : "fedavg": one model for each group. "fedper": the last layer stays with each site.
        "fedrep": as fedper, but a site trains its own layer before the shared ones.
    model : "mlp", "cnn", or "package.module:function". The function takes the numbers of features
        and classes and returns a `torch.nn.Module`. It must be installed at the sites, and their
        policies must list it.
    rounds : number of rounds; after each, the models of the sites that trained are averaged
    fraction_train : fraction of a group that trains in a round, rounded down, at least one site
    sites_per_round : number of sites of a group that train in a round, instead of a fraction
    epochs : passes of a site over its samples in a round
    batch_size : samples in a step
    learning_rate, weight_decay : of each step
    optimizer : "sgd", "adam" or "adamw"; new in each round
    momentum : of "sgd"; 0.5 by default
    loss : "cross_entropy", or "balanced", which weights classes by their frequency at the site
    proximal : FedProx: this / 2 times the squared distance from the round's weights is added
    test_size : fraction of each class that a site keeps for tests; with 0 it tests on its training
        samples
    seed : decides the first weights, the test samples, who trains in which round, and the order of
        samples
    personal : names of the layers that stay with the sites, for fedrep and fedper; the last layer
        by default
    last_epochs : passes in the closing round of fedrep and fedper, in which all sites train their
        own layers; 10 by default
    body_epochs : how many of the `epochs`, the last ones, train the shared layers, for fedrep; 1 by
        default
    """

    algorithm: Algorithm = "fedavg"
    model: str = "mlp"
    rounds: Count = 10
    fraction_train: Annotated[float, Meta(gt=0, le=1)] = 1.0
    sites_per_round: Count | None = None
    epochs: Count = 5
    batch_size: Count = 10
    learning_rate: Annotated[float, Meta(ge=1e-12, le=100)] = 0.01
    optimizer: Optimizer = "sgd"
    momentum: Annotated[float, Meta(ge=0, le=0.999999)] | None = None
    weight_decay: Annotated[float, Meta(ge=0, le=1)] = 0.0
    loss: Loss = "cross_entropy"
    proximal: Annotated[float, Meta(ge=0, le=1000)] = 0.0
    test_size: Annotated[float, Meta(ge=0, le=0.9)] = 0.2
    seed: Whole = 0
    personal: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    last_epochs: Whole | None = None
    body_epochs: Count | None = None

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            if isinstance(value, np.generic | Iterator):
                value = value.item() if isinstance(value, np.generic) else tuple(value)
            if kind in (Algorithm, Optimizer, Loss):
                check_choice(value, name, get_args(kind))
            try:
                self._set(name, msgspec.convert(value, kind))
            except msgspec.ValidationError as error:
                expected = re.sub(r"`(\w+)", lambda word: _WORDS.get(word[1], word[1]), str(error))
                wanted = re.sub(r"Expected|[,|-] .*|`", "", expected).strip()
                problem = f"{name} is {format_value(value)}; give {wanted}."
                raise InputError(problem, "bad-option") from None
        if self.momentum is None:
            self._set("momentum", 0.5 if self.optimizer == "sgd" else 0.0)
        elif self.optimizer != "sgd" and self.momentum:
            raise InputError(
                f"momentum is an option of sgd, and the optimizer is {self.optimizer}; leave it"
                " out.",
                "conflicting-options",
            )
        for name, (algorithms, default) in _ALGORITHM_OPTIONS.items():
            if self.algorithm in algorithms:
                if getattr(self, name) is None:
                    self._set(name, default)
            elif getattr(self, name) is not None:
                raise InputError(
                    f"{name} is an option of {' and '.join(algorithms)}, and the algorithm is"
                    f" {self.algorithm}; leave it out or choose another algorithm.",
                    "conflicting-options",
                )
        if self.body_epochs is not None and self.body_epochs > self.epochs:
            raise InputError(
                f"body_epochs is {self.body_epochs} of {self.epochs} epochs; give at most as many.",
                "bad-option",
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def of(cls, options: TrainingOptions | str, keywords: Mapping[str, Any]) -> TrainingOptions:
        """The options, or the defaults of the algorithm of this name, with values by keyword."""
        names = [field.name for field in fields(cls)]
        unknown = [name for name in keywords if name not in names]
        if unknown:
            raise InputError(
                f"Training has no option '{unknown[0]}'; its options are {', '.join(names)}.",
                "unknown-option",
            )
        if isinstance(options, TrainingOptions):
            return replace(options, **keywords)
        return cls(**({"algorithm": options} | dict(keywords)))

    def to_dict(self) -> dict[str, Any]:
        """The options that are set, as plain JSON types."""
        return {name: value for name, value in to_plain(vars(self)).items() if value is not None}


@dataclass(frozen=True)
class GroupRound:
    """One round of one group of clients.

    `ranking` has all clients of the group in random order. Of those that have not failed before,
    the first `count` train, in these phases. In the closing round all clients train their own
    layers once more, and nothing is averaged.
    """

    number: int
    ranking: tuple[str, ...]
    count: int
    phases: Phases
    closing: bool


def schedule(options: TrainingOptions, members: Sequence[str], group: int) -> Iterator[GroupRound]:
    """The rounds of one group, with a closing round if the algorithm has one."""
    rng = np.random.default_rng([options.seed, group])
    # 0.7 * 90 is 62.99999999999999 in floating point; it counts as 63.
    count = options.sites_per_round or max(int(options.fraction_train * len(members) + 1e-9), 1)
    epochs, body_epochs = options.epochs, options.body_epochs
    phases: Phases = ((epochs, "all"),)
    if body_epochs is not None:
        phases = ((epochs - body_epochs, "personal"), (body_epochs, "shared"))
    for number in range(1, options.rounds + 1):
        ranking = tuple(members[index] for index in rng.permutation(len(members)))
        yield GroupRound(number, ranking, count, phases, closing=False)
    if options.last_epochs:
        phases = ((options.last_epochs, "personal"),)
        yield GroupRound(options.rounds + 1, tuple(members), len(members), phases, closing=True)


def client_seed(seed: int, number: int, index: int) -> int:
    """The seed that decides the order of a client's samples in round `number`.

    `index` is the position of the client among all clients of the training.
    """
    return int(np.random.SeedSequence([seed, number, index]).generate_state(1)[0])


@dataclass(frozen=True)
class TrainingRound:
    """One round: its number, the mean loss of the sites that trained, the mean accuracy over the
    sites that tested, and the duration in seconds.

    The accuracy is None if the sites were not asked to test. The last record of fedrep and fedper
    is the closing round, in which all sites train their own layers, unless `last_epochs` is 0.
    """

    number: int
    loss: float
    accuracy: float | None
    seconds: float


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingResult(SavedResult):
    """Models of groups of sites, and their accuracy on each site's own test samples.

    Attributes
    ----------
    sites : names of the sites that tested the last model
    accuracy : array (N,), fraction of its test samples that a site's model classifies correctly
    baseline : array (N,), the accuracy of always predicting the class that is most frequent among
        the site's training samples
    balanced : array (N,), balanced accuracy: the mean over classes of the fraction of a class that
        is classified correctly, over classes with at least `min_cell_size` test samples; nan if a
        site has none
    balanced_baseline : array (N,), that of always predicting one class: one over their number
    tests : array (N,), numbers of test samples
    groups : array (N,), the group of each site
    weights : for each group, the layers that sites share, as one vector of float32
    classes : names of the classes, in the order of the model's outputs
    personal : names of the parameters that stayed with the sites
    algorithm, model, rounds, seed : the options of the training
    features : number of features of a row
    history : one record for each round
    failed : sites that did not answer or were left out, each with the reason
    traffic : bytes that the sites sent and received, and the number of replies
    """

    _format: ClassVar[str] = "fedwad training 3"
    _noun: ClassVar[str] = "training"
    _unsaved: ClassVar[tuple[str, ...]] = ("weights",)

    sites: tuple[str, ...]
    accuracy: NDArray[np.float64]
    baseline: NDArray[np.float64]
    balanced: NDArray[np.float64]
    balanced_baseline: NDArray[np.float64]
    tests: NDArray[np.int64]
    groups: NDArray[np.int64]
    weights: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    classes: tuple[Any, ...]
    personal: tuple[str, ...]
    algorithm: str
    model: str
    features: int
    rounds: int
    seed: int
    history: tuple[TrainingRound, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def mean(self) -> float:
        """Mean accuracy over sites."""
        return float(self.accuracy.mean())

    @property
    def mean_baseline(self) -> float:
        """Mean accuracy over sites of always predicting the most frequent class."""
        return float(self.baseline.mean())

    def __repr__(self) -> str:
        groups = len(self.weights)
        return (
            f"<{self.algorithm} on {len(self.sites)} sites in {groups}"
            f" group{'' if groups == 1 else 's'}: accuracy {self.mean:.1%},"
            f" majority class {self.mean_baseline:.1%}>"
        )

    def network(self, group: int = 0) -> nn.Module:
        """The model of a group as a PyTorch module.

        Layers that stayed with the sites have their initial weights.
        """
        import torch

        from fedwad.learning.local import build

        if group not in self.weights:
            raise InputError(
                f"There is no group {group!r}; the groups are {', '.join(map(str, self.weights))}.",
                "unknown-label",
            )
        built = build(self.model, self.features, len(self.classes), self.seed, self.personal)
        weights = built.join(self.weights[group], built.initial_weights()[built.personal_mask])
        built.module.load_state_dict(built.tensors(torch.as_tensor(weights)))
        return built.module.eval()

    def _content(self) -> dict[str, Any]:
        content = super()._content() | {"mean": self.mean, "mean_baseline": self.mean_baseline}
        content["weights"] = {
            str(group): base64.b64encode(vector.astype("<f4").tobytes()).decode()
            for group, vector in self.weights.items()
        }
        return content

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> TrainingResult:
        derived = ("mean", "mean_baseline", "weights")
        rest = {name: value for name, value in content.items() if name not in derived}
        weights = {
            int(group): np.frombuffer(base64.b64decode(text, validate=True), "<f4")
            for group, text in content["weights"].items()
        }
        return replace(read_fields(cls, rest), weights=weights)

    def _check(self) -> None:
        arrays = [value for value in vars(self).values() if isinstance(value, np.ndarray)]
        if not self.sites or any(array.shape != (len(self.sites),) for array in arrays):
            raise ValueError("an array does not have one number for each site")
        if not set(self.groups.tolist()) <= set(self.weights):
            raise ValueError("a group has no model")


@dataclass(eq=False)
class Server:
    """The state of a training: the weights of each group, and how often each client has trained.

    `groups` has the group of each client, and `weights` at first the initial ones of the shared
    layers. `common_fields` are the fields that are the same in all requests.
    """

    federation: MeteredFederation
    options: TrainingOptions
    groups: Mapping[str, int]
    weights: dict[int, Weights]
    common_fields: Mapping[str, Any]
    equal_weights: bool
    times_trained: Counter[str] = field(default_factory=Counter)
    history: list[TrainingRound] = field(default_factory=list)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    def run(self, callback: Callable[[Progress], None], test_every_round: bool) -> None:
        """Run all rounds; `weights`, `history` and `evaluations` have the outcome."""
        schedules = []
        for group in self.weights:
            members = [name for name, own in self.groups.items() if own == group]
            schedules.append(schedule(self.options, members, group))
        rounds = list(zip(*schedules, strict=True))
        for number, group_rounds in enumerate(rounds, start=1):
            callback(Progress("training", number - 1, len(rounds)))
            start = time.perf_counter()
            loss = self._train(dict(zip(self.weights, group_rounds, strict=True)))
            accuracy = self._test() if test_every_round or number == len(rounds) else None
            self.history.append(TrainingRound(number, loss, accuracy, time.perf_counter() - start))
        callback(Progress("training", len(rounds), len(rounds)))

    def _train(self, group_rounds: Mapping[int, GroupRound]) -> float:
        """Run one round of all groups, with one message to each client that trains, and average the
        weights that come back; the mean of the clients' losses."""
        positions, options = {name: k for k, name in enumerate(self.groups)}, self.options
        requests = {}
        for group, one in group_rounds.items():
            remaining = [name for name in one.ranking if name not in self.federation.failed]
            epochs, layers = zip(*one.phases, strict=True)
            for name in remaining[: one.count]:
                requests[name] = TrainRequest(
                    times_trained=self.times_trained[name],
                    weights=self.weights[group],
                    epochs=epochs,
                    layers=layers,
                    seed=client_seed(options.seed, one.number, positions[name]),
                    return_weights=not one.closing,
                    batch_size=options.batch_size,
                    learning_rate=options.learning_rate,
                    momentum=options.momentum or 0.0,
                    optimizer=options.optimizer,
                    weight_decay=options.weight_decay,
                    loss=options.loss,
                    proximal=options.proximal,
                    **self.common_fields,
                )
        if not requests:
            raise FederationError("No client is left to train.", "too-few-sites")
        replies = self.federation.ask(requests, TrainReply, allow_failures=True)
        self.times_trained.update(replies.keys())
        for group, one in group_rounds.items():
            own = [reply for name, reply in replies.items() if self.groups[name] == group]
            if own and not one.closing:
                counts = [1 if self.equal_weights else reply.count for reply in own]
                mean = np.average([reply.weights for reply in own], axis=0, weights=counts)
                self.weights[group] = mean.astype(np.float32)
        return float(np.mean([reply.loss for reply in replies.values()]))

    def _test(self) -> float:
        """Ask all clients to test; the result is their mean accuracy."""
        requests = {
            name: EvaluateRequest(
                times_trained=self.times_trained[name],
                weights=self.weights[group],
                **self.common_fields,
            )
            for name, group in self.groups.items()
            if name not in self.federation.failed
        }
        self.evaluations = self.federation.ask(requests, Evaluation, allow_failures=True)
        return float(np.mean([reply.correct / reply.count for reply in self.evaluations.values()]))


def train(
    fed: Federation | Mapping[str, Any],
    options: TrainingOptions | Algorithm = "fedavg",
    *,
    groups: Any = None,
    classes: Sequence[Any] | None = None,
    clients: Sequence[str] | None = None,
    callback: Callable[[Progress], None] | None = None,
    test_every_round: bool = True,
    equal_weights: bool = False,
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
    test_every_round : whether sites test after each round, or after the last only
    equal_weights : whether models are averaged without regard to numbers of samples, as in the code
        of the paper's authors
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
    options = TrainingOptions.of(options, keywords)
    try:
        from fedwad.learning.local import build
    except ImportError:
        raise InputError(
            "Training needs PyTorch; run: pip install 'fedwad[learn]'.", "missing-package"
        ) from None
    federation = as_federation(fed)
    names = choose_sites(federation, clients, "training")
    group_of = _check_groups(groups, names)
    metered = MeteredFederation(federation)
    described = _describe_sites(metered, names)
    features = _count_features(metered, *next(iter(described.items())))
    if classes is None:
        replies = metered.ask(
            dict.fromkeys(described, LabelsRequest()), Labels, allow_failures=True
        )
        found = {site: reply.names for site, reply in replies.items()}
        classes = metered.keep_most_frequent_label_type(replies, found)[1]
    else:  # as plain types, also if they come from an array such as np.unique(y)
        classes = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
    layers = () if options.algorithm == "fedavg" else options.personal
    network = build(options.model, features, len(classes), options.seed, layers)
    personal = tuple(name for name in network.names if name in network.personal_names)
    initial = network.initial_weights()[~network.personal_mask]
    server = Server(
        metered,
        options,
        group_of,
        dict.fromkeys(sorted(set(group_of.values())), initial),
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
    )
    server.run(callback or (lambda _: None), test_every_round)
    sites = tuple(name for name in group_of if name in server.evaluations)
    tested = [server.evaluations[name] for name in sites]
    tests = np.array([reply.count for reply in tested], dtype=np.int64)
    return TrainingResult(
        sites=sites,
        accuracy=np.array([reply.correct for reply in tested]) / tests,
        baseline=np.array([reply.majority for reply in tested]) / tests,
        balanced=np.array([reply.balanced for reply in tested], dtype=np.float64),
        balanced_baseline=np.array([1 / (reply.classes or np.nan) for reply in tested]),
        tests=tests,
        groups=np.array([group_of[name] for name in sites]),
        weights=server.weights,
        classes=classes,
        personal=personal,
        algorithm=options.algorithm,
        model=options.model,
        features=features,
        rounds=options.rounds,
        seed=options.seed,
        history=tuple(server.history),
        failed=metered.failed,
        traffic=metered.traffic,
    )


def _check_groups(groups: Any, names: tuple[str, ...]) -> dict[str, int]:
    """The group of each client, an integer from 0 on."""
    if groups is None:
        return dict.fromkeys(names, 0)
    if isinstance(groups, Mapping):
        missing = [name for name in names if name not in groups]
        if missing:
            raise InputError(
                f"groups has no label for client '{missing[0]}'; give one for each.", "wrong-shape"
            )
        groups = [groups[name] for name in names]
    labels = np.asarray(groups)
    if (
        labels.shape != (len(names),)
        or labels.dtype.kind not in "biu"
        or min(labels, default=0) < 0
    ):
        raise InputError(
            f"groups has shape {labels.shape} and type {labels.dtype}; give an integer from 0 on"
            f" for each of the {len(names)} clients.",
            "wrong-shape",
        )
    return {name: int(label) for name, label in zip(names, labels, strict=True)}


def _describe_sites(metered: MeteredFederation, names: Sequence[str]) -> dict[str, Description]:
    """The descriptions of the sites that have labels and as many features as most sites."""
    requests = dict.fromkeys(names, DescribeRequest())
    replies = metered.ask(requests, Description, allow_failures=True)
    dimensions = {name: _count_features(metered, name, reply) for name, reply in replies.items()}
    replies = metered.keep_most_frequent_dimension(replies, dimensions)
    for name in [name for name, reply in replies.items() if not reply.labelled]:
        problem = f"The data of {name} have no labels; training needs them, as (X, y) or a column."
        metered.leave_out(name, InputError(problem, "missing-labels"))
        del replies[name]
    if not replies:
        raise InputError("No site has labels; training needs them.", "missing-labels")
    return replies


def _count_features(metered: MeteredFederation, name: str, description: Description) -> int:
    """Features of a site's samples; of a table, those that the schema makes of it."""
    schema = metered.schema_of(name)
    return description.features if schema is None else len(schema.feature_names)
