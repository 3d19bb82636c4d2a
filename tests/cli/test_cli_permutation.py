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
    assert content["different"]
    assert content["pvalue"] < 0.01 < content["statistic"]
    assert run("test", files["one"], files["same"]).returncode == 0
    assert run("test", files["one"], files["same"], "--alpha", "2").returncode == 2


@pytest.mark.parametrize("command", ["test", "matrix"])
def test_one_file_is_one_site_however_often_it_comes(files, command):
    twice = run(command, files["one"], files["one"])
    once = run(command, files["one"])
    assert twice.returncode == once.returncode == 2
    assert "more than once" in twice.stderr
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
    assert shown.index("no evidence of a difference") < shown.index("certified")
