"""Table 1 of a federation, against pandas and against formulas written out here."""

import json
import math
import sys

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import fails
from fedwad.compare.explanation import smd
from fedwad.compare.table_one import WITHHELD, SiteColumn, _site_column
from fedwad.errors import InputError
from fedwad.federation import Policy

pytestmark = pytest.mark.filterwarnings("ignore::fedwad.DataWarning")


def hospital(seed, rows=400, shift=0.0):
    """Numbers with missing values, categories, booleans, dates, and an identifier."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "patient_id": rng.permutation(10_000)[:rows],
            "age": rng.normal(60 + shift, 9, rows),
            "sugar": np.where(rng.random(rows) < 0.2, np.nan, rng.gamma(3, 30, rows)),
            "ward": rng.choice(["east", "north", "west"], rows, p=[0.5, 0.3, 0.2]),
            "smoker": rng.random(rows) < 0.3,
            "visit": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), "D"),
        }
    )
    frame.loc[: rows // 20, "ward"] = None
    return frame


@pytest.fixture(scope="module")
def tables():
    return {"paris": hospital(0), "oslo": hospital(1, 300), "rome": hospital(2, 350, 6.0)}


@pytest.fixture(scope="module")
def t(tables):
    return fedwad.columns(fedwad.local(tables))


def largest_pair(frames, formula):
    return max(formula(a, b) for i, a in enumerate(frames) for b in frames[:i])


def smd_of_numbers(a, b):
    return abs(a.mean() - b.mean()) / math.sqrt((a.var() + b.var()) / 2)


def smd_of_levels(a, b):
    """Yang and Dalton's: Mahalanobis distance of all frequencies but the first."""
    levels = sorted({*a.dropna(), *b.dropna()})
    p, q = (x.value_counts(normalize=True).reindex(levels, fill_value=0)[1:] for x in (a, b))
    cov = sum(np.diag(x) - np.outer(x, x) for x in (p.to_numpy(), q.to_numpy())) / 2
    return math.sqrt((p - q) @ np.linalg.solve(cov, (p - q)))


def test_counts_moments_and_levels_are_those_of_pandas(tables, t):
    for site, frame in tables.items():
        for name in ("age", "sugar"):
            one = t[name][site]
            assert (one.count, one.missing) == (frame[name].count(), frame[name].isna().sum())
            assert one.mean == pytest.approx(frame[name].mean(), rel=1e-12)
            assert one.std == pytest.approx(frame[name].std(), rel=1e-12)
        ward = t["ward"][site]
        assert dict(ward.levels) == frame["ward"].value_counts().to_dict()
        assert ward.missing == frame["ward"].isna().sum()
        assert t["smoker"][site].levels["true"] == frame["smoker"].sum()
        days = (frame["visit"] - pd.Timestamp("1970-01-01")).dt.days
        assert t["visit"][site].mean == pytest.approx(days.mean(), rel=1e-12)
    kinds = dict(zip(t.names, t.kinds, strict=True))
    assert [kinds[name] for name in ("age", "ward", "smoker", "visit")] == [
        "number",
        "category",
        "boolean",
        "date",
    ]


def test_differences_are_the_largest_over_pairs(tables, t):
    frames = list(tables.values())
    found = dict(zip(t.names, t.smd, strict=True))
    for name in ("age", "sugar"):
        expected = largest_pair([frame[name] for frame in frames], smd_of_numbers)
        assert found[name] == pytest.approx(expected, rel=1e-9)
    for name in ("ward", "smoker"):
        expected = largest_pair([frame[name] for frame in frames], smd_of_levels)
        assert found[name] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("draw", ["normal", "uniform", "exponential"])
def test_quartiles_are_near_those_of_the_values(draw):
    x = getattr(np.random.default_rng(0), draw)(size=(5000, 1))
    one = fedwad.columns({"a": x}).columns[0][0]
    assert len(one.order) == 32
    np.testing.assert_allclose(
        one.quartiles, np.quantile(x, [0.25, 0.5, 0.75]), atol=0.06 * float(x.std())
    )
    edges = np.linspace(x.min() - 1, x.max() + 1, 12)
    expected = np.histogram(x, edges)[0] / len(x)
    np.testing.assert_allclose(one.histogram(edges), expected, atol=0.06)
    assert one.histogram(edges).sum() == pytest.approx(1)


def test_values_without_spread_have_a_histogram():
    one = SiteColumn(40, 0, 3.0, 0.0, (3.0,) * 4)
    np.testing.assert_allclose(one.histogram(np.array([0.0, 2.0, 4.0])), [0.0, 1.0])
    assert one.quartiles == (3.0, 3.0, 3.0)
    assert all(map(math.isnan, SiteColumn(40, 0, 3.0, 1.0, (3.0,)).quartiles))


def test_pvalues_are_those_of_the_matrix(tables, t):
    m = fedwad.matrix(fedwad.local(tables))
    assert t.test is not None
    assert m.test is not None
    assert t.test.pvalue == m.test.pvalue
    assert sorted(t.pvalue[~np.isnan(t.pvalue)]) == sorted(m.test.columns)
    assert t.causes == ("age",)
    assert t.differs is True
    assert "age" in t.sentence
    assert "sugar" not in t.sentence


def test_without_a_difference_no_column_is_named():
    found = [
        fedwad.columns({f"s{k}": hospital(10 * run + k).drop(columns="patient_id") for k in (0, 1)})
        for run in range(12)
    ]
    named = [one for one in found if one.causes]
    assert len(named) <= 3
    for one in found:
        if not one.differs:
            assert not one.causes
            assert not any(name in one.sentence for name in one.names)


def test_too_few_rows_name_nothing():
    rng = np.random.default_rng(0)
    t = fedwad.columns({"a": rng.normal(0, 1, (24, 2)), "b": rng.normal(9, 1, (24, 2))})
    assert t.differs is None
    assert t.enough > 24
    assert not t.causes
    assert np.isnan(t.pvalue).all()
    assert f"{t.enough}" in t.sentence


def test_small_sites_are_named_in_one_sentence():
    rng = np.random.default_rng(0)
    sizes = {"1": 200, "3": 200, "2": 5, "4": 7, "oslo": 3}
    t = fedwad.columns({name: rng.normal(0, 1, (n, 2)) for name, n in sizes.items()})
    assert t.tested == ("1", "3")
    assert t.notes == ("Sites '2', '4' and oslo have too few rows for the test (fewer than 10).",)


def test_arrays_have_numbered_columns_and_a_single_site_is_no_error():
    x = np.random.default_rng(0).normal(size=(50, 3))
    t = fedwad.columns({"a": x})
    assert t.names == ("column 1", "column 2", "column 3")
    assert t["column 2"]["a"].mean == pytest.approx(x[:, 1].mean())
    assert t.differs is None
    assert np.isnan(t.smd).all()
    with fails(InputError, "unknown-column"):
        t["height"]


def test_messages_are_one_of_columns_and_one_of_summary():
    rng = np.random.default_rng(0)
    fed = fedwad.local({name: rng.normal(size=(60, 2)) for name in "abc"})
    fedwad.columns(fed)
    kinds = [entry.kind for entry in fed.ledgers["a"].entries if entry.kind in Policy.open().allow]
    assert kinds == ["columns", "summary"]
    alone = fedwad.local({name: rng.normal(size=(60, 2)) for name in "abc"})
    t = fedwad.columns(alone, test=False)
    assert {entry.kind for entry in alone.ledgers["a"].entries} == {"columns"}
    assert t.test is None
    assert t.traffic.messages == 3


def test_the_units_of_the_test_are_those_of_a_matrix():
    rng = np.random.default_rng(0)
    data = {name: rng.normal(size=(80, 2)) * [1, 50] for name in "ab"}
    assert fedwad.columns(data).test.pvalue == fedwad.matrix(data).test.pvalue


def test_little_is_shown_under_a_policy():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "score": np.where(np.arange(60) < 6, rng.normal(size=60), np.nan),
            "ward": ["east"] * 40 + ["west"] * 15 + ["rare"] * 5,
            "age": rng.normal(60, 9, 60),
        }
    )
    policy = Policy(("columns",), min_cell_size=10)
    fed = fedwad.local({"paris": frame, "oslo": frame}, policy)
    t = fedwad.columns(fed, test=False)
    shown = t.to_frame()["paris"]
    assert shown["score", "mean (SD)"] == shown["score", "median [Q1, Q3]"] == WITHHELD
    assert shown["ward", "other levels"] == WITHHELD
    assert ("ward", "rare") not in shown.index
    assert shown["ward", "west"] == "15 (25.0%)"
    assert math.isnan(t["score"]["paris"].mean)
    refused = fedwad.columns(fed)  # the policy allows no summary
    assert refused.test is None
    assert refused.differs is None
    assert "paris" in refused.notes[0]


def test_a_level_that_one_site_hides_is_unknown_there_and_not_zero():
    here, hidden = (
        SiteColumn(50, 0, levels={"a": 30, "b": 20}),
        SiteColumn(50, 0, levels={"a": 45}, other=5),
    )
    assert here.count_of("c") == 0
    assert hidden.count_of("b") is None


def test_encoded_data_come_back_in_their_own_units(tables):
    plain = {name: frame.drop(columns="patient_id") for name, frame in tables.items()}
    fed = fedwad.local(plain)
    raw, encoded = fedwad.columns(fed), fedwad.columns(fedwad.local(plain, schema=fed.schema))
    assert set(encoded.names) == set(raw.names)
    for name in raw.names:
        for site in raw.sites:
            a, b = raw[name][site], encoded[name][site]
            assert (a.count, a.missing) == (b.count, b.missing)
            assert dict(a.levels) == dict(b.levels)
            np.testing.assert_allclose([a.mean, a.std], [b.mean, b.std], rtol=1e-9)
    found = dict(zip(encoded.names, encoded.smd, strict=True))
    for name, value in zip(raw.names, raw.smd, strict=True):
        assert found[name] == pytest.approx(value, rel=1e-9)


def test_values_that_a_schema_calls_missing_are_missing():
    values = np.random.default_rng(0).normal(200, 30, 100)
    values[:30] = 0
    s = fedwad.tables.profile(pd.DataFrame({"chol": values}), 10)["chol"]
    entry = fedwad.tables.SchemaColumn("chol", "number", 100.0, 50.0, missing_values=("0", "NA"))
    one = _site_column(s, "number", entry)
    assert (one.count, one.missing) == (70, 30)
    assert one.mean == pytest.approx(values[30:].mean())
    assert one.std == pytest.approx(values[30:].std(ddof=1))
    assert one.order == ()


def test_levels_that_no_site_shares_differ_infinitely():
    assert smd("category", {"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}) == math.inf
    assert (
        smd("category", {"a": 1.0, "b": 0.0, "c": 0.0}, {"a": 0.0, "b": 0.5, "c": 0.5}) == math.inf
    )
    assert smd("category", {"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 0.0}) == 0.0


def test_it_is_saved_and_loaded(t, tmp_path):
    path = tmp_path / "t.json"
    t.save(path)
    loaded = fedwad.ColumnsResult.load(path)
    assert loaded == t
    assert loaded.sentence == t.sentence
    assert loaded.to_frame().equals(t.to_frame())
    content = json.loads(path.read_text())
    assert content["columns"][1]["sites"][0]["quartiles"][1] > 0
    content["rows"] = content["rows"][:1]
    with fails(InputError, "damaged-content"):
        fedwad.ColumnsResult.from_dict(content)


def test_frame_notebook_and_picture(t, tmp_path, monkeypatch):
    frame = t.to_frame()
    assert list(frame.columns) == ["paris", "oslo", "rome", "SMD", "p-value"]
    assert frame.loc[("rows", "n"), "paris"] == "400"
    assert frame.index.is_unique
    html = t._repr_html_()
    assert html.count("<tr>") == len(frame) + 1
    t.plot(tmp_path / "t.svg")
    assert (tmp_path / "t.svg").stat().st_size > 1000
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError) as caught:
        t.to_frame()
    assert caught.value.code.startswith("missing-")


def test_heart_and_its_label():
    t = fedwad.columns(fedwad.local(fedwad.datasets.load("heart"), label_column="num"))
    assert t.sites == ("cleveland", "hungarian", "switzerland", "va")
    assert t["chol"]["switzerland"].mean == 0
    assert t.kinds[t.names.index("num")] == "label"
    assert t["num"]["va"].count is None
    for site, path in fedwad.datasets.load("heart").items():
        frame = pd.read_csv(path, na_values="?")
        for name in ("age", "thalach", "oldpeak"):
            assert t[name][site].mean == pytest.approx(frame[name].mean())
            assert t[name][site].std == pytest.approx(frame[name].std())
    assert t.differs


def test_columns_that_a_site_lacks_and_constants():
    rng = np.random.default_rng(0)
    a = pd.DataFrame({"age": rng.normal(size=50), "height": rng.normal(size=50), "one": 1.0})
    b = pd.DataFrame({"age": rng.normal(size=50), "one": 1.0})
    t = fedwad.columns(fedwad.local({"a": a, "b": b}))
    assert t["height"]["b"] is None
    assert math.isnan(t.pvalue[t.names.index("height")])
    assert t.reasons[t.names.index("height")]
    assert t["one"]["a"].std == 0
    t.to_frame()


def test_a_table_iterates_over_the_names_of_its_columns():
    rng = np.random.default_rng(0)
    t = fedwad.columns({"paris": rng.normal(size=(60, 2)), "oslo": rng.normal(size=(60, 2))})
    assert list(t) == list(t.names)
    assert t.names[0] in t
    assert "height" not in t
