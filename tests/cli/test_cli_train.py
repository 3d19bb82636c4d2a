"""`fedwad train`."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

from fedwad.datasets import load, partition
from fedwad.learning import TrainingResult

FAST = ["--rounds", "1", "--epochs", "2", "--rate", "0.05"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    X, y = load("digits")
    place = tmp_path_factory.mktemp("sites")
    for name, (points, labels) in partition.class_pairs(X / 16, y, clients=10, samples=60, seed=0).items():
        np.savez(place / f"{name}.npz", X=points, y=labels)
    return place


def run(*words):
    command = [sys.executable, "-m", "fedwad", "train", *map(str, words)]
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_table_models_and_page(folder, tmp_path):
    done = run("--data", folder, "--save", tmp_path / "m", "--report", tmp_path / "p.html", *FAST)
    assert done.returncode == 0, done.stderr
    assert "all together" in done.stdout
    assert "Cluster 4: client8, client9" in done.stdout
    assert "no privacy is promised" in done.stdout
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "all.json", "all.npz", "cluster.json", *(f"cluster{k}.npz" for k in range(5)),
    ]  # fmt: skip
    result = TrainingResult.load(tmp_path / "m" / "cluster.json")
    with np.load(tmp_path / "m" / "cluster3.npz") as arrays:
        np.testing.assert_array_equal(arrays["head.bias"], result.weights[3][-10:])
    page = (tmp_path / "p.html").read_text()
    assert "in clusters" in page
    assert "client8" in page


def test_json_is_one_object_without_weights(folder):
    done = run("--data", folder, "--cluster", "none", "--algorithm", "fedrep", "--json", *FAST)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert list(content) == ["all_together"]
    assert len(content["all_together"]["accuracy"]) == 10
    assert "weights" not in content["all_together"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--cluster", "some"], "--cluster is 'some'"),
        (["--report", "page.pdf"], "give the name of a .html file"),
        (["--model", "rnn"], "no model 'rnn'"),
        (["--connect", "hub:1"], "needs to know the engine"),
    ],
)
def test_errors_are_one_sentence(folder, words, sentence):
    done = run("--data", folder, *words, *FAST)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())
