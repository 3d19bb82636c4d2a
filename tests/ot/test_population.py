"""Known populations: the noise is taken away, by feature and by spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedwad.ot import Measure, summarise, wasserstein
from fedwad.ot._calibration import Calibration, calibrate
from fedwad.ot._moment_parts import Site, moment_parts
from fedwad.ot._population import calibrated_squares, noise_squares, populations


def site(rows):
    return Site(len(rows), rows.mean(axis=0), np.cov(rows.T, bias=True), calibrate(Measure(rows)))


def noise(a, b, rows_a, rows_b):
    return np.sqrt(noise_squares([a, b], [rows_a, rows_b])[0, 1])


def calibrated_value(value, a, b, rows_a, rows_b):
    squares = np.array([[0.0, value**2], [value**2, 0.0]])
    return np.sqrt(calibrated_squares(squares, [a, b], [rows_a, rows_b])[0, 1])


def exact(parts):
    return np.array([[wasserstein(a, b) ** 2 for b in parts] for a in parts])


@pytest.mark.parametrize(
    ("change", "truth"),
    [
        (lambda y: y, 0.0),
        (lambda y: y + 0.3, 2.7),
        (lambda y: 1.3 * y, 2.7),
        (lambda y: y * np.r_[2, np.ones(29)], 1.0),
    ],
)
def test_known_distances_between_populations(change, truth):
    found, covered = [], []
    for k in range(4):
        rng = np.random.default_rng([k, 12])
        parts = [rng.normal(size=(200, 30)), change(rng.normal(size=(200, 30)))]
        # Exact distances need no correction of an estimator.
        sites = [
            Site(s.count, s.mean, s.covariance, _exact(s.calibration)) for s in map(site, parts)
        ]
        answer = populations(exact(parts), sites)
        found.append(answer.square[0, 1])
        covered.append(answer.lower[0, 1] ** 2 <= truth <= answer.upper[0, 1] ** 2)
    assert np.mean(found) == pytest.approx(truth, abs=max(0.3, 0.1 * truth))
    assert sum(covered) >= 3


def _exact(c: Calibration) -> Calibration:
    """The same for an estimator without error."""
    return replace(c, drawn=round(c.size), synthetic=c.noise, synthetic_half=c.noise_quarter)


def test_calibration_leaves_far_estimates_and_corrects_near_ones():
    c = Calibration(100, 4.0, 4.0, 0.1, 4, 100, 8.0, 8.0, 2.0)
    assert calibrated_value(np.sqrt(c.synthetic_at(100)), c, c, 100, 100) ** 2 == pytest.approx(
        4.0, rel=0.02
    )
    assert calibrated_value(100.0, c, c, 100, 100) == pytest.approx(100.0, rel=1e-4)
    values = [calibrated_value(v, c, c, 100, 100) for v in np.linspace(0.1, 10, 60)]
    assert (np.diff(values) > 0).all()


def test_errors_fall_with_the_difference_and_order_stays():
    """Too high and too low estimates: one decay beyond those of one population, 1 / e of the error
    is left."""
    for exact_square in (4.0, 12.0):
        c = Calibration(100, exact_square, exact_square, 0.0, 4, 100, 8.0, 8.0, 10.0)
        found = calibrated_value(np.sqrt(18.0), c, c, 100, 100) ** 2
        assert found == pytest.approx(18.0 + (exact_square - 8.0) / np.e, rel=1e-9)
        values = [calibrated_value(v, c, c, 100, 100) for v in np.linspace(0.1, 10, 60)]
        assert (np.diff(values) > 0).all()


def test_many_rows_are_beside_the_synthetic_samples_of_their_summary():
    """Images: what a server estimates for one population stays high, which the client's small
    halves do not show."""
    from sklearn.datasets import load_digits

    from fedwad.ot import estimate
    from fedwad.ot._self_distance import NullEstimate, self_distance

    images = load_digits().data[np.random.default_rng(2).permutation(1797)]
    parts = [images[:898], images[898:1796]]
    summaries = [summarise(Measure(x)) for x in parts]
    calibrations = [calibrate(Measure(x)) for x in parts]
    truth, rows = estimate(*summaries).value ** 2, np.array(898.0)
    for summary, c in zip(summaries, calibrations, strict=True):
        found = NullEstimate(c, self_distance(summary, c)).at(rows)
        assert c.synthetic_at(rows) <= found == pytest.approx(truth, rel=0.08)
        assert self_distance(summary, replace(c, drawn=449)) is None


def test_noise_falls_with_either_size_and_is_symmetric():
    a = Calibration(100, 4.0, 6.0, 0.1, 4, 100, 4.0, 6.0, 2.0)
    b = Calibration(100, 9.0, 12.0, 0.1, 4, 100, 9.0, 12.0, 2.0)
    assert noise(a, b, 100, 100) ** 2 == pytest.approx(6.0)
    assert noise(a, b, 100, 300) < noise(a, b, 100, 100)
    assert noise(a, b, 100, 300) == pytest.approx(noise(b, a, 300, 100))


@pytest.mark.parametrize("dimension", [10, 40])
def test_noise_of_samples_of_unequal_size_is_that_of_rows(dimension):
    """Draws of one population: a small sample beside a large one is nearly as far as one beside its like."""
    rng = np.random.default_rng(5)
    draws = [
        (rng.normal(size=(60, dimension)), rng.normal(size=(900, dimension))) for _ in range(9)
    ]
    truth = np.mean([exact(pair)[0, 1] for pair in draws])
    found = [noise(*(calibrate(Measure(x)) for x in pair), 60, 900) ** 2 for pair in draws]
    assert np.mean(found) == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize(("small", "large"), [(60, 400), (100, 2000)])
def test_samples_of_unequal_size_of_one_population_do_not_differ(small, large):
    rng = np.random.default_rng(6)
    parts = [rng.normal(size=(small, 10)), rng.normal(size=(large, 10))]
    found = populations(exact(parts), [site(x) for x in parts])
    assert found.lower[0, 1] == 0


def test_a_matrix_agrees_with_its_pairs():
    rng = np.random.default_rng(3)
    parts = [rng.normal(shift, 1, (60, 4)) for shift in (0, 0.2, 1)]
    sites = [site(x) for x in parts]
    squares = exact(parts)
    whole = populations(squares, sites)
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        pair = populations(squares[np.ix_([i, j], [i, j])], [sites[i], sites[j]])
        for name in ("value", "noise", "population", "lower", "upper"):
            assert getattr(whole, name)[i, j] == pytest.approx(
                getattr(pair, name)[0, 1], rel=1e-9, abs=1e-9
            )
            np.testing.assert_array_equal(getattr(whole, name), getattr(whole, name).T)
            assert not np.diag(getattr(whole, name)).any()
    assert (whole.lower <= whole.upper).all()


def test_moments_are_those_of_normal_rows():
    rng = np.random.default_rng(4)
    sites = [site(rng.normal(0, 1, (400, 3))), site(rng.normal([1, 0, 0], [1, 2, 1], (400, 3)))]
    parts = moment_parts(sites)
    assert parts.shift[0, 1] == pytest.approx(1.0, abs=0.3)
    assert parts.scale[0, 1] == pytest.approx(1.0, abs=0.3)
    assert parts.mean_noise[0, 1] == pytest.approx(3 / 400 + 6 / 400, rel=0.2)


def test_constant_sites_and_estimates_of_zero():
    sites = [site(np.ones((30, 2))), site(np.ones((30, 2)))]
    found = populations(np.zeros((2, 2)), sites)
    assert not found.population.any()
    assert not found.upper.any()
    assert calibrated_squares(np.zeros((2, 2)), [s.calibration for s in sites], [30, 30])[0, 1] == 0


def test_the_estimate_of_a_summary_becomes_the_exact_distance():
    """Sparse binary rows lie on a thin set, which Gaussians in cells do not."""
    from fedwad.ot import estimate

    rng = np.random.default_rng(5)
    parts = [1.0 * (rng.random((300, 40)) < share) for share in (0.05, 0.06)]
    summaries = [summarise(Measure(x)) for x in parts]
    a, b = (calibrate(Measure(x)) for x in parts)
    truth, raw = wasserstein(*parts), estimate(*summaries).value
    assert abs(calibrated_value(raw, a, b, 300, 300) / truth - 1) < min(0.05, raw / truth - 1)


def test_the_interval_reaches_over_fluctuations_of_cluster_weights():
    """Six separate clusters: the truth is about what the samples show, and the noise of weights is
    no part of it."""
    from fedwad.ot import beyond_chance, estimate

    rng = np.random.default_rng(0)
    centres, shares = 4 * rng.normal(size=(6, 20)), np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    truth = 221.1  # of 2500 rows each; clusters moved as a whole give 233
    data = [
        Measure(centres[rng.choice(6, 300, p=w)] + rng.normal(size=(300, 20)))
        for w in (shares, shares[::-1])
    ]
    summaries = [summarise(one) for one in data]
    value = estimate(*summaries).value
    table = np.array([[0.0, value], [value, 0.0]])
    found = beyond_chance(table, summaries, [calibrate(one) for one in data])
    assert found.lower[0, 1] ** 2 < truth < found.upper[0, 1] ** 2
