"""lower <= exact <= upper, whatever is summarised."""

import math

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.statistics import (
    column_bounds,
    estimate,
    lower_bounds,
    summarise,
    summarise_classes,
    summarise_plan,
    upper_bounds,
)
from fedwad.transport import Measure, solve
from oracles import random_pair
from parameters import mostly_slow

ROUNDING = 1e-9


def lower_bound(a, b, p=2.0):
    return lower_bounds([a, b], p)[0, 1]


def upper_bound(a, b, p=2.0):
    return upper_bounds([a, b], p)[0, 1]


@pytest.mark.parametrize("seed", mostly_slow(range(300), 120))
def test_certified_interval_holds_the_exact_distance(seed):
    rng = np.random.default_rng(seed)
    mu, nu = random_pair(rng)
    p = float(rng.choice([1.0, 1.5, 2.0, 2.0, 2.0, 3.0]))
    covariance_types = rng.choice(["full", "diag", "spherical"], 2)
    cells = int(rng.integers(1, 30))
    pairs = [
        [
            summarise(m, cells, covariance_type, p)
            for m, covariance_type in zip((mu, nu), covariance_types, strict=True)
        ]
    ]
    support = Measure(rng.standard_normal((cells, mu.dimension)) * np.abs(mu.points).max())
    pairs.append(
        [
            summarise_plan(solve(m, support, p), covariance_type)
            for m, covariance_type in zip((mu, nu), covariance_types, strict=True)
        ]
    )
    exact = solve(mu, nu, p).distance
    for a, b in pairs:
        assert lower_bound(a, b, p) <= exact * (1 + ROUNDING) + 1e-14 * np.abs(mu.points).max()
        assert upper_bound(a, b, p) >= exact * (1 - ROUNDING)


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
@pytest.mark.parametrize("shift", [1e-6, 1.0, 1e6])
def test_bound_is_tight_for_translated_copies(covariance_type, shift):
    x = np.random.default_rng(0).standard_normal((200, 12))
    a, b = (
        summarise(Measure(x), 5, covariance_type),
        summarise(Measure(x + shift), 5, covariance_type),
    )
    exact = shift * math.sqrt(12)
    assert exact * (1 - 1e-7) <= lower_bound(a, b) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("ranks", [(6, 6), (2, 6), (1, 2), (0, 3)])
def test_covariances_against_the_formula_on_factors(ranks):
    """Gelbrich's bound of data with one mean is the Bures distance of their covariances."""
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((r, 6)) for r in ranks]
    fidelity = (
        np.linalg.svd(factors[0] @ factors[1].T, compute_uv=False).sum() if min(ranks) else 0.0
    )
    traces = sum((factor**2).sum() for factor in factors)
    points = [
        np.sqrt(max(len(f), 1)) * np.vstack([f, -f, np.zeros((int(not len(f)), 6))])
        for f in factors
    ]
    found = lower_bound(*(summarise(Measure(x), 1, "full") for x in points)) ** 2
    direct = traces - 2 * fidelity
    assert direct - 1e-6 * traces <= found <= direct * (1 + 1e-12)


def test_covariances_that_are_equal_are_no_distance_apart():
    rows = np.random.default_rng(0).standard_normal((60, 30))
    assert lower_bound(*(summarise(Measure(x), 1, "full") for x in (rows, rows[::-1]))) < 1e-12


def test_identical_data_estimate_to_zero():
    x = np.random.default_rng(0).standard_normal((300, 5))
    found = estimate([summarise(Measure(x)), summarise(Measure(x.copy()))])
    assert found.value[0, 1] == found.lower[0, 1] == 0.0
    assert found.upper[0, 1] > 0


def test_columns_of_identical_data_are_for_p_2_alone():
    """Once failed for p = 1, where other data have none."""
    summary = summarise(Measure(np.random.default_rng(0).standard_normal((30, 2))))
    assert estimate([summary, summary]).columns[0, 1].tolist() == [0.0, 0.0]
    assert not estimate([summary, summary], 1.0).columns


def test_labels_on_one_side_are_named_as_the_reason():
    """Once failed: the message was about numbers of features that no data had."""
    data = Measure(np.random.default_rng(0).standard_normal((40, 2)))
    with fails(InputError, "bad-labels"):
        estimate([summarise(data), summarise_classes(data, np.repeat([0, 1], 20))])


@pytest.mark.parametrize("seed", range(8))
def test_columns_bound_the_distance_and_say_more_of_rare_values(seed):
    rng = np.random.default_rng(seed)
    sizes, chance = rng.integers(30, 90, 2), rng.uniform(0.01, 0.2, (2, 6))
    rows = [
        np.hstack(
            [1e3 + rng.normal(seed % 2, 1 + k, (n, 2)), 0.5 * (rng.random((n, 6)) < chance[k])]
        )
        for k, n in enumerate(sizes)
    ]
    means, stds = (np.array([f(x, axis=0) for x in rows]) for f in (np.mean, np.std))
    found = column_bounds(means, stds, np.repeat([0.0, 0.5], [2, 6]))[0, 1]
    gelbrich = lower_bounds([summarise(Measure(x)) for x in rows])[0, 1]
    diagonal = np.hypot(*(np.linalg.norm(x[0] - x[1]) for x in (means, stds)))
    assert diagonal < found <= fedwad.wasserstein(*rows)
    assert gelbrich <= fedwad.wasserstein(*rows)
    same = np.repeat(means[:1], 2, axis=0), np.repeat(stds[:1], 2, axis=0)
    assert column_bounds(*same, np.repeat([0.0, 0.5], [2, 6]))[0, 1] == 0


def test_a_rare_flag_bounds_the_distance_of_two_tables():
    rng = np.random.default_rng(3)
    tables = {
        site: pd.DataFrame({"age": rng.normal(60, 9, 80), "icu": rng.random(80) < part})
        for site, part in (("a", 0.02), ("b", 0.3))
    }
    fed = fedwad.local(tables)
    encoded = [fedwad.schema(fed).encode(tables[site]) for site in "ab"]
    exact = fedwad.wasserstein(*encoded)
    r = fedwad.distance(fed["a"], fed["b"])
    assert 0.85 * exact < r.lower <= r.value <= r.upper
    assert r.lower <= exact
