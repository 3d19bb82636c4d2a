"""Order of questions: what an analyst gets depends on the question, not on what was asked before."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedwad
from fedwad.federation import Client, Columns, Policy, RemoteFederation, ensure_schema, read_raw
from parameters import mostly_slow

POLICY = Path(__file__).parents[2] / "docs" / "policies" / "summary.toml"
SITES = ("bern", "chur", "genf", "zug")


def hospitals():
    pandas = pytest.importorskip("pandas")
    tables = {}
    for number, name in enumerate(SITES):
        rng = np.random.default_rng([7, number])
        rows = 90 + 10 * number
        tables[name] = pandas.DataFrame(
            {
                "age": rng.integers(18, 95, rows) + number,
                "lab": np.where(rng.random(rows) < 0.8, rng.lognormal(1, 0.4, rows), np.nan),
                "ward": rng.choice(["a", "b", "c"], rows),
                "smoker": rng.choice([True, False], rows),
            }
        )
    return tables


def bits(result):
    """Every number of an answer, bit for bit."""
    if hasattr(result, "lower"):
        numbers = [result.value, result.lower, result.upper, result.pvalue, result.population]
    else:
        numbers = [result.pvalue, result.statistic]
    return b"".join(np.asarray(number, dtype=np.float64).tobytes() for number in numbers)


def ask(fed, question):
    kind, names = question
    if kind == "pair":
        return bits(fedwad.distance(fed[names[0]], fed[names[1]]))
    if kind == "test":
        return bits(fedwad.permutation_test(fed[names[0]], fed[names[1]], seed=0))
    if kind == "join":
        return bits(fedwad.matrix(fed, sites=names[:-1]).add(fed[names[-1]]))
    return bits(fedwad.matrix(fed, sites=names))


def ask_all(fed, questions):
    return [ask(fed, one) for one in questions]


class Carried(RemoteFederation):
    """Sites that are reached by packed messages, as those of engines are."""

    def __init__(self, clients):
        super().__init__(list(clients))
        self.clients = clients

    def exchange(self, messages, timeout):  # noqa: ARG002
        return {name: self.clients[name].respond(one) for name, one in messages.items()}


def carried(clients):
    """What one analyst sees; each has a connection and an agreement on a schema of its own."""
    return ensure_schema(Carried(clients))


def draw_question(rng):
    kind = str(rng.choice(["pair", "matrix", "test", "join"]))
    size = {"pair": 2, "test": 2}.get(kind, int(rng.integers(3, len(SITES) + 1)))
    return kind, tuple(str(name) for name in rng.choice(SITES, size, replace=False))


@pytest.mark.parametrize("sequences", mostly_slow([1, 30], 1))
def test_analysts_of_an_engine_get_what_is_got_in_process(sequences):
    policy = replace(Policy.load(POLICY), keep=True)
    tables, alone = hospitals(), {}
    columns = Columns.of(schema="auto")
    for number in range(sequences):
        rng = np.random.default_rng([5, number])
        asked = [[draw_question(rng) for _ in range(3)] for _ in range(2)]
        clients = {
            name: Client(read_raw(one, columns=columns), policy) for name, one in tables.items()
        }
        with ThreadPoolExecutor(2) as analysts:
            found = list(analysts.map(ask_all, [carried(clients), carried(clients)], asked))
        for questions, answers in zip(asked, found, strict=True):
            for question, answer in zip(questions, answers, strict=True):
                if question not in alone:
                    alone[question] = ask(fedwad.local(tables, policy=policy), question)
                assert answer == alone[question], (number, question)


@pytest.mark.parametrize("sequences", mostly_slow([1, 30], 1))
def test_two_analysts_at_once_get_what_each_would_get_alone(sequences):
    """Joins keep replies of sites, so the policy allows that; it is otherwise the ready one."""
    policy = replace(Policy.load(POLICY), keep=True)
    tables, alone = hospitals(), {}
    for number in range(sequences):
        rng = np.random.default_rng([3, number])
        asked = [[draw_question(rng) for _ in range(3)] for _ in range(2)]
        fed = fedwad.local(tables, policy=policy)
        with ThreadPoolExecutor(2) as analysts:
            found = list(analysts.map(ask_all, [fed, fed], asked))
        for questions, answers in zip(asked, found, strict=True):
            for question, answer in zip(questions, answers, strict=True):
                if question not in alone:
                    alone[question] = ask(fedwad.local(tables, policy=policy), question)
                assert answer == alone[question], (number, question)
