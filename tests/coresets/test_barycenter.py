"""Barycenters: POT's on pooled rows, certified bounds, weights, what is refused."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import ot
import pytest

import fedwad
from failing import fails
from fedwad.coresets.paper import direct_step
from fedwad.errors import InputError
from fedwad.federation import MeteredFederation, Policy
from fedwad.transport import Measure


def three(seed=0, counts=(60, 80, 50), d=3):
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(shift, scale, (count, d))
        for name, shift, scale, count in zip("abc", (0, 3, -1), (1, 0.5, 2), counts, strict=True)
    }


def pooled_objective(points, data, shares):
    return sum(
        share * fedwad.wasserstein(points, rows) ** 2
        for share, rows in zip(shares, data.values(), strict=True)
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weights", [None, [0.2, 0.5, 0.3]])
def test_the_objective_is_that_of_pot_on_pooled_rows(seed, weights):
    data = three(seed)
    start = np.random.default_rng(seed).normal(size=(12, 3))
    shares = np.array(weights or [1 / 3] * 3)
    theirs = ot.lp.free_support_barycenter(
        list(data.values()),
        [np.full(len(rows), 1 / len(rows)) for rows in data.values()],
        start,
        weights=shares,
        numItermax=100,
        stopThr=1e-12,
    )
    ours = fedwad.barycenter(data, weights, size=12, rounds=100, init=start)
    expected = pooled_objective(theirs, data, shares)
    assert ours.objective == pytest.approx(expected, rel=0.01)
    assert ours.objective == pytest.approx(pooled_objective(ours.points, data, shares), rel=1e-9)


def test_where_the_papers_coreset_rests_it_is_the_barycenter_with_inverse_distances_as_weights():
    """The paper's loss is the mean of W2(site, points), whose gradient is that of W2^2 / (2 W2)."""
    for seed, weights in ((0, {"a": 0.2, "b": 0.5, "c": 0.3}), (1, {"b": 1.0})):
        data = {name: rows for name, rows in three(seed).items() if name in weights}
        b = fedwad.barycenter(data, weights, size=8, rounds=500, tol=1e-14)
        assert b.converged
        metered, coreset = MeteredFederation(fedwad.local(data)), Measure(b.points)
        steps = {name: direct_step(metered, [name], coreset, "run") for name in data}
        found = {name: step.gradient for name, step in steps.items()}
        # These are the weights of the barycenter times the distances: the loss of a site counts as
        # often as its weight says if it is the square, so W2 times as often if it is not.
        rests = sum(weights[name] * b.distances[name] * found[name] for name in data)
        assert np.abs(rests).max() < 1e-9
        largest = max(np.abs(gradient).max() for gradient in found.values())
        assert largest < 1e-9 if len(data) == 1 else largest > 0.01


def test_bounds_hold_and_the_objective_falls():
    data = three(1)
    result = fedwad.barycenter(data, size=40, rounds=30)
    objectives = [record.objective for record in result.history] + [result.objective]
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(objectives))
    assert 0 < result.lower <= result.objective == result.upper
    fine = fedwad.barycenter(data, size=150, rounds=30)
    assert result.lower <= fine.objective <= result.upper


def test_translated_copies_have_the_mean_translation_as_barycenter():
    X = np.random.default_rng(0).normal(size=(40, 2))
    shifts = np.array([[0.0, 0], [6, 0], [0, 9]])
    data = {str(k): X + shift for k, shift in enumerate(shifts)}
    result = fedwad.barycenter(data, size=40, init=X + 1)
    assert fedwad.wasserstein(result.points, X + shifts.mean(axis=0)) < 1e-9
    optimum = float(((shifts - shifts.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert result.objective == pytest.approx(optimum)
    assert result.lower == pytest.approx(optimum)


def test_bounds_hold_where_sites_move_their_cells():
    data = three(2)
    fed = fedwad.local(data, policy=replace(Policy.open(), rounding=1.0))
    result = fedwad.barycenter(fed, size=5)
    exact = pooled_objective(result.points, data, [1 / 3] * 3)
    assert result.lower <= exact <= result.upper
    assert result.objective != exact


def test_weights_by_name_and_same_bits_twice(tmp_path):
    data = three()
    one = fedwad.barycenter(data, {"c": 1, "a": 2, "b": 1}, size=6, seed=3)
    two = fedwad.barycenter(data, [2, 1, 1], size=6, seed=3)
    assert one.site_weights == {"a": 0.5, "b": 0.25, "c": 0.25}
    assert one.points.tobytes() == two.points.tobytes()
    one.save(tmp_path / "b.json")
    assert fedwad.BarycenterResult.load(tmp_path / "b.json") == one
    assert one.to_frame().shape == (6, 3)


@pytest.mark.parametrize("init", [None, np.eye(4, 3)])
def test_same_bits_whatever_the_names_and_the_order_of_sites(init):
    data, weights = three(), {"a": 0.2, "b": 0.3, "c": 0.5}
    data["d"], weights["d"] = data["a"].copy(), 0.7
    names = dict(zip(data, "zyxw", strict=True))
    one = fedwad.barycenter(data, weights, size=4, rounds=5, init=init)
    other = {names[name]: X for name, X in reversed(data.items())}
    two = fedwad.barycenter(
        other, {names[k]: w for k, w in weights.items()}, size=4, rounds=5, init=init
    )
    assert one.points.tobytes() == two.points.tobytes()
    assert (one.lower, one.objective, one.upper) == (two.lower, two.objective, two.upper)
    assert list(two.distances) == list(other)
    assert {names[name]: value for name, value in one.distances.items()} == two.distances


def test_hub_policies_answer_and_summary_policies_refuse():
    data = three(counts=(300, 300, 300))
    hub = Policy(("columns", "cells"), min_cell_size=20, max_support=10, covariance_type="diag")
    result = fedwad.barycenter(fedwad.local(data, policy=hub), size=10, rounds=5)
    assert result.min_cell_size >= 20
    with pytest.raises(fedwad.PolicyError):
        fedwad.barycenter(fedwad.local(data, policy=Policy(("summary",))), size=10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": [1, 2]},
        {"weights": {"a": 1}},
        {"weights": [1, 1, 0]},
        {"size": 0},
        {"init": np.zeros((3, 3))},
        {"tol": -1},
        {"tol": 10**400},
    ],
)
def test_wrong_input(wrong):
    with pytest.raises(InputError):
        fedwad.barycenter(three(), **wrong)


def test_wrong_weights_have_a_code():
    with fails(InputError, "bad-option"):
        fedwad.barycenter(three(), [1.0])
