"""Tables whose rows have weights, such as those of a survey."""

import json

import numpy as np
import pandas as pd
import pytest

import fedwad
from command_line import run
from failing import fails
from fedwad.errors import InputError
from fedwad.federation import Client, ColumnsRequest, Policy, SummaryRequest
from fedwad.report import write_report
from fedwad.site.columns import Columns
from fedwad.site.reading import read_raw
from fedwad.tables import Schema, SchemaColumn, check_profile, profile, read_table

SUMMARY = Policy(("columns", "summary"), min_cell_size=10)


def survey(seed, women, rows=600):
    """One population of which so many of the asked are women; weights make them half of it."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], rows, p=[women, 1 - women])
    age = np.where(sex == "f", 50, 60) + rng.normal(0, 8, rows)
    age[rng.random(rows) < 0.1] = np.nan
    weight = np.where(sex == "f", 0.5 / women, 0.5 / (1 - women))
    grade = rng.integers(1, 4, rows)
    return pd.DataFrame({"age": age, "sex": sex, "grade": grade, "w": weight})


def test_a_profile_is_about_the_weighted_rows():
    table = survey(0, 0.8)
    found = profile(read_table(table.drop(columns="w")), weights=table.w.to_numpy())
    check_profile(found)
    shares = dict(zip(found["sex"].levels, found["sex"].level_counts, strict=True))
    expected = table.groupby("sex").w.sum() / table.w.sum() * 600
    assert shares == pytest.approx(expected.to_dict(), abs=1)
    assert sum(shares.values()) + found["sex"].other == 600
    known = table[table.age.notna()]
    assert found["age"].mean == pytest.approx(np.average(known.age, weights=known.w), rel=1e-12)
    spread = np.average((known.age - found["age"].mean) ** 2, weights=known.w)
    assert found["age"].std == pytest.approx(np.sqrt(spread), rel=1e-12)
    missing = table.w[table.age.isna()].sum() / table.w.sum() * 600
    assert found["age"].missing == pytest.approx(missing, abs=1)


def test_equal_weights_change_nothing():
    table = survey(0, 0.5).drop(columns="w")
    one, two = profile(read_table(table)), profile(read_table(table), weights=np.ones(600))
    for a, b in zip(one.columns, two.columns, strict=True):
        assert (a.levels, a.level_counts, a.missing) == (b.levels, b.level_counts, b.missing)
        np.testing.assert_allclose(a.moments, b.moments, rtol=1e-12)


def test_weights_undo_how_rows_were_drawn(tmp_path):
    tables = {"a": survey(0, 0.8), "b": survey(1, 0.3)}
    for site, table in tables.items():
        table.to_csv(tmp_path / f"{site}.csv", index=False)

    def value(*words):
        result = run("matrix", str(tmp_path), "--json", *words)
        assert result.returncode == (0 if "--weights" in words else 3), result.stderr
        return json.loads(result.stdout)["value"][0][1]

    weighted, plain = value("--weights", "w"), value("--drop", "w")
    assert weighted < 0.6 * plain
    fed = fedwad.local(tables, weights="w")
    assert fedwad.distance(fed["a"], fed["b"]).value == weighted
    assert "w" not in fed.schema


def test_labels_beside_a_table_leave_its_weights():
    table = survey(0, 0.5)
    columns = Columns.of(schema="auto", weights="w")
    labelled = read_raw((table, [0, 1] * 300), columns=columns)
    np.testing.assert_array_equal(labelled.weights, read_raw(table, columns=columns).weights)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_weights_are_positive_numbers(wrong):
    table = survey(0, 0.5)
    table.loc[3, "w"] = wrong
    with fails(InputError, "bad-option", "w"):
        read_raw(table, columns=Columns.of(schema="auto", weights="w"))
    with fails(InputError, "unknown-column"):
        read_raw(table, columns=Columns.of(schema="auto", weights="weight"))


def test_weighted_rows_are_not_tested_whatever_their_number(tmp_path):
    fed = fedwad.local({name: survey(k, 0.6) for k, name in enumerate("abc")}, weights="w")
    m = fedwad.matrix(fed)
    for sentence in (m.sentence, fedwad.distance(fed["a"], fed["b"]).sentence):
        assert "not tested" in sentence
        assert "rows have weights" in sentence
    write_report(m, tmp_path / "page.html", columns=fedwad.columns(fed))
    page = (tmp_path / "page.html").read_text()
    assert f"{sum(m.rows):,} rows" in page
    assert "These are effective numbers of 1,800 rows with weights." in page
    suggestion = m.suggest()
    assert (suggestion.k, suggestion.too_small) == (1, ())
    assert suggestion.reason == "nothing was tested"


def test_a_value_whose_weight_makes_it_outweigh_the_others_is_in_no_summary():
    rng = np.random.default_rng(0)
    income, weights = rng.normal(50, 1, 200), np.ones(200)
    income[7], weights[7] = 75.0, 9.0  # without weights it makes up 76% of the squares
    frame = pd.DataFrame({"income": income, "age": rng.normal(50, 9, 200), "w": weights})
    site = Client(read_raw(frame, columns=Columns.of(None, unit=None, weights="w")), SUMMARY)
    published = site.answer(ColumnsRequest()).profile
    assert not published["income"].moments
    schema = Schema(
        (SchemaColumn("age", "number", 50.0, 9.0), SchemaColumn("income", "number", 50.0, 1.0))
    )
    sent = site.answer(SummaryRequest(1, "diag", 2.0, 0, schema=schema.to_toml())).summary
    assert np.sqrt(sent.total_covariance()[1]) < 1.5  # with that value, 5
