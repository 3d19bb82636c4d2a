"""fedwad.distance: the paper's numbers, the theorems, the certified interval, determinism, wrong
input."""

import dataclasses
import itertools
import json
import math
import subprocess
import sys
import threading

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.compare.rounds import FedWaDLoop, Round
from fedwad.errors import FederationError, InputError
from fedwad.federation import (
    Client,
    Dataset,
    Labels,
    LocalFederation,
    Policy,
    SummaryReply,
    TransportReply,
    draw_t,
)
from fedwad.methods import FedWaD
from fedwad.transport import Measure, interpolate, solve
from oracles import options_of, random_pair
from parameters import mostly_slow


def toy(n=200, seed=0):
    """The paper's toy: two 2-D Gaussians of the same covariance."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])
    return rng.standard_normal((n, 2)) @ root.T, rng.standard_normal((n, 2)) @ root.T + [6, 3]


def replies(loop, mu, nu):
    """What honest clients reply to the loop's next request."""
    request = loop.request()
    plans = [solve(m, request.support, request.p) for m in (mu, nu)]
    return [
        TransportReply(interpolate(plan, request.t, request.interpolant), plan.distance)
        for plan in plans
    ]


def played(loop, mu, nu, rounds):
    """The paper's estimate after these rounds."""
    for _ in range(rounds):
        loop.request()
        loop.advance(loop.reply(mu), loop.reply(nu))
    return loop.estimate(mu, nu)


class TestNumbers:
    def test_digits_from_one_message_within_three_percent(self, digits):
        result = fedwad.distance(*digits, method="summary", cells=10)
        assert result.value == pytest.approx(fedwad.wasserstein(*digits), rel=0.03)
        assert result.traffic.messages == 4  # columns and a summary
        assert result.fedwad is None

    @pytest.mark.slow
    def test_digits_by_rounds_within_five_percent(self, digits):
        result = fedwad.distance(*digits, method="fedwad", support=100, rounds=20)
        exact = fedwad.wasserstein(*digits)
        assert result.value == pytest.approx(exact, rel=0.05)
        assert result.lower <= exact <= result.upper <= result.fedwad
        assert len(result.history) == 20

    def test_the_papers_toy_barycentric_reaches_1e_3(self):
        x, y = toy()
        result = fedwad.distance(x, y, method="fedwad", support=100, rounds=20, t=0.5)
        error = result.fedwad / fedwad.wasserstein(x, y) - 1
        assert 0 < error < 2e-3

    def test_the_papers_toy_exact_reaches_1e_4(self):
        x, y = toy()
        result = fedwad.distance(x, y, method="fedwad", support=100, rounds=20, interpolant="exact")
        error = result.fedwad / fedwad.wasserstein(x, y) - 1
        assert 0 <= error < 4e-4

    def test_exact_interpolant_keeps_its_support_bounded(self):
        x, y = toy(97)
        result = fedwad.distance(
            x, y[:60], method="fedwad", support=31, rounds=6, interpolant="exact", max_support=150
        )
        assert max(record.support for record in result.history) == 150
        assert [record.reduced for record in result.history][-1] is True
        exact = fedwad.wasserstein(x, y[:60])
        assert exact <= result.fedwad <= exact * 1.02

    @pytest.mark.slow
    @pytest.mark.parametrize("support", [100, 97])
    def test_twenty_exact_rounds_of_1000_by_1000_stay_under_two_gigabytes(self, support):
        code = (
            "import numpy as np, resource, fedwad; rng = np.random.default_rng(0);"
            "x, y = rng.standard_normal((1000, 2)), rng.standard_normal((1000, 2)) + [6, 3];"
            "r = fedwad.distance(x, y, method='fedwad', interpolant='exact',"
            f" support={support}, rounds=20);"
            "print(r.fedwad / fedwad.wasserstein(x, y) - 1, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        error, gigabytes = map(float, done.stdout.split())
        assert 0 <= error < 1e-3
        assert gigabytes < 2

    @pytest.mark.parametrize("p", [1, 1.5, 3])
    def test_other_orders(self, p):
        x, y = toy()
        exact = fedwad.wasserstein(x, y, p)
        rounds = fedwad.distance(x, y, method="fedwad", support=50, p=p)
        assert rounds.lower <= exact <= rounds.upper <= rounds.fedwad
        assert rounds.value == rounds.upper
        summary = fedwad.distance(x, y, method="summary", p=p)
        assert summary.lower <= exact <= summary.upper
        assert summary.value == pytest.approx(exact, rel=0.02)

    @pytest.mark.parametrize("method", ["summary", "fedwad"])
    @pytest.mark.parametrize("seed", mostly_slow(range(40), 10))
    def test_interval_holds_on_random_problems(self, method, seed):
        mu, nu = random_pair(np.random.default_rng(1000 + seed))
        result = fedwad.distance(mu, nu, **options_of(method, 8, rounds=3))
        exact = solve(mu, nu).distance
        noise = 1e-14 * np.abs(mu.points).max()
        assert result.lower <= exact * (1 + 1e-9) + noise
        assert result.upper >= exact * (1 - 1e-9)
        assert result.lower <= result.value <= result.upper
        if method == "fedwad":
            assert result.upper <= result.fedwad


class TestPrecision:
    """Inputs that once broke a bound, or a run for no reason."""

    @pytest.mark.parametrize(
        ("offset", "shift"), [(0, 1e-12), (1e6, 1e-3), (1e6, 1e-9), (1e8, 1.0)]
    )
    @pytest.mark.parametrize(
        "options",
        [
            {"method": "summary", "cells": 5},
            {"method": "fedwad", "support": 5, "rounds": 2},
            {"method": "fedwad", "support": 5, "rounds": 2, "interpolant": "exact"},
        ],
    )
    def test_bounds_allow_for_rounded_means(self, offset, shift, options):
        x = np.random.default_rng(11).standard_normal((30, 2)) + offset
        result = fedwad.distance(x, x + shift, **options)
        exact = fedwad.wasserstein(x, x + shift)
        assert result.lower <= exact * (1 + 1e-9)
        assert result.upper >= exact * (1 - 1e-9)

    @pytest.mark.parametrize(("scale", "p"), [(1e-33, 10), (1e-165, 2), (1e-200, 1.5)])
    @pytest.mark.parametrize("method", ["summary", "fedwad"])
    def test_bounds_hold_where_squares_vanish(self, scale, p, method):
        rng = np.random.default_rng(0)
        x, y = scale * rng.standard_normal((30, 2)), scale * (1 + rng.standard_normal((25, 2)))
        result = fedwad.distance(x, y, p=p, **options_of(method, 4, rounds=2))
        exact = fedwad.wasserstein(x, y, p)
        assert result.lower <= exact * (1 + 1e-9)
        assert result.upper >= exact * (1 - 1e-9) > 0

    @pytest.mark.parametrize("t", [1e-6, 0.999, 1 - 1e-15])
    def test_extreme_t(self, t):
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((20, 2)) + 1000, 2 + 0.1 * rng.standard_normal((25, 2)) + 1000
        exact = fedwad.wasserstein(x, y)
        for options in ({"support": 1}, {"support": 10, "interpolant": "exact"}):
            result = fedwad.distance(x, y, "fedwad", rounds=3, t=t, reveal="every", **options)
            assert all(record.upper >= exact * (1 - 1e-9) for record in result.history)

    @pytest.mark.parametrize("seed", mostly_slow(range(12), 4))
    def test_splinters_of_mass_do_not_stop_a_run(self, seed):
        rng = np.random.default_rng(seed)
        x, y = rng.standard_normal((30, 3)), 1 + rng.standard_normal((20, 3))
        result = fedwad.distance(x, y, method="fedwad", interpolant="exact", support=10, rounds=3)
        assert result.fedwad >= fedwad.wasserstein(x, y) * (1 - 1e-9)
        heavy = Measure(x, 10.0 ** rng.uniform(-25, 0, 30))
        result = fedwad.distance(heavy, y, method="fedwad", support=10, rounds=3)
        assert result.upper >= solve(heavy, Measure(y)).distance * (1 - 1e-9)


@pytest.mark.parametrize("method", ["summary", "fedwad"])
def test_rows_that_are_all_equal_are_a_site_like_others(method):
    # Averages of equal rows are rounded, so their variances are tiny and not zero.
    X, Y = np.full((300, 3), [0.1, -0.7, 1 / 3]), np.random.default_rng(0).normal(size=(300, 3))
    result = fedwad.distance(X, Y, method)
    assert result.lower <= fedwad.wasserstein(X, Y) <= result.upper
    assert result.differs


class TestTheorems:
    def copies(self, seed=0):
        """mu, nu and the start as translated copies of one sample, not in one line."""
        rng = np.random.default_rng(seed)
        sample = rng.standard_normal((25, 3)) @ rng.standard_normal((3, 3))
        shifts = np.array([[0.0, 0, 0], [4, 0, 0], [1, 5, 2]])
        return [Measure(sample + shift) for shift in shifts], shifts

    def test_theorem_3_all_four_points(self):
        (mu, nu, start), shifts = self.copies()
        distance = np.linalg.norm(shifts[0] - shifts[1])
        target = Measure(mu.points + (shifts[0] + shifts[1]) / 2)
        first_gap = solve(start, target).distance
        loop, last = FedWaDLoop(start, FedWaD(t=0.5)), start
        for k in range(1, 9):
            pair = replies(loop, mu, nu)
            record = loop.advance(*pair)
            for measure in (
                *(reply.interpolant for reply in pair),
                loop.support,
            ):  # 1: copies of the same sample
                shift = measure.mean - mu.mean
                assert solve(measure, Measure(mu.points + shift)).distance < 1e-9
            assert record.running == pytest.approx(distance, rel=1e-12)  # 2: known after one round
            before, now = solve(last, target).distance, solve(loop.support, target).distance
            assert now == pytest.approx(before / 2, rel=1e-9)  # 3: halved each round
            excess = solve(mu, loop.support).distance + solve(loop.support, nu).distance - distance
            assert excess <= first_gap / 2 ** (k - 1) + 1e-12  # 4
            last = loop.support

    @pytest.mark.parametrize("seed", range(8))
    @pytest.mark.parametrize("p", [1, 2])
    def test_A_never_increases_with_exact_interpolants(self, seed, p):
        rng = np.random.default_rng(seed)
        mu, nu, start = (
            Measure(rng.standard_normal((int(rng.integers(2, 9)), 2)) + s) for s in (0, 2, 5)
        )
        loop, previous = FedWaDLoop(start, FedWaD(interpolant="exact", t=0.4), p), math.inf
        for _ in range(5):
            left, right = (reply.interpolant for reply in replies(loop, mu, nu))
            loop.advance(TransportReply(left, None), TransportReply(right, None))
            chain = [mu, left, loop.support, right, nu]
            total = sum(solve(a, b, p).distance for a, b in itertools.pairwise(chain))
            assert total <= previous * (1 + 1e-9)
            assert total >= solve(mu, nu, p).distance * (1 - 1e-9)
            previous = total

    @pytest.mark.parametrize("interpolant", ["exact", "barycentric"])
    @pytest.mark.parametrize("rounds", [1, 20, 100])
    def test_theorem_2_is_false_as_stated(self, rounds, interpolant):
        x, y = np.array([[0.0, 0], [1, 0]]), np.array([[0.5, 2], [0, 1]])
        result = fedwad.distance(
            x, y, method="fedwad", init=(x + y) / 2, rounds=rounds, interpolant=interpolant, t=0.5
        )
        assert result.fedwad == pytest.approx(1.7678, abs=1e-4)
        assert fedwad.wasserstein(x, y) == pytest.approx(1.6202, abs=1e-4)
        assert result.upper == pytest.approx(1.6202, abs=1e-4)

    @pytest.mark.parametrize("interpolant", ["exact", "barycentric"])
    def test_whether_the_counterexample_is_stuck_depends_on_t(self, interpolant):
        x, y = np.array([[0.0, 0], [1, 0]]), np.array([[0.5, 2], [0, 1]])
        exact = fedwad.wasserstein(x, y)

        def error(t, seed=0):
            options = FedWaD(t=t, interpolant=interpolant)
            loop = FedWaDLoop(Measure((x + y) / 2), options, rng=np.random.default_rng(seed))
            return played(loop, Measure(x), Measure(y), 60) / exact - 1

        for t in (0.4, 0.5, 0.6):
            assert error(t) == pytest.approx(0.0911, abs=1e-4)
        for t in (0.05, 0.35, 0.75):
            assert error(t) == pytest.approx(0, abs=1e-6)
        for seed in range(3):
            assert error("random", seed) == pytest.approx(0, abs=1e-6)
            assert error("own", seed) == pytest.approx(0, abs=1e-6)

    def test_the_range_of_t_in_which_the_counterexample_does_not_move(self):
        x, y = np.array([[0.0, 0], [1, 0]]), np.array([[0.5, 2], [0, 1]])

        def moves(t, mu, nu):
            start = (1 - t) * mu + t * nu  # the fixed point of the rounds that pair by index
            loop = FedWaDLoop(Measure(start), FedWaD(t=t))
            played(loop, Measure(mu), Measure(nu), 1)
            return np.abs(loop.support.points - start).max() > 1e-9

        for t in (0.385, 0.5, 0.666):
            assert not moves(t, x, y)
        for t in (0.384, 0.667):
            assert moves(t, x, y)
        assert [moves(t, y, x) for t in (0.359, 0.36, 0.714, 0.715)] == [True, False, False, True]

    @pytest.mark.parametrize("interpolant", ["exact", "barycentric"])
    @pytest.mark.parametrize("p", [1, 1.5, 2])
    def test_the_error_is_at_most_twice_what_sites_keep_back(self, p, interpolant):
        # The proposition of docs/theory.md, by which Theorem 2 holds for random t.
        rng = np.random.default_rng(int(10 * p))
        mu, nu, start = (Measure(rng.standard_normal((n, 2)) + n) for n in (7, 9, 5))
        distance = solve(mu, nu, p).distance
        options = FedWaD(interpolant=interpolant, t="own", max_support=10**6)
        loop = FedWaDLoop(start, options, p, np.random.default_rng(1))
        draws, before = np.random.default_rng(1), loop.estimate(mu, nu)
        for _ in range(5):
            from_support = [solve(one, loop.support, p).distance for one in (mu, nu)]
            loop.request()
            both = loop.reply(mu), loop.reply(nu)
            _, *own = (draw_t(draws) for _ in range(3))  # the server's, then those of the sites
            kept = [
                solve(one, reply.interpolant, p).distance
                for one, reply in zip((mu, nu), both, strict=True)
            ]
            loop.advance(*both)
            after = loop.estimate(mu, nu)
            assert after <= (distance + 2 * sum(kept)) * (1 + 1e-9)
            if interpolant == "exact":
                assert kept == pytest.approx(np.multiply(own, from_support), rel=1e-7)
                assert after <= before * (1 + 1e-9)
            before = after

    @pytest.mark.parametrize("t", [0.05, 0.2, 0.35])
    def test_for_a_fixed_t_below_one_half_the_limit_is_bounded(self, t):
        rng = np.random.default_rng(4)
        mu, nu, start = (Measure(rng.standard_normal((30, 3)) + k) for k in range(3))
        distance, loop = solve(mu, nu).distance, FedWaDLoop(start, FedWaD(t=t))
        bound = loop.estimate(mu, nu)
        for _ in range(30):
            bound = min(bound, distance + 2 * t * bound)
            assert played(loop, mu, nu, 1) <= bound * (1 + 1e-9)

    def test_with_fewer_points_no_t_reaches_the_distance(self):
        mu = Measure([[-1.0], [1.0]])
        for t in (0.01, 0.5, "own", "random"):
            assert played(FedWaDLoop(Measure([[3.0]]), FedWaD(t=t)), mu, mu, 30) >= 2


class TestBehaviour:
    def test_same_seed_same_bits_twice_and_across_threads(self, digits):
        x, y = digits[0][:200], digits[1][:150]
        options = [
            {"method": "summary"},
            {"method": "fedwad", "rounds": 4, "support": 12, "t": "random"},
        ]
        expected = [fedwad.distance(x, y, seed=5, **option) for option in options]
        found = {}

        def work(key):
            found[key] = [fedwad.distance(x, y, seed=5, **option) for option in options]

        threads = [threading.Thread(target=work, args=(key,)) for key in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for results in found.values():
            for a, b in zip(results, expected, strict=True):
                assert (a.value, a.lower, a.upper, a.fedwad) == (
                    b.value,
                    b.lower,
                    b.upper,
                    b.fedwad,
                )
                assert a.support is b.support or np.array_equal(a.support.points, b.support.points)
        assert fedwad.distance(x, y, seed=6, **options[1]).value != expected[1].value

    def test_a_client_is_at_distance_zero_from_itself(self):
        x = np.random.default_rng(0).standard_normal((30, 2))
        fed = fedwad.local({"paris": x})
        for result in (
            fedwad.distance(fed["paris"], fed["paris"], method="fedwad"),
            fedwad.distance(x, x, method="fedwad"),
            fedwad.distance(x, x, method="summary", p=1),
        ):
            assert result.value == result.lower == result.upper == 0.0
            assert result.traffic.up == 0
        assert fedwad.distance(x, x.copy(), method="summary").value == 0.0

    def test_distances_are_stated_in_the_last_message_only_unless_asked(self):
        x, y = toy(50)
        quiet = fedwad.distance(x, y, method="fedwad", support=10, rounds=4)
        assert [record.fedwad is None for record in quiet.history] == [True, True, True, False]
        open_ = fedwad.distance(x, y, method="fedwad", support=10, rounds=4, reveal="every")
        assert open_.fedwad == quiet.fedwad
        assert all(record.upper <= record.fedwad for record in open_.history)
        exact = fedwad.wasserstein(x, y)
        assert all(record.upper >= exact * (1 - 1e-9) for record in open_.history)

    def test_history_agrees_with_shorter_runs(self):
        x, y = toy(60)
        long = fedwad.distance(x, y, method="fedwad", support=10, rounds=5, reveal="every", t=0.5)
        for rounds in (1, 3):
            short = fedwad.distance(x, y, method="fedwad", support=10, rounds=rounds, t=0.5)
            assert long.history[rounds - 1].fedwad == short.fedwad
            assert long.history[rounds - 1].upper == pytest.approx(short.upper, rel=1e-9)

    def test_tolerance_stops_early(self):
        x, y = toy()
        result = fedwad.distance(x, y, method="fedwad", support=20, rounds=200, tol=0.001, t=0.5)
        running = [record.running for record in result.history]
        assert 3 <= len(running) < 200
        assert all(abs(a - b) <= 1e-3 * max(a, b) for a, b in itertools.pairwise(running[-3:]))

    def test_an_estimate_that_stands_still_for_one_round_has_not_settled(self):
        loop = FedWaDLoop(Measure(np.zeros((1, 2))), FedWaD(tol=1e-3, t=0.5))
        for values, settled in (
            ([3, 2, 2], False),
            ([3, 2, 2, 1], False),
            ([3, 2, 1, 1, 1], True),
            ([1, 1], False),
        ):
            loop.history = [
                Round(k, 0.5, 1, False, float(value), 0.0) for k, value in enumerate(values, 1)
            ]
            assert loop.has_converged() is settled

    def test_random_t_is_fresh_every_round(self):
        x, y = toy(50)
        result = fedwad.distance(x, y, method="fedwad", support=10, rounds=6, t="random")
        assert len({record.t for record in result.history}) == 6
        assert all(0 < record.t < 1 for record in result.history)

    def test_start_support_can_be_given(self):
        x, y = toy(50)
        start = Measure(x[:5] + 1, weights=[1, 2, 3, 4, 5])
        result = fedwad.distance(x, y, method="fedwad", init=start, rounds=3)
        np.testing.assert_array_equal(result.support.weights, start.weights)
        assert fedwad.distance(
            x, y, method="fedwad", init=x[:5] + 1, rounds=3
        ).support.points.shape == (5, 2)

    def test_progress_is_reported_each_round(self):
        x, y = toy(50)
        seen = []
        fedwad.distance(x, y, method="fedwad", support=10, rounds=3, t=0.5, callback=seen.append)
        assert [record.number for record in seen] == [1, 2, 3]
        assert all(record.running > 0 and record.seconds > 0 for record in seen)

    def test_traffic_is_what_the_paper_says(self):
        x, y = toy(50)
        s, d, k = 10, 2, 7
        result = fedwad.distance(
            x, y, method="fedwad", support=s, rounds=k, reveal="distance", init="normal"
        )
        floats = (result.traffic.up + result.traffic.down) / 8
        assert 4 * s * k * d < floats < 8 * s * k * d  # O(4 S K d)
        assert result.traffic.messages == 2 * (k + 2)

    @pytest.mark.parametrize("covariance_type", ["lowrank", "diag", "spherical"])
    def test_what_is_withheld_is_done_without_and_said(self, covariance_type):
        x, y = toy()
        result = fedwad.distance(x, y, method="summary", covariance_type=covariance_type)
        assert result.covariance_types == (covariance_type, covariance_type)
        assert result.lower <= fedwad.wasserstein(x, y) <= result.upper

    @pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 40), (2, 3)])
    @pytest.mark.parametrize("method", ["summary", "fedwad"])
    def test_few_rows(self, n, m, method):
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((n, 4)), rng.standard_normal((m, 4)) + 3
        result = fedwad.distance(x, y, **options_of(method, 5, rounds=3))
        exact = fedwad.wasserstein(x, y)
        assert result.lower <= exact * (1 + 1e-9)
        assert result.upper >= exact * (1 - 1e-9)
        if n == m == 1:
            assert result.value == pytest.approx(exact, rel=1e-9)

    @pytest.mark.parametrize("scale", [1e-12, 1e12])
    @pytest.mark.parametrize("method", ["summary", "fedwad"])
    def test_scale_and_constant_columns_do_not_matter(self, scale, method):
        x, y = toy(80)
        x, y = np.column_stack([x, np.full(80, 7.0)]), np.column_stack([y, np.full(80, 7.0)])

        def measured(unit, splits):
            policy = dataclasses.replace(fedwad.Policy.open(), splits=splits)
            sites = fedwad.local({"a": x * unit, "b": y * unit}, policy=policy)
            options = options_of(method, 10, rounds=3)
            # A site draws its own t from its rows, so that other rows get another t.
            options |= {"t": 0.5} if method == "fedwad" else {}
            return fedwad.distance(sites["a"], sites["b"], **options)

        one, other = measured(1.0, "none"), measured(scale, "none")
        for name in ("lower", "upper"):
            assert getattr(other, name) / scale == pytest.approx(getattr(one, name), rel=1e-6)
        # The content of summaries seeds synthetic samples, so other numbers have other samples.
        assert other.value / scale == pytest.approx(one.value, rel=1e-2)
        calibrated = measured(scale, "blocks")
        assert calibrated.value / scale == pytest.approx(measured(1.0, "blocks").value, rel=1e-2)
        assert (calibrated.lower, calibrated.upper) == (other.lower, other.upper)

    def test_save_and_load_bring_every_bit_back(self, tmp_path):
        x, y = toy(50)
        for options in ({"method": "fedwad", "support": 10, "rounds": 3}, {"method": "summary"}):
            result = fedwad.distance(x, y, **options)
            result.save(tmp_path / "r.json")
            loaded = fedwad.DistanceResult.load(tmp_path / "r.json")
            assert loaded == result
            assert loaded.history == result.history
            assert repr(loaded) == repr(result)
        assert [path.name for path in tmp_path.iterdir()] == ["r.json"]

    def test_results_of_different_data_are_different(self):
        x, y = toy(50)
        first, second = fedwad.distance(x, y), fedwad.distance(x, y + 1)
        assert first == fedwad.distance(x, y)
        assert first != second
        assert first != first.to_dict()

    def test_a_value_outside_its_interval_is_not_loaded(self, tmp_path):
        result = fedwad.distance(*toy(50), method="summary")
        result.save(tmp_path / "r.json")
        content = json.loads((tmp_path / "r.json").read_text())
        (tmp_path / "r.json").write_text(json.dumps(content | {"value": 2 * content["upper"]}))
        with fails(InputError, "damaged-content"):
            fedwad.DistanceResult.load(tmp_path / "r.json")

    def test_numpy_numbers_can_be_saved(self, tmp_path):
        x, y = toy(20)
        fedwad.distance(x, y, method="summary", seed=np.int64(3), p=np.float32(2)).save(
            tmp_path / "r.json"
        )
        assert fedwad.DistanceResult.load(tmp_path / "r.json").seed == 3

    @pytest.mark.parametrize("path", ["/proc/r.json", "x" * 300, "a\0b"])
    def test_places_that_cannot_be_written_to(self, path):
        x, y = toy(20)
        with fails(InputError, "cannot-write"):
            fedwad.distance(x, y, method="summary").save(path)

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (None, "no-such-file"),
            ("", "wrong-format"),
            ("{}", "wrong-format"),
            ("[1]", "wrong-format"),
            ('{"format": "other"}', "wrong-format"),
            ('{"format": "fedwad distance 1"}', "wrong-version"),
            ('{"format": "fedwad distance 2"}', "wrong-version"),
        ],
    )
    def test_loading_something_else(self, tmp_path, content, problem):
        path = tmp_path / "r.json"
        if content is not None:
            path.write_text(content)
        with fails(InputError, problem):
            fedwad.DistanceResult.load(path)

    def test_the_function_survives_importing_its_module(self):
        import fedwad.compare.api

        assert callable(fedwad.distance)


X, Y = np.zeros((3, 2)), np.ones((4, 2))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"method": "magic"}, ("bad-option",)),
        ({"rounds": 0}, ("bad-option", "rounds")),
        ({"rounds": 2.5}, ("bad-option", "rounds")),
        ({"support": 0}, ("bad-option", "support")),
        ({"method": "summary", "cells": -3}, ("bad-option", "cells")),
        ({"support": X}, ("bad-option",)),
        ({"init": [[np.nan, 0]]}, ("missing-values",)),
        ({"init": [[1.0, 2, 3]]}, ("different-columns",)),
        ({"t": 0}, ("bad-option", "t")),
        ({"t": 1.0}, ("bad-option",)),
        ({"t": "often"}, ("bad-option", "own")),
        ({"interpolant": "guess"}, ("bad-option",)),
        ({"reveal": "never"}, ("bad-option",)),
        ({"tol": -1}, ("bad-option", "tol")),
        ({"max_support": 0}, ("bad-option", "max_support")),
        ({"covariance_type": "some"}, ("bad-option",)),
        ({"seed": -1}, ("bad-option", "seed")),
        ({"seed": 1.5}, ("bad-option", "seed")),
        ({"seed": None}, ("bad-option", "seed")),
        ({"max_support": None, "interpolant": "exact"}, ("bad-option", "max_support")),
        ({"t": np.array([0.5])}, ("bad-option", "t")),
        ({"method": np.array(["fedwad"])}, ("bad-option", "method")),
        ({"p": 0.9}, ("bad-option",)),
    ],
)
def test_wrong_options_get_one_sentence(options, problem):
    with fails(InputError, *problem) as caught:
        fedwad.distance(X, Y, **({"method": "fedwad"} | options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["summary", "fedwad"])
def test_different_features_name_the_clients(method):
    fed = fedwad.local({"paris": np.zeros((3, 2)), "oslo": np.zeros((3, 5))})
    with fails(InputError, "different-columns"):
        fedwad.distance(fed["paris"], fed["oslo"], method=method)


def test_clients_and_data_do_not_mix():
    fed, other = fedwad.local({"a": X}), fedwad.local({"b": Y})
    with fails(InputError, "mixed-sites"):
        fedwad.distance(fed["a"], other["b"], method="fedwad")
    with fails(InputError, "mixed-sites"):
        fedwad.distance(fed["a"], Y, method="fedwad")
    with fails(FederationError, "unknown-site", "c"):
        fed["c"]


def test_a_client_that_talks_nonsense_is_named():
    class Confused(Client):
        def answer(self, request):  # noqa: ARG002
            return Labels((0, 1))

    data = Dataset(Measure(Y))
    fed = LocalFederation(
        {"good": Client(data, Policy.open()), "odd": Confused(data, Policy.open())}
    )
    with fails(FederationError, "bad-reply", "odd"):
        fedwad.distance(fed["good"], fed["odd"], method="summary")


def test_a_client_that_leaves_out_its_distance_is_named():
    class Shy(Client):
        def answer(self, request):
            reply = super().answer(request)
            return (
                dataclasses.replace(reply, distance=None)
                if isinstance(reply, SummaryReply)
                else reply
            )

    data = Dataset(Measure(Y))
    fed = LocalFederation({"good": Client(data, Policy.open()), "shy": Shy(data, Policy.open())})
    with fails(FederationError, "bad-reply", "shy"):
        fedwad.distance(fed["good"], fed["shy"], method="fedwad", support=2, rounds=2)


def test_a_client_that_stays_silent_is_named():
    class Deaf(LocalFederation):
        def ask(self, requests):
            return super().ask({name: request for name, request in requests.items() if name != "b"})

    data = Dataset(Measure(Y))
    fed = Deaf({name: Client(data, Policy.open()) for name in "ab"})
    with fails(FederationError, "no-reply", "b"):
        fedwad.distance(fed["a"], fed["b"], method="summary")


def test_a_site_does_not_differ_from_itself():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    with fails(InputError, "nothing-to-compare"):
        fedwad.distance(rows, rows).explain()


def test_files_are_sites_of_their_names(tmp_path):
    for name, shift in (("paris", 0.0), ("oslo", 2.0)):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(shift, 1, (60, 2)))
    r = fedwad.distance(tmp_path / "paris.npy", str(tmp_path / "oslo.npy"))
    assert r.sites == ("paris", "oslo")
    assert r.sentence.startswith("paris and oslo differ")
    same = str(tmp_path / "paris.npy")
    assert fedwad.distance(same, f"{same}").sites in (("a", "b"), ("a", "a"))
