"""The columns that matter most, as `fedwad distance` and `fedwad test` print them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from command_line import run


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    paths = {}
    for seed, (name, shift) in enumerate((("here", 0.0), ("there", 20.0), ("same", 0.0)), 3):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame(rng.normal(size=(120, 4)), columns=["age", "bmi", "dose", "iron"])
        table["dose"] += shift
        paths[name] = str(folder / f"{name}.csv")
        table.to_csv(paths[name], index=False)
    return paths


def test_a_distance_names_the_columns(tables):
    done = run("distance", tables["here"], tables["there"])
    assert "dose" in done.stdout
    assert "iron" not in done.stdout
    assert "iron" in run("distance", tables["here"], tables["there"], "--explain").stdout
    content = json.loads(run("distance", tables["here"], tables["there"], "--json").stdout)
    columns = content["columns"]
    assert columns[0]["name"] == "dose"
    assert content["causes"] == ["dose"]
    assert columns[0]["pvalue"] <= 0.05 < min(one["pvalue"] for one in columns[1:] if one["pvalue"])
    assert columns[0]["smd"] > 1
    assert columns[-1]["contribution"] is not None
    assert columns[0]["there"]["mean"] - columns[0]["here"]["mean"] > 19
    parts = [column["contribution"] for column in columns]
    assert parts == sorted(parts, reverse=True)
    assert {column["name"] for column in columns} == {"age", "bmi", "dose", "iron", "dependence"}
    np.testing.assert_allclose(sum(column["share"] for column in columns), 1.0)


def test_a_test_names_the_columns(tables):
    done = run("test", tables["here"], tables["there"])
    assert "dose" in done.stdout
    content = json.loads(run("test", tables["here"], tables["there"], "--json").stdout)
    assert content["columns"][0]["name"] == "dose"
    many = json.loads(run("test", *tables.values(), "--json").stdout)
    found = {frozenset(pair["sites"]): pair["columns"][0] for pair in many["pairs"]}
    assert found[frozenset({"here", "there"})]["name"] == "dose"
    same = next(pair for pair in many["pairs"] if set(pair["sites"]) == {"here", "same"})
    assert not same["differs"]
    assert same["causes"] == []


def test_other_orders_have_no_columns(tables):
    done = run("distance", tables["here"], tables["there"], "--p", "1", "--explain")
    assert done.returncode == 2
    assert "columns" not in json.loads(
        run("distance", tables["here"], tables["there"], "--p", "1", "--json").stdout
    )
