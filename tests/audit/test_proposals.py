"""Attacks by schemas from outside and by lies, each with its fix and without it, under each ready
policy."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedwad
from fedwad.audit import tables as audit_tables
from fedwad.audit.api import _other_rows
from fedwad.audit.private import count_moved_by_one_byte
from fedwad.audit.score import Finding
from fedwad.audit.tables import (
    ask_for_persons,
    bisect_refusals,
    find_present_values,
    move_agreement,
)
from fedwad.federation import (
    Client,
    Columns,
    Dataset,
    Policy,
    RawTable,
    SummaryRequest,
    read_raw,
)
from fedwad.site import acceptance, context
from fedwad.site.raw import RawTable as SiteTable
from fedwad.tables import Schema, SchemaColumn, agree
from fedwad.transport import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"
POLICIES = sorted(path.stem for path in FOLDER.glob("*.toml"))
BY_SUMMARY = [name for name in POLICIES if "summary" in Policy.load(FOLDER / f"{name}.toml").allow]


def frame(seed=0, rows=240):
    rng = np.random.default_rng(seed)
    dose = np.where(rng.random(rows) < 0.12, rng.normal(50, 9, rows).round(3), np.nan)
    return pd.DataFrame(
        {
            "patient_id": [f"P{k:04d}" for k in rng.permutation(rows)],
            "age": rng.normal(60, 9, rows).round(2),
            "chol": rng.normal(240, 40, rows).round(1),
            "dose": dose,
            "hiv": rng.choice(["no", "yes"], rows, p=[0.9, 0.1]),
        }
    )


def site(**options) -> RawTable:
    columns = Columns.of("hiv", schema="auto", unit=None, **options)
    return read_raw(frame(), columns=columns)


def rules(name):
    return Policy.load(FOLDER / f"{name}.toml")


def unlimited(policy):
    many = {"max_queries": None, "max_schemas": None, "max_distinct_replies": None}
    return replace(policy, **many)


def takes_anything(monkeypatch):
    """The fix switched off: a schema from outside is used as it is, as if it were the site's."""
    any_schema = lambda text, *_, **__: Schema.from_toml(text)  # noqa: E731
    monkeypatch.setattr(context, "accept_schema", any_schema)
    monkeypatch.setattr(SiteTable, "encode_proposal", lambda self, schema, _: self.encode(schema))
    monkeypatch.setattr(SiteTable, "_label_column", lambda *_: None)


ATTACKS = {
    "oracle": bisect_refusals,
    "sparse": find_present_values,
    "persons": ask_for_persons,
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("policy", POLICIES)
def test_ready_policies_stop_them(policy, attack):
    for policy_used in (rules(policy), replace(rules(policy), name="paris")):
        found = ATTACKS[attack](site(), policy_used, np.random.default_rng(0))
        assert found.found == 0
        assert found.answered or found.refused


@pytest.mark.parametrize("attack", ["oracle", "persons"])
@pytest.mark.parametrize("policy", BY_SUMMARY)
def test_without_the_rules_for_schemas_they_succeed(monkeypatch, policy, attack):
    takes_anything(monkeypatch)
    if attack == "oracle":  # what cannot be encoded was refused, in other words
        from fedwad.errors import InputError

        whole = SiteTable.encode

        def encode_or_refuse(self, schema, *rest):
            try:
                return whole(self, schema, *rest)
            except InputError:
                raise acceptance.refusal() from None

        monkeypatch.setattr(SiteTable, "encode", encode_or_refuse)
    found = ATTACKS[attack](site(), unlimited(rules(policy)), np.random.default_rng(0))
    assert found.found >= 1


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("summary", "order statistics"),
        # The ten cells of a coreset are too large to have a single value by chance.
        *((name, "cells") for name in BY_SUMMARY if name != "coreset"),
    ],
)
def test_without_a_minimum_of_present_values_a_sparse_column_is_read(monkeypatch, name, part):
    policy = rules(name)
    if part == "cells":
        monkeypatch.setattr(context.ClientContext, "present", None)
    else:
        monkeypatch.setattr(
            context, "groups_reveal", lambda _, groups, *__: np.zeros(groups.shape[2], bool)
        )
    found = find_present_values(site(), policy, np.random.default_rng(0))
    assert found.found >= 1


def test_a_column_of_few_values_is_as_if_it_were_missing(monkeypatch):
    table = frame()
    table["dose"] = np.nan
    table.loc[7, "dose"] = 61.5
    columns = Columns.of("hiv", schema="auto")
    monkeypatch.setattr(audit_tables, "agree", lambda _: SCHEMA)
    raw = read_raw(table, columns=columns)
    assert find_present_values(raw, rules("summary"), np.random.default_rng(0)).found == 0
    monkeypatch.setattr("fedwad.site.raw.without_few_values", lambda columns, *_, **__: columns)
    monkeypatch.setattr(context.ClientContext, "present", None)
    assert find_present_values(raw, rules("summary"), np.random.default_rng(0)).found == 1


def test_a_value_that_the_profile_withholds_does_not_come_back_in_a_summary(monkeypatch):
    table = frame()
    table["dose"] = 0.0
    table.loc[7, "dose"] = 61.5
    table["ck"] = np.random.default_rng(1).normal(100, 10, 240).round(1)
    table.loc[9, "ck"] = 1e9
    raw = read_raw(table, columns=Columns.of("hiv", schema="auto"))
    assert find_present_values(raw, rules("summary"), np.random.default_rng(0)).found == 0
    monkeypatch.setattr("fedwad.site.raw.hide_few", lambda values, *_: values)
    monkeypatch.setattr(context.ClientContext, "present", None)  # a second wall
    assert find_present_values(raw, rules("summary"), np.random.default_rng(0)).found >= 1


def test_rows_that_no_group_has_have_no_single_value(monkeypatch):
    """Of 250 rows 240 are dealt into groups; one of the other ten has a dose."""
    found = []
    for hidden in (False, True):
        if hidden:
            monkeypatch.setattr(context.ClientContext, "_masks", lambda *_: {})
        read = [
            find_present_values(
                read_raw(frame(seed, 250), columns=Columns.of("hiv", schema="auto", unit=None)),
                rules("summary"),
                np.random.default_rng(0),
            )
            for seed in range(12)
        ]
        found.append(sum(one.found for one in read))
    assert found[0] == 0
    assert found[1] >= 1


SCHEMA = Schema(
    (
        SchemaColumn("age", "number", 60.0, 9.0),
        SchemaColumn("dose", "number", 0.0, 9.0, missing="indicator"),
    )
)


@pytest.mark.parametrize("name", [name for name in POLICIES if "columns" in rules(name).allow])
def test_a_lie_moves_no_agreement_of_a_majority(monkeypatch, name):
    found = move_agreement(site(), rules(name), np.random.default_rng(0))
    assert found.count >= 2
    assert found.found == 0
    alone = lambda told, majority=False: agree(told)  # noqa: ARG005, E731
    monkeypatch.setattr(audit_tables, "agree", alone)
    assert move_agreement(site(), rules(name), np.random.default_rng(0)).found >= 1


def test_one_byte_moves_no_other_row_under_an_epsilon(monkeypatch, tmp_path):
    path = tmp_path / "geneve.csv"
    cities = ["Genève", "Basel", "Bern"]
    rows = [f"{cities[k % 3]},{50 + k % 7}" for k in range(60)]
    path.write_bytes("\n".join(["city,age", *rows]).encode())
    schema = Schema(
        (
            SchemaColumn("city", "category", levels=("Basel", "Bern", "Genève", "other")),
            SchemaColumn("age", "number", 50.0, 5.0, missing="mean"),
        )
    )
    columns = Columns.of(schema=schema)
    private = rules("private")
    found = count_moved_by_one_byte(path, columns, private)
    assert (found.found, found.answered) == (0, 2)
    row = fedwad.audit(path, private, "private", schema=schema).rows[-1]
    assert (row.attack, row.leaks) == ("one odd byte", False)

    def as_a_whole(blocks, *_, **__):
        """A reader to which one byte that is no UTF-8 says how all others are read."""
        content = b"".join(blocks)
        try:
            yield content.decode().encode()
        except UnicodeDecodeError:
            yield content.decode("cp1252").encode()

    monkeypatch.setattr("fedwad.tables.csv._in_utf8", as_a_whole)
    assert count_moved_by_one_byte(path, columns, private).found >= 15


def test_a_byte_that_keeps_a_site_from_starting_reconstructs_nothing(tmp_path):
    """It was once called an exact reconstruction of all records."""
    path = tmp_path / "site.csv"
    values = np.random.default_rng(0).normal(size=(60, 2)).round(3)
    np.savetxt(path, values, "%.3f", ",", header="age,dose", comments="")
    result = fedwad.audit(path, rules("private"), "private")
    row = result.rows[-1]
    assert (row.attack, row.leaks, row.score.exact) == ("one odd byte", False, 0)
    assert "the site does not start" in row.words
    assert "name a schema file" in row.words
    assert not result.leaks
    assert "reconstructed" not in result.verdict("private")


def test_a_byte_that_moves_other_rows_is_a_leak_and_no_reconstruction(monkeypatch):
    path, moved = "site.csv", Finding(40, 60, 2, words="one byte changes 40 of 60")
    module = sys.modules["fedwad.audit.private"]
    monkeypatch.setattr(module, "count_moved_by_one_byte", lambda *_: moved)
    columns, data = Columns.of(), Dataset(Measure(np.ones((60, 1))))
    (row,) = _other_rows(["private"], path, data, data, rules("private"), columns, 0)
    assert (row.leaks, row.score.exact) == (True, 0)


@pytest.mark.parametrize("rest", [np.nan, 0.0])
def test_a_class_with_few_values_of_a_column_sends_none(rest):
    """And no class does, since the sum over all rows minus those of the others would be it."""
    table = frame()
    table["dose"] = np.where(np.arange(240) < 14, np.linspace(40, 60, 240).round(2), rest)
    table["hiv"] = ["yes" if k in (0, *range(20, 60)) else "no" for k in range(240)]
    client = Client(read_raw(table, columns=Columns.of("hiv", schema="auto")), rules("classes"))
    schema = replace(SCHEMA, columns=(SCHEMA["age"], SCHEMA["dose"]))
    request = SummaryRequest(2, "diag", 2.0, 0, "diag", calibration=False)
    request = replace(request, schema=schema.edited({"age": {"missing": "mean"}}).to_toml())
    parts = client.answer(request).summary.parts
    assert sorted(part.count for part in parts) == [41, 199]
    for part in parts:
        assert part.mean[1:].tolist() == [0.0, float(np.isnan(rest))]


def test_a_table_without_a_schema_is_not_tried():
    rng = np.random.default_rng(0)  # one value outweighs all others, so no column is compared
    table = pd.DataFrame({name: np.append(rng.normal(size=299), 1e9) for name in "ab"})
    result = fedwad.audit(table, rules("summary"), "schema", schema=None)
    skipped = [row.attack for row in result.rows if row.skipped_reason]
    assert {"oracle of refusals", "values in sparse columns"} <= set(skipped)
