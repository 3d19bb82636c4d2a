"""Distances of many pairs: those of each, in threads or without."""

import itertools
import threading

import numpy as np
import pytest

from fedwad.statistics import lower_bounds, summarise_classes, upper_bounds
from fedwad.transport import LabelledMeasure, Measure
from fedwad.transport.many import in_threads, pair_distances
from test_otdd import random_labelled


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


@pytest.mark.parametrize("n", [1, 7, 30])
def test_equal_measures_are_nowhere_apart(n):
    measure = random_measure(np.random.default_rng(n), 12, True, True, n)
    assert dict(pair_distances({0: measure, 1: measure}, [(0, 1)])) == {(0, 1): 0.0}


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
        assert upper[i, j] == pytest.approx(
            upper_bounds([summaries[i], summaries[j]])[0, 1], rel=1e-12
        )
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
