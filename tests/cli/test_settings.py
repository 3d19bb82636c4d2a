"""The settings file of a folder, and --verbose."""

import json

import numpy as np
import pandas as pd
import pytest

from command_line import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for site in ("oslo", "paris"):
        frame = pd.DataFrame({"age": rng.normal(60, 10, 100), "ward": rng.normal(size=100)})
        frame.to_csv(tmp_path / f"{site}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def columns(*words):
    result = run("columns", "oslo.csv", "paris.csv", "--json", *words)
    assert result.returncode == 0, result.stderr
    return {column["name"] for column in json.loads(result.stdout)["columns"]}, result.stderr


def test_options_of_the_file_are_those_of_every_command(folder):
    assert columns()[0] == {"age", "ward"}
    (folder / "fedwad.toml").write_text('drop = ["ward"]\nreport = "x.html"\n[matrix]\nseed = 1\n')
    names, said = columns()
    assert names == {"age"}
    assert "fedwad.toml: drop" in said


def test_what_is_typed_comes_before_the_file(folder):
    (folder / "fedwad.toml").write_text('[columns]\ndrop = ["ward"]\n')
    assert columns()[0] == {"age"}
    assert columns("--drop", "age")[0] == {"ward"}


@pytest.mark.parametrize(
    "text", ["drop = [", 'dorp = ["ward"]', '[columns]\ndorp = ["ward"]', "[matrices]\nseed = 1"]
)
def test_a_slip_in_the_file_is_one_sentence(folder, text):
    (folder / "fedwad.toml").write_text(text)
    result = run("columns", "oslo.csv", "paris.csv")
    assert result.returncode == 2
    assert result.stderr.count("Error:") == 1
    assert "fedwad.toml" in result.stderr


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.usefixtures("folder")
def test_verbose_says_what_is_done(before):
    words = ("columns", "oslo.csv", "paris.csv", "--json")
    result = run("--verbose", *words) if before else run(*words, "--verbose")
    assert result.returncode == 0
    assert "fedwad.federation: asking 2 sites" in result.stderr
    json.loads(result.stdout)
