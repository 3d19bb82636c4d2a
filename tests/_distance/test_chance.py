"""Calibrated values, noise and populations in the results of a distance and a matrix."""

from __future__ import annotations

import numpy as np
import pytest

import fedwad
from fedwad.federation import Client, Dataset, LocalFederation, Policy, SummaryRequest
from fedwad.federation.codec import Envelope, pack, unpack
from fedwad.federation.replies import check_reply
from fedwad.report.sentences import distance_answer


def normal(seed, n, d, shift=0.0, scale=1.0):
    return shift + scale * np.random.default_rng(seed).normal(size=(n, d))


def test_one_population_is_noise():
    x, y = normal(0, 300, 10), normal(1, 300, 10)
    r = fedwad.distance(x, y)
    assert r.calibrated
    assert r.differs is False
    assert r.noise == pytest.approx(fedwad.wasserstein(x, y), rel=0.05)
    assert r.value == pytest.approx(fedwad.wasserstein(x, y), rel=0.05)
    assert r.population_interval[0] == 0 <= r.population <= r.population_interval[1] < r.value


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
    r, m = fedwad.distance(data["a"], data["b"]), fedwad.matrix(data, test=True)
    r.save(tmp_path / "r.json")
    m.save(tmp_path / "m.json")
    assert fedwad.DistanceResult.load(tmp_path / "r.json") == r
    again = fedwad.MatrixResult.load(tmp_path / "m.json")
    assert again == m
    np.testing.assert_array_equal(again.population_interval[1], m.population_interval[1])
    assert m.calibrated
    assert m.pvalue[0, 2] < 0.05 < m.pvalue[0, 1]
    assert m.population_interval[0][0, 2] > 0 == m.population[1, 1]


def test_same_data_are_at_zero():
    x = normal(7, 100, 3)
    r = fedwad.distance(x, x.copy())
    assert r.value < 1e-6
    assert r.population == 0
    assert fedwad.distance(x, x).population == 0


def test_withheld_numbers_leave_the_plain_estimate():
    shared, withheld = (Policy(allow=("summary",), calibration=share) for share in (True, False))
    data = {"a": normal(8, 200, 3), "b": normal(9, 200, 3), "c": normal(10, 200, 3)}
    rules = {"a": shared, "b": shared, "c": withheld}
    fed = LocalFederation(
        {name: Client(Dataset(fedwad.Measure(x)), rules[name]) for name, x in data.items()}
    )
    m = fedwad.matrix(fed)
    assert not m.calibrated
    assert np.isnan(m.population[0, 2])
    assert m.population[0, 1] >= 0
    assert fedwad.MatrixResult.from_dict(m.to_dict()) == m
    r = fedwad.distance(fed["a"], fed["c"])
    assert not r.calibrated
    assert r.noise is r.population is r.population_interval is r.differs is None
    assert fedwad.distance(fed["a"], fed["b"]).calibrated


def test_other_orders_are_not_calibrated():
    assert not fedwad.distance(normal(11, 60, 2), normal(12, 60, 2), p=1.0).calibrated


def two_classes(seed, n, d, shift=0.0, apart=0.7):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    return rng.normal(size=(n, d)) + np.where(labels, apart, -apart)[:, None] + shift, labels


@pytest.mark.parametrize("class_covariance", ["diag", "full"])
def test_labelled_samples_of_one_population_are_noise(class_covariance):
    (x, y), (z, w) = (two_classes(seed, 240, 4, apart=3.0) for seed in (20, 21))
    r = fedwad.distance((x, y), (z, w), labels=True, class_covariance=class_covariance)
    exact = fedwad.ot.dataset_distance(x, y, z, w, class_covariance)
    assert r.calibrated
    assert r.differs is False
    assert r.value == pytest.approx(exact, rel=0.06)
    assert r.population_interval[0] == 0 <= r.population < r.noise


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
    assert (one.value, one.noise, one.population) == (two.value, two.noise, two.population)


def test_matrices_with_labels_are_calibrated_as_distances_are():
    a, b = two_classes(24, 80, 2), two_classes(25, 80, 2)
    m, r = fedwad.matrix({"a": a, "b": b}, labels=True), fedwad.distance(a, b, labels=True)
    assert m.calibrated
    assert m.noise[0, 1] == pytest.approx(r.noise)
    # The names of sites seed the synthetic samples.
    assert m.value[0, 1] == pytest.approx(r.value, rel=0.1)
    assert m.differs is False


def test_rounds_with_labels_say_that_chance_is_unknown():
    a, b = two_classes(26, 40, 2), two_classes(27, 40, 2)
    r = fedwad.distance(a, b, labels=True, method="fedwad", support=5, rounds=2)
    assert not r.calibrated
    assert "method 'summary' shows it" in " ".join(distance_answer(r))


def test_few_rows_send_no_numbers():
    assert not fedwad.distance(normal(13, 19, 2), normal(14, 50, 2)).calibrated
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
        {"error_decay": 1e200},
        {"size": 0.0},
        {"splits": 0},
        {"features": np.ones(4)},
        {"features": np.ones(3) / 3},
    ):
        wrong = replace(reply, calibration=replace(reply.calibration, **change))
        assert check_reply(request, wrong).code == "invalid_reply"
    assert check_reply(replace(request, calibration=False), reply).code == "invalid_reply"
