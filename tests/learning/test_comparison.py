"""Whether clusters help is compared at equal traffic, with intervals over seeds, and beside training
alone."""

import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'fedwad[learn]')")

import fedwad
from failing import fails
from fedwad.datasets import load, partition
from fedwad.errors import InputError
from fedwad.federation import Policy, local
from fedwad.learning import TrainingOptions, train
from fedwad.learning.comparison import (
    ALL_SITES,
    ALONE,
    IN_CLUSTERS,
    compare_trainings,
    mean_and_half_width,
)

FAST = {"rounds": 2, "learning_rate": 0.05, "epochs": 2, "model": "fedwad.learning.local:mlp"}


@pytest.fixture(scope="module")
def sites():
    X, y = load("digits")
    return partition.class_pairs(X / 16, y, clients=10, samples=60, seed=0)


@pytest.fixture(scope="module")
def comparison(sites):
    fed = local(sites)

    def once(options, groups, test_every_round):
        clients = None if groups is None else list(groups)
        return train(
            fed, options, groups=groups, clients=clients, test_every_round=test_every_round
        )

    options = TrainingOptions(**(FAST | {"model": "mlp"}), fraction_train=0.3)
    return compare_trainings(once, lambda: fedwad.matrix(fed, labels=True), options, 5, seeds=2)


def test_rows_send_equally_many_models(comparison):
    """Five clusters of two train one site each in a round, and so do five of all ten."""
    up = {row: results[0].traffic.up for row, results in comparison.results.items()}
    assert up[ALL_SITES] == up[IN_CLUSTERS]
    replies = {row: results[0].traffic.messages for row, results in comparison.results.items()}
    assert replies[ALL_SITES] == replies[IN_CLUSTERS]


def test_alone_is_a_row_and_has_a_model_for_each_site(comparison):
    assert {len(one.weights) for one in comparison.results[ALONE]} == {10}
    assert [one.seed for one in comparison.results[ALONE]] == [0, 1]
    assert comparison.to_dict()["rows"][ALONE]["sent"] == 0


def test_gains_are_paired_and_say_how_sure_they_are(comparison):
    apart, together = comparison.values(IN_CLUSTERS), comparison.values(ALL_SITES)
    mean, half = comparison.gain()
    assert mean == pytest.approx(np.mean(apart) - np.mean(together))
    differences = np.subtract(apart, together)
    assert half == pytest.approx(12.7062 * differences.std(ddof=1) / math.sqrt(2), rel=1e-4)
    assert len(comparison.sentences) == 2
    assert ("not certain" in comparison.sentences[0]) == (abs(mean) <= half)


def test_one_seed_has_no_interval():
    assert math.isnan(mean_and_half_width([0.5])[1])


def test_balanced_accuracy_counts_classes_alike():
    """Nine of ten samples are of one class: always guessing it is right in 90%, balanced in 50%."""
    rng = np.random.default_rng(0)
    y = np.array([0] * 180 + [1] * 20)
    sites = {name: (rng.normal(size=(200, 2)), y) for name in ("a", "b")}
    result = train(sites, rounds=1, epochs=1, learning_rate=1e-9, test_size=0.5)
    assert result.baseline.tolist() == [0.9, 0.9]
    assert result.balanced_baseline.tolist() == [0.5, 0.5]
    assert all(0 <= value <= 1 for value in result.balanced)
    weighted = train(
        {name: (X + 3 * y[:, None], y) for name, (X, y) in sites.items()},
        rounds=3,
        epochs=2,
        loss="balanced",
        test_size=0.5,
    )
    assert weighted.balanced.min() > 0.8


def test_a_class_below_the_smallest_cell_is_left_out_of_the_mean():
    rng = np.random.default_rng(0)
    y = np.array([0] * 60 + [1] * 8)
    policy = Policy(["describe", "labels", "train", "evaluate"], min_cell_size=10, classes=True)
    fed = local({"a": (rng.normal(size=(68, 2)), y), "b": (rng.normal(size=(68, 2)), y)}, policy)
    result = train(fed, rounds=1, epochs=1, test_size=0.5, classes=[0, 1])
    assert result.balanced_baseline.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_optimizers_and_fedprox_change_the_model(sites, optimizer):
    options = {"rounds": 1, "epochs": 2, "groups": sites.groups}
    plain = train(sites, **options)
    other = train(sites, **options, optimizer=optimizer, learning_rate=1e-3)
    assert other.mean > plain.mean
    assert not np.array_equal(other.weights[0], plain.weights[0])
    with fails(InputError, "conflicting-options"):
        TrainingOptions(optimizer=optimizer, momentum=0.9)


def test_fedprox_stays_nearer_to_the_weights_of_the_round(sites):
    moved = {}
    for proximal in (0.0, 10.0):
        found = train(sites, rounds=1, epochs=3, learning_rate=0.05, proximal=proximal)
        start = found.network(0)  # the same initial weights for both
        moved[proximal] = found.weights[0]
        assert start is not None
    from fedwad.learning.local import build

    first = build("mlp", 64, 10, 0, ()).initial_weights()
    far, near = (np.linalg.norm(moved[value] - first) for value in (0.0, 10.0))
    assert near < 0.5 * far
