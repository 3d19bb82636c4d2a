"""`fedwad matrix` and `fedwad cluster` as a user meets them."""

import io
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import fedwad
from command_line import run
from fedwad.compare.shown import ShownMatrix
from fedwad.federation import Client, Dataset, FileLedger, Policy, SummaryRequest
from fedwad.messages.message import KINDS
from fedwad.transport import Measure

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Typer about Click
    from fedwad.cli import compare as page
    from fedwad.cli import console


NAMES = ("elder_care_home", "heart_centre", "st_mary", "north_hospital")


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Six sites in three groups, as CSV files with a label column."""
    folder = tmp_path_factory.mktemp("sites")
    rng = np.random.default_rng(0)
    for k, name in enumerate(("paris", "lyon", "oslo", "bergen", "rome", "turin")):
        table = pd.DataFrame(
            rng.normal(3 * (k // 2), 1, (80, 3)), columns=["age", "dose", "weight"]
        )
        table["kind"] = rng.choice(["ill", "well"], 80)
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


def test_a_folder_becomes_a_matrix_with_clusters_a_file_and_a_page(sites, tmp_path):
    save, page = tmp_path / "m.json", tmp_path / "m.html"
    options = ["--label-column", "kind", "--k", "auto", "--save", save, "--report", page]
    done = run("matrix", sites, *options)
    assert done.returncode == 3, done.stderr
    m = fedwad.MatrixResult.load(save)
    assert m.sites == ("bergen", "lyon", "oslo", "paris", "rome", "turin")
    clusters = [line for line in done.stdout.splitlines() if line.startswith("Cluster ")]
    assert sorted(line.partition(" (")[0] for line in clusters) == [
        "Cluster 1: bergen, oslo",
        "Cluster 2: lyon, paris",
        "Cluster 3: rome, turin",
    ]
    assert done.stdout.splitlines()[0] == m.sentence
    assert "12 messages" in done.stdout  # a profile and a summary of each
    assert "fedwad matrix" in page.read_text(encoding="utf-8")
    assert "--k auto" in page.read_text(encoding="utf-8")


def test_json_is_one_object_with_the_numbers_of_the_library(sites):
    done = run(
        "matrix",
        sites / "paris.csv",
        f"{sites}/[ot]*.csv",
        "--labels",
        "--label-column",
        "kind",
        "--json",
    )
    assert done.returncode == 3, done.stderr
    content = json.loads(done.stdout)
    assert content["sites"] == ["paris", "oslo", "turin"]
    fed = fedwad.local(
        {name: sites / f"{name}.csv" for name in content["sites"]}, label_column="kind"
    )
    m = fedwad.matrix(fed, labels=True)
    assert content["value"] == m.value.tolist()
    assert (content["sentence"], content["differs"]) == (m.sentence, m.differs.tolist())
    assert content["test"]["pvalue"] == m.test.pvalue


@pytest.mark.parametrize(("width", "columns"), [(120, NAMES), (70, ("1", "2", "3", "4"))])
def test_every_row_of_a_narrow_matrix_has_its_name(monkeypatch, width, columns):
    rng = np.random.default_rng(0)
    result = fedwad.matrix({name: rng.standard_normal((30, 2)) + k for k, name in enumerate(NAMES)})
    printed = io.StringIO()
    for module in (page, console):
        monkeypatch.setattr(module, "screen", Console(file=printed, width=width))
    page.show_matrix(ShownMatrix(result, np.array([0, 0, 1, 1])))
    lines = printed.getvalue().splitlines()
    lines = lines[next(k for k, line in enumerate(lines) if line.startswith("W2 distances")) :]
    assert lines[1].split()[2 : 2 + len(columns)] == list(columns)
    assert [next(name for name in NAMES if name in line) for line in lines[2:6]] == list(NAMES)


@pytest.mark.parametrize("method", ["hub", "pairs"])
def test_rounds_can_be_kept_and_resumed(sites, tmp_path, method):
    options = [
        sites,
        "--label-column",
        "kind",
        "--method",
        method,
        "--rounds",
        2,
        "--support",
        4,
        "--json",
    ]
    first = run("matrix", *options, "--checkpoint", tmp_path / "run")
    again = run("matrix", *options, "--checkpoint", tmp_path / "run")
    assert again.returncode == 2
    assert "exists; resume it" in again.stderr
    resumed = run("matrix", *options, "--checkpoint", tmp_path / "run", "--resume")
    assert json.loads(resumed.stdout)["value"] == json.loads(first.stdout)["value"]


def test_clusters_of_a_saved_matrix(sites, tmp_path):
    run("matrix", sites, "--label-column", "kind", "--save", tmp_path / "m.json")
    options = ["--k", 3, "--affinity", "knn", "--n-neighbors", 1]
    done = run("cluster", tmp_path / "m.json", *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["clusters"]
    assert found["labels"] == [0, 1, 0, 1, 2, 2]
    assert found["suggested"] == 3
    assert found["stability"] > 0.9


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["matrix", "nothing/*.csv"], "No file matches nothing/*.csv"),
        (["matrix", "."], "has no files that end in"),
        (["matrix", "missing.csv"], "There is no file at missing.csv"),
        (
            ["matrix", "SITES/paris.csv", "--label-column", "kind"],
            "a matrix needs at least two different files",
        ),
        (
            ["matrix", "SITES", "--k", "few", "--label-column", "kind"],
            "give a positive integer or 'auto'",
        ),
        (["matrix", "SITES", "--schema", "none"], "Column 'kind' of"),
        (
            ["matrix", "SITES", "--label-column", "kind", "--save", "m.csv"],
            "give the name of a .json file",
        ),
        (
            ["matrix", "SITES", "--label-column", "kind", "--report", "m.pdf"],
            "give the name of a .html file",
        ),
        (["matrix", "SITES", "--label-column", "kind", "--resume"], "add --checkpoint FILE"),
        (
            ["matrix", "SITES", "--label-column", "kind", "--k", "9"],
            "9 clusters were asked for among 6",
        ),
        (["matrix", "a", "b", "--connect", "here:1"], "add --engine flower or --engine flare"),
        (["cluster", "missing.json"], "no readable file at missing.json"),
        (["node", "check", "SITES/paris.csv", "missing.toml"], "no readable policy"),
        (["ledger", "show", "missing.sqlite"], "no readable ledger"),
    ],
)
def test_wrong_words_get_one_sentence(sites, tmp_path, arguments, sentence):
    done = run(*(str(word).replace("SITES", str(sites)) for word in arguments), cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_holes_name_the_site_or_the_column_and_its_rows(sites, tmp_path):
    table = pd.read_csv(sites / "paris.csv")
    table.loc[[2, 5], "kind"] = None
    table.to_csv(tmp_path / "holes.csv", index=False)
    table = pd.read_csv(sites / "paris.csv")
    table["dose"] = table["dose"].astype(object)
    table.loc[[1, 3], "dose"] = None
    table.to_csv(tmp_path / "gaps.csv", index=False)
    done = run(
        "matrix", tmp_path / "holes.csv", sites / "oslo.csv", "--labels", "--label-column", "kind"
    )
    assert done.returncode == 2
    assert "holes" in done.stderr
    plain = ("--label-column", "kind", "--schema", "none")
    done = run("matrix", tmp_path / "gaps.csv", sites / "oslo.csv", *plain)
    assert "Column 'dose' of" in done.stderr
    assert "2 missing values (rows 2, 4, counting from 1)" in done.stderr.replace("\n", " ")


def test_a_node_is_checked_before_it_goes_live(sites, tmp_path):
    (tmp_path / "paris.toml").write_text(
        'name = "paris"\nallow = ["describe", "summary"]\nmax_queries = 7\n'
    )
    arguments = [
        "node",
        "check",
        sites / "paris.csv",
        tmp_path / "paris.toml",
        "--label-column",
        "kind",
    ]
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    outcomes = {trial["request"]: trial["outcome"] for trial in content["requests"]}
    tried = {trial["kind"] for trial in content["requests"]}
    assert tried == set(KINDS) - {"train", "evaluate"}
    assert outcomes["describe"] == outcomes["summary, 10 cells"] == "answered"
    assert (
        outcomes["columns"]
        == outcomes["summary by class"]
        == outcomes["round, 10 points"]
        == "refused"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["paris.toml"]
    printed = run(*arguments)
    assert "Queries counted so far, withheld ones too: 0 (limit 7)." in printed.stdout


def test_a_ledger_is_shown(tmp_path):
    path = tmp_path / "paris.ledger.sqlite"
    data = Dataset(Measure(np.random.default_rng(0).standard_normal((50, 2))))
    client = Client(data, Policy(("summary",), name="paris"), FileLedger(path))
    client.answer(SummaryRequest(3, "full", 2.0, 0))
    with pytest.raises(fedwad.PolicyError):
        client.answer(SummaryRequest(3, "full", 9.0, 0))
    done = run("ledger", "show", path)
    assert done.returncode == 0, done.stderr
    assert (
        "2 requests in 2 entries (2 shown): 1 answered, 0 repeated, 1 refused, 0 withheld."
        in done.stdout
    )
    content = json.loads(run("ledger", "show", path, "--json").stdout)
    assert content["queries"] == 1
    assert [entry["outcome"] for entry in content["entries"]] == ["answered", "refused"]


def test_a_table_is_as_wide_as_the_distances_that_it_shows(monkeypatch):
    rng = np.random.default_rng(0)
    data = {name: rng.normal(0, 1, (60, 2)) for name in "abcd"}
    view = ShownMatrix(fedwad.matrix(fedwad.local(data)))
    sites = view.matrix.sites
    width = 3 + len("rows") + 2 + 4 * (max(len(text) for row in view.texts for text in row) + 2)
    monkeypatch.setattr(page.screen, "width", width)
    assert page._headings(view) == (sites, sites)
    monkeypatch.setattr(page.screen, "width", width - 1)
    assert page._headings(view) == ((), sites)


def test_a_shape_of_odd_digits_is_refused(sites):
    done = run("coreset", sites, "--shape", "2\N{SUPERSCRIPT TWO}x3")
    assert done.returncode == 2
    assert "give rows and columns" in done.stderr
