"""Training on the engines' simulations gives what training in this process gives."""

import numpy as np
import pytest

pytest.importorskip("torch")

from fedwad.datasets import load, partition
from fedwad.engines.job import Job, run
from fedwad.federation import local
from fedwad.learning import TrainingResult

pytestmark = pytest.mark.slow


def dealt(folder, clients):
    """Files of digits in groups of class pairs, and the groups."""
    X, y = load("digits")
    parts = partition.class_pairs(X / 16, y, clients=clients, samples=100, seed=0)
    for name, (points, labels) in parts.items():
        np.savez(folder / f"{name}.npz", X=points, y=labels)
    return {name: folder / f"{name}.npz" for name in parts}, parts.groups


def compare(simulate, files, groups, algorithm):
    options = {
        "algorithm": algorithm,
        "groups": groups.tolist(),
        "rounds": 2,
        "epochs": 3,
        "fraction_train": 0.5,
        "learning_rate": 0.05,
    }
    job = Job("train", tuple(files), options)
    here, there = run(job, local(files)), simulate(job, files)
    here.pop("kind")
    there.pop("kind")
    one, other = TrainingResult.from_dict(here), TrainingResult.from_dict(there)
    np.testing.assert_array_equal(one.accuracy, other.accuracy)
    assert not other.failed
    for (
        group,
        weights,
    ) in one.weights.items():  # one stack here, one by one there: equal up to rounding
        np.testing.assert_allclose(weights, other.weights[group], rtol=1e-3, atol=1e-5)
    assert one.mean > 0.8
    assert one.traffic.down == other.traffic.down
    assert one.traffic.messages == other.traffic.messages


@pytest.mark.parametrize("algorithm", ["fedavg", "fedrep"])
def test_flower_has_the_same_accuracy(tmp_path, algorithm):
    pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedwad[flower]')")
    pytest.importorskip(
        "ray", reason="Flower's simulation is not installed (pip install 'flwr[simulation]')"
    )
    from fedwad.engines import flower

    compare(flower.simulate, *dealt(tmp_path, clients=10), algorithm)


def test_flare_has_the_same_accuracy(tmp_path):
    pytest.importorskip(
        "nvflare", reason="NVIDIA FLARE is not installed (pip install 'fedwad[flare]')"
    )
    from fedwad.engines import flare

    files, groups = dealt(tmp_path, clients=10)
    some = list(files)[:4]  # each site is a process
    compare(flare.simulate, {name: files[name] for name in some}, groups[:4], "fedrep")
