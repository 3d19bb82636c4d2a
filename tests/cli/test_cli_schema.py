"""Raw tables on the command line: `fedwad schema`, and --schema and --missing of the others."""

import json

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
    assert done.returncode == 0
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
    assert given.stderr == ""
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
    assert plan["schema"]["clip_norm"] == pytest.approx(found.clip_norm)
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
    policy = fedwad.Policy(["describe", "schema", "encode", "summary"], name="va")
    policy.save(tmp_path / "va.toml")
    done = run(
        "node", "check", heart / "va.csv", tmp_path / "va.toml", "--label-column", "num", "--json"
    )
    outcomes = {one["request"]: one["outcome"] for one in json.loads(done.stdout)["requests"]}
    assert outcomes["schema"] == outcomes["encode"] == outcomes["summary, 1 cell"] == "answered"
    assert outcomes["moments"] == "refused"
