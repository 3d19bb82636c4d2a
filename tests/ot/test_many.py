"""Distances of many pairs in compiled code: the same as one by one, proven, and left to `solve`
where need be."""

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedwad.ot import (
    LabelledMeasure,
    Measure,
    _many,
    lower_bounds,
    solve,
    summarise_classes,
    upper_bound,
    upper_bounds,
)
from fedwad.ot._many import in_threads, pair_distances
from test_otdd import random_labelled


@pytest.fixture(autouse=True)
def always_compiled(monkeypatch):
    monkeypatch.setattr(_many, "_WORTH_COMPILING", 1)


@pytest.fixture
def asked(monkeypatch):
    """Pairs that `solve` is asked for."""
    calls = []

    def watched(*args):
        calls.append(args)
        return solve(*args)

    monkeypatch.setattr(_many, "solve", watched)
    return calls


def random_measure(rng, d, labels, weighted, n=None):
    n = int(rng.integers(1, 25)) if n is None else n
    points = rng.normal(0, 2, d) + rng.standard_normal((n, d))
    weights = rng.random(n) ** 3 + 1e-6 if weighted else None
    if not labels:
        return Measure(points, weights)
    return LabelledMeasure(
        points, rng.integers(0, 3, n), 3 * rng.standard_normal((3, 2 * d)), weights
    )


def all_pairs(measures):
    return list(itertools.combinations(range(len(measures)), 2))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(2, 30),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 1, 12]),
)
def test_same_as_one_by_one(seed, d, labels, weighted, n):
    rng = np.random.default_rng(seed)
    measures = dict(enumerate(random_measure(rng, d, labels, weighted, n) for _ in range(4)))
    for (i, j), distance in pair_distances(measures, all_pairs(measures)):
        assert distance == pytest.approx(solve(measures[i], measures[j]).distance, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_small_measures_need_no_other_solver(asked, weighted):
    rng = np.random.default_rng(0)
    measures = {k: random_measure(rng, 20, True, weighted, 30) for k in range(5)}
    assert len(list(pair_distances(measures, all_pairs(measures)))) == 10
    assert not asked


@pytest.mark.parametrize("n", [1, 7, 30])
def test_equal_measures_are_nowhere_apart(n):
    measure = random_measure(np.random.default_rng(n), 12, True, True, n)
    assert dict(pair_distances({0: measure, 1: measure}, [(0, 1)])) == {(0, 1): 0.0}


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_pairs_that_are_close_and_far_from_the_rest(offset):
    """Products about the middle of all lose the digits of what is between the two."""
    rng = np.random.default_rng(1)
    measures = {
        k: Measure(rng.standard_normal((9, 10)) + (offset if k < 2 else 0)) for k in range(4)
    }
    for (i, j), distance in pair_distances(measures, all_pairs(measures)):
        assert distance == pytest.approx(solve(measures[i], measures[j]).distance, rel=1e-9)


def test_masses_of_all_sizes():
    rng = np.random.default_rng(2)
    weights = [10.0 ** -rng.integers(0, 14, 20) for _ in range(6)]
    measures = {
        k: Measure(rng.standard_normal((20, 9)), masses) for k, masses in enumerate(weights)
    }
    for (i, j), distance in pair_distances(measures, all_pairs(measures)):
        assert distance == pytest.approx(solve(measures[i], measures[j]).distance, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-120, 1e-170])
def test_measures_whose_squares_vanish_are_left_to_solve(asked, scale):
    rng = np.random.default_rng(3)
    measures = {k: Measure(scale * rng.standard_normal((5, 9))) for k in range(3)}
    for (i, j), distance in pair_distances(measures, all_pairs(measures)):
        assert distance == solve(measures[i], measures[j]).distance > 0
    assert len(asked) == 3


@pytest.mark.parametrize(("points", "p"), [((300, 9), 2.0), ((5, 1), 2.0), ((5, 9), 1.0)])
def test_what_does_not_suit_is_left_to_solve(asked, points, p):
    rng = np.random.default_rng(4)
    measures = {k: Measure(rng.standard_normal(points)) for k in range(3)}
    found = dict(pair_distances(measures, all_pairs(measures), p))
    assert found == {(i, j): solve(measures[i], measures[j], p).distance for i, j in found}
    assert len(asked) == 3


@pytest.mark.parametrize(
    "proof", [(1.0, 1e-8, 0.0), (1.0, 0.0, 1e-8), (1.0, np.nan, 0.0), (np.inf, np.inf, np.inf)]
)
def test_an_answer_that_is_not_proven_is_not_taken(monkeypatch, proof):
    def unproven(_, others):
        return tuple(np.full(len(others), value) for value in proof)

    monkeypatch.setattr(_many, "solve_batch", unproven)
    rng = np.random.default_rng(5)
    measures = {k: random_measure(rng, 9, False, True) for k in range(3)}
    found = dict(pair_distances(measures, all_pairs(measures)))
    assert found == {(i, j): solve(measures[i], measures[j]).distance for i, j in found}


def test_bounds_of_all_pairs_are_those_of_each():
    rng = np.random.default_rng(6)
    summaries = [
        summarise_classes(Measure(X), y, 6)
        for X, y in (random_labelled(rng, 60, 12, 3) for _ in range(4))
    ]
    calls = []
    upper = upper_bounds(summaries, on_pair=lambda: calls.append(1))
    assert len(calls) == 6
    assert np.array_equal(upper, upper.T)
    assert not np.diag(upper).any()
    lower = lower_bounds(summaries)
    for i, j in itertools.combinations(range(4), 2):
        assert upper[i, j] == pytest.approx(upper_bound(summaries[i], summaries[j]), rel=1e-12)
        assert lower[i, j] <= upper[i, j]


class TestInThreads:
    @pytest.mark.parametrize("n_jobs", [1, 3])
    def test_in_order(self, n_jobs):
        assert list(in_threads(lambda k: k * k, range(1000), n_jobs)) == [
            k * k for k in range(1000)
        ]

    def test_they_change_no_bit(self):
        rng = np.random.default_rng(7)
        measures = {k: random_measure(rng, 20, True, True) for k in range(8)}
        one, more = (
            list(pair_distances(measures, all_pairs(measures), 2.0, n_jobs)) for n_jobs in (1, 3)
        )
        assert one == more

    def test_what_waits_is_dropped_when_the_caller_stops(self):
        done, gate = [], threading.Event()

        def work(k):
            gate.wait(0.001)
            done.append(k)
            return k

        results = in_threads(work, range(100_000), 2)
        assert next(results) == 0
        results.close()
        assert len(done) < 100_000

    def test_an_error_is_passed_on(self):
        with pytest.raises(ZeroDivisionError):
            list(in_threads(lambda k: 1 / (k - 500), range(1000), 2))
