"""Clusters for anybody's Flower app: one instance of its strategy for each cluster of sites.

An app keeps its model, its data and its ClientApp. In its ServerApp one line changes:

    strategy = FedAvg(fraction_evaluate=1.0)
    strategy = Clustered(lambda: FedAvg(fraction_evaluate=1.0), clusters=m.cluster(5))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.serverapp.strategy.strategy_utils import (
    aggregate_arrayrecords,
    aggregate_metricrecords,
)

from fedwad.engines._clusters import Clusters, labels_by_site
from fedwad.errors import InputError

if TYPE_CHECKING:
    from torch import nn

_STATE = "fedwad.personal"  # record of a node's own layers in its state
_WEIGHT = "fedwad.weight"


class _Members:
    """A Grid that shows only the nodes of one cluster, to the strategy of that cluster."""

    def __init__(self, grid: Grid, members: Callable[[], list[int]]) -> None:
        self._grid, self.get_node_ids = grid, members

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def get_nodes(self) -> Iterable[Any]:
        ids = set(self.get_node_ids())
        return [node for node in self._grid.get_nodes() if node.node_id in ids]


class Clustered(Strategy):
    """One instance of a strategy for each cluster of sites.

    Each round sends the model of its own cluster to every node and aggregates inside clusters.
    Nodes of other sites take no part. `models` has the arrays of each cluster. The arrays that
    `start` returns are their mean, weighted by numbers of sites.

    Parameters
    ----------
    make : returns a new strategy, such as `lambda: FedAvg(fraction_train=0.5)`. Its minimum numbers
        of nodes are lowered to the size of a cluster where that is smaller
    clusters : the cluster of each site: a mapping from the names under which nodes are registered,
        or labels in the order of `sites`, as `fedwad.matrix(...).cluster(5)` gives them. Without
        `sites`, label k is for node k in the order of registration, which in a simulation is the
        node's partition-id
    sites : names of the sites, such as `m.sites`
    """

    def __init__(
        self,
        make: Callable[[], Strategy],
        clusters: Clusters,
        sites: Sequence[str] | None = None,
    ) -> None:
        self._labels = labels_by_site(clusters, sites)
        self._sizes = Counter(self._labels.values())
        self.strategies = {label: make() for label in self._sizes}
        for label, strategy in self.strategies.items():
            for name in ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"):
                if hasattr(strategy, name):
                    setattr(strategy, name, min(getattr(strategy, name), self._sizes[label]))
        self._label_of_node: dict[int, Any] = {}
        self.models: dict[Any, ArrayRecord] = {}

    def summary(self) -> None:
        for strategy in self.strategies.values():
            strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        return self._configure("configure_train", server_round, arrays, config, grid)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        return self._configure("configure_evaluate", server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        metrics = []
        for label, own in self._by_cluster(replies).items():
            arrays, found = self.strategies[label].aggregate_train(server_round, own)
            if arrays is not None:
                self.models[label] = arrays
            metrics.append((found, self._weight(label, own)))
        models = [(model, self._sizes[label]) for label, model in self.models.items()]
        mean = aggregate_arrayrecords(_weighted(models), _WEIGHT) if models else None
        return mean, _mean_metrics(metrics)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        metrics = [
            (self.strategies[label].aggregate_evaluate(server_round, own), self._weight(label, own))
            for label, own in self._by_cluster(replies).items()
        ]
        return _mean_metrics(metrics)

    def _configure(
        self, name: str, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        messages: list[Message] = []
        for label, strategy in self.strategies.items():
            view = _Members(grid, partial(self._nodes, grid, label))
            model = self.models.get(label, arrays)
            configure = getattr(strategy, name)
            messages += configure(server_round, model, ConfigRecord(dict(config)), view)
        return messages

    def _nodes(self, grid: Grid, label: Any) -> list[int]:
        """The connected nodes of a cluster."""
        nodes = list(grid.get_nodes())
        if any(isinstance(key, str) for key in self._labels):
            keys: list[Any] = [node.name for node in nodes]
        else:
            order = sorted(range(len(nodes)), key=lambda k: str(nodes[k].registered_at))
            keys = [order.index(k) for k in range(len(nodes))]
        found = {
            node.node_id: self._labels[key]
            for node, key in zip(nodes, keys, strict=True)
            if key in self._labels
        }
        self._label_of_node |= found
        return [node for node, own in found.items() if own == label]

    def _by_cluster(self, replies: Iterable[Message]) -> dict[Any, list[Message]]:
        groups: dict[Any, list[Message]] = {}
        for reply in replies:
            label = self._label_of_node.get(reply.metadata.src_node_id)
            if label in self.strategies:
                groups.setdefault(label, []).append(reply)
        return groups

    def _weight(self, label: Any, replies: Sequence[Message]) -> float:
        """The number of samples behind replies, or their number if they do not say it."""
        key = str(getattr(self.strategies[label], "weighted_by_key", ""))
        good = [reply for reply in replies if not reply.has_error()]
        records: list[Any] = [one for r in good for one in r.content.metric_records.values()]
        counts = [record[key] for record in records if key in record]
        return float(sum(counts) if counts else len(good))


def _weighted(records: Iterable[tuple[Any, float]]) -> list[RecordDict]:
    """Records as Flower's own means take them: each beside its weight."""
    weights = ((record, MetricRecord({_WEIGHT: weight})) for record, weight in records)
    return [RecordDict({_WEIGHT: weight, "record": record}) for record, weight in weights]


def _mean_metrics(metrics: Sequence[tuple[MetricRecord | None, float]]) -> MetricRecord | None:
    """The weighted mean of the metrics that all clusters report."""
    found = [(record, weight) for record, weight in metrics if record is not None and weight]
    names = set.intersection(*({*record} for record, _ in found)) if found else set()
    common = [(MetricRecord({name: record[name] for name in names}), w) for record, w in found]
    return aggregate_metricrecords(_weighted(common), _WEIGHT) if found else None


def _belongs(name: str, layers: Sequence[str]) -> bool:
    return any(name == layer or name.startswith(f"{layer}.") for layer in layers)


def personal_layers(*names: str, arrays: str = "arrays") -> Callable[..., Message]:
    """A mod for a ClientApp that keeps layers at their site: FedPer with any strategy.

    `ClientApp(mods=[personal_layers("fc3")])` gives the app its own "fc3.weight" and "fc3.bias"
    instead of those in a message, and sends back those that came, so the site's own never leave.
    They are in the state of the node, which Flower keeps as long as the node runs.

    Parameters
    ----------
    names : layers, or names of single arrays
    arrays : the key of the ArrayRecord in messages
    """
    if not names:
        raise InputError("No layer was named; name at least one that stays.", "bad-option")

    def mod(message: Message, context: Context, app: Callable[..., Message]) -> Message:
        received = message.content.array_records.get(arrays)
        if received is None:
            return app(message, context)
        kept: Mapping[str, Any] = context.state.array_records.get(_STATE) or {}
        message.content[arrays] = ArrayRecord(
            {name: kept.get(name, value) for name, value in received.items()}
        )
        try:
            reply = app(message, context)
        finally:
            message.content[arrays] = received  # messages to several nodes may share their content
        trained = None if reply.has_error() else reply.content.array_records.get(arrays)
        if trained is not None:
            context.state[_STATE] = ArrayRecord(
                {name: value for name, value in trained.items() if _belongs(name, names)}
            )
            reply.content[arrays] = ArrayRecord(
                {
                    name: received[name] if _belongs(name, names) else value
                    for name, value in trained.items()
                }
            )
        return reply

    return mod


@contextmanager
def learning_only(network: nn.Module, *names: str, others: bool = False) -> Iterator[None]:
    """Inside the block only these layers of a PyTorch network learn, or only the others.

    FedRep is two blocks in a training function, with `personal_layers` as the mod of the app:

        with learning_only(net, "fc3"):
            train(net, loader, epochs=4)
        with learning_only(net, "fc3", others=True):
            train(net, loader, epochs=1)
    """
    before = {name: parameter.requires_grad for name, parameter in network.named_parameters()}
    try:
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(_belongs(name, names) is not others)
        yield
    finally:
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(before[name])
