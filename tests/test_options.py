"""Options belong to their method: what is out of range, or belongs to another method, is refused."""

import dataclasses
import re

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad import methods, privacy
from fedwad.compare import clusters
from fedwad.datasets import partition
from fedwad.errors import InputError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(0, 1, (30, 2)), RNG.normal(1, 1, (25, 2))
DATA = {"paris": X, "oslo": Y, "rome": X + 2}
DP = fedwad.DP(1.0, delta=1e-5, clip_norm=5.0)

FUNCTIONS = {
    "distance": (lambda **options: fedwad.distance(X, Y, **options), methods.DISTANCE_METHODS),
    "matrix": (lambda **options: fedwad.matrix(DATA, **options), methods.MATRIX_METHODS),
    "coreset": (lambda **options: fedwad.coreset(DATA, 3, **options), methods.CORESET_METHODS),
}
VALID = {
    "cells": 3,
    "support": 3,
    "rounds": 2,
    "t": 0.5,
    "interpolant": "exact",
    "reveal": "every",
    "tol": 0.1,
    "max_support": 5,
    "init": X[:3],
    "covariance_type": "diag",
    "weights": "free",
    "clients_per_round": 2,
    "samples_per_client": 20,
    "inner_rounds": 2,
    "learning_rate": 0.1,
}
JUNK = {
    "cells": (0, -4, 2.5, "many", None, True, X),
    "support": (0, -1, 2.5, "many", None, True, X),
    "rounds": (0, -5, 2.5, "many", True),
    "t": (0, 1, 7, -0.5, "often", None, True, float("nan"), X),
    "interpolant": ("nonsense", None, 3, X),
    "reveal": ("banana", None, True),
    "tol": (-3, float("nan"), float("inf"), "small", None, True),
    "max_support": (0, "x", None, 2.5),
    "init": ("somewhere", 3, [[np.nan, 0.0]], [["a", "b"]]),
    "covariance_type": ("nope", "diagonal", None, 3),
    "weights": ("some", None, [1, 2, 3]),
    "clients_per_round": (0, -1, 2.5, "some"),
    "samples_per_client": (0, -1, 2.5, "some"),
    "inner_rounds": (0, -3, None),
    "learning_rate": (0, -2, "fast", float("inf")),
}
OTHERS = {
    "seed": (-1, 1.5, "one", None, True),
    "callback": (3, "print"),
}
OF_DISTANCES = {
    "p": (0.5, -1, "two", None, float("nan")),
    "labels": ("yes", None, 1),
    "class_covariance": ("half", None, "full"),
}


def all_methods():
    for function, (_, known) in FUNCTIONS.items():
        for method in known:
            yield function, method


def out_of_range():
    for function, method in all_methods():
        for name in method.option_names():
            for value in JUNK[name]:
                yield function, method, name, value


def of_other_methods():
    for function, method in all_methods():
        for name in sorted(set(VALID) - set(method.option_names())):
            yield function, method, name


def of_all_methods():
    for function, method in all_methods():
        junk = OTHERS if function == "coreset" else OTHERS | OF_DISTANCES
        for name, values in junk.items():
            for value in values:
                yield function, method, name, value


def one_sentence(caught):
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert "--" not in text  # no options of the command line
    return text


@pytest.mark.parametrize(("function", "method", "name", "value"), list(out_of_range()))
def test_a_value_out_of_range_is_refused(function, method, name, value):
    with pytest.raises(InputError) as caught:
        FUNCTIONS[function][0](method=method.name, **{name: value})
    assert name in one_sentence(caught)
    with pytest.raises(InputError):
        method(**{name: value})


@pytest.mark.parametrize(("function", "method", "name"), list(of_other_methods()))
def test_an_option_of_another_method_is_refused(function, method, name):
    with pytest.raises(InputError) as caught:
        FUNCTIONS[function][0](method=method.name, **{name: VALID[name]})
    text = one_sentence(caught)
    takers = [one.name for one in FUNCTIONS[function][1] if name in one.option_names()]
    assert name in text
    for taker in takers:
        assert f"'{taker}'" in text


@pytest.mark.parametrize(("function", "method", "name", "value"), list(of_all_methods()))
def test_wrong_values_of_common_options_are_refused(function, method, name, value):
    with pytest.raises(InputError) as caught:
        FUNCTIONS[function][0](method=method.name, **{name: value})
    assert name in one_sentence(caught)


@pytest.mark.parametrize(("function", "method"), list(all_methods()))
def test_options_that_do_not_exist_are_refused(function, method):
    with fails(InputError, "unknown-option"):
        FUNCTIONS[function][0](method=method.name, colour="red")


@pytest.mark.parametrize(("function", "method"), list(all_methods()))
def test_an_object_and_its_keywords_mean_the_same(function, method):
    call, _ = FUNCTIONS[function]
    given = {"rounds": 2, "support": 3, "cells": 3, "inner_rounds": 2}
    given = {name: value for name, value in given.items() if name in method.option_names()}
    by_name, by_object = call(method=method.name, **given), call(method=method(**given))
    assert by_name.method == by_object.method == method.name
    assert by_name.options == by_object.options
    assert np.array_equal(by_name.value, by_object.value)
    for name, value in given.items():
        assert by_name.options[name] == value


@pytest.mark.parametrize(("function", "method"), list(all_methods()))
def test_an_object_takes_no_keywords_beside_it(function, method):
    name = method.option_names()[0]
    with fails(InputError, "bad-option"):
        FUNCTIONS[function][0](method=method(), **{name: VALID[name]})


@pytest.mark.parametrize("function", FUNCTIONS)
def test_objects_of_other_functions_are_refused(function):
    call, known = FUNCTIONS[function]
    every = {one for _, some in FUNCTIONS.values() for one in some}
    for other in every - set(known):
        with fails(InputError, "bad-option"):
            call(method=other())


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("method", ["magic", None, 3, np.array(["summary"]), methods.Summary])
def test_methods_that_do_not_exist_are_refused(function, method):
    with fails(InputError, "bad-option"):
        FUNCTIONS[function][0](method=method)


@pytest.mark.parametrize(("_", "method"), list(all_methods()))
def test_objects_are_frozen_and_comparable(_, method):
    assert method() == method()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(method(), method.option_names()[0], VALID[method.option_names()[0]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: fedwad.distance(
            X, Y, method="summary", t=7, interpolant="nonsense", reveal="banana", rounds=-5
        ),
        lambda: fedwad.distance(X, Y, method="summary", tol=-3, max_support="x"),
        lambda: fedwad.distance(X, Y, privacy=DP, cells=-4, covariance_type="nope"),
        lambda: fedwad.distance(X, Y, privacy=DP, cells=4),
        lambda: fedwad.distance(X, Y, privacy=DP, covariance_type="diag"),
        lambda: fedwad.distance(X, Y, privacy=DP, support=-4),
        lambda: fedwad.matrix(DATA, privacy=DP, cells=4),
        lambda: fedwad.matrix(DATA, method="hub", privacy=DP),
        lambda: fedwad.matrix(DATA, method="hub", p=1),
        lambda: fedwad.matrix(DATA, n_jobs=0),
        lambda: fedwad.matrix(DATA, sites=["nowhere", "oslo"]),
        lambda: fedwad.coreset(DATA, method="union", support=-1, inner_rounds=-3, learning_rate=-2),
        lambda: fedwad.coreset(DATA, method="summary", gap=1.0, inner_rounds=-5),
        lambda: fedwad.coreset(DATA, size=0),
        lambda: fedwad.coreset(DATA, size=2.5),
        lambda: fedwad.coreset(DATA, sites=["nowhere"]),
        lambda: fedwad.distance(X, Y, method="fedwad", support=4, init=X[:7]),
        lambda: fedwad.distance(X, Y, class_covariance="full"),
        lambda: fedwad.distance(X, Y, labels=True, p=1),
        lambda: fedwad.wasserstein(X, Y, p=0.5),
        lambda: fedwad.wasserstein(X, Y, a=[1, 2]),
        lambda: fedwad.matrix(DATA).cluster(0),
        lambda: fedwad.matrix(DATA).cluster(2, "precomputed"),
        lambda: fedwad.matrix(DATA).cluster(2, "knn", n_neighbors=0),
        lambda: fedwad.matrix(DATA).stability(2, noise=-1),
        lambda: fedwad.matrix(DATA).nearest("nowhere"),
        lambda: fedwad.matrix(DATA).nearest("oslo", 0),
        lambda: fedwad.matrix(DATA).to_frame("nothing"),
        lambda: fedwad.permutation_test(X, Y, seed=-1),
        lambda: fedwad.permutation_test(X, Y, seed="one"),
        lambda: fedwad.audit(X, method="magic"),
        lambda: fedwad.audit(X, seed=-1),
        lambda: fedwad.local({}),
        lambda: fedwad.local({"paris": X}, policy="open"),
        lambda: fedwad.schema({"paris": X}),
        lambda: fedwad.DP(0, clip_norm=1.0),
        lambda: fedwad.DP(1.0, clip_norm=-1.0),
        lambda: fedwad.DP(1.0, clip_norm=1.0, delta=2),
        lambda: fedwad.DP(1.0, clip_norm=1.0, labels="few"),
        lambda: fedwad.Policy(min_cell_size=0),
        lambda: fedwad.Policy(max_queries=-1),
        lambda: fedwad.Policy(allow=("everything",)),
        lambda: fedwad.CoresetClassifier(size=0).fit({"paris": (X, [0, 1] * 15)}),
        lambda: fedwad.CoresetClassifier(atoms_per="client").fit({"paris": (X, [0, 1] * 15)}),
        lambda: fedwad.CoresetClassifier(n_neighbors=0).fit({"paris": (X, [0, 1] * 15)}),
        lambda: fedwad.datasets.load("nothing"),
        lambda: fedwad.learning.TrainingOptions(rounds=0),
        lambda: fedwad.learning.TrainingOptions(algorithm="sgd"),
        lambda: fedwad.learning.TrainingOptions(fraction_train=2),
        lambda: fedwad.learning.TrainingOptions(test_size=1.5),
        lambda: fedwad.learning.TrainingOptions(batch_size=0),
        lambda: fedwad.learning.TrainingOptions(learning_rate=-1),
    ],
)
def test_junk_is_refused_with_a_sentence(call):
    with pytest.raises(InputError) as caught:
        call()
    assert re.match(r"[A-Za-z0-9_].*\.$", one_sentence(caught))


REFERENCE = fedwad.Reference.from_data(X)
WRONG = (-1, 2.5, "many", True, float("nan"), [1], X)
OF_OTHER_FUNCTIONS = {
    "embed": (
        lambda **given: fedwad.embed(DATA, **({"support": 3} | given)),
        (
            *("support", "rounds", "dimension", "clients_per_round", "covariance_type"),
            *("class_covariance", "sites", "callback", "seed"),
        ),
    ),
    "cluster": (
        lambda **given: clusters.cluster(np.ones((3, 3)) - np.eye(3), **({"k": 2} | given)),
        ("k", "affinity", "n_neighbors", "seed"),
    ),
    "plan": (
        lambda **given: privacy.plan(**({"n": 100, "d": 2, "epsilon": 1} | given)),
        ("n", "d", "delta", "seed"),
    ),
    "Reference": (
        lambda **given: fedwad.Reference.from_data(X, **given),
        ("cells", "seed", "policy", "label_column", "drop", "schema"),
    ),
    "compare": (lambda **given: REFERENCE.compare(Y, **given), ("alpha", "seed")),
    "class_pairs": (
        lambda **given: partition.class_pairs(X, np.arange(30) % 4, **({"clients": 4} | given)),
        ("clients", "samples", "seed"),
    ),
    "local": (fedwad.local, ("data",)),
    "schema": (fedwad.schema, ("data",)),
    "matrix": (lambda **given: fedwad.matrix(DATA, **given), ("sites",)),
    "coreset": (lambda **given: fedwad.coreset(DATA, 3, **given), ("sites",)),
    "permutation_test": (
        lambda **given: fedwad.permutation_test(X, Y, **given),
        ("seed",),
    ),
}


@pytest.mark.parametrize(
    ("function", "name", "value"),
    [
        (function, name, value)
        for function, (_, names) in OF_OTHER_FUNCTIONS.items()
        for name in names
        for value in WRONG
    ],
)
def test_wrong_values_of_other_functions_are_refused(function, name, value):
    with pytest.raises(InputError) as caught:
        OF_OTHER_FUNCTIONS[function][0](**{name: value})
    one_sentence(caught)


@pytest.fixture(scope="module")
def results():
    return fedwad.matrix(DATA), fedwad.embed(DATA, 3), REFERENCE


@pytest.mark.parametrize("value", [-1, 0, 2.5, True, [1], X])
def test_wrong_arguments_of_results_are_refused(value, results):
    m, e, reference = results
    for call in (
        lambda: m.nearest(value),
        lambda: m.placement(value),
        lambda: m.explain("paris", value),
        lambda: m.explain_clusters(value),
        lambda: m.explain("paris", "oslo").plot(shape=value),
        lambda: m.save(value),
        lambda: fedwad.MatrixResult.load(value),
        lambda: e.nearest(value),
        lambda: e.distance("paris", value),
        lambda: reference.compare(Y, history=value),
    ):
        with pytest.raises(InputError) as caught:
            call()
        one_sentence(caught)


def test_the_papers_call_works_as_it_is_written():
    r = fedwad.distance(
        X,
        Y,
        method="fedwad",
        support=100,
        rounds=20,
        p=2,
        t=0.5,
        interpolant="barycentric",
        seed=0,
    )
    assert r.lower <= fedwad.wasserstein(X, Y) <= r.upper
    assert r.options["support"] == 100
    assert len(r.history) == 20


def test_a_starting_cloud_sets_the_support():
    options = methods.FedWaD(init=X[:7])
    assert options.support == 7
    assert options.to_dict()["init"] == "given"
    assert fedwad.distance(X, Y, method=options).support.points.shape == (7, 2)


def test_summary_is_the_default_of_distances_and_matrices():
    assert fedwad.distance(X, Y).method == fedwad.matrix(DATA).method == "summary"
    assert fedwad.coreset(DATA, 3).method == "union"
