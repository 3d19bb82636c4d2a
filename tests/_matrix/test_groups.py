"""Groups of sites that chance does not make, and sites too small to be judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedwad
from command_line import run
from fedwad._matrix.resampling import kept_summaries, resample_by_intervals, resample_rows
from fedwad._matrix.significance import any_difference, find_small_sites


def sites(shifts, n=120, seed=0):
    rng = np.random.default_rng(seed)
    return {f"s{k}": rng.normal(shift, 1, (n, 3)) for k, shift in enumerate(shifts)}


def test_planted_groups_are_stable_and_chance_is_not():
    planted = fedwad.matrix(sites((0, 0, 0, 4, 4, 4)))
    assert planted.suggest().k == 2
    assert planted.stability(2) == pytest.approx(1.0)
    chance = fedwad.matrix(sites((0, 0, 0, 0, 0, 0)))
    assert chance.suggest().k == 1
    assert chance.stability(2) < 0.7


def test_groups_that_chance_could_make_are_one_and_the_output_says_why(tmp_path):
    planted = fedwad.matrix(sites((0, 0, 0, 4, 4, 4)))
    untested = replace(planted, pvalue=np.ones((6, 6)))
    found = untested.suggest()
    assert (found.k, found.by_distance) == (1, 2)
    assert planted.suggest().by_distance == 2
    untested.save(tmp_path / "m.json")
    shown = run("cluster", tmp_path / "m.json", "--report", tmp_path / "page.html").stdout
    assert "no difference between sites is more than chance" in shown
    assert "alone suggest 2" in shown
    assert "more than chance" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_small_sites_are_named():
    data = sites((0, 0, 0, 0)) | {"tiny": np.random.default_rng(1).normal(size=(12, 3))}
    found = fedwad.matrix(data)
    assert found.suggest().too_small == ("tiny",)
    assert found.suggest().k == 1
    assert find_small_sites([1000, 1000], tested=True) == []
    assert find_small_sites([10_000, 1_000_000, 15], tested=True) == [2]
    assert find_small_sites([30, 30, 30], tested=True) == [0, 1, 2]


def test_unknown_pairs_are_left_out():
    population = np.array([[0.0, 5.0, np.nan], [5.0, 0.0, np.nan], [np.nan, np.nan, 0.0]])
    low = population - 0.1
    assert any_difference(None, population, (low, population + 0.1)) is True
    nothing = np.where(np.eye(3, dtype=bool), 0.0, np.nan)
    assert any_difference(None, nothing, (nothing, nothing)) is None


def test_drawn_distances_vary_as_intervals_say():
    population = np.array([[0.0, 10.0], [10.0, 0.0]])
    interval = population * 0.9, population * 1.1
    drawn = np.array([d[0, 1] ** 2 for d in resample_by_intervals(population, interval, 4000, 0)])
    assert drawn.mean() == pytest.approx(100, rel=0.02)
    assert drawn.std() == pytest.approx((121 - 81) / (2 * 1.96), rel=0.05)


def test_rows_drawn_again_vary_as_means_of_samples_do():
    """Means of n rows have variance 1 / n, so |gap|^2 has standard deviation 2 |gap| (2 / n)^.5."""
    rows = np.random.default_rng(0).normal(size=(400, 3))
    m = fedwad.matrix({"a": rows[:200], "b": rows[200:] + 2}, cells=1, covariance_type="full")
    summaries = kept_summaries(m.kept, m.sites)
    drawn = np.array(list(resample_rows(summaries, m.population, 2000, 0)))
    assert drawn.shape == (2000, 2, 2)
    assert (drawn[:, 0, 1] == drawn[:, 1, 0]).all()
    squares = drawn[:, 0, 1] ** 2
    gap = summaries[0].mean - summaries[1].mean
    assert squares.mean() == pytest.approx(m.population[0, 1] ** 2, rel=0.02)
    assert squares.std() == pytest.approx(2 * np.linalg.norm(gap) * np.sqrt(2 / 200), rel=0.15)


def test_stability_without_kept_summaries_takes_the_intervals():
    planted = fedwad.matrix(sites((0, 0, 0, 4, 4, 4)))
    assert kept_summaries({}, planted.sites) is None
    assert replace(planted, kept={}).stability(2) == pytest.approx(1.0)


def test_small_differences_between_many_sites_count_together():
    many = fedwad.matrix(sites([0.0, 0.7] * 5, n=100), n_jobs=1)
    assert many.differs
    assert many.suggest().k == 2


def test_p_values_decide_only_if_a_pair_was_tested():
    untested = np.array([[1.0, np.nan], [np.nan, 1.0]])
    assert any_difference(untested, None, None) is None
    population = np.array([[0.0, 2.0], [2.0, 0.0]])
    assert any_difference(untested, population, (population - 0.1, population + 0.1)) is True
