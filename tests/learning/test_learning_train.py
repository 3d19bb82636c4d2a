"""FedAvg, FedRep and FedPer over federations."""

import numpy as np
import pytest

from failing import fails

pytest.importorskip("torch")

import fedwad
from fedwad.datasets import load, partition
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import Client, Dataset, EvaluateRequest, Failure, Policy, local
from fedwad.learning import TrainingOptions, TrainingResult, train
from fedwad.learning.local import build
from fedwad.learning.training import schedule
from fedwad.report import write_report
from fedwad.transport import Measure

FAST = {"rounds": 2, "learning_rate": 0.05, "epochs": 3}


@pytest.fixture(scope="module")
def sites():
    X, y = load("digits")
    return partition.class_pairs(X / 16, y, clients=10, samples=60, seed=0)


def small(features, classes):
    from torch import nn

    return nn.Sequential(nn.Linear(features, 20), nn.Tanh(), nn.Linear(20, classes))


class Faulty:
    """A federation in which some clients stop answering after so many rounds."""

    def __init__(self, federation, silent, after):
        self._federation, self._silent, self._left = federation, silent, after

    @property
    def names(self):
        return self._federation.names

    def ask(self, requests):
        self._left -= 1
        answers = self._federation.ask(requests)
        gone = Failure("silent", "no reply came.")
        return {
            name: gone if self._left < 0 and name in self._silent else reply
            for name, reply in answers.items()
        }


@pytest.mark.parametrize("algorithm", ["fedavg", "fedrep", "fedper"])
def test_clusters_learn_better_than_all_together(sites, algorithm):
    vanilla = train(sites, algorithm, **FAST)
    grouped = train(sites, algorithm, groups=sites.groups, **FAST)
    assert grouped.mean > 0.9
    assert grouped.mean > vanilla.mean + 0.1
    assert list(grouped.weights) == [0, 1, 2, 3, 4]
    assert len(grouped.history) == (2 if algorithm == "fedavg" else 3)
    assert grouped.history[-1].accuracy == pytest.approx(grouped.mean)
    assert (grouped.tests == 12).all()


def test_fedavg_by_hand(sites):
    """Two clients, one round: the mean of what each trains by itself, weighted by samples."""
    data = {"a": sites["client0"], "b": tuple(part[:30] for part in sites["client1"])}
    both = train(data, fraction_train=1.0, rounds=1, epochs=1, seed=3, classes=range(10))
    own = {}
    for name in data:  # the other one is there but does not train: it is in a group of its own
        alone = train(
            data,
            fraction_train=1.0,
            rounds=1,
            epochs=1,
            seed=3,
            classes=range(10),
            groups={"a": 0, "b": 1},
        )
        own[name] = alone.weights[list(data).index(name)]
    expected = (48 * own["a"] + 24 * own["b"]) / 72
    np.testing.assert_allclose(both.weights[0], expected, atol=1e-6)
    options = TrainingOptions(fraction_train=1.0, rounds=1, epochs=1, seed=3)
    equal = train(data, options, classes=range(10), equal_weights=True)
    np.testing.assert_allclose(equal.weights[0], (own["a"] + own["b"]) / 2, atol=1e-6)
    assert not np.allclose(equal.weights[0], both.weights[0], atol=1e-6)


def test_the_schedule_is_the_papers():
    members = [f"c{k}" for k in range(25)]
    steps = list(schedule(TrainingOptions("fedrep", fraction_train=0.1), members, 0))
    assert [step.count for step in steps] == [2] * 10 + [25]
    assert steps[0].phases == ((4, "personal"), (1, "shared"))
    assert steps[-1].closing
    assert steps[-1].phases == ((10, "personal"),)
    assert all(sorted(step.ranking) == sorted(members) for step in steps)
    assert len({step.ranking for step in steps[:10]}) == 10
    assert [step.count for step in schedule(TrainingOptions("fedavg"), ["only"], 0)] == [1] * 10
    assert list(schedule(TrainingOptions("fedper", seed=1), members, 0)) != list(
        schedule(TrainingOptions("fedper", seed=2), members, 0)
    )


def test_the_seed_decides(sites):
    one, same, other = (train(sites, "fedper", rounds=1, epochs=1, seed=seed) for seed in (1, 1, 2))
    assert one.to_dict() | {"history": 0} == same.to_dict() | {"history": 0}
    assert not np.array_equal(one.weights[0], other.weights[0])


def test_clusters_of_one_and_user_models(sites):
    some = {name: sites[name] for name in list(sites)[:3]}
    result = train(
        some,
        "fedrep",
        model="test_learning_train:small",
        groups=[0, 1, 2],
        personal=["2"],
        **FAST,
    )
    assert list(result.weights) == [0, 1, 2]
    assert result.personal == ("2.weight", "2.bias")
    import torch

    classes = len(np.unique(np.concatenate([y for _, y in some.values()])))
    assert result.network(2)(torch.zeros(1, 64)).shape == (1, classes)


def test_saved_and_loaded(sites, tmp_path):
    result = train(sites, "fedper", rounds=1, epochs=1)
    result.save(tmp_path / "r.json")
    assert TrainingResult.load(tmp_path / "r.json") == result
    (tmp_path / "r.json").write_text('{"format": "fedwad training 3"}')
    with fails(InputError, "damaged-content"):
        TrainingResult.load(tmp_path / "r.json")
    with fails(InputError, "wrong-format"):
        TrainingResult.load(__file__)
    with fails(InputError, "unknown-label"):
        result.network(7)


def test_fedavg_model_is_the_one_that_was_tested(sites):
    import torch

    result = train(sites, groups=sites.groups, test_size=0.0, **FAST)
    module = result.network(2)
    X, y = sites["client4"]
    found = np.array(result.classes)[
        module(torch.as_tensor(X, dtype=torch.float32)).argmax(1).numpy()
    ]
    assert (found == y).mean() == pytest.approx(result.accuracy[4])


def test_lost_clients_are_left_out(sites):
    fed = Faulty(local(sites), {"client0", "client3"}, after=3)  # described, labels, first training
    result = train(fed, "fedper", groups=sites.groups, fraction_train=1.0, **FAST)
    assert set(result.failed) == {"client0", "client3"}
    assert len(result.sites) == 8
    everyone = Faulty(local(sites), set(sites), after=2)
    with fails(FederationError, "no-reply"):
        train(everyone, **FAST)


def test_a_policy_that_refuses(sites):
    closed = local(sites, Policy(allow=["describe", "labels"], classes=True))
    with fails(PolicyError, "kind-refused", "train"):
        train(closed, **FAST)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"options": "fedprox"}, ("bad-option",)),
        ({"groups": [0, 1]}, ("wrong-shape",)),
        ({"groups": {"client0": 1}}, ("wrong-shape", "client1")),
        ({"rounds": 0}, ("bad-option", "rounds")),
        ({"fraction_train": 0}, ("bad-option", "fraction_train")),
        ({"fraction_train": 1.5}, ("bad-option", "fraction_train")),
        ({"learning_rate": 0}, ("bad-option", "learning_rate")),
        ({"test_size": 2.0}, ("bad-option", "test_size")),
        ({"options": "fedrep", "body_epochs": 6}, ("bad-option", "body_epochs")),
        ({"options": "fedrep", "personal": "head"}, ("bad-option",)),
        ({"options": "fedrep", "personal": 5}, ("bad-option",)),
        ({"options": "fedrep", "personal": []}, ("bad-option",)),
        ({"batch_size": 0}, ("bad-option", "batch_size")),
        ({"momentum": 1.0}, ("bad-option", "momentum")),
        ({"seed": -1}, ("bad-option", "seed")),
        ({"epochs": True}, ("bad-option", "epochs")),
        ({"learning_rate": "fast"}, ("bad-option", "learning_rate")),
        ({"n_rounds": 3}, ("unknown-option", "n_rounds")),
        ({"clients": ["nobody"]}, ("unknown-site", "nobody")),
        ({"classes": [0, 1]}, ("unknown-label",)),
        ({"model": "rnn"}, ("unknown-model", "rnn")),
    ],
)
def test_wrong_options(sites, options, problem):
    with fails(InputError, *problem):
        train(sites, **options)


@pytest.mark.parametrize(
    ("algorithm", "option", "value"),
    [
        ("fedavg", "personal", ["head"]),
        ("fedavg", "last_epochs", 3),
        ("fedavg", "body_epochs", 1),
        ("fedper", "body_epochs", 1),
    ],
)
def test_options_of_another_algorithm(algorithm, option, value):
    with fails(InputError, "conflicting-options", option, algorithm):
        TrainingOptions(algorithm, **{option: value})


def test_options_as_an_object(sites):
    options = TrainingOptions("fedper", rounds=1, epochs=1)
    by_object, by_words = train(sites, options), train(sites, "fedper", rounds=1, epochs=1)
    np.testing.assert_array_equal(by_object.weights[0], by_words.weights[0])
    assert options.last_epochs == 10
    assert options.body_epochs is None
    assert TrainingOptions("fedper", personal=iter(["head"])).personal == ("head",)


def test_classes_may_be_an_array(tmp_path):
    y = np.arange(40) % 2
    X = np.random.default_rng(0).normal(size=(40, 2))
    result = train({"a": (X, y)}, rounds=1, epochs=1, classes=np.unique(y))
    assert result.classes == (0, 1)
    result.save(tmp_path / "training.json")


def test_a_fraction_of_a_group_is_not_rounded_twice():
    options = TrainingOptions(fraction_train=0.7)
    rounds = [next(schedule(options, [str(k) for k in range(n)], 0)).count for n in (90, 89, 1)]
    assert rounds == [63, 62, 1]


def test_the_page_lists_sites_that_only_one_training_has(tmp_path):
    y = np.arange(40) % 2
    data = {name: (np.random.default_rng(0).normal(size=(40, 2)), y) for name in "abc"}
    together = train(data, rounds=1, epochs=1)
    apart = train({name: data[name] for name in "ab"}, rounds=1, epochs=1, groups=[0, 1])
    write_report({"together": together, "in clusters": apart}, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '<bdi>c</bdi></th><td class="n">missing</td>' in page


def test_the_baseline_predicts_the_most_frequent_class():
    """All 10 test samples of each class are counted by hand: 40 of 50 are of class 1."""
    y = np.repeat([0, 1, 1, 1, 1], 50)
    X = np.random.default_rng(0).normal(size=(250, 2))
    result = train({"a": (X, y), "b": (X, 1 - y)}, rounds=1, epochs=1, fraction_train=1.0)
    np.testing.assert_array_equal(result.tests, [50, 50])
    np.testing.assert_allclose(result.baseline, [0.8, 0.8])
    assert result.mean_baseline == pytest.approx(0.8)


def test_data_that_do_not_fit_together(sites):
    X, y = sites["client0"]
    with fails(InputError, "different-columns"):
        train({"a": (X, y), "b": (X[:, :3], y)})
    with fails(InputError, "missing-labels"):
        train({"a": (X, y), "b": X})


def test_groups_come_from_a_matrix(sites):
    m = fedwad.matrix(sites, labels=True)
    groups = m.cluster(5, affinity="kernel")
    result = train(sites, groups=groups, **FAST)
    np.testing.assert_array_equal(result.groups, groups)


def test_raw_tables_have_the_features_of_their_schema(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("paris", "oslo"):
        rows = [f"{x:.3f},{y:.3f},{y > 0:d}" for x, y in rng.normal(size=(60, 2))]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,dose,ill", *rows]))
    tables = {name: tmp_path / f"{name}.csv" for name in ("paris", "oslo")}
    result = train(local(tables, label_column="ill"), "fedavg", rounds=1)
    assert result.features == 2
    assert set(result.sites) == set(tables)


def test_no_error_tells_the_name_of_a_rare_label():
    """A class of one patient was found by asking whether its name is among those given."""
    labels = np.repeat(["angina", "healthy", "hiv"], [40, 59, 1])
    data = Dataset(Measure(np.random.default_rng(0).normal(size=(100, 3))), labels)
    policy = Policy(("train", "evaluate"), min_cell_size=10, classes=True)
    weights = build("mlp", 3, 3, 0, ()).initial_weights()
    for third in ("x", "hiv"):
        classes = "angina", "healthy", third
        asked = EvaluateRequest("r", 0, "mlp", (), weights, classes, 0, 0.0, 0)
        assert Client(data, policy).answer(asked).count == 99
