"""`--drop COLUMN` wherever a command reads tables: the numbers of files without these columns, and
plain errors."""

import json
import shlex
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

import command_line
import fedwad
from fedwad.cli.console import use_option_names
from fedwad.tables.table import drop_hint

IDENTIFIERS = ("--drop", "patient_id", "--drop", "last name")


def run(*words, cwd=None):
    return command_line.run(*words, cwd=cwd, columns=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same data twice: in `with` as they are kept, in `without` as they once had to be made for
    us."""
    place = tmp_path_factory.mktemp("columns")
    (place / "with").mkdir()
    (place / "without").mkdir()
    rng = np.random.default_rng(0)
    for number, name in enumerate(("lima", "oslo", "paris")):
        table = pd.DataFrame(rng.normal(number, 1.0, (40, 2)), columns=["u", "v"]).assign(
            kind=["a", "b"] * 20
        )
        table.to_csv(place / "without" / f"{name}.csv", index=False)
        people = [None if k % 3 else f"Person {k}" for k in range(40)]
        full = table.assign(patient_id=np.arange(40) + 10**6 * (number + 1))
        full.to_csv(place / f"{name}.csv", index=False)
        full[["patient_id", "u", "kind", "v"]].assign(**{"last name": people}).to_csv(
            place / "with" / f"{name}.csv", index=False
        )
    np.save(place / "paris.npy", rng.normal(size=(40, 2)))
    np.savez(place / "paris.npz", X=rng.normal(size=(40, 2)))
    (place / "paris.toml").write_text('name = "paris"\nallow = ["describe", "summary"]\n')
    return place


def _without_seconds(content):
    if isinstance(content, dict):
        return {
            key: _without_seconds(value)
            for key, value in content.items()
            if key not in ("seconds", "history")
        }
    return [_without_seconds(value) for value in content] if isinstance(content, list) else content


def _both(folder, words):
    """What a command says of the tables as they are kept, and of those without identifiers."""
    for place, options in (("with", IDENTIFIERS), ("without", ())):
        these = [str(word).replace("FOLDER", place) for word in words]
        done = run(*these, "--label-column", "kind", *options, "--json", cwd=folder)
        assert done.returncode == (3 if words[0] in ("distance", "matrix") else 0), done.stderr
        yield _without_seconds(json.loads(done.stdout))


def test_a_distance_is_that_of_the_library_without_these_columns(folder):
    files = ("with/paris.csv", "with/oslo.csv")
    done = run(
        "distance",
        *files,
        "--method",
        "summary",
        "--label-column",
        "kind",
        *IDENTIFIERS,
        "--json",
        cwd=folder,
    )
    assert done.returncode == 3, done.stderr
    fed = fedwad.local(
        {name: folder / "without" / f"{name}.csv" for name in ("paris", "oslo")},
        label_column="kind",
    )
    assert (
        json.loads(done.stdout)["value"]
        == fedwad.distance(fed["paris"], fed["oslo"], method="summary").value
    )


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "FOLDER/paris.csv", "--method", "summary"],
        ["node", "check", "FOLDER/paris.csv", "paris.toml"],
    ],
    ids=["audit", "node check"],
)
def test_those_who_hold_data_see_the_same(folder, words):
    kept, without = _both(folder, words)
    assert kept == without


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        [
            "distance",
            "FOLDER/paris.csv",
            "FOLDER/oslo.csv",
            "--method",
            "fedwad",
            "--support",
            4,
            "--rounds",
            2,
            "--t",
            0.5,
        ],
        ["matrix", "FOLDER", "--labels", "--k", 2],
        ["coreset", "FOLDER", "--size", 3, "--method", "summary"],
        ["train", "FOLDER", "--k", "none", "--rounds", 1, "--epochs", 1],
    ],
    ids=["distance", "matrix", "coreset", "train"],
)
def test_those_who_ask_get_the_same(folder, words):
    if words[0] == "train" and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    kept, without = _both(folder, words)
    assert kept == without


def test_an_identifier_that_is_no_schemas_is_the_first_cause_until_it_is_dropped(folder):
    words = ["distance", "paris.csv", "oslo.csv", "--schema", "none", "--label-column", "kind"]
    first = json.loads(run(*words, "--json", cwd=folder).stdout)
    assert first["causes"][0] == "patient_id"
    assert first["columns"][0]["pvalue"] == first["pvalue"]
    done = run(*words, "--drop", "patient_id", "--json", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert "patient_id" not in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["distance", "paris.csv", "oslo.csv", "--schema", "none"],
            "drop (--drop kind), or name one as the label column.",
        ),
        (
            [
                "distance",
                "paris.csv",
                "without/oslo.csv",
                "--label-column",
                "kind",
                "--drop",
                "patient_id",
            ],
            "without/oslo.csv has no column 'patient_id'; its columns are u, v, kind.",
        ),
        (
            ["matrix", "paris.csv", "without", "--label-column", "kind", "--drop", "patient_id"],
            "without/lima.csv has no column 'patient_id'; its columns are u, v, kind.",
        ),
        (
            ["coreset", "paris.csv", "--label-column", "kind", "--drop", "kind"],
            "Column 'kind' is named as the label and to be dropped; choose one.",
        ),
        (
            ["audit", "without/paris.csv", "--drop", "u", "--drop", "v", "--drop", "kind"],
            "without/paris.csv has no columns besides 'u', 'v', 'kind'",
        ),
        (
            ["distance", "paris.npy", "paris.npz", "--drop", "u"],
            "paris.npy has no named columns; drop is for tables",
        ),
        (
            ["node", "check", "paris.npz", "paris.toml", "--drop", "u"],
            "paris.npz has no named columns; drop is for",
        ),
        (
            [
                "train",
                "paris",
                "oslo",
                "--engine",
                "flower",
                "--connect",
                "127.0.0.1:1",
                "--drop",
                "patient_id",
            ],
            "other options of tables are for files; a site's own settings",
        ),
    ],
)
def test_errors_are_one_sentence_and_status_2(folder, words, sentence):
    done = run(*words, cwd=folder)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_hints_keep_quoted_names_together():
    hint = drop_hint("weight, kg", "it's (old), so", "age")
    options = use_option_names(f"They have no values; drop them ({hint}).").partition("(")[2]
    words = shlex.split(options.removesuffix(")."))
    assert words == ["--drop", "weight, kg", "--drop", "it's (old), so", "--drop", "age"]
