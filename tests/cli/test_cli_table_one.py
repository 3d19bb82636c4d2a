"""`fedwad columns`: Table 1 on the command line, as JSON, as a page and saved."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import fedwad
from command_line import run


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    paths = {}
    for name, shift, rows in (("one", 0, 150), ("same", 0, 150), ("other", 9, 150), ("few", 9, 15)):
        frame = pd.DataFrame(
            {
                "age": rng.normal(60 + shift, 9, rows),
                "sex <b>": rng.choice(["f", "m"], rows),
                "sugar": np.where(rng.random(rows) < 0.2, np.nan, rng.gamma(3, 30, rows)),
            }
        )
        paths[name] = tmp_path / f"{name}.csv"
        frame.to_csv(paths[name], index=False)
    return paths


def test_the_exit_code_says_whether_sites_differ(files):
    done = run("columns", files["one"], files["other"], "--json")
    assert done.returncode == 3
    content = json.loads(done.stdout)
    assert content["columns"][0]["name"] == "age"
    assert content["columns"][0]["pvalue"] <= 0.05
    assert content["columns"][0]["smd"] > 0.5
    assert content["differs"] is True
    assert {"count", "missing", "mean", "std", "quartiles", "levels"} <= set(
        content["columns"][0]["sites"][0]
    )
    assert run("columns", files["one"], files["same"]).returncode == 0
    few = run("columns", files["one"], files["few"], "--json")
    assert few.returncode == 4
    assert json.loads(few.stdout)["differs"] is None
    untested = run("columns", files["one"], files["other"], "--no-test", "--json")
    assert untested.returncode == 0
    assert json.loads(untested.stdout)["columns"][0]["pvalue"] is None
    assert run("columns", files["one"]).returncode == 0
    assert run("columns", files["one"], "--report", "page.txt").returncode == 2


def test_the_terminal_leads_with_the_sentence(files):
    done = run("columns", files["one"], files["other"])
    sentence = fedwad.columns(
        fedwad.local({name: files[name] for name in ("one", "other")})
    ).sentence
    assert done.stdout.startswith(sentence[:40])
    assert "mean (SD)" in done.stdout
    assert done.stdout.index("age") < done.stdout.index("sugar")


def test_it_is_saved_and_has_a_page(files, tmp_path):
    saved, page = tmp_path / "t.json", tmp_path / "t.html"
    run("columns", files["one"], files["other"], "--save", saved, "--report", page)
    result = fedwad.ColumnsResult.load(saved)
    html = page.read_text()
    assert "<b>" not in result.names
    assert "sex &lt;b&gt;" in html
    assert "sex <b>" not in html
    assert html.count("<svg") + html.count('class="levels"') >= 2 * len(result)
    assert "n = 150" in html
    assert "NaN" not in html
    order = [html.index(f"<bdi>{name}</bdi>") for name in ("age", "sugar")]
    assert order == sorted(order)
    assert not re.search(r"(src|href)=\"http", html)


def test_many_columns_are_behind_a_switch(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(60, 40)))
    page = tmp_path / "t.html"
    assert run("columns", tmp_path / "a.npy", tmp_path / "b.npy", "--report", page).returncode == 0
    assert "fold-columns" in page.read_text()
    assert "column 40" in page.read_text()


def test_a_page_says_under_which_policy_each_reply_left(files, tmp_path):
    rules, page = tmp_path / "ours.toml", tmp_path / "t.html"
    rules.write_text("name = 'ours'\nallow = ['columns', 'summary']\nmin_cell_size = 5\n")
    words = ["--policy", rules, "--report", page]
    for command in ("columns", "matrix", "test", "distance"):
        assert run(command, files["one"], files["other"], *words).returncode == 3, command
        assert "ours.toml" in page.read_text(), command
        assert "everything is answered" not in page.read_text(), command


def test_a_column_with_few_values_is_grey_and_a_histogram_ends_where_its_bins_do(tmp_path):
    rng, page = np.random.default_rng(0), tmp_path / "t.html"
    for name, known in (("a", 100), ("b", 3)):
        table = pd.DataFrame({"x": np.arange(100.0), "y": rng.normal(size=100)})
        table.loc[known:, "y"] = np.nan
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    run("columns", tmp_path / "a.csv", tmp_path / "b.csv", "--report", page)
    cells = re.findall(
        r"<td( class=\"few\")?><svg|<td( class=\"few\")?><div class=\"kind\">", page.read_text()
    )
    assert sum(any(cell) for cell in cells) == 1
    bars = fedwad.columns(fedwad.local({"a": tmp_path / "a.csv"})).columns[0].bars()
    first, last = float(bars.labels[0]), float(bars.labels[-1])
    assert first < 3
    assert last > 96


def test_no_number_is_cut_on_a_narrow_terminal(files, monkeypatch):
    """Sites that do not fit beside each other have a table of their own."""
    shown = fedwad.columns({name: files[name] for name in ("one", "same", "other")})
    for width in (80, 60, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        out = run("columns", files["one"], files["same"], files["other"]).stdout
        assert "…" not in out
        words = out.split()
        for line in shown.table():
            for text in line.texts:
                assert set(text.split()) <= set(words)
    assert out.count("adjusted p") == 1


def test_the_row_of_missing_values_has_its_own_smd(files):
    t = fedwad.columns({name: files[name] for name in ("one", "other")})
    k = t.names.index("sugar")
    page = files["one"].with_suffix(".html")
    out = run("columns", files["one"], files["other"], "--report", page).stdout
    assert f"missing: SMD {t.missing_smd[k]:.2g}" in page.read_text()
    rows = [line.split() for line in out.splitlines() if line.split()[:1] == ["missing"]]
    (row,) = [one for one in rows if one[-1] != "(0.0%)"]
    assert row[-1] == f"{t.missing_smd[k]:.2g}"


def test_an_error_of_a_table_is_said_once(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("infinite", "finite"):
        table = pd.DataFrame({"age": rng.integers(30, 90, 25).astype(float)})
        table["sex"] = rng.choice(["f", "m"], 25)
        if name == "infinite":
            table.loc[::3, "age"] = np.inf
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    done = run("columns", tmp_path / "infinite.csv", tmp_path / "finite.csv")
    assert done.returncode == 2
    assert done.stderr.count("infinite value") == 1


@pytest.mark.filterwarnings("ignore::fedwad.DataWarning")
def test_a_column_that_differs_in_missing_values_alone_says_so(tmp_path):
    rng = np.random.default_rng(0)
    for name, known in (("a", 150), ("b", 2)):
        values = np.where(np.arange(150) < known, rng.choice(["f", "m"], 150), "")
        table = pd.DataFrame({"sex": values, "age": rng.normal(size=150)})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    t = fedwad.columns({name: tmp_path / f"{name}.csv" for name in "ab"})
    k, page = t.names.index("sex"), tmp_path / "t.html"
    assert np.isnan(t.smd[k])
    out = run("columns", tmp_path / "a.csv", tmp_path / "b.csv", "--report", page).stdout
    lines = [line.split() for line in out.splitlines()]
    (row,) = [words for words in lines if words[:1] == ["missing"]]
    assert row[-2:] == [f"{t.missing_smd[k]:.2g}", f"{t.pvalue[k]:.2g}"]
    assert ["m"] in [words[:1] for words in lines]  # every row of the column is there
    assert "too few values" in page.read_text()
