"""Groups of sites that chance does not make, and sites too small to be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedwad
from fedwad.compare.clusters import kept_summaries, resample_by_intervals, resample_rows


def sites(shifts, n=120, seed=0):
    rng = np.random.default_rng(seed)
    return {f"s{k}": rng.normal(shift, 1, (n, 3)) for k, shift in enumerate(shifts)}


def test_planted_groups_are_stable_and_chance_is_not():
    planted = fedwad.matrix(sites((0, 0, 0, 4, 4, 4)))
    assert planted.suggest().k == 2
    assert planted.stability(2) == pytest.approx(1.0)
    chance = fedwad.matrix(sites((0, 0, 0, 0, 0, 0), seed=1))
    assert chance.suggest().k == 1
    assert chance.stability(2) < 0.7


def test_the_test_over_all_sites_decides_whether_there_are_groups():
    planted = fedwad.matrix(sites((0, 0, 0, 4, 4, 4)))
    same = replace(planted, test=replace(planted.test, pvalue=0.3))
    assert (same.suggest().k, same.suggest().by_distance) == (1, 2)
    assert planted.suggest().by_distance == 2
    assert same.suggest().reason == "no difference was found"
    untested = replace(planted, test=None).suggest()
    assert (untested.k, untested.by_distance, untested.reason) == (1, 2, "nothing was tested")


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_suggestion_does_not_contradict_the_tests(seed):
    """One site of three whose mean is shifted by 0.4 was the odd one out, and in one cluster."""
    m = fedwad.matrix(sites((0, 0, 0.5), n=400, seed=seed))
    assert m.eccentricity.odd == ("s2",)
    assert m.suggest().k == 2
    assert m.cluster(2).tolist() == [0, 0, 1]


def test_pairs_are_called_nearest_only_where_intervals_say_so():
    near = fedwad.matrix(sites((0, 0, 0.4), n=400))
    assert "nearest" not in near.sentence
    assert "The pairs that differ are at most" in near.sentence
    far = fedwad.matrix(sites((0, 1, 5), n=400))
    assert "s0 and s1 are nearest" in far.sentence
    assert "s0 and s2 are farthest" in far.sentence


def test_small_sites_are_named():
    data = sites((0, 0, 0, 0), seed=1) | {"tiny": np.random.default_rng(1).normal(size=(12, 3))}
    found = fedwad.matrix(data)
    assert found.suggest().too_small == ("tiny",)
    assert found.suggest().k == 1
    assert found.differs[0, 1] is False
    assert found.differs[0, 4] is None
    assert found.enough > 12


def test_pairs_of_many_sites_that_agree_are_told():
    """Adjusted for 105 pairs, p-values are small only in the longer second tests."""
    m = fedwad.matrix(sites([0.0] * 16 + [3.0], n=300))
    last = m.differs[16, :16]
    assert all(one is True for one in last)
    assert all(m.differs[i, j] is False for i in range(16) for j in range(i))
    assert m.enough == 0
    assert m.eccentricity.odd == ("s16",)


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
    assert many.test.pvalue <= 0.001
    assert many.suggest().k == 2
