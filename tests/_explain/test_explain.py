"""Why sites differ: parts of columns with known answers."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwad
from fedwad._explain.column_changes import column_changes
from fedwad._explain.columns import build_columns
from fedwad._explain.evidence import Evidence
from fedwad._explain.explain import explain_pair
from fedwad._explain.parts import PairDistance
from fedwad.ot import Measure, column_moments, plan_columns, solve, summarise
from fedwad.tables import Schema, SchemaColumn

_ARRAYS = ("mean", "std", "mean_error", "std_error")
POLICIES = Path(__file__).parents[2] / "docs" / "policies"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))


def explained(x, y, differs=None, **options):
    """An explanation from summaries alone, without a federation."""
    summaries = [summarise(Measure(points)) for points in (x, y)]
    square = plan_columns(solve(Measure(x), Measure(y)))
    evidence = Evidence.of(summaries, [], {(0, 1): square}, **options)
    return explain_pair(evidence, (0, 1), ("here", "there"), PairDistance(1.0, None, differs))


@given(st.integers(0, 3), st.floats(1.0, 50.0))
def test_a_pure_shift_is_all_of_the_excess_and_nearly_all_of_the_share(column, size):
    shift = np.zeros(4)
    shift[column] = size
    e = explained(X, X + shift)
    np.testing.assert_allclose(e.share[column], 1.0)
    np.testing.assert_allclose(e.excess[column], 1.0)
    np.testing.assert_allclose(e.location.sum(), 1.0)
    assert e.causes == (f"column {column + 1}",)


def test_a_change_of_spread_is_scale():
    e = explained(X, X * [1, 1, 3, 1])
    assert e.names[e.order[0]] == "column 3"
    np.testing.assert_allclose([e.excess[2], e.scale[2]], 1.0)


def test_several_changes_have_their_known_parts():
    """Shifts of 3 and 2, and a spread of 3 instead of 1: 9, 4 and 4 of 17."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 1000, 4))
    e = explained(x, y * [1, 1, 3, 1] + [3, 2, 0, 0])
    np.testing.assert_allclose(e.excess, np.array([9, 4, 4, 0]) / 17, atol=0.03)
    np.testing.assert_allclose(e.location + e.scale + e.rest, e.excess)
    assert e.significant.tolist() == [True, True, True, False]


def test_parts_sum_to_one_and_do_not_depend_on_the_order_of_columns():
    y = RNG.normal(size=(120, 4)) * [1, 2, 1, 1] + [1, 0, 0, 0.5]
    e = fedwad.distance(X, y).explain(["a", "b", "c", "d"])
    for part in (e.share, e.excess, e.location + e.scale + e.rest):
        np.testing.assert_allclose(part.sum(), 1.0)
        assert (part >= 0).all()
    order = [2, 0, 3, 1]
    moved = fedwad.distance(X[:, order], y[:, order]).explain([list("abcd")[k] for k in order])
    assert moved.causes == e.causes
    np.testing.assert_allclose(moved.excess, e.excess[order], atol=0.005)  # other cells
    np.testing.assert_allclose(moved.share, e.share[order], atol=0.05)


def test_the_same_data_have_no_parts():
    e = fedwad.distance(X, X.copy()).explain()
    assert not e.share.any()
    assert not e.excess.any()
    assert "same data" in e.text


def test_nothing_is_left_where_nothing_differs():
    zero = 0
    for seed in range(20):
        x, y = np.random.default_rng(seed).normal(size=(2, 100, 10))
        e = explained(x, y)
        zero += not e.excess.any()
    assert zero >= 18


def test_the_parts_of_a_plan_are_those_of_its_cost():
    y = RNG.normal(size=(70, 4)) + np.arange(4)
    plan = solve(Measure(X), Measure(y))
    dense = plan.matrix.toarray()
    expected = [(dense * (X[:, [k]] - y[:, k]) ** 2).sum() for k in range(4)]
    np.testing.assert_allclose(plan_columns(plan), expected)
    np.testing.assert_allclose(plan_columns(plan).sum(), plan.cost)


def test_the_share_is_near_that_of_the_exact_plan():
    y = RNG.normal(size=(150, 4)) * [1, 3, 1, 1] + [2, 0, 0, 0]
    exact = plan_columns(solve(Measure(X), Measure(y)))
    found = fedwad.distance(X, y).explain().share
    cosine = exact @ found / np.linalg.norm(exact) / np.linalg.norm(found)
    assert cosine > 0.99


def table(count, red, missing, seed):
    """A table with a category, a boolean and a number that is sometimes missing."""
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 10, count)
    age[rng.random(count) < missing] = np.nan
    return pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], count, p=[red, 0.9 - red, 0.1]),
            "age": age,
            "dose": rng.normal(3, 1, count),
            "smoker": rng.random(count) < 0.3,
        }
    )


def test_a_category_is_one_row_with_its_levels():
    fed = fedwad.local({"a": table(250, 0.3, 0.1, 0), "b": table(250, 0.7, 0.1, 1)})
    e = fedwad.distance(fed["a"], fed["b"]).explain()
    assert set(e.names) == {"colour", "age", "dose", "smoker"}
    assert e.causes == ("colour",)
    np.testing.assert_allclose(e.excess[e.names.index("colour")], 1.0, atol=0.1)
    levels = e.levels("colour")
    assert {levels[0][0], levels[1][0]} == {"red", "green"}
    np.testing.assert_allclose({n: (p, q) for n, p, q in levels}["red"], (0.3, 0.7), atol=0.1)
    with pytest.raises(fedwad.InputError, match="no levels"):
        e.levels("age")


def test_the_amount_of_a_category_is_its_total_variation():
    """For one category alone W2^2 = lambda x total variation, whatever the number of levels."""
    entry = SchemaColumn("colour", "category", levels=("red", "green", "blue"), weight=3.0)
    columns = build_columns(3, None, Schema((entry,)))
    rng = np.random.default_rng(0)
    codes = [rng.choice(3, 5000, p=p) for p in ([0.2, 0.5, 0.3], [0.6, 0.1, 0.3])]
    encoded = [entry.on_value * np.eye(3)[code] for code in codes]
    a, b = (column_moments(summarise(Measure(points))) for points in encoded)
    shares = [np.bincount(code) / 5000 for code in codes]
    variation = 0.5 * np.abs(shares[0] - shares[1]).sum()
    found = column_changes(columns, a, b)
    np.testing.assert_allclose(found.raw.sum(), 3.0 * variation)
    np.testing.assert_allclose(found.significant_change.sum(), 3.0 * variation, rtol=0.01)


def test_the_order_of_columns_changes_nothing():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 60, 5)) + np.array([[[0.0] * 5], [[0, 2, 0, 0.5, 0]]])
    a, b = (column_moments(summarise(Measure(points), cells=1)) for points in (x, y))
    order = [3, 0, 4, 2, 1]
    moved = [replace(one, **{n: getattr(one, n)[order] for n in _ARRAYS}) for one in (a, b)]
    first, second = column_changes(build_columns(5), a, b), column_changes(build_columns(5), *moved)
    np.testing.assert_allclose(second.significant_change, first.significant_change[order])


def test_missing_values_belong_to_their_column_in_its_own_units():
    fed = fedwad.local({"a": table(250, 0.4, 0.02, 0), "b": table(250, 0.4, 0.4, 1)})
    e = fedwad.distance(fed["a"], fed["b"]).explain()
    assert e.causes == ("age",)
    place = e.names.index("age")
    assert e.here[place]["missing"] < 0.05 < 0.3 < e.there[place]["missing"]
    np.testing.assert_allclose([e.here[place]["mean"], e.there[place]["mean"]], 50, atol=2)
    np.testing.assert_allclose([e.here[place]["std"], e.there[place]["std"]], 10, atol=1.5)
    assert "missing" in e.text


def test_the_mean_of_dates_is_a_date():
    days = pd.to_datetime("2024-03-01") + pd.to_timedelta(np.arange(58) % 29, unit="D")
    fed = fedwad.local(
        {"a": pd.DataFrame({"seen": days}), "b": pd.DataFrame({"seen": days + pd.DateOffset(90)})}
    )
    e = fedwad.distance(fed["a"], fed["b"]).explain()
    assert "mean 2024-03-15 and 2024-06-13" in e.text
    assert "2024-03-15" in e._repr_html_()


def test_a_result_that_was_saved_still_explains(tmp_path):
    fed = fedwad.local({"a": table(100, 0.3, 0.1, 0), "b": table(100, 0.7, 0.1, 1)})
    result = fedwad.distance(fed["a"], fed["b"])
    result.save(tmp_path / "r.json")
    again = fedwad.DistanceResult.load(tmp_path / "r.json")
    assert again == result
    assert again.explain() == result.explain()
    matrix = fedwad.matrix(fed)
    matrix.save(tmp_path / "m.json")
    loaded = fedwad.MatrixResult.load(tmp_path / "m.json")
    assert loaded.explain("b", "a") == matrix.explain("b", "a")


def test_a_matrix_explains_each_pair_from_either_side():
    sites = {name: X[:100] + k * np.array([0, 3, 0, 0]) for k, name in enumerate("abc")}
    m = fedwad.matrix(sites)
    assert set(m.explain()) == {("a", "b"), ("a", "c"), ("b", "c")}
    assert set(m.explain("b")) == {"a", "c"}
    e, turned = m.explain("a", "c"), m.explain("c", "a")
    assert e.causes == turned.causes == ("column 2",)
    assert e.here == turned.there
    with pytest.raises(fedwad.InputError, match="no site 'd'"):
        m.explain("a", "d")
    with pytest.raises(fedwad.InputError, match="twice"):
        m.explain("a", "a")


def test_only_squares_are_sums_over_columns():
    with pytest.raises(fedwad.InputError, match="p = 1"):
        fedwad.distance(X, X + 1, p=1).explain()
    with pytest.raises(fedwad.InputError, match="3 names"):
        fedwad.distance(X, X + 1).explain(["a", "b", "c"])


def test_other_forms(tmp_path):
    y = X * [1, 1, 1, 2] + [0, 2, 0, 0]
    e = explained(X, y)
    frame = e.to_frame()
    assert frame.index[0] == "column 2"
    assert json.loads(json.dumps(e.to_dict()))["columns"][0]["name"] == "column 2"
    assert "<table>" in e._repr_html_()
    e.plot(tmp_path / "bars.png")
    e.plot(tmp_path / "image.svg", shape=(2, 2))
    assert (tmp_path / "bars.png").stat().st_size > 1000
    for kind in ("png", "svg", "pdf"):
        e.plot(tmp_path / f"one.{kind}")
        time.sleep(1.1 if kind == "pdf" else 0)  # dates of .pdf files have seconds
        e.plot(tmp_path / f"two.{kind}")
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
    for shape in ((3, 3), (2, 2, 2), (2, 2, 1, 1)):
        with pytest.raises(fedwad.InputError, match="4 columns"):
            e.plot(shape=shape)
    channels = e.plot(shape=(1, 2, 2)).axes[0].images[0].get_array()
    np.testing.assert_allclose(channels, e.excess.reshape(1, 2, 2).sum(axis=2))


def test_a_column_that_hardly_varies_gets_no_rest():
    """What is left goes to columns in proportion to what the plan has of them."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    e = fedwad.distance(x[y == 3], x[y == 8]).explain()
    assert e.excess.max() < 0.15
    assert (e.excess[x[y == 3].std(axis=0) < 0.2] < 0.01).all()


def test_changed_dependence_is_named():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 200, 6))
    y[:, 4] = 0.9 * y[:, 1] + np.sqrt(1 - 0.81) * y[:, 4]
    e = explained(x, y)
    assert e.only_dependence
    assert {e.dependence[0].first, e.dependence[0].second} == {"column 2", "column 5"}
    assert "depend" in e.text
    assert set(e.causes) == {"column 2", "column 5"}


def test_a_cluster_is_explained_by_what_does_not_vary_inside_it():
    """Sites differ in column 1 at random; clusters differ in column 3."""
    rng = np.random.default_rng(5)
    labels, sites = [0, 0, 0, 1, 1, 1], {}
    for k, label in enumerate(labels):
        shift = np.array([(k % 3) * 1.0, 0, 2.0 * label, 0])
        sites[f"s{k}"] = rng.normal(size=(60, 4)) + shift
    m = fedwad.matrix(sites)
    found = m.explain_clusters(labels, names=list("abcd"))
    assert set(found) == {0, 1}
    for e in found.values():
        assert e.causes == ("c",)
        assert e.excess[2] > 0.8
    assert m.explain("s0", "s5", names=list("abcd")).causes[:2] in (("c", "a"), ("a", "c"))
    with pytest.raises(fedwad.InputError, match="one cluster"):
        m.explain_clusters([0] * 6)
    with pytest.raises(fedwad.InputError, match="2 labels"):
        m.explain_clusters([0, 1])


@pytest.mark.parametrize("scale", [1e-61, 1e75])
def test_parts_do_not_depend_on_the_unit(scale):
    y = RNG.normal(size=(100, 4)) + np.array([0, 2, 0, 0])
    e = fedwad.distance(X, y).explain()
    scaled = fedwad.distance(scale * X, scale * y).explain()
    assert scaled.causes == e.causes
    np.testing.assert_allclose(scaled.excess, e.excess, atol=0.02)


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (fedwad.distance, {"method": "fedwad", "support": 10, "rounds": 3}),
        (fedwad.distance, {"covariance_type": "diag"}),
        (fedwad.distance, {"covariance_type": "lowrank"}),
        (fedwad.distance, {"covariance_type": "spherical"}),
        (fedwad.distance, {"privacy": {"epsilon": 5.0, "clip_norm": 12.0}}),
        (fedwad.matrix, {"method": "hub", "support": 8, "rounds": 2}),
        (fedwad.matrix, {"method": "pairs", "support": 8, "rounds": 2}),
        (fedwad.matrix, {"privacy": {"epsilon": 5.0, "clip_norm": 12.0}}),
        (fedwad.matrix, {"method": "hub", "support": 8, "rounds": 2, "labels": True}),
        (fedwad.distance, {"labels": True}),
        (fedwad.distance, {"method": "fedwad", "support": 8, "rounds": 2, "labels": True}),
    ],
)
def test_every_method_and_covariance_names_the_column(call, options):
    """A shift shows whatever is sent; notes say what could not."""
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(2, 400, 4)) + np.array([[[0.0] * 4], [[0, 0, 5.0, 0]]])
    labels = np.repeat(["a", "b"], 200)
    a, b = ((x, labels), (y, labels)) if options.get("labels") else (x, y)
    found = call(a, b, **options) if call is fedwad.distance else call({"a": a, "b": b}, **options)
    e = found.explain() if call is fedwad.distance else found.explain("a", "b")
    assert e.names[e.order[0]] == "column 3"
    assert e.excess[2] > 0.9
    np.testing.assert_allclose(e.share.sum(), 1.0)
    assert e.share[2] > 0.7
    if options.get("covariance_type") in ("diag", "spherical") or "privacy" in options:
        assert not e.dependence_known
        assert e.notes


#: What an example policy answers; the one of a classifier answers no distances.
ANSWERED = {
    "summary": {},
    "coreset": {},
    "training": {"labels": True},
    "classes": {"labels": True},
    "hub": {"method": "hub", "support": 10, "rounds": 2},
    "rounds": {"method": "pairs", "support": 10, "rounds": 2},
    "private": {"privacy": {"epsilon": 3.0, "clip_norm": 6.0}},
}


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_ready_policy_explains(path):
    """The policies of docs/policies send variances alone, and a private one sends noise."""
    policy = fedwad.Policy.load(path)
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, 250, 3)) + np.array([[[0.0] * 3], [[3.0, 0, 0]]])
    labels = np.repeat(["a", "b"], 125)
    private = path.stem == "private"
    data = {"a": x, "b": y} if private else {"a": (x, labels), "b": (y, labels)}
    fed = fedwad.local(data, policy=policy)
    if path.stem == "classifier":
        with pytest.raises(fedwad.PolicyError, match="not allowed"):
            fedwad.matrix(fed)
        return
    e = fedwad.matrix(fed, **ANSWERED[path.stem]).explain("a", "b")
    assert e.causes[0] == "column 1"
    assert e.excess[0] > 0.8
    assert any("correlations" in note for note in e.notes)


def test_the_noise_of_a_private_release_is_no_cause():
    zero = 0
    for seed in range(6):
        x, y = np.random.default_rng(seed).normal(size=(2, 500, 4))
        found = fedwad.distance(x, y, privacy={"epsilon": 1.0, "clip_norm": 4.0}, seed=seed)
        zero += not found.explain().excess.any()
    assert zero >= 5


def test_of_two_columns_with_one_name_the_changed_one_is_described():
    e = explained(X, X + np.array([0, 5, 0, 0]), features=("same", "same", "c", "d"))
    assert e.excess.argmax() == 1
    assert f"same (100%: mean {e.here[1]['mean']:.4g}" in e.text


def test_a_changed_spread_of_dates_is_given_in_days():
    day, offsets = pd.to_datetime("2024-03-01"), np.arange(200) % 21 - 10
    seen = [day + pd.to_timedelta(width * offsets, unit="D") for width in (1, 9)]
    fed = fedwad.local(
        {name: pd.DataFrame({"seen": dates}) for name, dates in zip("ab", seen, strict=True)}
    )
    e = fedwad.distance(fed["a"], fed["b"]).explain()
    assert e.here[0]["std"] == pytest.approx(6.06, abs=0.1)
    assert e.there[0]["std"] == pytest.approx(9 * 6.06, abs=0.9)
    assert "std 6.0" in e.text
    assert " days)" in e.text


@pytest.mark.parametrize("labels", [[0, 1, float("inf")], [0.2, 1.7, 0.1], [0, 1, float("nan")]])
def test_labels_of_clusters_that_are_no_integers_are_refused(labels):
    m = fedwad.matrix(fedwad.local({name: X + k for k, name in enumerate("abc")}))
    with pytest.raises(fedwad.InputError, match="give an integer for each site"):
        m.explain_clusters(labels)
