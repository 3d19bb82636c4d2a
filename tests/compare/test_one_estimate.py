"""A distance is the matrix of two sites, and neither names nor order change a bit of a number."""

import numpy as np
import pytest

import fedwad

TABLES = ("value", "lower", "upper", "noise", "population", "pvalue", "fedwad")
ROUNDS = {"support": 6, "rounds": 3}
CALLS = [
    {},
    {"p": 1},
    {"p": 3, "cells": 4},
    {"labels": True},
    {"labels": True, "class_covariance": "full"},
    {"covariance_type": "diag", "seed": 3},
]


def samples(count=2, rows=160):
    rng = np.random.default_rng(0)
    found = [rng.normal(0.3 * k, 1 + 0.2 * k, (rows + 20 * k, 3)) for k in range(count)]
    return [(x, (x[:, 0] > 0).astype(int)) for x in found]


def bits(result, a=None, b=None):
    """All numbers of a pair that have no direction, of a distance or of a matrix."""

    def entry(table):
        if table is None:
            return None
        whole = table if a is None else table[result.sites.index(a), result.sites.index(b)]
        return None if np.isnan(whole) else float(whole)

    interval = result.population_interval or (None, None)
    evidence = result.evidence
    i, j = (0, 1) if a is None else sorted((result.sites.index(a), result.sites.index(b)))
    pair = None if evidence is None else evidence.between(i, j)
    parts = [] if pair is None else [pair.squares, pair.contributions, pair.pvalues]
    return (
        [entry(getattr(result, name)) for name in TABLES],
        [entry(end) for end in interval],
        [found.tolist() for found in parts if found is not None],
    )


def given(data, options):
    """The data as the call wants them: with labels or without."""
    return data if options.get("labels") else [x for x, _ in data]


@pytest.mark.parametrize("options", CALLS, ids=str)
def test_a_distance_is_the_matrix_of_two_sites(options):
    x, y = given(samples(), options)
    fed = fedwad.local({"north": x, "south": y})
    expected = bits(fedwad.matrix({"a": x, "b": y}, **options), "a", "b")
    assert bits(fedwad.distance(x, y, **options)) == expected
    assert bits(fedwad.distance(fed["north"], fed["south"], **options)) == expected
    assert bits(fedwad.distance(fed["south"], fed["north"], **options)) == expected
    assert bits(fedwad.distance(y, x, **options)) == expected
    assert bits(fedwad.matrix({"z": y, "c": x}, **options), "z", "c") == expected


@pytest.mark.parametrize("labels", [False, True])
def test_the_rounds_of_a_distance_are_those_of_the_matrix_of_two_sites(labels):
    x, y = given(samples(), {"labels": labels})
    options = {"labels": labels, "t": 0.5, **ROUNDS}
    expected = bits(fedwad.matrix({"a": x, "b": y}, "pairs", **options), "a", "b")
    assert bits(fedwad.distance(x, y, "fedwad", **options)) == expected
    assert bits(fedwad.distance(y, x, "fedwad", **options)) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"t": 0.3},
        {"t": "random"},
        {"interpolant": "exact"},
        {"p": 1},
        {"init": np.arange(12.0).reshape(4, 3), "t": 0.3},
    ],
    ids=str,
)
def test_swapped_sites_go_through_the_same_rounds(options):
    x, y = given(samples(), {})
    ways = [fedwad.distance(*both, "fedwad", rounds=3, **options) for both in ((x, y), (y, x))]
    assert bits(ways[0]) == bits(ways[1])
    assert ways[0].support.points.tolist() == ways[1].support.points.tolist()
    running = [[one.running for one in way.history] for way in ways]
    assert running[0] == running[1]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"labels": True},
        {"method": "hub", **ROUNDS},
        {"method": "pairs", **ROUNDS},
    ],
    ids=str,
)
def test_names_and_order_change_no_bit_of_a_matrix(options):
    data = given(samples(4), options)
    m = fedwad.matrix({f"site{k}": one for k, one in enumerate(data)}, **options)
    order, names = [2, 0, 3, 1], ["oslo", "rome", "bonn", "lima"]
    other = fedwad.matrix({names[k]: data[k] for k in order}, **options)
    assert other.sites == tuple(names[k] for k in order)
    for i in range(4):
        for j in range(4):
            if i != j:
                pair = bits(m, f"site{i}", f"site{j}")
                assert bits(other, names[i], names[j]) == pair
    if m.pvalue is not None:
        assert other.pvalue.tolist() == m.pvalue[np.ix_(order, order)].tolist()
    assert other.heterogeneity.value == pytest.approx(m.heterogeneity.value, rel=1e-12)
    assert other.rows == tuple(m.rows[k] for k in order)


def test_releases_give_the_same_numbers_in_any_order():
    data = given(samples(3), {})
    fed = fedwad.local({f"site{k}": one for k, one in enumerate(data)})
    options = {"privacy": fedwad.DP(5, clip_norm=4.0)}
    m = fedwad.matrix(fed, sites=["site0", "site1", "site2"], **options)
    other = fedwad.matrix(fed, sites=["site2", "site0", "site1"], **options)
    assert bits(other, "site0", "site2") == bits(m, "site0", "site2")
    two = fedwad.matrix(fed, sites=["site0", "site2"], **options)
    for a, b in (("site0", "site2"), ("site2", "site0")):
        r = fedwad.distance(fed[a], fed[b], **options)
        assert bits(r) == bits(two, "site0", "site2")


def test_a_test_of_two_sites_is_that_of_their_matrix_in_any_order():
    x, y = given(samples(rows=300), {})
    one, other = fedwad.permutation_test(x, y), fedwad.permutation_test(y, x)
    assert (one.pvalue, one.statistic) == (other.pvalue, other.statistic)
    assert one.blocks == other.blocks[::-1]
    m, r = fedwad.matrix({"a": x, "b": y}), fedwad.distance(x, y)
    assert m.pvalue[0, 1] == m.test.pvalue == r.pvalue == one.pvalue
    assert m.sentence == r.sentence
    assert r.explain() == m.explain("a", "b")
    assert r.explain().pvalue.tolist()[:-1] == one.explain().pvalue.tolist()[:-1]
    x, y = np.random.default_rng(0).normal(size=(2, 160, 3))
    for seed in range(1, 7):
        t, d = fedwad.columns({"a": x, "b": y}, seed=seed), fedwad.distance(x, y, seed=seed)
        assert t.test.pvalue == d.pvalue == fedwad.permutation_test(x, y, seed=seed).pvalue
