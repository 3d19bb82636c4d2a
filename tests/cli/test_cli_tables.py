"""Options of tables on the command line: one table of many sites, units, rows and columns."""

import json

import numpy as np
import pandas as pd
import pytest

from command_line import run


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    number = np.repeat(np.arange(120), 3)
    table = pd.DataFrame(
        {
            "patient_id": number,
            "age": rng.normal(60, 10, 360).round(1),
            "grade": rng.integers(1, 4, 360),
            "sex": rng.choice(["f", "m"], 360),
            "centre": rng.choice(["oslo", "paris"], 120)[number],
        }
    )
    table.to_csv(tmp_path / "hospitals.csv", index=False)
    for centre, part in table.groupby("centre"):
        (tmp_path / "sites").mkdir(exist_ok=True)
        part.drop(columns="centre").to_csv(tmp_path / "sites" / f"{centre}.csv", index=False)
        parts = tmp_path / "parts" / centre
        parts.mkdir(parents=True)
        for k, rows in part.drop(columns="centre").groupby(np.arange(len(part)) % 3):
            rows.to_csv(parts / f"{k}.csv", index=False)
    return tmp_path


def values(folder, *words):
    done = run("matrix", *words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    return content["sites"], content["value"], content["pvalue"]


def test_one_table_a_folder_of_sites_and_folders_of_parts_are_the_same_sites(folder):
    by = values(folder, "hospitals.csv", "--by", "centre", "--unit", "patient_id")
    assert by[0] == ["oslo", "paris"]
    assert by == values(folder, "sites") == values(folder, "parts")
    assert by != values(folder, "sites", "--unit", "none")
    done = run("distance", "parts/oslo", "parts/paris", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_rows_columns_and_kinds(folder):
    done = run(
        "schema",
        "sites",
        "--keep",
        "age",
        "--keep",
        "grade",
        "--number",
        "grade",
        "--json",
        cwd=folder,
    )
    columns = {one["name"]: one["kind"] for one in json.loads(done.stdout)["columns"]}
    assert columns == {"age": "number", "grade": "number"}
    done = run(
        "schema",
        "hospitals.csv",
        "--by",
        "centre",
        "--where",
        "age>=60",
        "--where",
        "sex=f",
        "--json",
        cwd=folder,
    )
    columns = {one["name"] for one in json.loads(done.stdout)["columns"]}
    assert "patient_id" not in columns
    assert "centre" not in columns


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["matrix", "hospitals.csv", "--by", "center"], "no column 'center'"),
        (
            ["matrix", "sites/oslo.csv", "sites/paris.csv", "--by", "centre"],
            "--by splits one table",
        ),
        (["matrix", "sites", "--where", "age"], "is no condition"),
        (["matrix", "sites", "--unit", "patient"], "no column 'patient'"),
        (["matrix", "sites", "--query", "visits"], "--query is for a database"),
        (["matrix", "bare.csv", "sites/oslo.csv"], "--no-header"),
        (["matrix", "sqlite:///absent.db", "sites/oslo.csv", "--query", "x"], "no database file"),
    ],
)
def test_errors_are_one_sentence_and_status_2(folder, words, part):
    (folder / "bare.csv").write_text("63,male,233.5,hiv\n41,female,201,none\n")
    done = run(*words, cwd=folder)
    assert done.returncode == 2
    assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "hiv" not in done.stderr


def test_node_check_takes_the_options_of_its_site(folder):
    (folder / "oslo.toml").write_text('name = "oslo"\nallow = ["describe", "columns"]\n')
    words = (
        "node",
        "check",
        "parts/oslo",
        "oslo.toml",
        "--unit",
        "patient_id",
        "--where",
        "age>50",
    )
    done = run(*words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
