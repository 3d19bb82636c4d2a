"""Agreement between sites: kinds decided together, conflicts that name the site and the column."""

import dataclasses
import json
import pickle

import numpy as np
import ot
import pandas as pd
import pytest

import fedwad
from failing import assert_one_sentence, fails
from fedwad.errors import InputError
from fedwad.tables import ColumnStatistics, Profile, SchemaColumn, agree, profile, read_table
from fedwad.tables.agreement import TOO_FEW_LEVELS
from fedwad.tables.conflicts import find_conflicts

RNG = np.random.default_rng(0)


def clinic(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(60.0, 10.0, n).round(),
            "weight": rng.normal(75.0, 12.0, n).round(1),
            "chol": rng.normal(240.0, 50.0, n).round(),
            "sex": rng.choice(["f", "m"], n),
            "cp": rng.integers(1, 5, n),
            "smokes": rng.random(n) < 0.3,
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )


def agreed(tables, least=5):
    schema = agree({site: profile(table, least) for site, table in tables.items()})
    return schema, schema.conflicts


def problems(conflicts):
    return {(conflict.problem, conflict.column, conflict.sites[0]) for conflict in conflicts}


def squared(schema, one, two):
    x, y = schema.encode(one), schema.encode(two)
    return ot.emd2(np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y)), ot.dist(x, y))


def test_kinds():
    tables = {"paris": clinic(), "oslo": clinic(150, 1)}
    schema, conflicts = agreed(tables)
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "age": "number",
        "weight": "number",
        "chol": "number",
        "sex": "category",
        "cp": "category",
        "smokes": "boolean",
        "seen": "date",
    }
    assert not conflicts
    pooled = pd.concat(tables.values())
    assert schema["age"].centre == pytest.approx(pooled.age.mean(), rel=1e-13)
    assert schema["age"].scale == pytest.approx(pooled.age.std(ddof=0), rel=1e-13)
    encoded = np.concatenate([schema.encode(table) for table in tables.values()])
    assert encoded.shape == (350, schema.width)


def test_pooled_moments_do_not_cancel():
    tables = {site: pd.DataFrame({"v": 1e8 + RNG.random(50)}) for site in "abc"}
    schema, _ = agreed(tables)
    values = np.concatenate([table.v - 1e8 for table in tables.values()])
    assert schema["v"].scale == pytest.approx(values.std(), rel=1e-7)


# The same rows, written in another way ----------------------------------------------------------

SAME = {
    "order": lambda table, _: table[table.columns[::-1]],
    "rows": lambda table, _: table.sample(frac=1.0, random_state=0),
    "category": lambda table, _: table.astype({"sex": "category", "cp": "category"}),
    "floats": lambda table, _: table.astype({"cp": "float64"}),
    "texts": lambda table, _: table.astype({"cp": str, "age": str}),
    "truth": lambda table, _: table.astype({"smokes": int}),
    "months": lambda table, _: table.assign(seen=table.seen.dt.strftime("%d %B %Y")),
    "utf-16": lambda table, path: table.to_csv(path, index=False, encoding="utf-16") or path,
    "windows": lambda table, path: (
        table.to_csv(path, index=False, sep=";", decimal=",", encoding="cp1252") or path
    ),
}


@pytest.mark.parametrize("change", SAME)
def test_the_same_rows_in_another_form_are_at_distance_zero(tmp_path, change):
    here = clinic()
    there = SAME[change](here, tmp_path / "a.csv")
    schema, conflicts = agreed({"paris": here, "oslo": there})
    assert not conflicts
    assert squared(schema, here, there) == pytest.approx(0.0, abs=1e-12)


OTHER = {
    "renamed": (lambda t: t.rename(columns={"chol": "cholesterol"}), "column missing", "chol"),
    "capital": (lambda t: t.rename(columns={"age": "Age "}), "column missing", "age"),
    "lacking": (lambda t: t.drop(columns="weight"), "column missing", "weight"),
    "grams": (lambda t: t.assign(weight=t.weight * 1000), "units", "weight"),
    "ten": (lambda t: t.assign(weight=t.weight * 10), "units", "weight"),
    "tenth": (lambda t: t.assign(weight=t.weight / 10), "units", "weight"),
    "pounds": (lambda t: t.assign(weight=t.weight * 2.20462), "units", "weight"),
    "mmol": (lambda t: t.assign(chol=(t.chol / 38.67).round(2)), "units", "chol"),
    "months": (lambda t: t.assign(age=t.age * 12), "units", "age"),
    "fahrenheit": (lambda t: t.assign(weight=t.weight * 1.8 + 32), "units", "weight"),
    "text": (lambda t: t.assign(age=[f"about {v:.0f}" for v in t.age]), "kinds differ", "age"),
    "some text": (lambda t: t.assign(age=["old", *t.age[1:]]), "kinds differ", "age"),
    "dates": (lambda t: t.assign(seen=t.seen.dt.strftime("week %W of %Y")), "kinds differ", "seen"),
    "codes": (lambda t: t.assign(sex=t.sex.map({"f": 1, "m": 2})), "kinds differ", "sex"),
    "empty": (lambda t: t.assign(chol=np.nan), "all missing", "chol"),
    "zeros": (lambda t: t.assign(chol=0), "suspicious value", "chol"),
    "some zeros": (
        lambda t: t.assign(chol=t.chol.where(t.index > 30, 0)),
        "suspicious value",
        "chol",
    ),
    "nines": (lambda t: t.assign(age=t.age.where(t.index > 30, -9)), "suspicious value", "age"),
    "constant": (lambda t: t.assign(chol=240.0), "constant", "chol"),
    "one level": (lambda t: t.assign(sex="f"), "constant", "sex"),
    "case": (lambda t: t.assign(sex=t.sex.str.upper()), "spelling", "sex"),
    "coding": (lambda t: t.assign(cp=t.cp - 1), "coding", "cp"),
    "words": (lambda t: t.assign(sex=t.sex.map({"f": "woman", "m": "man"})), "coding", "sex"),
}


@pytest.mark.parametrize("change", OTHER)
def test_what_differs_is_named(change):
    alter, problem, column = OTHER[change]
    here = clinic()
    there = alter(here)
    _, conflicts = agreed({"paris": here, "rome": clinic(180, 4), "oslo": there})
    found = [c for c in conflicts if c.column == column and c.problem == problem]
    assert found, conflicts
    assert "oslo" in found[0].sites
    assert f"'{column}'" in found[0].sentence
    assert_one_sentence(found[0].sentence)
    _, conflicts = agreed({"paris": here, "oslo": there})
    assert any(c.column == column and c.problem == problem for c in conflicts)


def test_sites_with_the_same_other_codes_share_a_sentence():
    here = clinic()
    words = here.assign(sex=here.sex.map({"f": "woman", "m": "man"}))
    _, conflicts = agreed({"oslo": words, "paris": here, "rome": clinic(180, 4)})
    (found,) = [c for c in conflicts if c.problem == "coding"]
    assert found.sites == ("oslo", "paris", "rome")


def test_other_levels_of_the_same_codes_are_no_other_coding():
    rng = np.random.default_rng(0)
    months = {"Dec": [1, 4], "June": [2, 3], "March": [1, 2], "Sept": [3, 4]}
    tables = {m: pd.DataFrame({"season": rng.choice(s, 100)}) for m, s in months.items()}
    assert "coding" not in [c.problem for c in agreed(tables)[1]]
    few = {"one": clinic(), "two": clinic().assign(sex=["x", "y"] * 4 + ["f"] * 192)[:8]}
    assert "coding" not in [c.problem for c in agreed(few, 3)[1]]


def test_sites_without_a_value_share_a_sentence():
    here = clinic()
    tables = {"a": here, "b": here.assign(chol=np.nan), "c": here.assign(chol=np.nan)}
    found = [c for c in agreed(tables)[1] if c.problem == "all missing"]
    assert [(c.sites, c.sentence) for c in found] == [
        (("b", "c"), "Column 'chol' has no value at b and c.")
    ]


def test_one_odd_value_is_no_frequent_one():
    here = clinic()
    odd = here[:10].assign(chol=[-9.0, *here.chol[1:10]])
    profiles = {"a": profile(here, 1), "b": profile(odd, 1)}
    assert "suspicious value" not in [c.problem for c in agree(profiles).conflicts]


def test_one_site_spells_levels_otherwise_and_another_codes_them_otherwise():
    here = clinic()
    capital = here.assign(sex=here.sex.str.upper())
    words = here.assign(sex=here.sex.map({"f": "woman", "m": "man"}))
    found = agreed({"a": here, "b": capital, "c": words})[1]
    assert [(c.problem, c.sites) for c in found] == [
        ("spelling", ("a", "b")),
        ("coding", ("a", "c")),
    ]


@pytest.mark.parametrize("factor", [0.01, 0.1, 10.0, 1000.0])
def test_units_of_a_column_around_zero(factor):
    rng = np.random.default_rng(0)
    here = clinic().assign(change=rng.normal(0.0, 2.0, 200))
    there = here.assign(change=here.change * factor)
    _, conflicts = agreed({"paris": here, "oslo": there})
    assert ("units", "change") in {(c.problem, c.column) for c in conflicts}


def test_a_lacking_column_is_ignored_and_the_rest_is_compared():
    here = clinic()
    there = here.rename(columns={"chol": "cholesterol"})
    schema, conflicts = agreed({"paris": here, "oslo": there})
    assert set(schema.ignored) == {"chol", "cholesterol"}
    assert "'cholesterol'" in conflicts[0].sentence
    assert squared(schema, here, there) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_samples_of_one_population_have_no_conflicts(seed):
    tables = {str(k): clinic(int(40 + 60 * k), 10 * seed + k) for k in range(4)}
    schema, conflicts = agreed(tables)
    assert not conflicts
    assert not schema.ignored


# Columns that are not compared ------------------------------------------------------------------


def test_identifiers_and_free_text_are_ignored_with_the_reason():
    table = clinic().assign(
        patient=[f"P{k:04d}" for k in range(200)],
        row=np.arange(200) + 17,
        visit_id=RNG.integers(0, 50, 200),
        note=[f"saw {k % 90} times" for k in range(200)],
        raw=[[k] for k in range(200)],
        clinic="north",
        none=None,
        remark=[f"remark {k % 40}" if k < 60 else None for k in range(200)],
    )
    table["Sample Number"] = RNG.integers(1, 150, 200)
    schema, _ = agreed({"paris": table, "oslo": table}, least=1)
    assert set(schema.ignored) == {
        *("patient", "row", "visit_id", "note", "raw", "clinic", "none", "remark", "Sample Number")
    }
    assert all(schema.ignored.values())


def test_the_name_of_a_site_is_ignored():
    for values in (("Paris", "Oslo"), ("North", "South", "West"), (12, 13, 1)):
        sites = ("paris", "oslo", "rome")[: len(values)]
        tables = {
            site: clinic(50, k).assign(where=[value] * 45 + [None] * 5)
            for k, (site, value) in enumerate(zip(sites, values, strict=True))
        }
        schema, conflicts = agreed(tables)
        assert "one value of its own" in schema.ignored["where"]
        assert [c.sites for c in conflicts if c.problem == "site name"] == [tuple(sorted(sites))]
    both = {"a": clinic().assign(arm="drug"), "b": clinic(90, 1).assign(arm="placebo")}
    assert agreed(both)[0]["arm"].kind == "category"  # of two sites, it may be a real difference


def test_steps_of_a_scale_are_numbers_and_codes_are_not():
    steps = {"karnofsky": RNG.choice([50, 60, 70, 80, 90, 100], 200)}
    codes = {"thal": RNG.choice([3, 6, 7], 200), "grade": RNG.choice([1, 2, 3, 4, 5, 6], 200)}
    schema, _ = agreed({"a": pd.DataFrame(steps | codes)})
    assert [schema[name].kind for name in (*steps, *codes)] == ["number", "category", "category"]


def test_what_is_hardly_measured_at_some_sites_is_one_sentence():
    here = clinic()
    there = here.assign(chol=here.chol.where(here.index < 5))
    _, conflicts = agreed({"a": here, "b": there, "c": there})
    (found,) = [c for c in conflicts if c.problem == "mostly missing"]
    assert (found.column, found.sites) == ("chol", ("b", "c"))
    assert found.sentence.count("97.5%") == 2


def test_a_column_under_two_names_is_one_sentence():
    here = clinic()
    there = clinic(90, 1).rename(columns={"age": "AGE"})
    schema, conflicts = agreed({"a": here, "b": there, "c": here})
    assert [(c.column, c.sites, c.problem) for c in conflicts] == [
        ("age", ("b",), "column missing")
    ]
    assert "'AGE'" in conflicts[0].sentence
    assert set(schema.ignored) == {"AGE", "age"}


def test_ways_of_spelling_are_one_sentence():
    here = clinic()
    _, conflicts = agreed({"a": here, "b": here.assign(sex=here.sex.str.upper())})
    assert [(c.column, c.sites, c.problem) for c in conflicts] == [("sex", ("a", "b"), "spelling")]
    assert all(f"'{level}'" in conflicts[0].sentence for level in "fmFM")
    both = here.assign(sex=np.where(here.index % 2, here.sex, here.sex.str.upper()))
    _, (conflict, *_) = agreed({"a": both, "b": both})
    assert conflict.sites == ("a",)
    assert conflict.sentence.count(" at a") == 1


def test_a_summary_says_nothing_twice():
    table = clinic().assign(clinic="north", note=[f"n {k}" for k in range(200)])
    schema, conflicts = agreed({"a": table, "b": table})
    assert [c.column for c in conflicts] == ["clinic"]
    assert "note" in schema.description_lines()[-1]
    assert "clinic" not in schema.description_lines()[-1]
    long = dataclasses.replace(schema["sex"], levels=("x" * 90, "m", "other"))
    assert len(long.becomes) < 80
    assert "(x + 5)" in dataclasses.replace(schema["age"], centre=-5.0).becomes


def test_an_index_of_rows_is_ignored(tmp_path):
    clinic().to_csv(tmp_path / "a.csv")
    named = clinic(90, 1).set_index(pd.Index([f"SECRET{k}" for k in range(90)]))
    named.to_csv(tmp_path / "b.csv")
    tables = {"a": tmp_path / "a.csv", "b": tmp_path / "b.csv", "c": clinic(80, 2)}
    schema, conflicts = agreed(tables)
    assert not conflicts
    assert list(schema.ignored) == [""]
    assert b"SECRET" not in pickle.dumps(profile(tables["b"], 1))


def test_measurements_that_all_differ_are_kept():
    table = pd.DataFrame({"v": RNG.random(100), "platelets": np.arange(100) * 1000 + 150_000})
    schema, _ = agreed({"a": table})
    assert [column.kind for column in schema.columns] == ["number", "number"]


def test_a_hundred_thousand_levels():
    n = 100_000
    table = pd.DataFrame({"v": [f"level {k}" for k in range(n)], "w": RNG.random(n)})
    found = profile(table, 5)
    assert len(pickle.dumps(found)) < 2000
    schema = agree({"a": found})
    assert "v" in schema.ignored
    twice = pd.concat([table, table, table, table, table, table])
    assert profile(twice, 5)["v"].levels == ()
    assert "free text" in agreed({"a": twice})[0].ignored["v"]


def test_few_rows_are_not_codes():
    schema, _ = agreed({"a": clinic(6), "b": clinic(6, 1)}, least=1)
    assert schema["age"].kind == "number"


@pytest.mark.parametrize("rows", [1, 2])
def test_tiny_tables(rows):
    """A site with fewer rows than the smallest cell says nothing about values, and is encoded."""
    small, large = clinic()[:rows], clinic(100, 1)
    found = profile(small, 5)
    assert all(np.isnan(s.mean) and not s.levels and not s.sentinels for s in found.columns)
    schema = agree({"small": found, "large": profile(large, 5)})
    assert schema.encode(small).shape == (rows, schema.width)
    with fails(InputError, "nothing-to-compare"):
        agreed({"a": small.drop(columns="smokes"), "b": small.drop(columns="smokes")})


def test_nothing_in_common():
    with fails(InputError, "nothing-to-compare"):
        agreed({"a": pd.DataFrame({"u": [1.5] * 9}), "b": pd.DataFrame({"v": [1.5] * 9})})
    with fails(InputError, "no-sites"):
        agree({})


def test_labels():
    tables = {"paris": clinic().assign(num=1), "oslo": clinic(90, 1)}
    with fails(InputError, "unknown-column") as caught:
        agree({"paris": profile(tables["paris"], 5, "num"), "oslo": profile(tables["oslo"], 5)})
    assert str(caught.value).startswith("oslo ")
    found = profile(tables["paris"], 5, label="num")
    assert found["num"] == type(found["num"])("num", "label")
    with fails(InputError, "unknown-column"):
        profile(tables["oslo"], 5, label="num")


def test_missing_values_get_an_indicator_at_every_site():
    here, there = clinic(), clinic(90, 1)
    there["smokes"] = there.smokes.astype("boolean")
    for name in ("age", "sex", "smokes", "seen"):
        there[name] = there[name].mask(there.index <= 20)
    schema, _ = agreed({"paris": here, "oslo": there})
    assert [schema[name].missing for name in ("age", "smokes", "seen")] == ["indicator"] * 3
    assert schema["sex"].missing == "level"
    assert schema["chol"].missing == "refuse"
    assert schema.encode(here)[:, schema.feature_names.index("age=missing")].sum() == 0
    assert schema.encode(there)[:, schema.feature_names.index("age=missing")].sum() == 21


# What leaves a site -----------------------------------------------------------------------------


def plain(value):
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    assert type(value) in (int, float, str, bool), type(value)
    return value


@pytest.mark.parametrize("least", [2, 5, 10])
def test_rare_levels_are_in_no_message(least):
    table = clinic()
    table["rare"] = ["usual"] * (200 - least + 1) + ["SECRET"] * (least - 1)
    table["code"] = [1] * (200 - least + 1) + [7182818] * (least - 1)
    table["number"] = [*RNG.random(200 - least + 1), *[654321.0] * (least - 1)]
    table["name"] = [f"SECRET{k}" for k in range(200)]
    table["patient_id"] = ["SECRETID"] * 200
    table["diagnosis"] = ["SECRETLABEL"] * 200
    table["flag"] = [True] * (200 - least + 1) + [False] * (least - 1)
    found = profile(table, least, label="diagnosis")
    for sent in (pickle.dumps(found), json.dumps(plain(found)).encode()):
        assert b"SECRET" not in sent
        assert b"7182818" not in sent
        assert b"654321" not in sent
    for statistics in found.columns:
        assert all(number >= least for number in statistics.level_counts)
        assert all(number >= least for number in statistics.sentinel_counts)
    assert found["rare"].other == found["code"].other == least - 1
    schema = agree({"a": found, "b": found})
    conflicts = schema.conflicts
    assert "SECRET" not in repr(schema) + repr(conflicts)
    encoded = schema.encode(table)
    assert encoded[-1, schema.feature_names.index("rare=other")] > 0


ATTACKED = {
    "one code": [1] * 199 + [777],
    "one of three codes": [1] * 100 + [2] * 97 + [777, 777, 778],
    "one number": [0.0] * 199 + [77.7],
    "two numbers": [5.25] * 198 + [77.7, 78.7],
    "one date": [pd.Timestamp("2020-01-01")] * 199 + [pd.Timestamp("1990-05-17")],
    "hidden by zeros": [0.0] * 196 + [1.5, 2.5, 3.5, 4.5],
}


@pytest.mark.parametrize("case", ATTACKED)
def test_sums_do_not_give_rare_values_away(case):
    """The total less what is known of the other rows would be the rare value."""
    found = profile(pd.DataFrame({"v": ATTACKED[case]}), 5)["v"]
    assert np.isnan(found.mean)
    assert np.isnan(found.sum_of_squares)
    assert np.isfinite(profile(pd.DataFrame({"v": ATTACKED[case]}), 1)["v"].mean)


def test_codes_stand_in_for_sums_that_stay():
    """A site whose rare code withholds its sums still counts in the pooled mean of a number."""
    here = pd.DataFrame({"v": [1] * 50 + [2] * 49 + [9]})
    there = pd.DataFrame({"v": np.arange(40) % 20})
    schema, _ = agreed({"a": here, "b": there})
    assert schema["v"].kind == "number"
    known = np.concatenate([here.v[:-1], there.v])
    assert schema["v"].centre == pytest.approx(known.mean(), rel=1e-12)
    assert schema["v"].scale == pytest.approx(known.std(), rel=1e-12)


def test_means_of_few_values_stay():
    table = pd.DataFrame({"v": [1.25, 2.5, 3.75] + [None] * 97, "w": RNG.random(100)})
    found = profile(table, 5)["v"]
    assert np.isnan(found.mean)
    assert np.isnan(found.sum_of_squares)
    assert (found.count, found.missing) == (3, 97)
    assert np.isfinite(profile(table, 3)["v"].mean)


def test_options():
    with fails(InputError, "bad-option"):
        profile(clinic(), 0)
    assert read_table(clinic(), "paris").name == "paris"


def test_numbers_that_all_rows_lack_are_no_error():
    lost = pd.DataFrame({"chol": ["0"] * 30, "age": np.arange(30) % 7 + 0.5})
    table = read_table(lost, missing=("0",))
    assert "chol" in agree({"bern": profile(table, 10)})


def test_booleans_meet_only_integers_that_are_0_and_1():
    paris = profile(pd.DataFrame({"x": [True, False] * 20, "z": RNG.normal(size=40)}))
    oslo = profile(pd.DataFrame({"x": [1, 2, 3, 4, 5] * 8, "z": RNG.normal(size=40)}))
    rare = profile(pd.DataFrame({"x": [0] * 37 + [1] * 3, "z": RNG.normal(size=40)}))
    assert agree({"paris": paris, "oslo": oslo})["x"].kind == "ignored"
    assert agree({"paris": paris, "rare": rare})["x"].kind == "boolean"


def test_values_whose_squares_overflow_are_not_called_constant():
    values = np.append(np.arange(30.5), 1.7e308)
    sent = profile(pd.DataFrame({"x": values, "z": RNG.normal(size=32)}))
    assert sent["x"].moments == ()
    assert "too large" in agree({"paris": sent})["x"].reason


def test_the_order_of_the_sites_does_not_change_the_schema():
    sites = {"a": ["z"], "b": ["z"], "c": ["x", "z"]}
    sent = {s: profile(pd.DataFrame({n: RNG.normal(size=40) for n in sites[s]})) for s in sites}
    backwards = {site: sent[site] for site in reversed(sent)}
    assert agree(sent).to_dict() == agree(backwards).to_dict()


def test_the_hint_about_a_missing_value_quotes_names_with_spaces():
    rng = np.random.default_rng(0)
    sites = {"a": np.where(np.arange(200) < 100, 0.0, rng.normal(200, 10, 200))}
    sites["b"] = rng.normal(200, 10, 200)
    tables = {name: pd.DataFrame({"serum chol": values}) for name, values in sites.items()}
    with pytest.warns(fedwad.errors.DataWarning):
        schema = fedwad.local(tables).schema
    assert any("(missing: 'serum chol=0')" in c.sentence for c in schema.conflicts)


def test_one_site_of_many_moves_a_scale_by_little():
    """However many rows it says it has, and however large its moments."""
    honest = {f"s{k}": profile(pd.DataFrame({"v": np.arange(100.0) / 3 + k}), 5) for k in range(3)}
    expected = agree(honest)["v"]
    for count, moments in ((10**9, (50.0, 1e9)), (100, (1e9, 1e3)), (10**9, (1e9, 1e30))):
        lie = ColumnStatistics("v", "number", count, 0, 51, moments=moments)
        found = agree(honest | {"liar": Profile(count, (lie,), 5)})["v"]
        assert expected.scale / 3 < found.scale < 3 * expected.scale


def test_chance_leaves_out_no_site_of_usual_size():
    """One level of nine rows would make "other" of all ten at every site."""
    left_out = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tables = {
            f"s{k}": pd.DataFrame({"c": rng.choice(list("abcdefghij"), n), "x": rng.normal(size=n)})
            for k, n in enumerate((25, 150, 150, 150, 150))
        }
        schema = agree({site: profile(table, 10) for site, table in tables.items()}, True)
        left_out |= {c.sites for c in schema.conflicts if c.problem == TOO_FEW_LEVELS}
    assert left_out == {("s0",)}


def test_no_list_of_levels_has_none_of_them():
    codes = pd.DataFrame({"icd": [f"E{k}" for k in range(60)] * 12})
    column = SchemaColumn("icd", "category", levels=("other",), missing="level")
    statistics = {"oslo": profile(read_table(codes))["icd"]}
    (conflict,) = find_conflicts("icd", statistics, column, 2)
    assert conflict.problem == "many levels"
    assert "none is frequent enough" in conflict.sentence


def test_the_other_of_two_sites_that_claims_many_rows_sets_no_scale_alone():
    frame = pd.DataFrame({"age": np.random.default_rng(0).normal(60, 10, 200)})
    own = profile(frame, 10)
    age = own["age"]
    claim = dataclasses.replace(
        age, count=10**11, moments=(age.mean, 10**11 * (age.std / 300) ** 2)
    )
    liar = dataclasses.replace(own, rows=10**11, columns=(claim,))
    schema = agree({"own": own, "liar": liar})
    assert schema["age"].scale > age.std / 40  # of 300
