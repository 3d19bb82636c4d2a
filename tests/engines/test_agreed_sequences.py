"""The sequence of questions of the documentation, on real deployments of both engines: a pair, a
matrix and a newcomer, asked of raw tables under the policy to start with, which answers about one
schema and sends one summary."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import fedwad
from command_line import run as command
from engines.answers import assert_same
from fedwad.federation import Policy

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sequences")]

POLICY = Path(__file__).parents[2] / "docs" / "policies" / "summary.toml"
SITES, NEW = ("cleveland", "hungarian", "switzerland"), "va"
FIRST, SECOND = SITES[:2], SITES[1:]


@pytest.fixture(params=["flower", "flare"])
def deployment(request, tmp_path, monkeypatch):
    """The options that send a command to a running deployment, and what starts the newcomer."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "analyst"))
    (tmp_path / "rows").mkdir()
    data = {name: tmp_path / "rows" / f"{name}.csv" for name in (*SITES, NEW)}
    for name, path in fedwad.datasets.load("heart").items():  # without columns that sites lack
        lines = [line.split(",")[:9] for line in path.read_text().splitlines()]
        data[name].write_text("\n".join(map(",".join, lines)) + "\n")
    policies = {name: tmp_path / f"{name}.toml" for name in data}
    for name, path in policies.items():
        path.write_text(POLICY.read_text().replace('"paris"', f'"{name}"') + "keep = true\n")
    (home := tmp_path / "home").mkdir()
    if request.param == "flower":
        pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedwad[flower]')")
        from engines.flower_loopback import Loopback

        with Loopback(home) as loopback:

            def start(name):
                loopback.site(name, data[name], policies[name])

            for name in SITES:
                start(name)
            options = "--connect", loopback.address, "--ca", loopback.authority
            yield ("--engine", "flower", *options), lambda: start(NEW)
        return
    pytest.importorskip("nvflare", reason="FLARE is not installed (pip install 'fedwad[flare]')")
    from engines.flare_loopback import Loopback as FlareLoopback

    federation = FlareLoopback(home, data, policies)

    def start_new():
        federation.start(NEW)
        federation.await_sites([NEW])

    try:
        federation.start("localhost")
        federation.await_server()
        for name in SITES:
            federation.start(name)
        federation.await_sites(SITES)
        yield ("--engine", "flare", "--connect", federation.connect), start_new
    finally:
        federation.stop()


def answer(*words):
    done = command(*words, "--json", columns=200)
    assert done.returncode in (0, 3, 4), done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_pair_a_matrix_and_a_newcomer_are_answered_in_one_encoding(deployment, tmp_path):
    engine, start_newcomer = deployment
    pair, _ = answer("distance", *FIRST, *engine)
    (kept,) = (tmp_path / "analyst").rglob("*.schema.toml")
    schema = fedwad.Schema.load(kept)
    matrix, said = answer("matrix", *SITES, *engine)
    assert not matrix["failed"]
    assert str(kept) in said
    assert matrix["value"][0][1] == pytest.approx(pair["value"], rel=1e-12)
    start_newcomer()
    wider, _ = answer("matrix", *SITES, NEW, *engine)
    assert not wider["failed"]
    assert len(wider["sites"]) == 4
    again, _ = answer("distance", *SECOND, *engine)
    assert again["value"] == pytest.approx(matrix["value"][1][2], rel=1e-12)
    assert fedwad.Schema.load(kept).to_toml() == schema.to_toml()


def test_another_analyst_asks_by_the_file_of_the_first(deployment, tmp_path, monkeypatch):
    engine, start_newcomer = deployment
    answer("distance", *FIRST, *engine)
    (kept,) = (tmp_path / "analyst").rglob("*.schema.toml")
    start_newcomer()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "second"))
    found, _ = answer("matrix", *SITES, "--schema", kept, *engine)
    assert not found["failed"]


def test_two_analysts_at_once_get_what_files_here_say(deployment, tmp_path):
    """Pairs, matrices, tests and joins in random orders, to the last bit as under the same policy
    in this process: a level that fewer than `min_cell_size` rows have is "other" there too."""
    engine, start_newcomer = deployment
    start_newcomer()
    files = {name: tmp_path / "rows" / f"{name}.csv" for name in (*SITES, NEW)}
    kept, saved = tmp_path / "agreed.toml", tmp_path / "matrix.json"
    assert command("schema", *files.values(), "--out", kept).returncode == 0
    schema = "--schema", kept
    policy = Policy.load(tmp_path / f"{NEW}.toml")
    answer("matrix", *SITES, *schema, *engine, "--save", saved)
    rng = np.random.default_rng(0)

    def draw():
        word = str(rng.choice(["distance", "matrix", "test", "join"]))
        size = {"distance": 2, "join": 1}.get(word, int(rng.integers(2, 4)))
        return word, [NEW] if word == "join" else rng.choice([*files], size, replace=False).tolist()

    sequences = [[draw() for _ in range(3)] for _ in range(2)]

    def ask(sequence):  # in processes of their own, which share no output
        for word, names in sequence:
            more = ("--matrix", saved) if word == "join" else schema
            words = word, *names, *more, "--json", *engine
            done = subprocess.run(
                [sys.executable, "-m", "fedwad", *map(str, words)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode in (0, 3, 4), done.stderr
            yield json.loads(done.stdout)

    def here(word, names):
        if word == "join":
            site = fedwad.local({NEW: files[NEW]}, policy, schema=kept)[NEW]
            placed = fedwad.MatrixResult.load(saved).add(site).placement(NEW)
            return json.loads(json.dumps(placed.to_dict()))
        paths = (files[name] for name in names)
        return answer(word, *paths, *schema, "--policy", tmp_path / f"{NEW}.toml")[0]

    with ThreadPoolExecutor(2) as analysts:
        found = list(analysts.map(lambda one: list(ask(one)), sequences))
    for questions, answers in zip(sequences, found, strict=True):
        for (word, names), there in zip(questions, answers, strict=True):
            expected = here(word, names)
            only = {key: there[key] for key in expected} if word == "join" else there
            assert_same(only, expected, f"{word} {names}", exact=True)
