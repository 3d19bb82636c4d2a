"""The policies in docs/ allow their task, and nothing else."""

from pathlib import Path

import numpy as np
import pytest

import fedwad
from fedwad.errors import PolicyError
from fedwad.federation import Client, Dataset, LocalFederation, Policy
from fedwad.ot import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"
RNG = np.random.default_rng(0)
TASKS = {
    "summary": lambda fed: (fedwad.distance(fed["a"], fed["b"], method="summary"), fedwad.matrix(fed)),
    "classes": lambda fed: fedwad.matrix(fed, labels=True),
    "rounds": lambda fed: fedwad.distance(fed["a"], fed["b"], support=10),
    "classifier": lambda fed: fedwad.CoresetClassifier(size=10).fit(fed),
    "hub": lambda fed: fedwad.matrix(fed, method="hub"),
    "private": lambda fed: fedwad.matrix(fed, privacy=fedwad.DP(3, radius=5)),
    "coreset": lambda fed: fedwad.coreset(fed, 10),
}


def federation(name):
    policy = Policy.load(FOLDER / f"{name}.toml")
    return LocalFederation(
        {
            key: Client(Dataset(Measure(RNG.standard_normal((300, 3))), np.arange(300) % 2), policy)
            for key in ("a", "b", "c")
        }
    )


def test_each_file_has_a_task_and_each_task_a_file():
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_a_ready_policy_allows_its_task(name):
    TASKS[name](federation(name))


@pytest.mark.parametrize(
    ("name", "other"), [("summary", "rounds"), ("summary", "classes"), ("rounds", "summary"), ("hub", "rounds")]
)
def test_a_ready_policy_refuses_other_tasks(name, other):
    with pytest.raises(PolicyError, match=r"not allowed|not told"):
        TASKS[other](federation(name))


def test_the_policy_to_start_with_serves_a_coreset_too():
    assert len(fedwad.coreset(federation("summary"), 10, "summary")) == 10


@pytest.mark.parametrize("name", TASKS)
def test_a_ready_policy_ends_after_its_answers(name):
    fed = federation(name)

    def go_on_asking():
        for number in range(30):
            if name == "private":  # the same release is repeated for nothing; another is not
                fedwad.matrix(fed, privacy=fedwad.DP(3, radius=5 + number))
            else:
                TASKS[name](fed)

    with pytest.raises(PolicyError, match=r"has given all|budget"):
        go_on_asking()
