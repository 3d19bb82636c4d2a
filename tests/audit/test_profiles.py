"""The attack on the profile of a table: it finds rare values where no floor is set, and none else."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import assert_one_sentence, fails
from fedwad.audit import tables as profiles
from fedwad.audit.tables import infer_values
from fedwad.errors import InputError
from fedwad.federation import Columns, Policy, RawTable, read_raw
from fedwad.site.raw import without_few_values
from fedwad.tables import profile, read_table

ROOT = Path(__file__).parents[2]
ROWS = 400


def table(seed=0):
    """Rare words, a rare code, one number among zeros, a value that outweighs all others."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(60, 9, ROWS),
            "illness": rng.choice(["asthma", "flu"], ROWS),
            "stage": rng.integers(1, 4, ROWS),
            "dose": np.zeros(ROWS),
            "income": rng.normal(3e3, 5e2, ROWS),
        }
    )
    frame.loc[:2, "illness"] = ["Fabry", "Pompe", "Gaucher"]
    frame.loc[3, "stage"] = 7
    frame.loc[4, "dose"] = 12.75
    frame.loc[5, "income"] = 1e13
    return frame


def count_revealed_rows(table, rules):
    """Rows that the attack reveals, replies, and the refusal."""
    found = profiles.count_revealed_rows(table, rules, np.random.default_rng(0))
    return found.found, found.answered, found.refused


def policy(floor):
    return Policy(("columns",), min_cell_size=floor)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_floor_the_rows_come_back(seed):
    found, replies, refused = count_revealed_rows(RawTable(read_table(table(seed))), policy(1))
    assert (found, replies, refused) == (6, 1, "")


@pytest.mark.parametrize("floor", [5, 10, 20])
@pytest.mark.parametrize("seed", range(3))
def test_with_the_floor_none_does(seed, floor):
    found, replies, _ = count_revealed_rows(RawTable(read_table(table(seed))), policy(floor))
    assert (found, replies) == (0, 1)


def test_sums_give_away_what_is_left_when_the_rest_is_known():
    values = pd.DataFrame({"dose": [0.0] * 98 + [3.25, 8.5]})
    found = infer_values(profile(values, 1)["dose"])
    assert any(isinstance(v, float) and abs(v - 3.25) < 1e-9 for v in found)
    assert any(isinstance(v, float) and abs(v - 8.5) < 1e-9 for v in found)


def test_the_audit_has_the_attack_for_tables():
    result = fedwad.audit(table(), policy(1), "schema")
    assert result.leaks
    assert result.rows[0].score.exact == 6
    guarded = fedwad.audit(table(), policy(10), "schema")
    assert not guarded.leaks
    refused = fedwad.audit(table(), Policy(("summary",)), "schema")
    assert refused.rows[-1].answered == 0
    assert_one_sentence(refused.rows[-1].refused)
    with fails(InputError, "no-columns"):
        fedwad.audit(np.zeros((20, 2)), method="schema")


def test_heart_gives_nothing_away_under_the_ready_policy():
    for name, frame in fedwad.datasets.load("heart").items():
        found = count_revealed_rows(RawTable(read_table(frame, name), "num"), policy(10))
        assert found == (0, 1, ""), name


def test_rows_of_a_large_table_are_counted_among_all_its_rows():
    frame = pd.DataFrame({"age": np.arange(2000) % 90, "dose": np.zeros(2000)})
    frame.loc[4, "dose"] = 12.75
    result = fedwad.audit(frame, method="schema")
    assert result.n_attacked == 1000
    assert "2000" in result.verdict("schema")


def sparse(seed):
    """Zeros, and 14 doses that differ: in some groups of rows only one dose is a third smallest."""
    dose = np.zeros(300)
    dose[:14] = np.random.default_rng(seed).lognormal(3, 1, 14).round(4)
    return pd.DataFrame({"dose": dose})


@pytest.mark.parametrize("rows", [34, 64])
def test_without_a_floor_order_statistics_of_two_groups_are_values(rows):
    frame = pd.DataFrame({"age": np.random.default_rng(rows).normal(60, 9, rows)})
    found = count_revealed_rows(RawTable(read_table(frame)), policy(1))
    assert found == (rows, 1, "")  # 34 rows: 32 in two groups, and both that are left over
    guarded = count_revealed_rows(RawTable(read_table(frame)), policy(10))
    assert guarded == (0, 1, "")


@pytest.mark.parametrize("seed", range(20))
def test_order_statistics_hide_a_value_that_is_alone_in_its_place(seed):
    found = count_revealed_rows(RawTable(read_table(sparse(seed))), policy(10))
    assert found == (0, 1, "")


@pytest.mark.parametrize("rows", range(300, 340))
def test_rows_that_no_group_has_do_not_follow_from_the_others(rows):
    frame = pd.DataFrame({"age": np.random.default_rng(rows).normal(60, 9, rows)})
    assert len(RawTable(read_table(frame)).profile(10)["age"].order) > 1
    found = count_revealed_rows(RawTable(read_table(frame)), policy(10))
    assert found == (0, 1, "")


def test_what_one_patient_alone_has_is_in_no_number():
    """However many visits of that patient have it: a dose, a code, and incomes far from others."""
    rng = np.random.default_rng(0)
    frame = table()[["age", "stage"]].assign(stage=rng.integers(1, 4, ROWS), dose=0.0)
    frame["income"] = rng.normal(3e3, 5e2, ROWS)
    frame["patient_id"] = np.concatenate([np.arange(ROWS - 12) // 4, np.full(12, 99)])
    frame.loc[ROWS - 12 :, ["stage", "dose"]] = 777, 37.25
    frame.loc[ROWS - 12 :, "income"] = rng.normal(1e6, 1e4, 12)
    raw = read_raw(frame, columns=Columns.of(schema="auto"))
    assert raw.unit.name == "patient_id"
    found = raw.profile(10)
    for name in ("stage", "dose", "income"):
        assert found[name].moments == found[name].order == ()
    assert len(found["age"].order) > 1
    columns = without_few_values(raw.table.columns, found, raw.units)
    hidden = {column.name: column for column in columns}
    for name in ("stage", "dose"):
        assert set(hidden[name].values[-12:]) <= set(hidden[name].values[:-12])
    assert np.ptp(hidden["income"].values[-12:]) == 0


def test_ready_policies_let_no_value_through():
    policies = [Policy.load(path) for path in (ROOT / "docs" / "policies").glob("*.toml")]
    guarded = [one for one in policies if "columns" in one.allow]
    assert len(guarded) > 3
    for one in guarded:
        for frame in (table(), sparse(0), sparse(6), table()[:65]):
            found, _, _ = count_revealed_rows(RawTable(read_table(frame)), one)
            assert found == 0, one
