"""A job names a network: the server of an engine imports it only if its operator lists it."""

import sys

import numpy as np
import pytest

from failing import fails
from fedwad.engines import job
from fedwad.errors import InputError
from fedwad.federation import Client, Dataset, LocalFederation, Policy
from fedwad.transport import Measure

pytest.importorskip("torch")


@pytest.fixture
def federation():
    X = np.random.default_rng(0).standard_normal((60, 3))
    policy = Policy(("describe", "labels", "train", "evaluate"), classes=True, models=("*",))
    data = Dataset(Measure(X), np.arange(60) % 2)
    return LocalFederation({name: Client(data, policy) for name in ("a", "b")})


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = "named_by_an_analyst"
    (tmp_path / f"{name}.py").write_text(
        "from torch import nn\n\n\ndef make(features, classes):\n"
        "    return nn.Linear(features, classes)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def asked(module):
    options = {"model": f"{module}:make", "rounds": 1, "classes": [0, 1]}
    return job.Job.from_json(job.Job("train", (), options).to_json())


def test_a_server_imports_no_model_that_an_analyst_names(federation, module):
    with fails(InputError, "unknown-model"):
        job.run(asked(module), federation)
    assert module not in sys.modules


def test_its_operator_may_list_it(federation, module, monkeypatch):
    monkeypatch.setenv(job.SERVER_MODELS_VARIABLE, f"other:one, {module}:make")
    assert job.run(asked(module), federation)["kind"] == "train"


def test_built_in_networks_need_no_list(federation):
    options = {"model": "mlp", "rounds": 1, "classes": [0, 1]}
    assert job.run(job.Job("train", (), options), federation)["kind"] == "train"
