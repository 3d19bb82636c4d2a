"""Schemas: what encoding does, the file that describes it, and slips in that file."""

import tracemalloc
from datetime import datetime

import numpy as np
import ot
import pandas as pd
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import fedwad
from failing import assert_one_sentence, fails
from fedwad.errors import DataWarning, InputError
from fedwad.tables import Schema, SchemaColumn, agree, profile, read_table
from fedwad.tables.encode import encode_elementwise, hide_rare, label_values
from fedwad.tables.table import Column, Table

SCHEMA = Schema(
    (
        SchemaColumn("age", "number", centre=50.0, scale=10.0, missing="indicator"),
        SchemaColumn(
            "cp", "category", levels=("1", "2", "x y", "other"), weight=3.0, missing="level"
        ),
        SchemaColumn("smokes", "boolean", centre=0.25, scale=0.5),
        SchemaColumn("seen", "date", centre=18262.0, scale=30.0, missing="mean"),
        SchemaColumn("num", "label"),
        SchemaColumn("note", "ignored", reason='free text: "many" levels'),
    )
)
TABLE = pd.DataFrame(
    {
        "note": ["a", "b", "c", "d"],
        "age": [60.0, None, 50.0, 45.0],
        "cp": ["1", "x y", None, "unheard of"],
        "smokes": [True, False, True, False],
        "seen": pd.to_datetime(["2020-01-31", "2020-01-01", None, "2020-01-01"]),
        "num": [0, 1, 4, 0],
        "extra": [1, 2, 3, 4],
    }
)


def test_encoding_follows_the_formulas():
    size = np.sqrt(1.5)
    expected = [
        [1.0, 0.0, size, 0, 0, 0, 0, 1.5, 1.0],
        [0.0, 1.0, 0, 0, size, 0, 0, -0.5, 0.0],
        [0.0, 0.0, 0, 0, 0, 0, size, 1.5, 0.0],
        [-0.5, 0.0, 0, 0, 0, size, 0, -0.5, 0.0],
    ]
    np.testing.assert_allclose(SCHEMA.encode(TABLE), expected, atol=1e-15)
    assert SCHEMA.feature_names[2:7] == ("cp=1", "cp=2", "cp=x y", "cp=other", "cp=missing")
    assert SCHEMA.feature_columns == ("age", "age", *["cp"] * 5, "smokes", "seen")
    assert label_values(read_table(TABLE)["num"], "a").tolist() == [0, 1, 4, 0]
    assert (SCHEMA.width, SCHEMA.label) == (9, "num")
    assert SCHEMA.feature_slice("smokes") == slice(7, 8)


def test_means_in_own_units():
    found = SCHEMA.describe(SCHEMA.encode(TABLE).mean(axis=0))
    assert found["age"] == pytest.approx({"mean": TABLE.age.mean(), "missing": 0.25})
    shares = {"1": 0.25, "2": 0, "x y": 0.25, "other": 0.25, "missing": 0.25}
    assert found["cp"] == pytest.approx(shares)
    assert found["smokes"] == pytest.approx({"mean": 0.5})


def test_codes_words_and_truth_values_find_their_level():
    schema = Schema((SchemaColumn("v", "category", levels=("0", "1", "other")),))
    same = [[1, 0], [1.0, 0.0], ["1", "0"], [True, False], pd.Categorical(["1", "0"])]
    for values in same:
        found = schema.encode(pd.DataFrame({"v": values}))
        np.testing.assert_array_equal(found, [[0, 1, 0], [1, 0, 0]])
    schema = Schema((SchemaColumn("v", "boolean"),))
    for values in [*same, ["yes", "No"], ["T", "f"]]:
        found = schema.encode(pd.DataFrame({"v": values}))
        np.testing.assert_array_equal(found, [[1], [0]])


def test_values_that_stand_for_missing_ones():
    number = SchemaColumn("v", "number", missing="indicator", missing_values=("0", "-9"))
    found = Schema((number,)).encode(pd.DataFrame({"v": [0.0, 3.0, -9.0]}))
    np.testing.assert_array_equal(found, [[0, 1], [3, 0], [0, 1]])
    level = SchemaColumn("v", "category", levels=("1",), missing="level", missing_values=("9",))
    found = Schema((level,)).encode(pd.DataFrame({"v": [1, 9]}))
    np.testing.assert_array_equal(found, [[1, 0], [0, 1]])


def test_the_file_is_readable_and_comes_back_the_same(tmp_path):
    path = tmp_path / "schema.toml"
    SCHEMA.save(path)
    assert Schema.load(path) == SCHEMA
    assert Schema.load(path).public
    assert not SCHEMA.public
    assert (
        '[columns."cp"]\nkind = "category"\nlevels = ["1", "2", "x y", "other"]' in path.read_text()
    )
    shown = repr(SCHEMA)
    assert all(column.name in shown and column.kind in shown for column in SCHEMA.columns)


SLIPS = [
    ('kind = "number"', 'kind = "numbr"', "bad-schema", ("'age'", "number")),
    ("centre = 50.0", 'centre = "fifty"', "bad-schema", ("'age'", "centre")),
    ("scale = 10.0", "scale = 0.0", "bad-schema", ("'age'", "scale")),
    ("scale = 10.0", "scale = nan", "bad-schema", ("'age'", "scale")),
    ("scale = 10.0", "scael = 10.0", "unknown-key", ("'age'", "'scael' (but 'scale')")),
    ("scale = 10.0\n", "", "bad-schema", ("'age'", "scale")),
    ('missing = "indicator"', 'missing = "median"', "bad-schema", ("'age'", "indicator")),
    ('missing = "level"', 'missing = "indicator"', "bad-schema", ("'cp'", "level")),
    ("weight = 3.0", "weight = -1", "bad-schema", ("'cp'", "weight")),
    ('["1", "2", "x y", "other"]', "[1, 2]", "bad-schema", ("'cp'", "levels")),
    ('["1", "2", "x y", "other"]', '["1", "1"]', "bad-schema", ("'cp'", "levels", "'1'")),
    ('["1", "2", "x y", "other"]', "[]", "bad-schema", ("'cp'", "levels")),
    ("version = 1", "version = 2", "wrong-version", ("2",)),
    ("version = 1\n", "", "wrong-version", ()),
    ("version = 1", "verison = 1", "unknown-key", ("'verison' (but 'version')",)),
    ('[columns."age"]', '[columns."age"', "bad-toml", ("line",)),
    ('[columns."smokes"]', '[columns."age"]', "bad-toml", ("line",)),
    ('kind = "ignored"', 'kind = "label"', "unknown-key", ("'note'", "reason")),
    ('kind = "label"', "", "bad-schema", ("'num'", "kind")),
]


@pytest.mark.parametrize(("right", "wrong", "code", "named"), SLIPS)
def test_slips_in_a_file_are_named_in_one_sentence(tmp_path, right, wrong, code, named):
    path = tmp_path / "schema.toml"
    SCHEMA.save(path)
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    with fails(InputError, code) as caught:
        Schema.load(path)
    assert all(word in str(caught.value) for word in named)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("version = 1\ncolumns" + ".a" * 20_000 + " = 1", "bad-schema"),  # took 8 s and 1.6 GB
        ("version = 1\n[columns" + " . 'a'" * 20_000 + "]", "bad-schema"),
        ("version = 1\nx = {a = '''\n\" '''', columns" + '."a"' * 20_000 + " = 1}", "bad-schema"),
        ("version = 1\nx = " + "[" * 20_000, "bad-toml"),
        ("version = 1\nx = " + "{a = " * 20_000, "bad-toml"),
        ("version = " + "1" * 5000, "bad-toml"),
        ("version = 0x" + "f" * 5000, "bad-toml"),
        (
            "version = 1\n[columns.a]\nkind = 'number'\nscale = 1.0\ncentre = 0x" + "f" * 5000,
            "bad-toml",
        ),
    ],
)
def test_a_text_that_is_deep_takes_neither_time_nor_memory(text, code):
    tracemalloc.start()
    with fails(InputError, code):
        Schema.from_toml(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e7


@pytest.mark.parametrize("name", ["a.b.c.d.e", "a 'b'.c.d.e.f # g", '"""a.b.c.d.e', '\\"a.b.c.d.e'])
def test_names_may_have_any_number_of_dots(name):
    schema = Schema((SchemaColumn(name, "category", levels=("1.2.3.4.5", "other")),))
    assert Schema.from_toml(schema.to_toml()) == schema


def test_what_does_not_fit_a_given_schema_is_named():
    schema = Schema(
        (
            SchemaColumn("weight", "number", centre=75.0, scale=12.0),
            SchemaColumn("sex", "category", levels=("f", "m", "other")),
        )
    )
    rng = np.random.default_rng(0)
    fits = pd.DataFrame({"weight": rng.normal(70, 12, 60), "sex": ["f", "m"] * 30})
    odd = pd.DataFrame({"weight": fits.weight * 2.2, "sex": ["f", "man", "woman"] * 20})
    grams = fits.assign(weight=75 + (fits.weight - 75) * 1000)
    tables = {"a": fits, "b": odd, "c": grams}
    with pytest.warns(DataWarning) as caught:
        fed = fedwad.local(tables, schema=schema)
    assert {(c.problem, c.column, c.sites[0]) for c in fed.schema.conflicts} == {
        ("units", "weight", "b"),
        ("unknown levels", "sex", "b"),
        ("units", "weight", "c"),
    }
    sentences = [str(one.message) for one in caught]
    assert any(all(word in s for word in ("40", "60", "'man'", "'woman'")) for s in sentences)
    for sentence in sentences:
        assert_one_sentence(sentence)
    fedwad.local({"a": fits, "b": fits[:30]}, schema=schema)  # warnings are errors


def test_files_that_are_not_schemas(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "b.toml").write_text("version = 1\ncolumns = 3\n")
    (tmp_path / "c.toml").write_text("version = 1\n[columns]\nage = 3\n")
    codes = {"a": "no-such-file", "b": "bad-schema", "c": "bad-schema", "none": "no-such-file"}
    for name, code in codes.items():
        with fails(InputError, code) as caught:
            Schema.load(tmp_path / f"{name}.toml")
        assert f"{name}.toml" in str(caught.value)
    with fails(InputError, "repeated-column"):
        Schema((SchemaColumn("age", "number"), SchemaColumn("age", "number")))
    with fails(InputError, "bad-labels"):
        Schema((SchemaColumn("a", "label"), SchemaColumn("b", "label")))


BAD = [
    (TABLE.drop(columns="age"), "unknown-column", ("'age'",)),
    (TABLE.rename(columns={"age": "Age"}), "unknown-column", ("'age'", "(but 'Age')")),
    (TABLE.assign(age=["60", "50", "old", "40"]), "wrong-kind", ("'age'", "text", "row 3")),
    (TABLE.assign(age=[1.0, np.inf, 2.0, -np.inf]), "infinite-values", ("'age'", "rows 2, 4")),
    (TABLE.assign(age=TABLE.seen), "wrong-kind", ("'age'", "dates")),
    (TABLE.assign(seen=[1, 2, 3, 4]), "wrong-kind", ("'seen'", "numbers")),
    (TABLE.assign(smokes=[1, 0, None, 1]), "missing-values", ("'smokes'", "row 3")),
    (TABLE.assign(smokes=[1, 0, 2, 1]), "wrong-kind", ("'smokes'", "row 3")),
    (TABLE.assign(cp=[[1], [2], [3], [4]]), "wrong-kind", ("'cp'", "list")),
]


@pytest.mark.parametrize(("table", "code", "named"), BAD)
def test_tables_that_do_not_fit(table, code, named):
    with fails(InputError, code) as caught:
        SCHEMA.encode(table)
    assert all(word in str(caught.value) for word in named)


def test_unknown_levels_without_other():
    schema = Schema((SchemaColumn("v", "category", levels=("a", "b")),))
    with fails(InputError, "unknown-level") as caught:
        schema.encode(pd.DataFrame({"v": ["a", "c"]}))
    assert "row 2" in str(caught.value)
    with fails(InputError, "missing-values"):
        label_values(read_table(TABLE.assign(num=[0, None, 1, 2]))["num"], "a")


def test_one_row_and_none():
    assert SCHEMA.encode(TABLE[:1]).shape == (1, 9)
    assert SCHEMA.encode(read_table(TABLE).take([])).shape == (0, 9)


def test_edits():
    changed = SCHEMA.edited({"cp": {"kind": "ignored", "reason": "no"}})
    assert changed.ignored["cp"] == "no"
    numbers = {"centre": np.float64(4.5), "scale": np.int64(3), "range": np.array([0, 9.0])}
    assert SCHEMA.edited({"age": numbers})["age"].becomes == "(x - 4.5) / 3"
    with fails(InputError, "unknown-column"):
        SCHEMA.edited({"c": {}})
    with fails(InputError, "unknown-key") as caught:
        SCHEMA.edited({"age": {"sclae": 1.0}})
    assert "'sclae' (but 'scale')" in str(caught.value)


# Known answers and properties ------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 3, 7])
@pytest.mark.parametrize("gaps", [False, True])
def test_one_category_is_total_variation(levels, gaps):
    rng = np.random.default_rng(levels)
    names = np.array([f"level {k}" for k in range(levels)] + [None], dtype=object)
    first = rng.integers(0, levels + gaps, 90)
    second = np.minimum(
        rng.integers(0, levels + gaps, 60), levels - 1 + gaps * (rng.random(60) < 0.5)
    )
    sites = {"a": pd.DataFrame({"v": names[first]}), "b": pd.DataFrame({"v": names[second]})}
    schema = agree({site: profile(table, 1) for site, table in sites.items()})
    x, y = (schema.encode(table) for table in sites.values())
    squared = ot.emd2(np.full(90, 1 / 90), np.full(60, 1 / 60), ot.dist(x, y))
    shares = [np.bincount(v, minlength=levels + 1) / len(v) for v in (first, second)]
    pooled = (90 * shares[0] + 60 * shares[1]) / 150
    weight = 2.0 / (1.0 - pooled @ pooled)
    assert schema["v"].weight == pytest.approx(weight, rel=1e-14)
    assert squared == pytest.approx(weight * 0.5 * np.abs(shares[0] - shares[1]).sum(), abs=1e-12)


def test_every_kind_has_the_weight_of_a_standardised_number():
    """Two random rows are 2 apart in squares in each column, and in radius about its estimate."""
    rng = np.random.default_rng(0)
    n = 4000
    table = pd.DataFrame(
        {
            "number": rng.gamma(2.0, 30.0, n),
            "category": rng.choice(["a", "b", "c", "d"], n, p=[0.6, 0.3, 0.07, 0.03]),
            "boolean": rng.random(n) < 0.1,
            "date": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D"),
        }
    )
    schema = agree({"a": profile(table, 5)})
    conflicts = schema.conflicts
    assert not conflicts
    assert [column.kind for column in schema.columns] == sorted(table.columns)
    variances = schema.encode(table).var(axis=0)
    for name in table.columns:
        assert variances[schema.feature_slice(name)].sum() == pytest.approx(1.0, rel=1e-9)
    far = np.linalg.norm(schema.encode(table) - schema.centre, axis=1)
    assert np.mean(far < schema.clip_norm) > 0.9


def test_a_missing_number_is_as_far_as_two_numbers_are():
    rng = np.random.default_rng(1)
    values = np.where(rng.random(2000) < 0.3, np.nan, rng.normal(7.0, 3.0, 2000))
    table = pd.DataFrame({"v": values})
    schema = agree({"a": profile(table, 5)})
    encoded = schema.encode(table)
    lost = np.isnan(values)
    gaps = ot.dist(encoded[lost], encoded[~lost])
    assert gaps.mean() == pytest.approx(2.0, rel=1e-9)


texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
finite = st.floats(-1e12, 1e12, allow_nan=False)
positive = st.floats(1e-9, 1e9)
rules = st.sampled_from(["refuse", "indicator", "mean"])


@st.composite
def schema_columns(draw):
    name = draw(texts)
    kind = draw(st.sampled_from(["number", "category", "boolean", "date", "ignored"]))
    if kind == "category":
        levels = tuple(draw(st.lists(texts, min_size=1, max_size=5, unique=True)))
        rule = draw(st.sampled_from(["refuse", "level"]))
        return SchemaColumn(name, kind, levels=levels, weight=draw(positive), missing=rule)
    if kind == "ignored":
        return SchemaColumn(name, kind, reason=draw(st.text(max_size=20).map(_printable)))
    lost = tuple(draw(st.lists(texts, max_size=2)))
    return SchemaColumn(
        name, kind, draw(finite), draw(positive), missing=draw(rules), missing_values=lost
    )


def _printable(text):
    return "".join(sign for sign in text if not 0xD800 <= ord(sign) < 0xE000)


@settings(max_examples=80, deadline=None)
@given(st.lists(schema_columns(), min_size=1, max_size=5, unique_by=lambda column: column.name))
def test_any_schema_comes_back_from_its_file(tmp_path_factory, columns):
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    schema = Schema(tuple(columns))
    schema.save(path)
    assert Schema.load(path) == schema


cells = {
    "number": st.one_of(st.none(), st.floats(-1e6, 1e6)),
    "category": st.one_of(st.none(), st.sampled_from(["a", "b", "c", "?", "none"])),
    "code": st.one_of(st.none(), st.integers(0, 4)),
    "boolean": st.one_of(st.none(), st.booleans()),
}


@settings(max_examples=80, deadline=None)
@given(st.data(), st.integers(2, 40), st.integers(1, 40), st.integers(1, 6))
def test_encoding_keeps_rows_and_their_order(data, n, m, least):
    tables = {
        site: read_table(
            pd.DataFrame(
                {
                    name: pd.Series(
                        data.draw(st.lists(cell, min_size=rows, max_size=rows)), dtype=object
                    )
                    for name, cell in cells.items()
                }
            ),
            site,
        )
        for site, rows in (("a", n), ("b", m))
    }
    try:
        schema = agree({site: profile(table, least) for site, table in tables.items()})
    except InputError:  # no column is left to compare
        reject()
    for table in tables.values():
        encoded = schema.encode(table)
        assert encoded.shape == (len(table), len(schema.feature_names))
        assert np.isfinite(encoded).all()
        order = np.random.default_rng(0).permutation(len(table))
        np.testing.assert_array_equal(schema.encode(table.take(order)), encoded[order])
        for column in schema.compared_columns:
            if column.kind == "category":
                block = encoded[:, schema.feature_slice(column.name)]
                assert np.all((block > 0).sum(axis=1) == 1)


def test_under_privacy_a_missing_value_keeps_its_level():
    column = SchemaColumn("sex", "category", levels=("f", "m"), missing="level", weight=2.0)
    sexes = Column("sex", "category", np.array([0, 1, 2, -1]), ("f", "m", "unlisted"))
    encoded = encode_elementwise(Schema((column,)), Table("paris", (sexes,), 4))
    assert encoded.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]


def test_values_that_count_as_missing_leave_the_decimal_comma():
    column = Column("dose", "category", np.array([0, 1]), ("1,5", "9"), decimal=",")
    assert column.with_missing(["9"]).decimal == ","


def test_a_table_with_few_of_very_many_levels():
    levels = (*(f"l{k:03d}" for k in range(150)), "other")
    schema = Schema((SchemaColumn("c", "category", levels=levels),))
    encoded = schema.encode(pd.DataFrame({"c": ["l149", "l001"]}))
    assert encoded.argmax(axis=1).tolist() == [149, 1]


def test_hiding_rare_levels_leaves_codes_of_booleans_and_missing_values():
    booleans = Schema((SchemaColumn("b", "category", levels=("0", "1", "other")),))
    table = read_table(pd.DataFrame({"b": [True] * 9 + [False]}))
    mean = booleans.encode(hide_rare(table, booleans, 2)).mean(axis=0)
    assert booleans.describe(mean)["b"] == {"0": 0.0, "1": 0.9, "other": 0.1}
    column = SchemaColumn(
        "b", "category", levels=("1", "other"), missing="level", missing_values=("-9",)
    )
    codes = Schema((column,))
    table = read_table(pd.DataFrame({"b": [1] * 9 + [-9]}))
    mean = codes.encode(hide_rare(table, codes, 2)).mean(axis=0)
    assert codes.describe(mean)["b"] == {"1": 0.9, "other": 0.0, "missing": 0.1}


def test_a_rare_level_without_other_is_refused_as_rare():
    schema = Schema((SchemaColumn("sex", "category", levels=("f", "m")),))
    table = read_table(pd.DataFrame({"sex": ["f"] * 9 + ["m"]}))
    with fails(InputError, "rare-levels") as caught:
        hide_rare(table, schema, 2)
    assert "row 10" in str(caught.value)


def test_numbers_of_the_wrong_type_or_size_are_refused_in_a_sentence():
    with fails(InputError, "bad-schema"):
        SCHEMA.edited({"age": {"scale": "x"}})
    large = f'version = 1\n[columns.a]\nkind = "number"\nscale = 1\ncentre = {"1" * 400}\n'
    with fails(InputError, "bad-schema"):
        Schema.from_toml(large)


@pytest.mark.parametrize("as_excel", [False, True])
@pytest.mark.parametrize("kind", ["number", "boolean", "date", "category"])
def test_under_privacy_one_odd_value_changes_no_other_row(kind, as_excel, tmp_path):
    options = {"levels": ("true", "false"), "missing": "level"} if kind == "category" else {}
    schema = Schema((SchemaColumn("x", kind, **options),))
    plain = {
        "truth": [True, False, None, True] * 3,
        "dates": [datetime(2020, 1, 2), datetime(2021, 3, 4)] * 6,
        "numbers": [1, 2.5, -3e-7] * 4,
    }
    odd = ["zzz", datetime(1999, 1, 1), 7, True] + ([] if as_excel else [[1, 2], b"x", object()])

    def encoded(values):
        table = pd.DataFrame({"x": pd.Series(values, dtype=object), "row": range(12)})
        if as_excel:
            table.to_excel(tmp_path / "x.xlsx", index=False)
            table = tmp_path / "x.xlsx"
        return encode_elementwise(schema, read_table(table, elementwise=True))

    others = np.arange(12) != 5
    for values in plain.values():
        before = encoded(values)[others]
        for value in odd:
            after = encoded([*values[:5], value, *values[6:]])[others]
            np.testing.assert_array_equal(before, after)
    if kind == "category":
        assert encoded(plain["truth"])[:3].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
