"""Calibrated values, noise and populations in the results of a distance and a matrix."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedwad
from fedwad.federation import Client, Dataset, LocalFederation, Policy, SummaryRequest
from fedwad.messages.codec import Envelope, check_reply, pack, unpack


def normal(seed, n, d, shift=0.0, scale=1.0):
    return shift + scale * np.random.default_rng(seed).normal(size=(n, d))


def test_one_population_is_noise():
    x, y = normal(0, 300, 10), normal(1, 300, 10)
    r = fedwad.distance(x, y)
    assert r.differs is False
    assert r.noise == pytest.approx(fedwad.wasserstein(x, y), rel=0.05)
    assert r.value == pytest.approx(fedwad.wasserstein(x, y), rel=0.05)
    assert np.isnan(r.population)  # no estimate without evidence
    assert r.population_interval[0] == 0 < r.population_interval[1] < 1.2 * r.value


def test_two_populations_differ():
    covered = 0
    for seed in range(20):
        x, y = normal([seed, 0], 100, 2), normal([seed, 1], 100, 2, shift=1.0)
        r = fedwad.distance(x, y)
        low, high = r.population_interval
        assert r.differs
        assert r.lower <= r.value <= r.upper
        covered += low <= np.sqrt(2) <= high
    assert covered >= 16


def test_the_papers_method_ends_with_the_same():
    x, y = normal(2, 150, 3), normal(3, 150, 3, shift=1.0)
    one, two = fedwad.distance(x, y), fedwad.distance(x, y, method="fedwad", rounds=2)
    assert two.population == pytest.approx(one.population, rel=0.1)
    assert two.noise == pytest.approx(one.noise, rel=0.1)


def test_rounds_with_many_cells_are_calibrated_as_those_with_few():
    """Splits had fewer cells than all rows had, which made values 8% too low here."""
    from sklearn.datasets import load_digits

    x, y = load_digits().data[::2], load_digits().data[1::2]
    r = fedwad.distance(x, y, method="fedwad", support=100, rounds=3)
    assert r.value == pytest.approx(fedwad.wasserstein(x, y), rel=0.05)


def test_results_keep_the_numbers(tmp_path):
    data = {"a": normal(4, 60, 3), "b": normal(5, 80, 3), "c": normal(6, 50, 3, shift=2.0)}
    r, m = fedwad.distance(data["a"], data["b"]), fedwad.matrix(data)
    r.save(tmp_path / "r.json")
    m.save(tmp_path / "m.json")
    assert fedwad.DistanceResult.load(tmp_path / "r.json") == r
    again = fedwad.MatrixResult.load(tmp_path / "m.json")
    assert again == m
    np.testing.assert_array_equal(again.population_interval[1], m.population_interval[1])
    assert m.pvalue[0, 2] < 0.05 < m.pvalue[0, 1]
    assert m.population_interval[0][0, 2] > 0 == m.population[1, 1]


def test_same_data_are_at_zero():
    x = normal(7, 100, 3)
    r = fedwad.distance(x, x.copy())
    assert r.value < 1e-6
    assert r.differs is False
    itself = fedwad.distance(x, x)
    assert (itself.value, itself.differs) == (0, False)
    assert fedwad.DistanceResult.from_dict(json.loads(json.dumps(itself.to_dict()))) == itself


def test_withheld_numbers_leave_the_plain_estimate():
    shared, withheld = (
        Policy(allow=("columns", "summary"), splits=splits) for splits in ("blocks", "none")
    )
    data = {"a": normal(8, 200, 3), "b": normal(9, 200, 3, shift=1.0), "c": normal(10, 200, 3)}
    rules = {"a": shared, "b": shared, "c": withheld}
    fed = LocalFederation(
        {name: Client(Dataset(fedwad.Measure(x)), rules[name]) for name, x in data.items()}
    )
    m = fedwad.matrix(fed)
    assert np.isnan(m.noise[0, 2])
    assert m.differs[0, 1] is True
    assert m.differs[0, 2] is None
    assert np.isnan(m.population[0, 2])
    assert m.population[0, 1] == pytest.approx(np.sqrt(3), abs=0.3)
    assert fedwad.MatrixResult.from_dict(m.to_dict()) == m
    r = fedwad.distance(fed["a"], fed["c"])
    assert r.noise is r.population_interval is r.differs is None
    assert np.isnan(r.population)
    assert r.sentence.startswith("It was not tested whether a and c differ: ")
    assert fedwad.distance(fed["a"], fed["b"]).noise is not None


def test_a_site_that_cannot_be_tested_is_named_and_not_among_those_without_evidence():
    """It varies 10,000 times more than the others, so its blocks are not in their units."""
    data = {"a": normal(8, 60, 3), "b": normal(9, 90, 3), "c": 1e4 * normal(10, 80, 3)}
    m = fedwad.matrix(fedwad.local(data))
    assert m.differs[0, 1] is False
    assert m.differs[0, 2] is m.differs[1, 2] is None
    assert m.sentence.startswith("There is no evidence that the 2 tested sites differ")
    assert "c was not tested" in m.sentence


def test_other_orders_are_tested_and_not_calibrated():
    r = fedwad.distance(normal(11, 60, 2), normal(12, 60, 2), p=1.0)
    assert r.noise is None
    assert r.differs is False


def two_classes(seed, n, d, shift=0.0, apart=0.7):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    return rng.normal(size=(n, d)) + np.where(labels, apart, -apart)[:, None] + shift, labels


@pytest.mark.parametrize("class_covariance", ["diag", "full"])
def test_labelled_samples_of_one_population_are_noise(class_covariance):
    """Noise is right on average; numbers of rows of the classes make it vary by a factor."""
    squares = []
    for seed in range(20, 30, 2):
        (x, y), (z, w) = (two_classes(one, 240, 4, apart=3.0) for one in (seed, seed + 1))
        r = fedwad.distance((x, y), (z, w), labels=True, class_covariance=class_covariance)
        exact = fedwad.transport.dataset_distance(x, y, z, w, class_covariance)
        assert r.differs is False
        assert r.value == pytest.approx(exact, rel=0.06)
        squares.append((r.noise**2, exact**2))
    noise, exact = np.mean(squares, axis=0)
    assert 0.5 < noise / exact < 2


def test_labelled_populations_differ_by_features_and_class_means():
    """A shift moves rows and class means alike, so the square counts it twice."""
    covered = 0
    for seed in range(5):
        a, b = two_classes([seed, 0], 120, 3), two_classes([seed, 1], 120, 3, shift=1.0)
        r = fedwad.distance(a, b, labels=True)
        low, high = r.population_interval
        assert r.differs
        covered += low <= np.sqrt(2 * 3 * 1.0**2) <= high
    assert covered >= 4


def test_labels_of_other_names_change_no_number():
    (x, y), other = two_classes(22, 90, 2), two_classes(23, 90, 2)
    one = fedwad.distance((x, y), other, labels=True)
    two = fedwad.distance((x[::-1], np.where(y, "cat", "dog")[::-1]), other, labels=True)
    assert (one.value, one.noise, one.pvalue) == (two.value, two.noise, two.pvalue)


def test_matrices_with_labels_are_calibrated_as_distances_are():
    a, b = two_classes(24, 80, 2), two_classes(25, 80, 2)
    m, r = fedwad.matrix({"a": a, "b": b}, labels=True), fedwad.distance(a, b, labels=True)
    assert m.noise[0, 1] == r.noise
    assert m.value[0, 1] == r.value
    assert m.differs[0, 1] is False


def test_rounds_with_labels_have_no_noise_and_are_tested():
    a, b = two_classes(26, 60, 2), two_classes(27, 60, 2)
    r = fedwad.distance(a, b, labels=True, method="fedwad", support=5, rounds=2)
    assert r.noise is None
    assert r.pvalue == fedwad.permutation_test(a[0], b[0]).pvalue


def test_few_rows_send_no_numbers():
    assert fedwad.distance(normal(13, 19, 2), normal(14, 50, 2)).noise is None
    policy = Policy(allow=("summary",), min_cell_size=30)
    reply = Client(Dataset(fedwad.Measure(normal(15, 59, 2))), policy).answer(
        SummaryRequest(1, "auto", 2.0, 0)
    )
    assert reply.calibration is None


def test_replies_travel_and_nonsense_is_refused():
    from dataclasses import replace

    request = SummaryRequest(5, "auto", 2.0, 0)
    client = Client(Dataset(fedwad.Measure(normal(16, 80, 4))), Policy.open())
    reply = unpack(pack(Envelope(client.answer(request)))).content
    assert check_reply(request, reply) is None
    for change in (
        {"noise": float("nan")},
        {"noise": -1.0},
        {"synthetic": 1e200},
        {"size": 0.0},
    ):
        wrong = replace(reply, calibration=replace(reply.calibration, **change))
        assert check_reply(request, wrong).code == "invalid_reply"
    assert check_reply(replace(request, calibration=False), reply).code == "invalid_reply"
