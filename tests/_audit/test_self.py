"""The audit itself is tested: with a fix switched off it finds what the attack gets, and with it on
nothing, under each example policy and on the kinds of data in which attacks differ.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedwad
from fedwad import Policy
from fedwad._audit._score import Yardstick
from fedwad._audit._session import AttackSession
from fedwad._audit.api import _ATTACKS, _KINDS
from fedwad.federation import Client, Dataset
from fedwad.federation.requests import atoms
from fedwad.ot import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"


def flagged(count):
    X = np.random.default_rng(1).standard_normal((count, 6))
    X[:, 5] = 0.0
    X[count // 3, 5] = 1.0
    return X, None


def labelled():
    X = np.random.default_rng(2).standard_normal((400, 4))
    return X, np.arange(400) % 2


DATA = {
    "a rare flag": lambda: flagged(500),
    "one column": lambda: (np.random.default_rng(0).lognormal(size=(300, 1)), None),
    "5000 records": lambda: flagged(5000),
    "labels": labelled,
}


def played(attack, method, data, policy):
    """How many records an attack reconstructs exactly, or nearly so by counting."""
    X, labels = DATA[data]()
    chosen = next(one for one in _ATTACKS if one.name == attack and method in one.methods)
    session = AttackSession(Dataset(Measure(X), labels), policy, _KINDS[method])
    found = chosen.run(session, np.random.default_rng(0))
    return Yardstick(X).score(found).near


def any_version(monkeypatch, policy):
    monkeypatch.setattr(Client, "_check_version", lambda _: None)
    return replace(policy, max_distinct_replies=None)


def full_dual(monkeypatch, policy):
    def fractions(reduced, reg, weights, floor):
        return *kept(reduced, reg, weights, floor)[:3], False

    kept = atoms._fractions
    monkeypatch.setattr(atoms, "_fractions", fractions)
    monkeypatch.setattr(
        atoms, "_dual", lambda reduced, _soft, weights, _floor: float(weights @ reduced.min(axis=1))
    )
    return policy


def all_orders(_monkeypatch, policy):
    return replace(policy, orders=None)


def full_covariance(_monkeypatch, policy):
    return replace(policy, covariance_type="full")


CASES = [
    ("hub", "moments by distances", "hub", "a rare flag", all_orders),
    ("rounds", "moments by distances", "fedwad", "a rare flag", all_orders),
    pytest.param(
        *("rounds", "moments by distances", "hub", "5000 records", all_orders),
        marks=pytest.mark.slow,
    ),
    ("rounds", "tents", "fedwad", "one column", all_orders),
    ("summary", "rare features", "summary", "a rare flag", full_covariance),
    ("summary", "rare features", "summary", "5000 records", full_covariance),
    ("classes", "rare features", "summary", "a rare flag", full_covariance),
    ("hub", "differences of versions", "hub", "a rare flag", any_version),
    ("summary", "differences of versions", "summary", "5000 records", any_version),
    ("classes", "differences of versions", "summary", "labels", any_version),
    ("training", "differences of versions", "summary", "labels", any_version),
    ("coreset", "differences of versions", "coreset", "one column", any_version),
    ("coreset", "outermost by dual values", "coreset", "labels", full_dual),
    ("coreset", "outermost by dual values", "coreset", "one column", full_dual),
]


@pytest.mark.parametrize(("policy", "attack", "method", "data", "switch"), CASES)
def test_the_audit_finds_what_a_fix_closes(monkeypatch, policy, attack, method, data, switch):
    rules = Policy.load(FOLDER / f"{policy}.toml")
    assert played(attack, method, data, rules) == 0
    assert played(attack, method, data, switch(monkeypatch, rules)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_one_rare_record_among_thousands_is_found_for_any_seed(seed, covariance_type):
    """Row 6: a random part of the records would miss it."""
    X, _ = flagged(5000)
    policy = Policy(("summary",), max_distinct_replies=1, covariance_type=covariance_type)
    result = fedwad.audit(X, policy=policy, method="summary", seed=seed)
    row = next(row for row in result.rows if row.attack == "rare features")
    assert row.leaks == (covariance_type == "full")


@pytest.mark.parametrize("data", DATA)
def test_under_the_private_policy_nothing_comes_back(data):
    X, labels = DATA[data]()
    found = fedwad.audit(
        X if labels is None else (X, labels), FOLDER / "private.toml", method="private"
    )
    assert not any(row.leaks for row in found.rows)
