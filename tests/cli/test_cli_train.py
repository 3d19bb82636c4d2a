"""`fedwad train`."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import command_line

pytest.importorskip("torch")

from fedwad.datasets import load, partition
from fedwad.learning import TrainingResult

FAST = ["--rounds", "1", "--epochs", "2", "--learning-rate", "0.05", "--seeds", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    X, y = load("digits")
    place = tmp_path_factory.mktemp("sites")
    for name, (points, labels) in partition.class_pairs(
        X / 16, y, clients=10, samples=60, seed=0
    ).items():
        np.savez(place / f"{name}.npz", X=points, y=labels)
    return place


def run(*words):
    return command_line.run("train", *words)


def test_table_models_and_page(folder, tmp_path):
    done = run(folder, "--save", tmp_path / "m", "--report", tmp_path / "p.html", *FAST)
    assert done.returncode == 0, done.stderr
    assert "all together" in done.stdout
    assert "majority class" in done.stdout
    assert "Cluster 5: client8, client9" in done.stdout
    assert re.search(r'client9.*?</th><td class="n">5</td>', (tmp_path / "p.html").read_text())
    assert "there is no privacy guarantee" in done.stdout
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "all.json",
        "all.npz",
        "cluster.json",
        *(f"cluster{k}.npz" for k in range(1, 6)),
    ]
    result = TrainingResult.load(tmp_path / "m" / "cluster.json")
    with np.load(tmp_path / "m" / "cluster4.npz") as arrays:
        np.testing.assert_array_equal(arrays["head.bias"], result.weights[3][-10:])
    page = (tmp_path / "p.html").read_text()
    assert "in clusters" in page
    assert "client8" in page


def test_json_is_one_object_without_weights(folder):
    done = run(folder, "--k", "none", "--algorithm", "fedrep", "--json", *FAST)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert set(content) == {"local_only", "all_together", "comparison"}
    assert set(content["comparison"]["rows"]) == {"majority class", "local only", "all together"}
    assert len(content["all_together"]["accuracy"]) == 10
    assert "weights" not in content["all_together"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--k", "some"], "--k is 'some'"),
        (["--report", "page.pdf"], "give the name of a .html file"),
        (["--model", "rnn"], "no model 'rnn'"),
        (["--body-epochs", "1"], "body_epochs is an option of fedrep"),
        (["--connect", "hub:1"], "--connect needs an engine"),
    ],
)
def test_errors_are_one_sentence(folder, words, sentence):
    done = run(folder, *words, *FAST)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


@pytest.mark.slow
def test_an_interrupted_training_ends_cleanly(folder):
    command = [sys.executable, "-m", "fedwad", "train", str(folder), "--rounds", "100000"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(20)  # long enough to be training
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted; no result was written." in said
    assert "terminate" not in said


def test_places_and_numbers_that_make_no_sense(folder, tmp_path):
    done = run(folder, "--save", tmp_path / "none" / "models")
    assert done.returncode == 2
    assert "There is no folder" in done.stderr
    assert not (tmp_path / "none").exists()
    for words, sentence in (
        (("--k", "0"), "positive integer"),
        ((), "There is no file or folder"),
    ):
        done = run(folder if words else tmp_path / "nosuch", *words)
        assert done.returncode == 2
        assert sentence in done.stderr
    done = run()
    assert done.returncode == 2
    assert "Missing argument 'FILES...'" in done.stderr


def test_one_cluster_that_was_asked_for_is_not_called_a_suggestion(folder):
    done = run(folder, "--k", "1", *FAST)
    assert done.returncode == 0, done.stderr
    assert "suggest" not in done.stdout


def test_more_clusters_than_sites_are_refused_before_the_training(folder, monkeypatch):
    monkeypatch.setattr("fedwad.cli.learn.run_training", None)
    done = run(folder, "--k", "11", *FAST)
    assert done.returncode == 2
    assert "11 clusters were asked for among 10 sites" in done.stderr


def test_a_model_from_the_current_folder_is_found(folder, tmp_path):
    (tmp_path / "my_networks.py").write_text(
        "from torch import nn\ndef linear(features, classes):\n"
        "    return nn.Linear(features, classes)\n"
    )
    words = ("--model", "my_networks:linear", "--k", "none", "--optimizer", "adam")
    done = command_line.run("train", folder, *words, *FAST, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "local only" in done.stdout
