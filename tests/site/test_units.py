"""Units of rows, one table of many sites, and which rows and columns count."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.federation import (
    Client,
    Columns,
    ColumnsRequest,
    Policy,
    PrototypesRequest,
    RawTable,
    load_site_data,
    open_client,
    read,
    read_raw,
    read_sites,
)
from fedwad.tables import Schema, SchemaColumn, agree, read_table
from fedwad.tables.select import likely_unit

AGREED = Columns(schema="auto")


def visits(patients=60, each=4, seed=0):
    rng = np.random.default_rng(seed)
    number = np.repeat(np.arange(patients), each)
    return pd.DataFrame(
        {
            "patient_id": [f"P{k:03d}" for k in number],
            "visit_id": np.arange(patients * each),
            "age": rng.normal(60, 10, patients)[number] + rng.normal(0, 1, patients * each),
            "sex": rng.choice(["f", "m"], patients)[number],
            "centre": rng.choice(["paris", "oslo", "rome"], patients)[number],
        }
    )


def shuffled(table, seed=1):
    return table.sample(frac=1.0, random_state=seed)


def test_a_repeated_identifier_is_the_unit_by_default():
    table = visits()
    data = read(table, columns=AGREED)
    assert (data.unit_name, data.unit_found) == ("patient_id", True)
    assert len(np.unique(data.units)) == 60
    assert "patient_id" not in read_raw(table, columns=AGREED).table
    chosen = read(table, columns=Columns.of(schema="auto", unit="sex"))
    assert (chosen.unit_name, chosen.unit_found) == ("sex", False)
    for nothing in (Columns.of(schema="auto", unit=None), Columns.of(schema="auto", unit="none")):
        assert read(table, columns=nothing).units is None


@pytest.mark.parametrize(
    ("change", "unit"),
    [
        (lambda t: t.drop_duplicates("patient_id"), ""),
        (
            lambda t: t.rename(columns={"patient_id": "ward_id"}).assign(
                ward_id=np.arange(240) % 5
            ),
            "",
        ),
        (lambda t: t.rename(columns={"patient_id": "record_id"}), "record_id"),
        (lambda t: t.assign(patient_id=np.arange(240) // 10), "patient_id"),
        (lambda t: t.assign(id=np.arange(240) // 2), "patient_id"),
        (lambda t: t.assign(patient_id=1), ""),
        (lambda t: t.assign(patient_id=None), ""),
    ],
)
def test_which_column_is_the_unit(change, unit):
    assert read(change(visits()), columns=AGREED).unit_name == unit


def test_a_row_without_a_unit_is_one_by_itself():
    table = visits()
    table.loc[:4, "patient_id"] = None
    units = read(table, columns=AGREED).units
    assert len(np.unique(units[:5])) == 5
    assert not set(units[:5]) & set(units[8:])


def test_units_stay_with_their_rows_in_any_order():
    table = visits()
    one, two = (read(t, columns=AGREED).canonical() for t in (table, shuffled(table)))
    np.testing.assert_array_equal(one.measure.points, two.measure.points)
    np.testing.assert_array_equal(one.units, two.units)
    assert one.digest() == two.digest()
    raw, other = (read_raw(t, columns=AGREED) for t in (table, shuffled(table)))
    assert raw.digest() == other.digest()
    regrouped = table.assign(patient_id=table.patient_id.to_numpy()[::-1])
    assert raw.digest() != read_raw(regrouped, columns=AGREED).digest()
    assert raw.profile(10) == other.profile(10)


def test_labels_keep_the_units():
    table = visits()
    labels = (table.age > 60).to_numpy()
    pair = read((table, labels), columns=AGREED)
    data = pair.canonical()
    ages = dict(zip(pair.measure.points[:, 0], pair.units, strict=True))
    before = [ages[value] for value in data.measure.points[:, 0]]
    assert len(set(zip(before, data.units, strict=True))) == len(set(before)) == 60


def test_the_profile_counts_units_and_names_none_of_them():
    table = visits(30, 12).assign(rare=lambda t: np.where(t.patient_id < "P003", "HIV", "none"))
    sent = read_raw(table, columns=AGREED).profile(10)
    assert "patient_id" not in sent.names
    assert sent["rare"].levels == ("none",)
    assert sent["rare"].other == 36
    few = visits(5, 12)
    assert read_raw(few, columns=AGREED).profile(10)["age"].moments == ()


def test_a_site_without_repeats_agrees_with_one_that_has_them():
    fed = fedwad.local({"a": visits(), "b": visits(90, 1, 2)}, drop="centre")
    assert set(fed.schema.feature_columns) == {"age", "sex"}
    assert not fed.schema.conflicts


def test_a_column_that_a_schema_compares_is_no_unit():
    schema = Schema((SchemaColumn("patient_id", "category", levels=("P001", "other")),))
    assert read(visits(), columns=Columns(schema=schema)).units is None


def test_under_an_epsilon_the_rows_decide_on_no_unit():
    columns = Columns(schema="auto", elementwise=True)
    assert read_raw(visits(), columns=columns).unit is None
    named = Columns(schema="auto", elementwise=True, unit="patient_id")
    assert read_raw(visits(), columns=named).unit.name == "patient_id"


def test_the_unit_of_a_node(tmp_path):
    visits().to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "a.toml").write_text('name = "paris"\nallow = ["describe", "columns"]\n')
    client = open_client(tmp_path / "a.csv", tmp_path / "a.toml", unit="patient_id")
    assert client is not None
    columns = Columns.of(schema="auto", unit="patient_id", where="age>=50", keep=["age", "sex"])
    again = Columns.of(**{"schema": "auto", **columns.to_options()})
    assert again == columns
    data = load_site_data(tmp_path / "a.csv", Policy.load(tmp_path / "a.toml"), columns)
    assert isinstance(data, RawTable)
    assert set(data.table.names) == {"age", "sex"}
    assert data.unit.name == "patient_id"


# One table, many sites --------------------------------------------------------------------------


def test_one_table_is_split_into_sites(tmp_path):
    table = visits()
    table.to_parquet(tmp_path / "hospitals.parquet")
    fed = fedwad.local(tmp_path / "hospitals.parquet", by="centre", unit="patient_id")
    assert fed.names == ("oslo", "paris", "rome")
    assert set(fed.schema.feature_columns) == {"age", "sex"}
    parts = {name: part.drop(columns="centre") for name, part in table.groupby("centre")}
    same = fedwad.local(parts, unit="patient_id")
    for name in fed.names:
        split, alone = fed.dataset(name), same.dataset(name)
        np.testing.assert_array_equal(split.measure.points, alone.measure.points)
        np.testing.assert_array_equal(split.units, alone.units)


def test_rows_of_one_unit_stay_together():
    table = visits()
    table.loc[0, "centre"] = "oslo"
    table.loc[1:3, "centre"] = "rome"
    sites = read_sites(table, Columns.of(schema="auto", by="centre", unit="patient_id"))
    assert sum(len(set(raw.unit.codes)) for raw in sites.values()) == 60
    assert sum(raw.table.rows for raw in sites.values()) == len(table)
    notes = [note for raw in sites.values() for note in raw.table.notes]
    assert len(notes) == 1
    assert "rows of 1 of" in notes[0]


def test_rows_of_no_site_are_left_out_with_a_note():
    table = visits().assign(centre=lambda t: t.centre.where(t.patient_id > "P002"))
    sites = read_sites(table, Columns.of(schema="auto", by="centre"))
    assert sum(raw.table.rows for raw in sites.values()) == 228
    numbers = visits().assign(centre=lambda t: t.centre.map({"paris": 1, "oslo": 2, "rome": 10}))
    assert set(read_sites(numbers, Columns.of(schema="auto", by="centre"))) == {"1", "2", "10"}


@pytest.mark.parametrize(
    ("data", "by"),
    [({"a": visits()}, "centre"), (visits(), None), (visits(), "center"), (np.ones((9, 2)), "x")],
)
def test_a_wrong_split_gets_one_sentence(data, by):
    with pytest.raises(InputError) as caught:
        fedwad.local(data, by=by)
    assert str(caught.value).endswith(".")


# Rows and columns that count --------------------------------------------------------------------

TABLE = pd.DataFrame(
    {
        "age": [15, 20, None, 70],
        "sex": ["f", "m", "m", "F"],
        "born": pd.to_datetime(["2009-01-01", "2004-01-01", "1990-01-01", "1950-01-01"]),
        "grade": [1, 2, 3, 1],
        "dose": ["10", "20", "n.d.", "7.5"],
    }
)


def rows_where(*conditions):
    raw = read_raw(TABLE, columns=Columns.of(schema="auto", where=conditions, number="dose"))
    return raw.table["dose"].values.tolist()


def test_conditions_on_rows():
    assert rows_where("age>=18") == [20, 7.5]
    assert rows_where("age < 70", "sex = m") == [20]
    assert rows_where("sex != f")[0] == 20
    assert rows_where("sex == 'F'") == [10, 7.5]
    assert rows_where("born >= 2000-01-01") == [10, 20]
    assert rows_where("dose<=10") == [10, 7.5]
    for wrong in ("age", "age ~ 3", "age>old", "born>5 years"):
        with fails(InputError, "bad-condition"):
            rows_where(wrong)
    with fails(InputError, "unknown-column"):
        rows_where("weight>3")
    with fails(InputError, "empty-table"):
        rows_where("age>200")


def test_a_condition_on_a_column_that_is_dropped():
    columns = Columns.of(schema="auto", where="age>=18", drop=["age", "dose"])
    assert read_raw(TABLE, columns=columns).table.names == ("sex", "born", "grade")


def test_columns_that_alone_count():
    columns = Columns.of(schema="auto", keep=["age", "sex"])
    assert read_raw(TABLE, columns=columns).table.names == ("age", "sex")
    with fails(InputError, "unknown-column"):
        read_raw(TABLE, columns=Columns.of(schema="auto", keep="weight"))


def test_kinds_that_users_choose():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "grade": rng.integers(1, 5, 200),
            "zip": rng.choice([75001, 75002, 69001], 200),
            "dose": rng.choice(["10", "20.5", "high"], 200),
            "batch_id": rng.choice(["a", "b"], 200),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = fedwad.local({"a": table, "b": table}).schema
        chosen = fedwad.local(
            {"a": table, "b": table}, category=["zip", "batch_id"], number=["grade", "dose"]
        ).schema
    kinds = ["grade", "zip", "dose", "batch_id"]
    assert [schema[name].kind for name in kinds] == ["category", "category", "category", "ignored"]
    assert [chosen[name].kind for name in kinds] == ["number", "category", "number", "category"]
    assert chosen["zip"].levels == ("69001", "75001", "75002", "other")
    with fails(InputError, "bad-option"):
        Columns.of(category="zip", number="zip")
    with fails(InputError, "wrong-kind"):
        read_raw(TABLE, columns=Columns.of(number="born"))


@pytest.mark.parametrize("masses", ["free", "equal"])
def test_an_atom_has_many_values_of_a_column_or_none(masses):
    """With a scale that makes a sparse column unimportant, atoms had one value of it, which their
    sum tells."""
    rng = np.random.default_rng(0)
    n = 300
    dose = np.where(rng.random(n) < 0.1, rng.normal(50, 9, n), np.nan)
    columns = {"age": rng.normal(60, 9, n), "dose": dose, "y": rng.choice(["a", "b"], n)}
    raw = read_raw(pd.DataFrame(columns), columns=Columns.of("y", schema="auto"))
    policies = Path(__file__).parents[2] / "docs" / "policies"
    site = Client(raw, Policy.load(policies / "classifier.toml"))
    schema = agree({"a": site.answer(ColumnsRequest()).profile}).for_new_data()
    schema = schema.edited({"dose": {"centre": 0.0, "scale": 800.0}})
    request = PrototypesRequest(20, "class", masses, 0)
    reply = site.answer(replace(request, schema=schema.to_toml()))
    missing = reply.points[:, schema.feature_names.index("dose=missing")]
    present = np.rint(reply.weights * n * (1 - missing))
    assert ((present == 0) | (present >= 10)).all()


def test_a_subject_of_a_school_is_data_and_not_a_person():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"subject": rng.choice(["maths", "art", "latin"], 300), "x": rng.random(300)}
    )
    assert read(table, columns=AGREED).units is None
    assert "subject" in read_raw(table, columns=AGREED).table
    named = visits().rename(columns={"patient_id": "subject"})
    assert read(named, columns=AGREED).unit_name == "subject"


def test_the_holder_is_told_which_column_is_the_unit_and_which_may_be():
    named = fedwad.local({"a": visits(seed=1), "b": visits(seed=2)})
    (note,) = (note for note in named.notes if "'patient_id'" in note)
    assert note.count("'patient_id'") == 1
    assert note.index(" units at a and ") < note.index(" units at b)")
    other = {k: visits(seed=k).rename(columns={"patient_id": "nr"}) for k in (1, 2)}
    likely = [note for note in fedwad.local(other).notes if note.count("'nr'") == 2]
    assert len(likely) == 1
    assert not [note for note in fedwad.local(other, unit="nr").notes if "'nr'" in note]


def test_a_column_that_follows_from_another_makes_that_no_unit():
    rng = np.random.default_rng(0)
    age = rng.integers(20, 90, 500)
    band = np.array(["young", "middle", "old"])[np.minimum(2, age // 30)]
    table = pd.DataFrame({"age": age, "band": band, "sex": rng.choice(["f", "m"], 500)})
    assert likely_unit(read_table(table)) is None


def test_a_level_of_an_own_schema_is_one_that_enough_units_have():
    rng = np.random.default_rng(0)
    patients, illness = np.repeat(np.arange(60), 4), rng.choice(["flu", "cold"], 240).astype(object)
    patients[:12], illness[:12] = 999, "HIV"  # one patient, twelve visits
    frame = pd.DataFrame({"patient_id": patients, "illness": illness})
    raw = read_raw(frame, columns=Columns.of(None, unit="patient_id"))
    schema = Schema((SchemaColumn("illness", "category", levels=("flu", "cold", "HIV", "other")),))
    shares = schema.describe(raw.encode(schema, 10).measure.mean)["illness"]
    assert shares["HIV"] == 0.0
    assert shares["other"] == pytest.approx(12 / 240)
