"""`fedwad audit` as a process."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import command_line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("audit")
    np.save(place / "paris.npy", np.random.default_rng(0).standard_normal((30, 2)))
    (place / "paris.toml").write_text(
        'name = "paris"\nallow = ["summary"]\nmax_distinct_replies = 1\n'
    )
    return place


def run(folder, *arguments):
    return command_line.run("audit", *arguments, cwd=folder, columns=120)


def test_it_says_a_verdict_and_exits_with_0(folder):
    done = run(folder, "paris.npy", "--method", "fedwad")
    assert done.returncode == 0, done.stderr
    assert "exact interpolant, t known" in done.stdout
    assert (
        "Method fedwad under the open policy: records were reconstructed, all of 30 records exactly"
        in done.stdout
    )


def test_strict_exits_with_1_when_records_came_back(folder):
    assert run(folder, "paris.npy", "--method", "fedwad", "--strict").returncode == 1
    done = run(folder, "paris.npy", "--policy", "paris.toml", "--strict")
    assert done.returncode == 0, done.stderr
    assert "Refused: Requests of kind 'transport' are not allowed" in done.stdout


def test_80_columns_are_enough_for_the_table(folder):
    environment = os.environ | {"COLUMNS": "80", "NO_COLOR": "1"}
    (folder / "classes.toml").write_text(
        'name = "paris"\nallow = ["summary", "prototypes"]\nclasses = true\n'
    )
    command = [sys.executable, "-m", "fedwad", "audit", "paris.npy", "--policy", "classes.toml"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=120,
        check=True,
    )
    assert "…" not in done.stdout
    assert "skipped" in done.stdout  # there are no labels
    assert "refused" in done.stdout
    assert (
        next(line for line in done.stdout.splitlines() if line.startswith("method")).split()[-1]
        == "closest"
    )


def test_json_save_and_report(folder):
    done = run(
        folder,
        "paris.npy",
        "--policy",
        "paris.toml",
        "--json",
        "--save",
        "a.json",
        "--report",
        "a.html",
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["leaks"] is False
    assert content["policy"] == "paris.toml"
    assert json.loads((folder / "a.json").read_text())["rows"] == content["rows"]
    assert "fedwad audit paris.npy" in (folder / "a.html").read_text()
    assert not list(folder.glob("*.sqlite"))  # no ledger was written


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.npy"], "There is no file at nowhere.npy"),
        (["paris.npy", "--policy", "nowhere.toml"], "no readable policy"),
        (["paris.npy", "--save", "paris.npy"], "give the name of a .json file"),
        (["paris.npy", "--report", "a.txt"], "give the name of a .html file"),
    ],
)
def test_errors_are_one_sentence_and_status_2(folder, arguments, sentence):
    done = run(folder, *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
