"""Every command of an analyst, with the same words and the same digits in process and on real
deployments of both engines: hospitals as processes with TLS, two sites under an epsilon, and two
whose rows have labels."""

import csv
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest

import fedwad
from command_line import run as command
from engines.answers import assert_same
from failing import fails
from fedwad.engines.job import Job
from fedwad.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("words")]

SITES, NEW, PRIVATE = ("cleveland", "hungarian", "switzerland"), "va", ("north", "south")
LABELLED = ("east", "west")
OPEN = """\
name = "{name}"
allow = ["describe", "columns", "summary", "transport", "cells", "atoms"]
keep = true
min_cell_size = 1
rounding = 0.0
max_schemas = inf
"""
UNDER_EPSILON = """\
name = "{name}"
allow = ["describe", "private"]
epsilon = 3.0
delta = 1e-5
"""
WITH_CLASSES = """\
name = "{name}"
allow = ["describe", "columns", "summary", "labels", "train", "evaluate"]
classes = true
min_cell_size = 1
rounding = 0.0
"""
RANGES = """\
version = 1
[columns.u]
kind = "number"
range = [-4.0, 4.0]
missing = "mean"
[columns.v]
kind = "number"
range = [-4.0, 4.0]
missing = "mean"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data with policies of four hospitals, two sites under an epsilon, and two with labels."""
    folder = tmp_path_factory.mktemp("words")
    for name, path in fedwad.datasets.load("heart").items():
        with path.open(newline="") as file:
            lines = [line[:9] for line in csv.reader(file)][:121]
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
        (folder / f"{name}.toml").write_text(OPEN.format(name=name))
    rng = np.random.default_rng(3)
    for shift, name in enumerate(PRIVATE):
        rows = rng.normal(shift, 1.0, (400, 2)).round(3).tolist()
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["u", "v"], *rows])
        (folder / f"{name}.toml").write_text(UNDER_EPSILON.format(name=name))
    for shift, name in enumerate(LABELLED):
        labels = rng.integers(0, 2, 60)
        np.savez(folder / name, X=rng.normal(shift + labels[:, None], 1.0, (60, 3)), y=labels)
        (folder / f"{name}.toml").write_text(WITH_CLASSES.format(name=name))
    (folder / "ranges.toml").write_text(RANGES)
    tables = [folder / f"{name}.csv" for name in (*SITES, NEW)]
    done = command("schema", *tables, "--out", folder / "agreed.toml")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module", params=["flower", "flare"])
def engine(request, folder, tmp_path_factory):
    """The options that send a command to a running deployment."""
    home = tmp_path_factory.mktemp(request.param)
    names, schema = (*SITES, NEW, *PRIVATE, *LABELLED), folder / "ranges.toml"
    data = {name: path_of(folder, name) for name in names}
    policies = {name: folder / f"{name}.toml" for name in names}
    if request.param == "flower":
        pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedwad[flower]')")
        from engines.flower_loopback import Loopback

        with Loopback(home, {"FEDWAD_CHECKPOINTS": str(home)}) as loopback:
            for name in names:
                more = ("--schema", str(schema)) if name in PRIVATE else ()
                loopback.site(name, data[name], policies[name], more=more)
            yield ("--engine", "flower", "--connect", loopback.address, "--ca", loopback.authority)
    else:
        pytest.importorskip(
            "nvflare", reason="FLARE is not installed (pip install 'fedwad[flare]')"
        )
        from engines.flare_loopback import Loopback as FlareLoopback

        columns = {name: {"schema": schema} for name in PRIVATE}
        with FlareLoopback(home, data, policies, columns) as federation:
            yield ("--engine", "flare", "--connect", federation.connect)


def path_of(folder, name):
    return folder / f"{name}.{'npz' if name in LABELLED else 'csv'}"


def answer(*words):
    """What a command prints as JSON, without the seconds that it took, warnings about tables that
    are here, and the bytes of a schema, by which tables that are here are read at once."""
    done = command(*words, "--json", columns=200)
    assert done.returncode in (0, 3, 4), done.stderr
    return _without_seconds(json.loads(done.stdout))


def _without_seconds(content):
    if isinstance(content, dict):
        left_out = ("seconds", "warnings", "down")
        return {key: _without_seconds(one) for key, one in content.items() if key not in left_out}
    return [*map(_without_seconds, content)] if isinstance(content, list) else content


FEATURES = {
    "distance": ("distance", SITES[:2]),
    # a site's own t follows from the last digit of the support
    "rounds": (
        "distance",
        SITES[:2],
        "--method",
        "fedwad",
        "--support",
        5,
        "--rounds",
        3,
        "--t",
        0.5,
    ),
    "matrix": ("matrix", SITES, "--k", 2),
    "hub": ("matrix", SITES, "--method", "hub", "--support", 5, "--rounds", 2),
    "test-of-two": ("test", SITES[:2]),
    "test-of-three": ("test", SITES),
    "columns": ("columns", SITES),
    "embed": ("embed", SITES, "--support", 5),
    "coreset": ("coreset", SITES, "--size", 5, "--rounds", 3),
    "schema": ("schema", SITES),
    "labels": ("matrix", LABELLED, "--labels"),
}


EXACT = "distance", "matrix", "test-of-two", "test-of-three"


@pytest.mark.parametrize("feature", FEATURES)
def test_a_command_prints_the_same_json_as_in_process(engine, folder, feature):
    word, names, *options = FEATURES[feature]
    # All connected sites would agree on one schema, and here the files alone.
    if word not in ("schema", "columns") and names is not LABELLED:
        options += ["--schema", folder / "agreed.toml"]
    here = answer(word, *(path_of(folder, name) for name in names), *options)
    there = answer(word, *names, *options, *engine, "--round-timeout", 120)
    if word == "columns":  # p-values are in the units of the schema, the rest is not
        there, here = ({c["name"]: c["sites"] for c in one["columns"]} for one in (there, here))
    assert_same(there, here, exact=feature in EXACT)


def test_training_has_the_same_losses_and_accuracies(engine, folder):
    pytest.importorskip("torch")
    options = "--k", "none", "--seeds", 1, "--rounds", 2
    here = answer("train", *(path_of(folder, name) for name in LABELLED), *options)
    there = answer("train", *LABELLED, *options, *engine)
    for one in (there, here):
        del one["comparison"]  # it has numbers of bytes
    assert_same(there, here)
    assert here["all_together"]["sites"] == [*LABELLED]


def test_two_analysts_at_once_get_what_each_gets_alone(engine, folder):
    """Pairs, matrices and tests of random sites in random orders, by two connections."""
    rng = np.random.default_rng(0)

    def draw():
        word = str(rng.choice(["distance", "matrix", "test"]))
        size = 2 if word == "distance" else int(rng.integers(2, 4))
        return word, *(str(name) for name in rng.choice(SITES, size, replace=False))

    sequences = [[draw() for _ in range(4)] for _ in range(2)]
    schema = "--schema", folder / "agreed.toml"
    alone = [
        [
            answer(word, *(folder / f"{name}.csv" for name in names), *schema)
            for word, *names in questions
        ]
        for questions in sequences
    ]

    def ask(questions):  # in processes of their own, which share no output
        found = []
        for words in questions:
            words += *schema, "--json", *engine
            command = [sys.executable, "-m", "fedwad", *map(str, words)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode in (0, 3, 4), done.stderr
            found.append(_without_seconds(json.loads(done.stdout)))
        return found

    with ThreadPoolExecutor(2) as analysts:
        assert_same(list(analysts.map(ask, sequences)), alone, exact=True)


def test_a_newcomer_and_clusters_are_those_of_in_process(engine, folder, tmp_path):
    saved, there = tmp_path / "matrix.json", tmp_path / "there.json"
    schema = "--schema", folder / "agreed.toml"
    answer("matrix", *(folder / f"{name}.csv" for name in SITES), *schema, "--save", saved)
    answer("matrix", *SITES, *schema, "--save", there, *engine)
    assert_same(answer("cluster", there, "--k", 2), answer("cluster", saved, "--k", 2))
    here = answer("join", folder / f"{NEW}.csv", "--matrix", saved)
    assert_same(answer("join", NEW, "--matrix", saved, *engine), here)


def test_a_reference_and_the_watch_over_it_are_those_of_in_process(engine, folder, tmp_path):
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    answer("reference", folder / f"{SITES[0]}.csv", "--out", here)
    answer("reference", SITES[0], "--out", there, *engine)
    assert json.loads(there.read_text()) == json.loads(here.read_text())
    watched = answer("watch", folder / f"{NEW}.csv", "--reference", here)
    assert answer("watch", NEW, "--reference", there, *engine) == watched


def test_a_private_release_is_made_by_the_schema_of_the_sites_and_repeated(engine, folder):
    words = ("distance", *PRIVATE, "--schema", folder / "ranges.toml", "--epsilon", 1.0, *engine)
    first = answer(*words)
    assert first["privacy"]["epsilon"] == 1.0
    assert answer(*words) == first  # a release that was paid for is sent again, with its noise


def test_a_run_without_a_journal_is_not_resumed(engine):
    job = Job("distance", SITES[:2], {"cells": 7})
    module = import_module(f"fedwad.engines.{engine[1]}")
    more = {"root_certificates": engine[5]} if engine[1] == "flower" else {}
    with fails(InputError, "no-journal"):
        module.submit(job, connect=engine[3], resume=True, **more)
