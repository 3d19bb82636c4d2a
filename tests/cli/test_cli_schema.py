"""Raw tables on the command line: `fedwad schema`, and --schema and --missing of the others."""

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import fedwad
from command_line import run
from fedwad.tables import Schema

SITES = ("cleveland", "hungarian", "switzerland", "va")


@pytest.fixture(scope="module")
def heart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heart")
    for name, path in fedwad.datasets.load("heart").items():
        (folder / f"{name}.csv").write_bytes(path.read_bytes())
    return folder


@pytest.fixture(scope="module")
def schema(heart):
    path = heart.parent / "heart.toml"
    done = run("schema", heart, "--label-column", "num", "--missing", "chol=0", "--out", path)
    assert done.returncode == 0
    return path


def test_raw_tables_of_four_hospitals(heart):
    done = run("matrix", heart, "--label-column", "num", "--json")
    assert done.returncode == 3
    result = json.loads(done.stdout)
    assert tuple(result["sites"]) == SITES
    assert "All 123 values of column 'chol' at switzerland are 0" in done.stderr
    assert "49 of 193 values of column 'chol' at va are 0" in done.stderr
    assert "13 of 14 columns compared" in done.stderr
    assert done.stderr.count("\n") <= 8


def test_a_schema_is_a_file_that_the_other_commands_take(heart, schema):
    found = Schema.load(schema)
    assert found.label == "num"
    assert found["chol"].missing_values == ("0",)
    words = ("--label-column", "num", "--json")
    given = run("matrix", heart, "--schema", schema, *words)
    agreed = run("matrix", heart, "--missing", "chol=0", *words)
    assert json.loads(given.stdout)["value"] == json.loads(agreed.stdout)["value"]
    assert given.stderr.startswith("Warning: From the first rows to the last")
    assert given.stderr.count("\n") == 1
    first, second = heart / "va.csv", heart / "cleveland.csv"
    far = json.loads(run("distance", first, second, "--schema", schema, *words).stdout)
    assert far["value"] == pytest.approx(
        json.loads(given.stdout)["value"][SITES.index("va")][SITES.index("cleveland")], rel=0.05
    )


def test_the_schema_as_json(heart):
    done = run("schema", heart, "--label-column", "num", "--json")
    content = json.loads(done.stdout)
    assert Schema.from_dict(content).label == "num"
    assert {"column": "chol", "problem": "suspicious value"}.items() <= {
        k: v for c in content["conflicts"] for k, v in c.items() if c["column"] == "chol"
    }.items()
    assert next(c for c in content["columns"] if c["name"] == "cp")["encoded"][0] == "cp=1"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("schema", "HEART", "--epsilon", "1"), "--epsilon needs --draft FILE"),
        (("schema", "HEART", "--draft", "a.toml"), "add --epsilon"),
        (("schema", "HEART", "--out", "a.json"), "give the name of a .toml file"),
        (("schema", "HEART", "--connect", "a:1"), "--connect needs an engine"),
        (("matrix", "HEART", "--schema", "no.toml"), "no readable schema file at no.toml"),
        (("matrix", "HEART", "--schema", "none"), "drop the column (--drop ca)"),
        (("matrix", "HEART", "--epsilon", "1", "--clip-norm", "1"), "which is not private"),
        (("matrix", "HEART", "--epsilon", "1"), "or a --schema file that gives one"),
        (("matrix", "HEART", "--centre", "1"), "--centre belongs to differential privacy"),
        (("plan", "--n", "100", "--epsilon", "1"), "Give the number of features as --d"),
    ],
)
def test_errors_are_one_sentence(heart, words, sentence):
    done = run(*(heart if word == "HEART" else word for word in words))
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[-1]


def test_bad_input_by_hand(tmp_path):
    """Each gets one sentence, and what can be compared is compared."""
    rows = "".join(f"{50 + k % 30},{'fm'[k % 2]}\n" for k in range(60))
    written = {
        "a.csv": "age,sex\n" + rows,
        "lacks.csv": "age\n" + "".join(f"{40 + k}\n" for k in range(30)),
        "levels.csv": "age,sex\n" + rows.replace(",f", ",woman").replace(",m", ",man"),
        "lost.csv": "age,sex\n" + "?,?\n" * 20,
        "sexless.csv": "age,sex\n" + "".join(f"{40 + k},\n" for k in range(30)),
        "zero.csv": "age,sex\n",
        "one.csv": "age,sex\n50,f\n",
        "picture.png": "no table",
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.md").write_text("no table")
    assert run("schema", "a.csv", "--out", "ok.toml", cwd=tmp_path).returncode == 0
    text = (tmp_path / "ok.toml").read_text()
    (tmp_path / "typo.toml").write_text(text.replace("scale = ", "scael = "))
    (tmp_path / "listed.toml").write_text(text.replace(', "other"', ""))
    refused = {
        ("matrix", "a.csv", "a.csv", "--schema", "typo.toml"): "'scael' (but 'scale')",
        ("matrix", "a.csv", "lacks.csv", "--schema", "ok.toml"): "lacks.csv has no column 'sex'",
        ("matrix", "a.csv", "levels.csv", "--schema", "listed.toml"): "the schema does not list",
        ("matrix", "a.csv", "lost.csv"): "20 rows without a value",
        ("matrix", "a.csv", "sexless.csv", "--schema", "ok.toml"): "30 missing values",
        ("schema", "a.csv", "zero.csv"): "zero.csv is empty",
        ("schema", "a.csv", "picture.png"): "ends in '.png'",
        ("schema", "folder"): "The folder folder has no files that end in",
        ("schema", "nowhere"): "There is no file or folder nowhere",
    }
    for words, sentence in refused.items():
        done = run(*words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), words
        assert sentence in done.stderr
    compared = {
        ("matrix", "a.csv", "lacks.csv"): "'sex' is ignored: lacks has no such column",
        ("matrix", "a.csv", "levels.csv", "--schema", "ok.toml"): "All 60 values of column 'sex'",
        ("matrix", "a.csv", "sexless.csv"): "Column 'sex' has no value at sexless",
        ("matrix", "a.csv", "one.csv"): "2 of 2 columns compared",
    }
    for words, sentence in compared.items():
        done = run(*words, cwd=tmp_path)
        assert done.returncode in (0, 3, 4), words
        assert sentence in done.stderr


@pytest.mark.slow  # starts interpreters
@pytest.mark.skipif(not Path("/proc").exists(), reason="libraries are listed there")
def test_an_interrupted_schema_leaves_nothing_behind(tmp_path):
    lines = [f"{k % 97},{k % 7}.5,{'fm'[k % 2]}" for k in range(20_000)]
    for k in range(60):
        (tmp_path / f"site{k}.csv").write_text("\n".join(["a,b,c", *lines]))
    words = [sys.executable, "-m", "fedwad", "schema", str(tmp_path), "--out", "made.toml"]
    process = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and "libarrow" not in in_memory(process.pid):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Interrupted" in err
    assert "Traceback" not in err
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv"}


def in_memory(process):
    """The libraries that a process has loaded: PyArrow with the first file that it reads."""
    with suppress(OSError):
        return Path(f"/proc/{process}/maps").read_text()
    return ""


def test_a_public_schema_gives_the_clipping_norm_and_the_centre(heart, schema):
    words = ("--label-column", "num", "--schema", schema, "--json")
    result = json.loads(run("matrix", heart, "--epsilon", "5", *words).stdout)
    found = Schema.load(schema)
    assert result["privacy"]["clip_norm"] == pytest.approx(found.clip_norm)
    assert result["privacy"]["centre"] == pytest.approx(found.centre.tolist())
    own = ("--clip-norm", "3", "--centre", "0.5")
    result = json.loads(run("matrix", heart, "--epsilon", "5", *own, *words).stdout)
    assert result["privacy"]["centre"] == [0.5]
    plan = json.loads(run("plan", "--n", "900", "--epsilon", "5", *words[2:]).stdout)
    assert plan["plans"][0]["d"] == found.width


def test_a_private_schema_from_a_draft(heart, tmp_path):
    draft = tmp_path / "draft.toml"
    draft.write_text(
        'version = 1\n[columns.age]\nkind = "number"\nrange = [20, 90]\n'
        '[columns.num]\nkind = "label"\n'
    )
    words = ("--draft", draft, "--epsilon", "20", "--out", tmp_path / "made.toml")
    assert run("schema", heart, *words).returncode == 0
    made = Schema.load(tmp_path / "made.toml")
    assert made["age"].centre == pytest.approx(53.5, abs=3)
    assert made["age"].scale == pytest.approx(9.4, rel=0.3)
    words = ("--schema", tmp_path / "made.toml", "--epsilon", "20", "--json")
    result = json.loads(run("matrix", heart, *words).stdout)
    assert result["privacy"]["clip_norm"] == pytest.approx(made.clip_norm)


def test_what_a_node_would_answer(heart, tmp_path):
    policy = fedwad.Policy(["describe", "columns", "summary"], name="va")
    policy.save(tmp_path / "va.toml")
    done = run(
        "node", "check", heart / "va.csv", tmp_path / "va.toml", "--label-column", "num", "--json"
    )
    outcomes = {one["request"]: one["outcome"] for one in json.loads(done.stdout)["requests"]}
    assert outcomes["columns"] == outcomes["summary, 1 cell"] == "answered"
    assert outcomes["names of labels"] == "refused"
