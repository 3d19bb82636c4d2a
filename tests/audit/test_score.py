"""The yardstick against brute force."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fedwad.audit import AuditResult, ReconstructionScorer, Row, Score

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


def verdict_of(*rows):
    result = AuditResult(rows, Score(), "a policy", 100, 3, 100, 0)
    return result, result.verdict("test")


def membership(auc, leaks=False):
    numbers = {"auc": auc, "control": 0.52, "error": 0.04, "pvalue": 0.2 if auc < 0.6 else 0.001}
    return Row("test", "membership", "", 1, "", Score(), leaks, words="an area", numbers=numbers)


FAILED = Row("test", "guessing", "", 1, "", Score(0, 1, 1.0), False)
REFUSED = Row("test", "asking", "", 1, "No.", Score(), False)
NOT_TRIED = Row("test", "labels", "", 0, "", Score(), False, skipped_reason="No labels.")


def test_a_verdict_counts_attacks_that_were_played():
    _, verdict = verdict_of(FAILED, FAILED, REFUSED, NOT_TRIED, membership(0.58))
    assert "none of 3 attacks" in verdict
    assert "membership" not in verdict
    assert "all 2 attacks were refused" in verdict_of(REFUSED, REFUSED, NOT_TRIED)[1]


@pytest.mark.parametrize("leaks", [False, True])
def test_a_verdict_names_membership_above_chance(leaks):
    result, verdict = verdict_of(FAILED, FAILED, REFUSED, membership(0.67, leaks))
    assert "'membership' tells members better than chance, an area" in verdict
    assert "none of 2 attacks" in verdict
    assert "reconstructed" not in verdict
    assert (result.recovered, result.leaks) == (0, leaks)
