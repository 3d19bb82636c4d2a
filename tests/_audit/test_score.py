"""The yardstick against brute force."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fedwad._audit import ReconstructionScorer, Score

RNG = np.random.default_rng(0)


def test_the_baseline_is_what_the_other_records_tell():
    points = RNG.standard_normal((300, 3))
    apart = cdist(points, points)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.min(axis=1)
    yardstick = ReconstructionScorer(points)
    assert yardstick.typical == pytest.approx(np.median(nearest))
    assert yardstick.baseline.exact == 0
    assert yardstick.baseline.near == (nearest <= 0.1 * np.median(nearest)).sum()
    assert yardstick.baseline.closest == pytest.approx(1.0)


def test_scores_count_exact_and_near_records():
    points = RNG.standard_normal((100, 2))
    yardstick = ReconstructionScorer(points)
    guesses = np.full((100, 2), 1e6)
    guesses[:10] = points[:10]
    guesses[10:30] = points[10:30] + 0.05 * yardstick.typical
    score = yardstick.score(guesses)
    assert score.exact == 10
    assert score.near >= 30
    assert yardstick.score(points).exact == 100


def test_more_guesses_than_records_do_not_count():
    points = RNG.standard_normal((10, 1))
    many = np.concatenate([np.full((10, 1), 50.0), points])
    assert ReconstructionScorer(points).score(many).exact == 0


def test_no_guesses_and_numbers_that_are_none():
    yardstick = ReconstructionScorer(RNG.standard_normal((10, 2)))
    assert yardstick.score(np.empty((0, 2))) == Score()
    assert yardstick.score(np.full((3, 2), np.nan)) == Score()


def test_a_large_offset_costs_no_digits():
    points = 1e6 + RNG.standard_normal((50, 2))
    assert ReconstructionScorer(points).score(points[::-1]).exact == 50
    assert (
        ReconstructionScorer(points)
        .score(points + 0.05 * ReconstructionScorer(points).typical)
        .exact
        == 0
    )


def test_copies_in_the_data_raise_the_baseline():
    points = np.repeat(RNG.standard_normal((20, 2)), 2, axis=0)
    yardstick = ReconstructionScorer(points)
    assert yardstick.baseline.exact == 40
    assert yardstick.typical == 1.0  # no two different records are neighbours of each other
