"""Clusters for any Flower app: one strategy a cluster, personal layers, and sites chosen by
similarity."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedwad[flower]')")

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import fedwad
from engines import flower_helpers as helpers
from failing import fails
from fedwad.engines.flower import Clustered, learning_only, nearest_sites, personal_layers
from fedwad.errors import InputError


class Nodes(helpers.InProcessGrid):
    """Nodes 2, 3, ... of one app; node k moves each weight half of the way to its own target."""

    def __init__(self, targets, names=None, mods=()):
        self.states = {node: RecordDict() for node in targets}
        self.seen = {node: [] for node in targets}
        app = ClientApp(mods=list(mods))

        @app.train()
        def train(message, context):
            node, arrays = context.node_id, message.content["arrays"]
            self.seen[node].append({k: a.numpy().copy() for k, a in arrays.items()})
            moved = {
                k: Array((a.numpy() + targets[node]).astype(np.float32) / 2)
                for k, a in arrays.items()
            }
            metrics = MetricRecord({"num-examples": 10 * node, "loss": float(targets[node])})
            return Message(
                RecordDict({"arrays": ArrayRecord(moved), "metrics": metrics}), reply_to=message
            )

        @app.evaluate()
        def evaluate(message, context):
            error = abs(message.content["arrays"]["body.weight"].numpy() - targets[context.node_id])
            metrics = MetricRecord({"num-examples": 1, "error": float(error.max())})
            return Message(RecordDict({"metrics": metrics}), reply_to=message)

        def node(number):
            def run(message):
                context = Context(1, number, {}, self.states[number], {})
                return [(0.0, app(message, context))]

            return run

        super().__init__({number: node(number) for number in targets}, names)

    def get_nodes(self):  # in another order than the one in which nodes registered
        found = [
            SimpleNamespace(node_id=n, name=self.names.get(n, ""), registered_at=f"2026-{n:03}")
            for n in self.nodes
        ]
        return found[::-1]

    def send_and_receive(self, messages, *, timeout=None):  # noqa: ARG002
        return list(self.pull_messages(list(self.push_messages(messages))))


def start(strategy, grid, rounds=8):
    first = ArrayRecord(
        {name: Array(np.zeros(2, dtype=np.float32)) for name in ("body.weight", "head.weight")}
    )
    return strategy.start(grid, first, num_rounds=rounds)


TARGETS = {2: 1.0, 3: 1.0, 4: 5.0, 5: 5.0, 6: 9.0}


def test_each_cluster_has_its_own_model_also_a_cluster_of_one():
    grid = Nodes(TARGETS)
    strategy = Clustered(lambda: FedAvg(), clusters=np.array([0, 0, 1, 1, 2]))
    result = start(strategy, grid)
    found = {label: model["body.weight"].numpy()[0] for label, model in strategy.models.items()}
    assert found == pytest.approx({0: 1.0, 1: 5.0, 2: 9.0}, rel=0.01)
    assert result.evaluate_metrics_clientapp[8]["error"] < 0.05
    alone = start(FedAvg(), Nodes(TARGETS))
    assert alone.evaluate_metrics_clientapp[8]["error"] > 2
    mean = result.arrays["body.weight"].numpy()[0]
    assert mean == pytest.approx((2 * found[0] + 2 * found[1] + found[2]) / 5)


def test_metrics_are_weighted_by_samples_as_the_strategy_does():
    grid = Nodes(TARGETS)
    together = start(FedAvg(), Nodes(TARGETS), 1).train_metrics_clientapp[1]["loss"]
    apart = start(Clustered(FedAvg, [0, 0, 1, 1, 1]), grid, 1).train_metrics_clientapp[1]["loss"]
    assert apart == pytest.approx(together)


def test_registered_names_decide_and_other_nodes_take_no_part():
    grid = Nodes(TARGETS, names=dict(zip(TARGETS, "edcba", strict=True)))
    strategy = Clustered(FedAvg, clusters=[0, 0, 1], sites=["a", "b", "e"])
    start(strategy, grid, 2)
    assert {node for node, seen in grid.seen.items() if seen} == {2, 5, 6}
    assert strategy.models[1]["body.weight"].numpy()[0] == pytest.approx(0.75)


@pytest.mark.parametrize(("clusters", "sites"), [([], None), ({}, None), ([0, 1], ["a", "b", "c"])])
def test_clusters_fit_the_sites(clusters, sites):
    with fails(InputError, "bad-option"):
        Clustered(FedAvg, clusters, sites)


def test_personal_layers_stay_at_their_site_and_come_back_there():
    grid = Nodes(TARGETS, mods=[personal_layers("head")])
    result = start(FedAvg(), grid, 5)
    assert result.arrays["head.weight"].numpy().tolist() == [0.0, 0.0]  # nothing personal left
    for node, seen in grid.seen.items():
        own = [one["head.weight"][0] for one in seen]
        assert own == pytest.approx([TARGETS[node] * (1 - 0.5**k) for k in range(5)])
        assert seen[-1]["body.weight"][0] == pytest.approx(grid.seen[2][-1]["body.weight"][0])
    with fails(InputError, "bad-option"):
        personal_layers()


def test_the_nearest_sites_train_for_one():
    rng = np.random.default_rng(0)
    data = {name: rng.normal(k, 1, (50, 2)) for k, name in enumerate("abcde")}
    m = fedwad.matrix(data)
    assert nearest_sites(m, "b", 2) == {"b": 0, "a": 0, "c": 0}
    with fails(InputError, "unknown-site"):
        nearest_sites(m, "z", 2)


def test_layers_take_turns():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    net = torch.nn.Sequential()
    net.add_module("body", torch.nn.Linear(2, 2))
    net.add_module("head", torch.nn.Linear(2, 2))
    net.body.bias.requires_grad_(False)

    def learning():
        return {name for name, one in net.named_parameters() if one.requires_grad}

    before = learning()
    with learning_only(net, "head"):
        assert learning() == {"head.weight", "head.bias"}
    with learning_only(net, "head", others=True):
        assert learning() == {"body.weight", "body.bias"}
    assert learning() == before


def test_a_recipe_of_flare_is_a_job_for_each_cluster_at_its_sites_only(tmp_path):
    pytest.importorskip("nvflare", reason="FLARE is not installed (pip install 'fedwad[flare]')")
    from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe as FedAvgRecipe

    from fedwad.engines.flare import clustered

    script = tmp_path / "client.py"
    script.write_text("import nvflare.client as flare\n")

    def make(members):
        return FedAvgRecipe(
            name=f"from-{members[0]}",
            min_clients=len(members),
            model=[0.0],
            train_script=str(script),
        )

    jobs = list(clustered(make, clusters=np.array([0, 1, 0]), sites=("a", "b", "c")))
    assert [members for members, _ in jobs] == [["a", "c"], ["b"]]
    for members, recipe in jobs:
        recipe.export(str(tmp_path / members[0]))
        (meta,) = (tmp_path / members[0]).rglob("meta.json")
        deployed = [
            site for sites in json.loads(meta.read_text())["deploy_map"].values() for site in sites
        ]
        assert sorted(deployed) == sorted(["server", *members])
        (server,) = (tmp_path / members[0]).rglob("config_fed_server.json")
        assert json.loads(server.read_text())["workflows"][0]["args"]["num_clients"] == len(members)
    with fails(InputError, "bad-option"):
        list(clustered(make, clusters=[0], sites=("a", "b")))
