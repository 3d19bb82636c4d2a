"""Why sites differ: parts of columns with known answers, and causes only with a difference."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import fails
from fedwad.compare.explanation import smd
from fedwad.statistics.order import order_statistics
from fedwad.statistics.populations import column_squares
from fedwad.tables import SchemaColumn
from fedwad.transport import Measure, plan_columns, solve

POLICIES = Path(__file__).parents[2] / "docs" / "policies"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))


@pytest.mark.parametrize(("column", "size"), [(0, 1.0), (1, 4.0), (2, 50.0), (3, 2.5)])
def test_a_pure_shift_is_all_of_the_distance(column, size):
    shift = np.zeros(4)
    shift[column] = size
    e = fedwad.distance(X, X + shift).explain()
    assert e.causes == (f"column {column + 1}",)
    np.testing.assert_allclose(e.share[column], 1.0, atol=0.03)
    np.testing.assert_allclose(e.contribution[column], size**2, rtol=0.1)
    np.testing.assert_allclose(e.smd[column], size / X[:, column].std(ddof=1), rtol=1e-6)


def test_several_changes_have_their_known_parts():
    """Shifts of 3 and 2, and a spread of 3 instead of 1: 9, 4 and 4 of 17."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 1000, 4))
    e = fedwad.distance(x, y * [1, 1, 3, 1] + [3, 2, 0, 0]).explain()
    np.testing.assert_allclose(e.contribution, [9, 4, 4, 0, 0], atol=0.6)
    assert e.causes[0] == "column 1"
    assert set(e.causes) == {"column 1", "column 2", "column 3"}


def test_correlations_are_a_row_of_their_own():
    """W2^2 of normal populations: 4 - 2 tr (S^1/2 S' S^1/2)^1/2, all of it dependence."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 2000, 2))
    y[:, 1] = 0.8 * y[:, 0] + 0.6 * y[:, 1]
    r = fedwad.distance(x, y)
    e = r.explain()
    assert r.differs
    assert e.names[-1] == e.kinds[-1] == "dependence"
    truth = 4 - 2 * (np.sqrt(1.8) + np.sqrt(0.2))
    assert e.contribution[-1] == pytest.approx(truth, rel=0.2)
    assert e.share[-1] > 0.9
    assert e.share.sum() == pytest.approx(1.0)
    assert e.causes == ()
    assert "No single column" in r.sentence
    assert np.isnan(e.pvalue[-1])


def test_shares_sum_to_one_and_do_not_depend_on_the_order_of_columns():
    y = RNG.normal(size=(120, 4)) * [1, 2, 1, 1] + [1, 0, 0, 0.5]
    e = fedwad.distance(X, y).explain(["a", "b", "c", "d"])
    assert e.share.sum() == pytest.approx(1.0)
    assert (e.share >= 0).all()
    assert np.nansum(e.sample_share) == pytest.approx(1.0)
    order = [2, 0, 3, 1]
    moved = fedwad.distance(X[:, order], y[:, order]).explain([list("abcd")[k] for k in order])
    # Rows are dealt by a hash of the data, so groups of order statistics differ.
    np.testing.assert_allclose(moved.contribution[:4], e.contribution[order], atol=0.3)
    assert {"a", "b"} <= set(moved.causes) & set(e.causes)


def test_there_are_no_causes_without_a_difference():
    """The p-values of columns are no cause by themselves."""
    false = 0
    for seed in range(20):
        x, y = np.random.default_rng(seed).normal(size=(2, 100, 10))
        r = fedwad.distance(x, y)
        e = r.explain()
        assert bool(e.causes) <= (r.differs is True)
        false += bool(e.causes)
    assert false <= 3
    few = fedwad.distance(X[:20], X[20:40] + 50)
    assert few.differs is None
    assert few.explain().causes == ()
    assert "no cause is named" in few.explain().text


def test_the_parts_of_a_plan_are_those_of_its_cost():
    y = RNG.normal(size=(70, 4)) + np.arange(4)
    plan = solve(Measure(X), Measure(y))
    dense = plan.matrix.toarray()
    expected = [(dense * (X[:, [k]] - y[:, k]) ** 2).sum() for k in range(4)]
    np.testing.assert_allclose(plan_columns(plan), expected)
    np.testing.assert_allclose(plan_columns(plan).sum(), plan.cost)


def test_the_share_of_samples_is_near_that_of_the_exact_plan():
    y = RNG.normal(size=(150, 4)) * [1, 3, 1, 1] + [2, 0, 0, 0]
    exact = plan_columns(solve(Measure(X), Measure(y)))
    found = fedwad.distance(X, y).explain().sample_share[:4]
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
    assert set(e.names) == {"colour", "age", "dose", "smoker", "dependence"}
    assert e.causes == ("colour",)
    assert e.names[e.order[0]] == "colour"
    assert e.kinds[e.names.index("colour")] == "category"
    levels = e.levels("colour")
    assert {levels[0][0], levels[1][0]} == {"red", "green"}
    np.testing.assert_allclose({n: (p, q) for n, p, q in levels}["red"], (0.3, 0.7), atol=0.1)
    with fails(fedwad.InputError, "unknown-column"):
        e.levels("age")
    with fails(fedwad.InputError, "unknown-column"):
        e.levels("smell")


def test_the_amount_of_a_category_is_its_total_variation():
    """For one category alone W2^2 = lambda x total variation, whatever the number of levels."""
    entry = SchemaColumn("colour", "category", levels=("red", "green", "blue"), weight=3.0)
    rng = np.random.default_rng(0)
    codes = [rng.choice(3, 5000, p=p) for p in ([0.2, 0.5, 0.3], [0.6, 0.1, 0.3])]
    a, b = (order_statistics(entry.on_value * np.eye(3)[code], rng) for code in codes)
    found = column_squares(a, b, np.full(3, entry.on_value))
    shares = [np.bincount(code) / 5000 for code in codes]
    variation = 0.5 * np.abs(shares[0] - shares[1]).sum()
    np.testing.assert_allclose(found.sum(), 3.0 * variation, rtol=0.02)


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
        {"a": pd.DataFrame({"seen": days}), "b": pd.DataFrame({"seen": days + pd.DateOffset(20)})}
    )
    e = fedwad.distance(fed["a"], fed["b"]).explain()
    assert "mean 2024-03-15 (SD" in e.text
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
    with fails(fedwad.InputError, "unknown-site", "d"):
        m.explain("a", "d")
    with fails(fedwad.InputError, "repeated-site"):
        m.explain("a", "a")


def test_only_squares_are_sums_over_columns():
    with fails(fedwad.InputError, "bad-option"):
        fedwad.distance(X, X + 1, p=1).explain()
    with fails(fedwad.InputError, "wrong-shape"):
        fedwad.distance(X, X + 1).explain(["a", "b", "c"])


def test_other_forms(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    y = X * [1, 1, 1, 2] + [0, 2, 0, 0]
    e = fedwad.distance(X, y).explain()
    frame = e.to_frame()
    assert frame.index[0] == "column 2"
    written = json.dumps(e.to_dict(), allow_nan=False)
    assert json.loads(written)["columns"][0]["name"] == "column 2"
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
        with fails(fedwad.InputError, "wrong-shape"):
            e.plot(shape=shape)
    channels = e.plot(shape=(1, 2, 2)).axes[0].images[0].get_array()
    np.testing.assert_allclose(channels, e.share[:4].reshape(1, 2, 2).sum(axis=2))


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
        assert e.share[2] > 0.8
    assert m.explain("s0", "s5", names=list("abcd")).causes[:2] in (("c", "a"), ("a", "c"))
    with fails(fedwad.InputError, "nothing-to-compare"):
        m.explain_clusters([0] * 6)
    with fails(fedwad.InputError, "wrong-shape"):
        m.explain_clusters([0, 1])


@pytest.mark.parametrize("scale", [1e-61, 1e45])
def test_parts_do_not_depend_on_the_unit(scale):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 100, 4))
    y[:, 1] += 2
    e = fedwad.distance(x, y).explain()
    scaled = fedwad.distance(scale * x, scale * y).explain()
    assert scaled.causes == e.causes
    np.testing.assert_allclose(scaled.share, e.share, atol=0.02)


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (fedwad.distance, {"method": "fedwad", "support": 10, "rounds": 3}),
        (fedwad.distance, {"covariance_type": "diag"}),
        (fedwad.distance, {"covariance_type": "lowrank"}),
        (fedwad.distance, {"covariance_type": "spherical"}),
        (fedwad.matrix, {"method": "hub", "support": 8, "rounds": 2}),
        (fedwad.matrix, {"method": "pairs", "support": 8, "rounds": 2}),
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
    assert e.causes == ("column 3",)
    assert e.names[e.order[0]] == "column 3"
    assert e.contribution[2] == pytest.approx(25, rel=0.1)
    assert e.share[2] > 0.9
    assert e.sample_share[2] > 0.7
    assert np.isnan(e.contribution[-1]) == bool(e.notes)  # which say that no covariance was sent
    if options.get("covariance_type") in ("diag", "spherical") or options.get("labels"):
        assert e.notes


#: What an example policy answers; the others answer no distances without privacy.
ANSWERED = {
    "summary": {},
    "coreset": {},
    "training": {"labels": True},
    "classes": {"labels": True},
    "hub": {"method": "hub", "support": 10, "rounds": 2},
    "rounds": {"method": "pairs", "support": 10, "rounds": 2},
}


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_ready_policy_explains_or_says_that_nothing_was_tested(path):
    policy = fedwad.Policy.load(path)
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, 250, 3)) + np.array([[[0.0] * 3], [[3.0, 0, 0]]])
    labels = np.repeat(["a", "b"], 125)
    fed = fedwad.local({"a": (x, labels), "b": (y, labels)}, policy=policy)
    if path.stem not in ANSWERED:
        with pytest.raises(fedwad.PolicyError):
            fedwad.matrix(fed)
        return
    m = fedwad.matrix(fed, **ANSWERED[path.stem])
    e = m.explain("a", "b")
    assert e.sample_share[0] > 0.7
    if policy.splits == "blocks":
        assert e.causes == ("column 1",)
        assert e.share[0] > 0.8
    else:
        assert m.differs[0, 1] is None
        assert e.causes == ()
    assert e.notes


def test_a_name_with_nan_in_it_is_shown_whole():
    table = pd.DataFrame(X, columns=["banana", "b", "c", "d"])
    fed = fedwad.local({"a": table, "b": table + np.array([5, 0, 0, 0])})
    html = fedwad.distance(fed["a"], fed["b"]).explain()._repr_html_()
    assert "banana" in html
    assert ">nan" not in html


def test_a_changed_spread_of_dates_is_given_in_days():
    day, offsets = pd.to_datetime("2024-03-01"), np.arange(200) % 21 - 10
    seen = [day + pd.to_timedelta(width * offsets, unit="D") for width in (1, 9)]
    fed = fedwad.local(
        {name: pd.DataFrame({"seen": dates}) for name, dates in zip("ab", seen, strict=True)}
    )
    e = fedwad.distance(fed["a"], fed["b"]).explain()
    assert e.here[0]["std"] == pytest.approx(6.06, abs=0.1)
    assert e.there[0]["std"] == pytest.approx(9 * 6.06, abs=0.9)
    assert "SD 6.0" in e.text
    assert " days)" in e.text


@pytest.mark.parametrize("labels", [[0, 1, float("inf")], [0.2, 1.7, 0.1], [0, 1, float("nan")]])
def test_labels_of_clusters_that_are_no_integers_are_refused(labels):
    m = fedwad.matrix(fedwad.local({name: X + k for k, name in enumerate("abc")}))
    with fails(fedwad.InputError, "wrong-shape"):
        m.explain_clusters(labels)


def test_categories_alone_are_compared():
    """Two samples whose columns are all categories; this ended in a traceback."""
    rng = np.random.default_rng(0)
    data = {
        name: pd.DataFrame({"x": rng.choice(["u", "v"], 120, p=[p, 1 - p])})
        for name, p in (("a", 0.5), ("b", 0.9))
    }
    fed = fedwad.local(data)
    found = fedwad.distance(fed["a"], fed["b"])
    assert found.differs is True
    assert found.explain().causes == ("x",)


def test_the_smd_of_a_rare_level_is_finite():
    here = {"0": 0.9866666666666667, "1": 0.013333333333333348, "other": 0.0}
    there = {"0": 0.9766666666666667, "1": 0.023333333333333366, "other": 0.0}
    assert smd("category", here, there) == pytest.approx(0.0746, abs=1e-3)


def test_distances_and_matrices_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    x, y = np.random.default_rng(0).normal(size=(2, 60, 2))
    for result in (
        fedwad.distance(x, y + 1),
        fedwad.distance(x, y),  # without an estimate of the population
        fedwad.distance(x[:5], y[:5]),  # without an interval
        fedwad.matrix({"a": x, "b": y, "c": y + 1}),
    ):
        result.plot(tmp_path / "first.svg")
        result.plot(tmp_path / "second.svg")
        assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def test_one_column_is_tested_by_the_test_of_the_sites():
    found = 0
    for seed in range(30):
        rng = np.random.default_rng([seed, 91])
        X, Y = rng.normal(size=(150, 1)), rng.normal(0.3, 1, (150, 1))
        r, t = fedwad.distance(X, Y, seed=seed), fedwad.columns({"a": X, "b": Y}, seed=seed)
        assert bool(r.explain().causes) == r.differs
        assert bool(t.causes) == t.differs
        assert "ingle column" not in r.sentence + t.sentence
        found += r.differs
    assert found > 5


def test_a_site_without_values_has_no_smd_in_either_order():
    known, unknown = {"mean": 1.0, "std": 1.0}, {"mean": np.nan, "std": np.nan}
    for pair in ((known, unknown), (unknown, known), (unknown, unknown)):
        assert np.isnan(smd("number", *pair))


def test_labels_are_not_said_to_be_tested():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 500, 2))
    sides, chance = np.where(X[:, 0] > 0, "p", "q"), rng.choice(["p", "q"], 500)
    sites = {"a": (X, sides), "b": (Y, chance)}
    r = fedwad.distance(*sites.values(), labels=True)
    assert r.differs is False
    assert r.lower > r.noise
    assert "no evidence that the features of" in r.sentence
    assert (
        f"features, not labels. The dataset distance of these samples is at least {r.lower:.3g}"
        in (r.sentence)
    )
    m = fedwad.matrix(sites | {"c": (Y[::-1], chance[::-1])}, labels=True)
    assert "features of the 3 sites" in m.sentence
    assert "The test compares features, not labels." in m.sentence
