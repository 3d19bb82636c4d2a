"""Heterogeneity and eccentricity: known values, both kinds of chance, saved and printed."""

import json

import numpy as np
import pytest

import fedwad
from command_line import run
from fedwad._matrix.health import Health
from fedwad._matrix.odd import odd_pvalues, weighted_sum_error
from fedwad._matrix.odd_moments import moment_pvalues
from fedwad.errors import InputError
from fedwad.ot import Measure, calibrate, column_moments, summarise


def squares(points):
    points = np.asarray(points, dtype=float)
    if points.ndim == 1:
        points = points[:, None]
    return ((points[:, None] - points) ** 2).sum(axis=2)


def shifted(shifts, n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return {f"site{k}": rng.normal(shift, 1, (n, d)) for k, shift in enumerate(shifts)}


def test_the_value_is_the_mean_over_pairs_of_shifted_sites():
    shifts = np.array([0.0, 0.5, 1.0, 2.0])
    m = fedwad.matrix(shifted(shifts))
    truth = 4 * squares(shifts)[np.triu_indices(4, 1)].mean()
    found = m.heterogeneity
    assert abs(found.value - truth) < 3 * found.error
    assert 0 < found.error < 0.2 * truth
    assert found.fraction == pytest.approx(truth / 2 / (truth / 2 + 4), rel=0.1)
    assert m.eccentricity.value.mean() == pytest.approx(found.value)
    assert m.eccentricity.fraction.mean() == pytest.approx(found.fraction)
    assert m.eccentricity.farthest == "site3"


def test_units_do_not_change_the_fraction():
    data = shifted([0.0, 0.5, 1.0])
    one, two = (
        fedwad.matrix({k: scale * x for k, x in data.items()}).heterogeneity for scale in (1, 8)
    )
    assert two.value == pytest.approx(64 * one.value, rel=0.02)
    assert two.fraction == pytest.approx(one.fraction, rel=0.02)


def test_one_population_has_none_beyond_its_error():
    m = fedwad.matrix(shifted([0.0] * 6))
    assert abs(m.heterogeneity.value) < 3 * m.heterogeneity.error
    assert m.eccentricity.odd == ()
    assert "no odd one out" in repr(m.eccentricity)


def test_a_planted_site_is_the_odd_one_out():
    m = fedwad.matrix(shifted([0.0] * 7 + [1.5]))
    assert m.eccentricity.odd == ("site7",)
    assert "site7" in repr(m.eccentricity)


def test_among_sites_that_differ_anyway_the_farthest_is_not_odd():
    rng = np.random.default_rng(1)
    square = squares(rng.normal(size=(12, 3)))
    assert odd_pvalues(square, np.full((12, 12), 1e-6)).min() > 0.05


@pytest.mark.parametrize("directions", [1, 4])
def test_the_level_holds_when_sites_are_drawn_from_one_distribution(directions):
    """Grubbs' setting: without errors of rows the adjusted level is at most 5%."""
    rng = np.random.default_rng(directions)
    error = np.full((8, 8), 1e-9)
    false = [
        (odd_pvalues(squares(rng.normal(size=(8, directions))), error) <= 0.05).any()
        for _ in range(200)
    ]
    assert np.mean(false) < 0.08


def planted(kind, sites, seed, n=80, d=20):
    """Sites with one population, and the last of them another; correlated columns."""
    rng = np.random.default_rng([seed, 1])
    mix = rng.normal(size=(d, d)) / np.sqrt(d)
    found = [rng.normal(size=(n, d)) @ mix for _ in range(sites)]
    if kind == "units":
        found[-1][:, 0] *= 4
    elif kind == "shift":
        found[-1][:, :3] += 1.0
    elif kind == "tails":
        found = [rng.standard_t(3, (n, d)) @ mix for _ in range(sites)]
    return [sent(points) for points in found]


def sent(points):
    """Moments as a server knows them; how heavy tails are comes from a site's splits."""
    measure = Measure(points)
    return column_moments(summarise(measure), calibrate(measure))


@pytest.mark.parametrize("kind", ["units", "shift"])
def test_few_sites_suffice_to_find_one_with_other_means_or_spreads(kind):
    for seed in range(3):
        found = 6 * moment_pvalues(planted(kind, 6, seed))
        assert found[-1] < 0.05 < found[:-1].min()


def test_small_sites_and_heavy_tails_are_not_taken_for_odd_ones():
    rng = np.random.default_rng(0)
    sizes = [sent(rng.normal(size=(n, 5))) for n in (30, 400, 400, 400, 400, 400)]
    assert 6 * moment_pvalues(sizes).min() > 0.05
    false = [6 * moment_pvalues(planted("tails", 6, seed)).min() <= 0.05 for seed in range(3)]
    assert not any(false)


def test_a_small_site_among_large_ones_is_not_odd_by_its_distances():
    rng = np.random.default_rng(13)
    sizes = (30, 300, 300, 300, 300)
    m = fedwad.matrix({f"site{k}": rng.normal(size=(n, 10)) for k, n in enumerate(sizes)})
    assert m.eccentricity.odd == ()


def test_equal_constants_are_not_odd_and_another_one_is():
    moments = [sent(np.full((20, 2), value)) for value in (0.1, 0.1, 0.1, 0.1, 0.1, 0.3)]
    assert moment_pvalues(moments[:5]).tolist() == [1.0] * 5
    assert moment_pvalues(moments)[-1] < 1e-9
    zeros = [sent(np.zeros((20, 2)))] * 4
    assert moment_pvalues(zeros).tolist() == [1.0] * 4


def test_the_error_of_a_mean_is_that_of_errors_by_site():
    """If error_ij = (u_i + u_j) / sqrt(2) with unit variances, the variance is known."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(20_000, 5))
    pairs = np.triu_indices(5, 1)
    means = ((u[:, :, None] + u[:, None]) / np.sqrt(2))[:, *pairs].mean(axis=1)
    weights = (1 - np.eye(5)) / 20
    assert weighted_sum_error(weights, np.ones((5, 5))) == pytest.approx(means.std(), rel=0.03)


def test_two_sites_have_no_odd_one_out():
    m = fedwad.matrix(shifted([0.0, 3.0]))
    assert m.eccentricity.pvalue.tolist() == [1.0, 1.0]
    assert m.heterogeneity.value == pytest.approx(36, rel=0.1)


def test_health_is_saved_and_damage_is_named(tmp_path):
    m = fedwad.matrix(shifted([0.0, 0.0, 2.0]))
    m.save(tmp_path / "m.json")
    again = fedwad.MatrixResult.load(tmp_path / "m.json")
    assert again == m
    assert again.heterogeneity == m.heterogeneity
    content = json.loads((tmp_path / "m.json").read_text())
    content["health"]["variance"].pop()
    (tmp_path / "m.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="damaged"):
        fedwad.MatrixResult.load(tmp_path / "m.json")


def test_unknown_health_is_said():
    data = shifted([0.0, 1.0, 2.0])
    closed = fedwad.Policy(["summary"], calibration=False)
    for m in (fedwad.matrix(fedwad.local(data, closed)), fedwad.matrix(data, p=1)):
        assert m.health is None
        with pytest.raises(InputError, match="calibration"):
            _ = m.heterogeneity


def test_the_command_line_has_two_lines_and_json(tmp_path):
    for name, points in shifted([0.0] * 5 + [3.0]).items():
        np.save(tmp_path / f"{name}.npy", points)
    shown = run("matrix", tmp_path).stdout
    assert "Heterogeneity: " in shown
    assert "Odd one out: site5" in shown
    content = json.loads(run("matrix", tmp_path, "--json").stdout)
    assert content["eccentricity"]["odd"] == ["site5"]
    assert content["heterogeneity"]["fraction"] > 0.2


def test_negative_squares_give_a_fraction_of_zero_variance():
    health = Health(-0.01 * (1 - np.eye(3)), np.full((3, 3), 0.02), np.ones(3))
    assert health.heterogeneity().fraction == pytest.approx(-0.005)


def test_tiny_values_have_no_odd_one_out_and_no_nan():
    data = {name: 1e-170 * rows for name, rows in shifted([0, 0, 0, 5], n=60).items()}
    assert fedwad.matrix(data).eccentricity.pvalue.tolist() == [1, 1, 1, 1]


def test_health_is_known_with_a_hub():
    assert fedwad.matrix(shifted([0, 1, 2], n=60), method="hub").heterogeneity.value > 0
