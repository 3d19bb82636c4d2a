"""The classifier made of clients' coresets: scikit-learn's rules, known answers, and wrong
input."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedwad
from failing import fails
from fedwad.datasets import load, partition
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    Client,
    Dataset,
    Failure,
    Journal,
    LocalFederation,
    Policy,
    RemoteFederation,
)
from fedwad.transport import Measure

X, Y = load("digits")
SITES = partition.classes_per_client(
    X[:1000], Y[:1000], classes=2, clients=8, samples=None, seed=0, balanced=True
)
TEST = X[1000:], Y[1000:]


@parametrize_with_checks(
    [
        fedwad.CoresetClassifier(),
        fedwad.CoresetClassifier(atoms_per="site"),
        fedwad.CoresetClassifier(n_neighbors=3, masses="free"),
    ]
)
def test_scikit_learns_own_checks(estimator, check, monkeypatch):
    import warnings

    monkeypatch.delenv("SCIPY_ARRAY_API", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks warn about themselves
        check(estimator)


def test_import_does_not_load_scikit_learn():
    code = (
        "import sys, fedwad, fedwad.learning;"
        " print('sklearn' in sys.modules, 'CoresetClassifier' in fedwad.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    assert fedwad.CoresetClassifier is fedwad.learning.CoresetClassifier
    with pytest.raises(AttributeError, match="no attribute 'CoresetClassifer'"):
        _ = fedwad.CoresetClassifer
    with pytest.raises(AttributeError, match="no attribute"):
        _ = fedwad.learning.nothing


@pytest.mark.parametrize("atoms_per", ["class", "site"])
@pytest.mark.parametrize("n_neighbors", [1, 5])
def test_it_is_the_nearest_neighbours_of_all_atoms(atoms_per, n_neighbors):
    model = fedwad.CoresetClassifier(size=15, atoms_per=atoms_per, n_neighbors=n_neighbors).fit(
        SITES
    )
    oracle = KNeighborsClassifier(n_neighbors).fit(model.points_, model.classes_[model.labels_])
    np.testing.assert_allclose(model.predict_proba(TEST[0]), oracle.predict_proba(TEST[0]))
    np.testing.assert_array_equal(model.predict(TEST[0]), oracle.predict(TEST[0]))
    assert model.score(*TEST) > 0.85
    assert len(model.points_) == 8 * 15
    assert model.classes_.tolist() == list(range(10))
    assert model.sites_ == tuple(sorted(SITES))


def test_as_many_atoms_as_samples_are_nearest_neighbours_on_the_pooled_data():
    model = fedwad.CoresetClassifier(size=10_000).fit(SITES)
    pooled = (
        np.concatenate([x for x, _ in SITES.values()]),
        np.concatenate([y for _, y in SITES.values()]),
    )
    oracle = KNeighborsClassifier(1).fit(*pooled)
    assert len(model.points_) == len(pooled[0])
    assert np.mean(model.predict(TEST[0]) == oracle.predict(TEST[0])) > 0.998  # up to ties


def test_arrays_are_one_client():
    alone = fedwad.CoresetClassifier(size=40).fit(X[:300], Y[:300])
    one = fedwad.CoresetClassifier(size=40).fit({"data": (X[:300], Y[:300])})
    np.testing.assert_array_equal(alone.points_, one.points_)
    np.testing.assert_array_equal(alone.predict(TEST[0]), one.predict(TEST[0]))


class Wire(RemoteFederation):
    """Clients behind messages, of which some are dead."""

    def __init__(self, clients, dead=()):
        super().__init__(tuple(clients), timeout=5.0)
        self.clients, self.dead = clients, dead

    def exchange(self, messages, timeout):  # noqa: ARG002
        silent = Failure("silent", "no reply came.")
        return {
            name: silent if name in self.dead else self.clients[name].respond(each)
            for name, each in messages.items()
        }


def clients(policy=None, sites=SITES):
    return {
        name: Client(Dataset(Measure(x), y), policy or Policy.open())
        for name, (x, y) in sites.items()
    }


def test_every_federation_gives_the_same_bits(tmp_path):
    first = fedwad.CoresetClassifier(size=6).fit(SITES)
    turned = dict(reversed([(name, (x[::-1], y[::-1])) for name, (x, y) in SITES.items()]))
    with Journal(fedwad.local(SITES), tmp_path / "journal") as journal:
        others = [fedwad.local(SITES), turned, Wire(clients()), journal]
        for other in others:
            again = fedwad.CoresetClassifier(size=6).fit(other)
            np.testing.assert_array_equal(again.points_, first.points_)
            np.testing.assert_array_equal(again.labels_, first.labels_)
            assert again.traffic_ == first.traffic_
    assert first.traffic_.messages == 8
    assert first.traffic_.up < 8 * (6 * (64 + 2) * 8 + 100)


def test_a_dead_client_is_left_out_and_named():
    name = next(iter(SITES))
    model = fedwad.CoresetClassifier(size=6).fit(Wire(clients(), dead=[name]))
    assert list(model.failed_) == [name]
    assert name not in model.sites_
    with fails(FederationError, "no-reply"):
        fedwad.CoresetClassifier().fit(Wire(clients(), dead=list(SITES)))


def test_policies_decide():
    strict = Policy(["prototypes"], classes=True, min_cell_size=10)
    fed = LocalFederation(clients(strict))
    model = fedwad.CoresetClassifier(size=100).fit(fed)
    assert len(model.points_) < 800
    assert all(ledger.entries[-1].min_cell_size >= 10 for ledger in fed.ledgers.values())
    assert not model.notes_
    x, y = next(iter(SITES.values()))
    rare = y.copy()
    rare[:5] = 77
    model = fedwad.CoresetClassifier().fit(
        LocalFederation(clients(strict, {"a": (x, rare), "b": (x, y)}))
    )
    assert 77 not in model.classes_
    assert list(model.notes_) == ["a"]
    assert "left out classes" in model.notes_["a"]
    with fails(PolicyError, "withheld"):
        fedwad.CoresetClassifier().fit(LocalFederation(clients(Policy(["prototypes"]))))


LABELLINGS = {
    "words": np.array(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    ),
    "gaps": np.arange(10) * 1000 - 3,
    "odd or even": np.arange(10) % 2 == 0,
    "floats": np.arange(10) / 1.0,
    "objects": np.array(list("abcdefghij"), dtype=object),
}


@pytest.mark.parametrize("kind", LABELLINGS)
def test_any_type_of_label(kind, tmp_path):
    renamed = LABELLINGS[kind]
    model = fedwad.CoresetClassifier(size=10).fit(
        {name: (x, renamed[y]) for name, (x, y) in SITES.items()}
    )
    truth = renamed[TEST[1]]
    assert model.score(TEST[0], truth) > 0.8
    assert model.classes_.tolist() == sorted(set(renamed.tolist()))
    arrays = fedwad.CoresetClassifier(size=50).fit(X[:1000], renamed[Y[:1000]])
    assert arrays.classes_.dtype == renamed.dtype
    for one in (model, arrays):
        one.save(tmp_path / "model.npz")
        loaded = fedwad.CoresetClassifier.load(tmp_path / "model.npz")
        assert loaded.predict(TEST[0]).tolist() == one.predict(TEST[0]).tolist()


def test_among_asks_for_some_classes_only():
    model = fedwad.CoresetClassifier(size=10).fit(SITES)
    pair = np.isin(TEST[1], [3, 8])
    found = model.predict(TEST[0][pair], classes=[3, 8])
    assert set(found.tolist()) == {3, 8}
    assert np.mean(found == TEST[1][pair]) >= model.score(TEST[0][pair], TEST[1][pair])
    with fails(InputError, "unknown-label"):
        model.predict(TEST[0], classes=[3, 12])


def test_saved_copied_and_pickled_classifiers_predict_the_same(tmp_path):
    model = fedwad.CoresetClassifier(size=5, n_neighbors=3, masses="free", seed=np.int64(4)).fit(
        Wire(clients(), dead=["client02"])
    )
    model.save(tmp_path / "model.npz")
    for other in (
        fedwad.CoresetClassifier.load(tmp_path / "model.npz"),
        pickle.loads(pickle.dumps(model)),  # noqa: S301 - our own bytes
    ):
        np.testing.assert_array_equal(other.predict_proba(TEST[0]), model.predict_proba(TEST[0]))
        assert other.get_params() == model.get_params()
        assert other.n_features_in_ == 64
        assert (other.sites_, other.failed_, other.traffic_) == (
            model.sites_,
            model.failed_,
            model.traffic_,
        )
    assert clone(model).get_params() == model.get_params()


def test_names_of_features_are_kept(tmp_path):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X[:200, :3], columns=["a", "b", "c"])
    model = fedwad.CoresetClassifier().fit(table, Y[:200])
    model.save(tmp_path / "model.npz")
    loaded = fedwad.CoresetClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    with fails(InputError, "different-columns"):
        loaded.predict(table[["c", "b", "a"]])
    with fails(InputError, "different-columns"):
        loaded.predict(table.rename(columns={"c": "d"}).assign(e=1.0))
    assert not hasattr(model.fit(SITES), "feature_names_in_")


def test_files_that_are_no_classifier(tmp_path):
    with fails(InputError, "no-such-file"):
        fedwad.CoresetClassifier.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", X=X)
    for name in ("text.npz", "other.npz"):
        with fails(InputError, "wrong-format"):
            fedwad.CoresetClassifier.load(tmp_path / name)
    fedwad.CoresetClassifier(size=3).fit(SITES).save(tmp_path / "whole.npz")
    with np.load(tmp_path / "whole.npz") as archive:
        parts = dict(archive)
    cut = {name: part for name, part in parts.items() if name != "labels_"}
    for k, damaged in enumerate(
        [cut, parts | {"labels_": parts["labels_"] + 50}, parts | {"points_": X[:3]}]
    ):
        np.savez(tmp_path / f"{k}.npz", **damaged)
        with fails(InputError, "damaged-content"):
            fedwad.CoresetClassifier.load(tmp_path / f"{k}.npz")


def test_small_and_odd_clients():
    sites = {
        "one sample": (X[:1], Y[:1]),
        "one class": (X[Y == 3][:40], Y[Y == 3][:40]),
        "copies": (np.repeat(X[:2], 30, axis=0), np.repeat(Y[:2], 30)),
        "all": (X[:200], Y[:200]),
    }
    for atoms_per in ("class", "site"):
        model = fedwad.CoresetClassifier(size=1000, atoms_per=atoms_per).fit(sites)
        assert np.bincount(model.owners_).tolist() == [200, 2, 40, 1]
        np.testing.assert_array_equal(model.predict(X[:1]), Y[:1])
    only = fedwad.CoresetClassifier().fit({"one": (X[:1], Y[:1])})
    assert set(only.predict(TEST[0]).tolist()) == {Y[0]}
    assert only.predict_proba(TEST[0]).tolist() == [[1.0]] * len(TEST[0])


def test_the_same_sample_under_two_labels():
    model = fedwad.CoresetClassifier(n_neighbors=2).fit(
        {"a": (np.zeros((5, 2)), [0] * 5), "b": (np.zeros((5, 2)), [1] * 5)}
    )
    np.testing.assert_allclose(model.predict_proba([[1.0, 1.0]]), [[0.5, 0.5]])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"size": 0}, ("bad-option", "size")),
        ({"size": 2.5}, ("bad-option", "size")),
        ({"atoms_per": "client"}, ("bad-option",)),
        ({"n_neighbors": 0}, ("bad-option", "neighbors")),
        ({"masses": "uniform"}, ("bad-option",)),
        ({"seed": -1}, ("bad-option", "seed")),
    ],
)
def test_wrong_options_are_refused_at_fit(options, problem):
    with fails(InputError, *problem):
        fedwad.CoresetClassifier(**options).fit(SITES)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            {"paris": (X[:50], Y[:50]), "oslo": (X[:50], Y[:50].astype(str))},
            "bad-labels",
        ),
        (
            {"paris": (X[:50], Y[:50]), "oslo": (X[:50, :7], Y[:50])},
            "different-columns",
        ),
        ({"paris": (X[:50], Y[:50]), "oslo": X[:50]}, "missing-labels"),
        ({"paris": (X[:50], Y[:50] / 3)}, "bad-labels"),
        ({"paris": (X[:50], Y[:49])}, "wrong-shape"),
        ({}, "no-sites"),
    ],
)
def test_wrong_federations(data, problem):
    with fails(InputError, problem) as caught:
        fedwad.CoresetClassifier().fit(data)
    assert "\n" not in str(caught.value)


def test_wrong_arrays():
    model = fedwad.CoresetClassifier(size=5)
    with fails(InputError, "conflicting-options", "y"):
        model.fit(SITES, Y)
    with fails(InputError, "bad-samples"):
        model.fit(X)
    model.fit(SITES)
    holed = X[:5].copy()
    holed[2, 3] = np.nan
    for wrong, problem in (
        (holed, "missing-values"),
        (X[:5, :9], "bad-samples"),
        (X[0], "wrong-shape"),
    ):
        with fails(InputError, problem) as caught:
            model.predict(wrong)
        assert len(str(caught.value)) < 150  # no samples in it


def test_a_table_with_columns_in_another_order_is_noticed():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    table = pd.DataFrame(
        {"age": rng.normal(0, 1, 200) + 5 * y, "dose": rng.normal(0, 1, 200) - 5 * y}
    )
    turned = table[["dose", "age"]]
    for sites in ({"a": (table, y), "b": (turned, y)}, {"b": (turned, y), "a": (table, y)}):
        model = fedwad.CoresetClassifier(size=10).fit(fedwad.local(sites, schema=None))
        assert model.feature_names_in_.tolist() == ["age", "dose"]  # the order of all federations
        assert model.score(table, y) > 0.95
        with fails(InputError, "different-columns"):
            model.predict(turned)


def test_a_classifier_of_raw_tables_encodes_what_it_predicts(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    table = pd.DataFrame(
        {"age": rng.normal(60, 9, 200), "kind": np.where(rng.random(200) < 0.1, 1 - y, y)}
    ).assign(kind=lambda frame: frame.kind.map({0: "a", 1: "b"}))
    model = fedwad.CoresetClassifier(size=10).fit({"a": (table, y), "b": (table[::-1], y[::-1])})
    found = model.predict(table)
    assert np.mean(found == y) > 0.8
    np.testing.assert_array_equal(model.predict(table[["kind", "age"]]), found)
    model.save(tmp_path / "model.npz")
    again = fedwad.CoresetClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(table), found)


def test_neighbours_are_found_far_from_the_origin():
    near = fedwad.CoresetClassifier(size=10).fit(X[:300], Y[:300])
    far = fedwad.CoresetClassifier(size=10).fit(X[:300] + 2.0**30, Y[:300])
    assert np.mean(far.predict(X + 2.0**30) == near.predict(X)) > 0.99
