"""`fedwad test`, and how `fedwad distance` leads with the answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import run


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    paths = {}
    for name, shift in (("one", 0.0), ("same", 0.0), ("other", 1.0)):
        paths[name] = str(tmp_path / f"{name}.npy")
        np.save(paths[name], rng.normal(shift, 1, (100, 3)))
    return paths


def test_the_returncode_says_whether_sites_differ(files):
    done = run("test", files["one"], files["other"], "--json")
    assert done.returncode == 3
    content = json.loads(done.stdout)
    assert content["differs"]
    assert content["pvalue"] < 0.01 < content["statistic"]
    assert "differ" in content["sentence"]
    for command in ("test", "distance", "matrix"):
        assert run(command, files["one"], files["other"]).returncode == 3
        assert run(command, files["one"], files["same"]).returncode == 0


@pytest.mark.parametrize("command", ["test", "distance", "matrix"])
@pytest.mark.parametrize("rows", [11, 20])
def test_too_few_rows_to_tell_have_their_own_returncode(tmp_path, command, rows):
    rng = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(rows, 2)))
    done = run(command, "a.npy", "b.npy", cwd=tmp_path)
    assert done.returncode == 4
    assert "no evidence" not in done.stdout
    done = run(command, "a.npy", "b.npy", "--json", cwd=tmp_path)
    assert done.returncode == 4
    if done.stdout:  # without blocks `test` has nothing to print
        content = json.loads(done.stdout, parse_constant=pytest.fail)
        assert content["differs"] in (None, [[False, None], [None, False]])
        assert content["sentence"]


@pytest.mark.parametrize("command", ["test", "matrix"])
def test_one_file_is_one_site_however_often_it_comes(files, command):
    twice = run(command, files["one"], files["one"])
    once = run(command, files["one"])
    assert twice.returncode == once.returncode == 2
    assert "Only" in twice.stderr
    assert "Only" in once.stderr


def test_all_pairs_of_more_sites(files):
    done = run("test", *files.values(), "--json")
    assert done.returncode == 3
    pairs = {frozenset(pair["sites"]): pair["pvalue"] for pair in json.loads(done.stdout)["pairs"]}
    assert pairs[frozenset({"one", "same"})] > 0.05
    assert pairs[frozenset({"one", "other"})] < 0.05


def test_a_distance_has_noise_and_population(files):
    content = json.loads(run("distance", files["one"], files["other"], "--json").stdout)
    low, high = content["population_interval"]
    assert 0 < low <= content["population"] <= high
    assert content["noise"] > 0
    shown = run("distance", files["one"], files["same"]).stdout
    assert shown.splitlines()[0].startswith("There is no evidence that one and same differ")
    assert shown.count("evidence") == 1
    assert "certified" in shown
    assert (
        json.loads(run("distance", files["one"], files["same"], "--json").stdout)["population"]
        is None
    )


@pytest.mark.parametrize("command", ["test", "distance", "matrix", "columns"])
def test_what_is_printed_as_a_warning_is_in_json(tmp_path, command):
    """A trend inside a site was known on the terminal alone."""
    rng = np.random.default_rng(0)
    for name in "ab":
        rising = np.linspace(0, 5, 80) * (name == "a") + rng.normal(size=80)
        np.savetxt(tmp_path / f"{name}.csv", rising, header="pulse", comments="", fmt="%.3f")
    done = run(command, "a.csv", "b.csv", "--json", cwd=tmp_path)
    (warning,) = [line for line in done.stderr.splitlines() if "pulse" in line and "order" in line]
    assert warning.removeprefix("Warning: ") in json.loads(done.stdout)["warnings"]
