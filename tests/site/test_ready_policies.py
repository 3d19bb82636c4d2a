"""The policies in docs/ allow their task, and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import fedwad
from failing import fails
from fedwad.errors import PolicyError
from fedwad.federation import (
    AtomsRequest,
    CellsRequest,
    Client,
    Columns,
    Dataset,
    LocalFederation,
    Policy,
    PrototypesRequest,
    SchemaFederation,
    SummaryRequest,
    TransportRequest,
    agreed_schema,
    read_raw,
)
from fedwad.transport import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"
RNG = np.random.default_rng(0)
DATA = Dataset(Measure(RNG.standard_normal((300, 3))), np.arange(300) % 2)
TASKS = {
    "summary": lambda fed: (
        fedwad.distance(fed["a"], fed["b"], method="summary"),
        fedwad.matrix(fed),
    ),
    "classes": lambda fed: fedwad.matrix(fed, labels=True),
    "rounds": lambda fed: fedwad.distance(fed["a"], fed["b"], method="fedwad", support=10),
    "classifier": lambda fed: fedwad.CoresetClassifier(size=10).fit(fed),
    "hub": lambda fed: fedwad.matrix(fed, method="hub"),
    "private": lambda fed: fedwad.matrix(fed, privacy=fedwad.DP(3, clip_norm=5)),
    "coreset": lambda fed: fedwad.coreset(fed, 10),
    "training": lambda fed: train(fed),
}


def train(fed, rounds=2):
    """Clusters from summaries by class, then training within them."""
    pytest.importorskip("torch", reason="the extra `learn` is not installed")
    from fedwad import learning

    groups = fedwad.matrix(fed, labels=True).cluster(2)
    return learning.train(fed, groups=groups, rounds=rounds, fraction_train=1.0)


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
    ("name", "other", "problem"),
    [
        ("summary", "rounds", "kind-refused"),
        ("summary", "classes", "withheld"),
        ("rounds", "summary", "kind-refused"),
        ("hub", "rounds", "kind-refused"),
    ],
)
def test_a_ready_policy_refuses_other_tasks(name, other, problem):
    with fails(PolicyError, problem):
        TASKS[other](federation(name))


QUESTIONS = {  # of all sites of a federation, by the policy that allows them
    "summary": lambda fed: fedwad.matrix(fed).value,
    "classes": lambda fed: fedwad.matrix(fed, labels=True).value,
    "hub": lambda fed: fedwad.matrix(fed, method="hub").value,
    "rounds": lambda fed: fedwad.matrix(fed, method="pairs", support=10, rounds=5).value,
    "coreset": lambda fed: fedwad.coreset(fed, 10, rounds=5).points,
    "classifier": lambda fed: fedwad.CoresetClassifier(size=10).fit(fed),
    "training": lambda fed: fedwad.matrix(fed, labels=True).value,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_ready_policy_answers_a_pair_all_sites_and_a_newcomer_from_raw_tables(name):
    """The sequence of the documentation. All sites agree once; each has one ledger, and the newcomer
    comes with a table of its own."""
    rng = np.random.default_rng(0)
    policy = Policy.load(FOLDER / f"{name}.toml")
    clients = {}
    for k, site in enumerate("abcd"):
        rows = {
            "age": rng.normal(50 + k, 9, 300),
            "dose": rng.normal(5, 1 + k / 9, 300),
            "sex": rng.choice(["f", "m"], 300),
            "ill": rng.choice(["no", "yes"], 300),
        }
        raw = read_raw(pa.table(rows), site, Columns.of("ill", schema="auto"))
        clients[site] = Client(raw, replace(policy, name=site))
    agreed = agreed_schema(LocalFederation({site: clients[site] for site in "abc"}))

    def ask(*sites):
        fed = LocalFederation({site: clients[site] for site in sites})
        return QUESTIONS[name](SchemaFederation(fed, agreed, sites))

    pair, _, wider = ask("a", "b"), ask("a", "b", "c"), ask("a", "b", "c", "d")
    if name in ("summary", "classes", "training"):
        np.testing.assert_allclose(wider[0, 1], pair[0, 1], rtol=1e-12)
    for client in clients.values():
        assert not client.ledger.totals.revoked
        assert client.ledger.queries <= policy.max_queries


def test_the_policy_to_start_with_serves_a_coreset_too():
    assert len(fedwad.coreset(federation("summary"), 10, method="summary")) == 10


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("hub", 3),
        ("classifier", 6),
        pytest.param("summary", 21, marks=pytest.mark.slow),
        pytest.param("classes", 21, marks=pytest.mark.slow),
        ("rounds", 2),
        ("coreset", 2),
    ],
)
def test_a_ready_policy_serves_its_task_again_and_again(name, times):
    """Beyond `max_queries`, since the same questions tell nothing new; everything is in the ledger
    all the same."""
    fed = federation(name)
    for _ in range(times):
        TASKS[name](fed)
    ledger, cap = fed.ledgers["a"], Policy.load(FOLDER / f"{name}.toml").max_queries
    assert ledger.queries <= cap < len(ledger)


def _questions():
    for number in range(1000):
        points = Measure(np.random.default_rng(number).standard_normal((10, 3)))
        yield {
            "summary": SummaryRequest(10, "auto", 2.0, number),
            "classes": SummaryRequest(10, "auto", 2.0, number, "diag"),
            "rounds": TransportRequest("run", points, 2.0, 0.5, "barycentric", False),
            "hub": CellsRequest("run", points, 2.0, "auto"),
            "classifier": PrototypesRequest(10, "class", "equal", number),
            "coreset": AtomsRequest(points.points, np.zeros(10), 0.0),
        }


@pytest.mark.parametrize("name", sorted(set(TASKS) - {"private", "training"}))
def test_a_ready_policy_ends_after_its_answers(name):
    client = Client(DATA, Policy.load(FOLDER / f"{name}.toml"))
    asked = 0
    for questions in _questions():
        try:
            client.answer(questions[name])
        except PolicyError as error:
            if "has answered all" in str(error):
                break
        asked += 1
    assert client.ledger.queries == client.policy.max_queries == asked


def test_the_policy_of_training_ends_with_its_queries(monkeypatch):
    rules = replace(Policy.load(FOLDER / "training.toml"), max_queries=6)
    monkeypatch.setattr(Policy, "load", lambda _: rules)
    fed = federation("training")
    with fails(PolicyError, "too-many-queries"):
        train(fed, rounds=10)
    assert fed.ledgers["a"].queries == 6


def test_the_private_policy_ends_with_its_budget():
    fed = federation("private")

    def go_on_asking():
        for number in range(30):  # the same release is repeated for nothing; another is not
            fedwad.matrix(fed, privacy=fedwad.DP(3, clip_norm=5 + number))

    with fails(PolicyError, "budget-spent"):
        go_on_asking()
