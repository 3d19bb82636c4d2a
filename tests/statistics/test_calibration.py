"""Splits of one sample: deterministic, and right about the noise of independent samples."""

from __future__ import annotations

import numpy as np
import pytest

from fedwad.statistics import summarise
from fedwad.statistics.calibration import Calibration, calibrate, sample_distances
from fedwad.transport import Measure, wasserstein


def independent_square(draw, repeats):
    """Mean squared distance of independent pairs, by the exact solver."""
    return float(np.mean([wasserstein(*draw(k)) ** 2 for k in range(repeats)]))


@pytest.mark.parametrize(("n", "d"), [(200, 20), (300, 5)])
def test_noise_is_that_of_independent_samples(n, d):
    def draw(k):
        rng = np.random.default_rng([k, n])
        return rng.normal(size=(n, d)), rng.normal(size=(n, d))

    measured = np.mean([calibrate(Measure(draw(k)[0])).noise_at(n) for k in range(4)])
    assert measured == pytest.approx(independent_square(draw, 8), rel=0.05)


def test_rows_in_any_order_give_the_same_numbers():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, 3))
    one, two = calibrate(Measure(rows)), calibrate(Measure(rows[rng.permutation(90)]))
    assert one.noise == two.noise
    assert one.synthetic == two.synthetic


def test_scales_and_shifts():
    rows = np.random.default_rng(1).normal(size=(80, 4))
    one, two = calibrate(Measure(rows)), calibrate(Measure(4 * rows))
    assert calibrate(Measure(rows)).noise_at(100) < calibrate(Measure(rows)).noise_at(50)
    # Other splits are drawn for other rows, so the numbers agree only about.
    assert two.noise == pytest.approx(16 * one.noise, rel=0.15)


def test_weights_of_one_are_no_weights_and_repeated_rows_are_weights():
    rows = np.random.default_rng(2).normal(size=(60, 2))
    assert calibrate(Measure(rows, np.ones(60))).noise == calibrate(Measure(rows)).noise
    weights = np.r_[np.full(30, 3.0), np.full(30, 1.0)]
    found = calibrate(Measure(rows, weights))
    assert 15 < found.size < 30
    assert found.noise > 0


@pytest.mark.parametrize("covariance_type", ["full", "lowrank"])
def test_all_kinds_of_covariance(covariance_type):
    rows = np.random.default_rng(3).normal(size=(80, 6))
    found = calibrate(Measure(rows), covariance_type=covariance_type)
    assert found.synthetic == pytest.approx(found.noise, rel=0.25)


@pytest.mark.parametrize(
    "rows", [np.zeros((1, 2)), np.zeros((2, 2)), np.ones((50, 3)), np.repeat([[0.0], [1.0]], 30, 0)]
)
def test_few_constant_and_repeated_rows(rows):
    found = calibrate(Measure(rows))
    assert np.isfinite(found.noise_at(len(rows)))
    assert np.isfinite(found.synthetic)
    if np.ptp(rows) == 0:
        assert found.noise == 0


@pytest.mark.parametrize("n", [2, 3, 5, 8, 19, 21, 39])
def test_small_sites_have_finite_numbers(n):
    found = calibrate(Measure(np.random.default_rng(n).normal(size=(n, 3))))
    assert found.noise > 0
    assert found.noise_at(n) > 0
    assert found.synthetic > 0


def test_halves_have_different_units():
    """Rows of one patient in both halves would make them look alike."""
    noises = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        units = np.repeat(np.arange(50), 8)
        visits = rng.normal(size=(50, 3))[units] + 0.1 * rng.normal(size=(400, 3))
        apart, together = calibrate(Measure(visits), units=units), calibrate(Measure(visits))
        patients = calibrate(Measure(visits[::8]))
        noises.append([apart.noise_at(400), patients.noise_at(50), together.noise_at(400)])
    apart, patients, together = np.mean(noises, axis=0)
    assert apart == pytest.approx(patients, rel=0.25)
    assert apart > 2 * together


def test_message_is_small():
    found = calibrate(Measure(np.random.default_rng(5).normal(size=(60, 100))))
    numbers = sum(np.size(value) for value in vars(found).values())
    assert 8 * numbers < 2000


def test_what_the_estimate_adds_to_one_population_is_subtracted():
    """Noise 8 at 100 rows, estimated as 10: above 10 less and less is subtracted, below a part."""
    c = Calibration(100.0, 8.0, 16.0, 1.0, 10.0)
    for estimated, value in ((30.0, 30 - 2 * np.exp(-2)), (10.0, 8.0), (5.0, 4.0)):
        squares = np.array([[0.0, estimated], [estimated, 0.0]])
        found = sample_distances(squares, [c, c], [100, 100])
        assert found.value[0, 1] ** 2 == pytest.approx(value)
        assert found.noise[0, 1] ** 2 == pytest.approx(8.0)
    # An estimate that is 1.25 times too high falls 1.25 times more slowly.
    assert c.synthetic_at(200.0) == pytest.approx(10 * 2**-0.8)
    # Samples of 100 and 300 rows are as far apart as two of 150, whose noise falls as 1 / n here.
    assert sample_distances(squares, [c, c], [100, 300]).noise[0, 1] ** 2 == pytest.approx(16 / 3)


def test_cells_of_a_shared_support_are_compared_with_such_cells():
    """Noise is the same; the error of the estimate is that of cells of the support."""
    from sklearn.datasets import load_digits

    images = load_digits().data
    data = images[np.random.default_rng(0).permutation(len(images))[:400]]
    support = images[np.random.default_rng(1).permutation(len(images))[:40]]
    shared = calibrate(Measure(data), 40, min_cell_size=5, support=support)
    own = calibrate(Measure(data), 40, min_cell_size=5)
    assert shared.noise == pytest.approx(own.noise, rel=0.05)
    assert shared.noise < shared.synthetic != own.synthetic


def test_auto_is_the_covariance_that_a_summary_sends():
    """Once failed. A summary of more than 1024 features has the diagonal; halves had all of it."""
    rng = np.random.default_rng(5)
    for d in (1024, 1025):
        rows = Measure(rng.normal(size=(60, 3)) @ rng.normal(size=(3, d)))
        sent = summarise(rows).covariance_type
        assert calibrate(rows).synthetic == calibrate(rows, covariance_type=sent).synthetic
