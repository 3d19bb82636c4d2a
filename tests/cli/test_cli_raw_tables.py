"""Raw tables on the command line: tiny sites, many levels, periods, and what headings say."""

import json

import numpy as np
import pandas as pd
import pytest

import fedwad
from command_line import run


def numbers(n, seed, mean=0.0):
    return np.random.default_rng(seed).normal(mean, 1, n)


def write(folder, tables):
    for name, columns in tables.items():
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
    return [f"{name}.csv" for name in tables]


def test_a_site_with_one_row_does_not_end_a_matrix(tmp_path):
    tables = {f"s{k}": {"age": numbers(200, k), "height": numbers(200, k + 9)} for k in range(3)}
    tables["one"] = {"age": [0.3], "height": [0.1]}
    result = run("matrix", *write(tmp_path, tables), "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    content = json.loads(result.stdout)
    assert len(content["value"]) == 4
    assert content["pvalue"][0][1] is not None
    assert content["differs"][0][3] is None  # one row cannot tell


def test_many_levels_are_said_on_the_terminal_and_on_the_page(tmp_path):
    weights = 1 / np.arange(1, 201)
    codes = [f"I{k:03d}" for k in range(200)]
    tables = {
        name: {
            "icd": np.random.default_rng(k).choice(codes, 900, p=weights / weights.sum()),
            "age": numbers(900, k),
        }
        for k, name in enumerate(("oslo", "paris"))
    }
    command = ("distance", *write(tmp_path, tables), "--report", "page.html")
    result = run(*command, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (sentence,) = [line for line in result.stderr.splitlines() if "'icd'" in line]
    assert "frequent" in sentence
    assert sentence.removeprefix("Warning: ")[:60].replace("'", "&#39;") in (
        (tmp_path / "page.html").read_text().replace("\n", " ")
    )


def test_dates_of_periods_are_no_cause(tmp_path):
    def period(year, seed):
        days = pd.to_timedelta(np.random.default_rng(seed).integers(0, 365, 300), unit="D")
        return {
            "seen": (pd.Timestamp(f"{year}-01-01") + days).strftime("%Y-%m-%d"),
            "age": numbers(300, seed, mean=1.0 if year == 2021 else 0.0),
        }

    write(tmp_path, {"y2020": period(2020, 0), "y2021": period(2021, 1)})
    with pytest.warns(fedwad.DataWarning, match="period"):
        fed = fedwad.local([tmp_path / "y2020.csv", tmp_path / "y2021.csv"])
    found = fedwad.distance(fed["y2020"], fed["y2021"]).explain()
    assert found.causes == ("age",)


@pytest.mark.parametrize("shift", [0.0, 4.0])
@pytest.mark.parametrize("sites", [2, 12])
def test_the_heading_of_distances_says_of_what_they_are(tmp_path, sites, shift):
    """Before, distances between samples stood below "of their populations"."""
    tables = {
        f"s{k}": {"age": numbers(150, k, shift * k), "height": numbers(150, k + 99)}
        for k in range(sites)
    }
    files = write(tmp_path, tables)
    shown = run("matrix", *files, cwd=tmp_path).stdout
    found = json.loads(run("matrix", *files, "--json", cwd=tmp_path).stdout)
    heading, *lines = shown.splitlines()[1:]
    rows = [line.split() for line in lines]
    (row,) = [row for row in rows if row[0] == "s0"]
    of_samples = found["value"][0][1:]
    assert bool(shift) == any(one is not None for one in found["population"][0][1:])
    if "sample" in heading:
        assert f"{min(of_samples):.4g}" in row
        return
    ends = found["population_interval"][1][0][1:]  # where no difference was found
    estimates = zip(found["population"][0][1:], ends, strict=True)
    expected = sorted(end if one is None else one for one, end in estimates)
    numbers_shown = sorted(float(word) for word in row[2:] if word != "≤")
    assert numbers_shown == pytest.approx(expected, rel=0.01)
    assert numbers_shown != pytest.approx(sorted(of_samples), rel=0.003)
