"""Training on Flower's simulation gives what training in this process gives."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedwad[flower]')")
pytest.importorskip("ray", reason="Flower's simulation is not installed (pip install 'flwr[simulation]')")

from fedwad.datasets import load, partition
from fedwad.engines import flower
from fedwad.engines.job import Job, run
from fedwad.federation import local
from fedwad.learning import TrainingResult

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    X, y = load("digits")
    dealt = partition.class_pairs(X / 16, y, clients=10, samples=100, seed=0)
    for name, (points, labels) in dealt.items():
        np.savez(folder / f"{name}.npz", X=points, y=labels)
    return {name: folder / f"{name}.npz" for name in dealt}, dealt.groups


@pytest.mark.parametrize("algorithm", ["fedavg", "fedrep"])
def test_the_same_accuracy_as_in_process(sites, algorithm):
    files, groups = sites
    options = {
        "algorithm": algorithm, "groups": groups.tolist(), "rounds": 2, "epochs": 3, "share": 0.5, "rate": 0.05,
        "evaluate": "last",
    }  # fmt: skip
    job = Job("train", tuple(files), options)
    here, there = run(job, local(files)), flower.simulate(job, files)
    here.pop("kind")
    there.pop("kind")
    one, other = TrainingResult.from_dict(here), TrainingResult.from_dict(there)
    np.testing.assert_array_equal(one.accuracy, other.accuracy)
    assert not other.lost
    for group, weights in one.weights.items():  # one stack here, one by one there: alike to rounding
        np.testing.assert_allclose(weights, other.weights[group], rtol=1e-3, atol=1e-5)
    assert one.mean > 0.8
    assert one.traffic.down == other.traffic.down
    assert one.traffic.messages == other.traffic.messages
