"""The audit itself is tested: with a fix switched off it finds what the attack gets, and with it on
nothing, under each example policy and on the kinds of data in which attacks differ.
"""

from itertools import product

import numpy as np
import pytest
from benchmarks.self_test import CASES, DATA, POLICIES, played

import fedwad
from fedwad import Policy


def name(case):
    return f"{case.policy}-{case.data}-{case.method}-{case.attack}".replace(" ", "_")


def is_quick(case):
    """Whether this is the first case of a policy or of an attack."""
    first = {}
    for one in CASES:
        first.setdefault(one.policy, one)
        first.setdefault(one.attack, one)
    return case in first.values()


MARKED = [
    pytest.param(case, id=name(case), marks=() if is_quick(case) else pytest.mark.slow)
    for case in CASES
]


def test_each_example_policy_is_attacked_on_each_kind_of_data():
    ready = [path.stem for path in POLICIES.glob("*.toml")]
    assert {(case.policy, case.data) for case in CASES} == set(product(ready, DATA))


@pytest.mark.parametrize("case", MARKED)
def test_the_audit_finds_what_a_fix_closes(case):
    assert played(case, switched_off=False) == 0
    assert played(case, switched_off=True) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_one_rare_record_among_thousands_is_found_for_any_seed(seed, covariance_type):
    """Row 6: a random part of the records would miss it."""
    X = DATA["5000 records"]()
    policy = Policy(("summary",), max_distinct_replies=1, covariance_type=covariance_type)
    result = fedwad.audit(X, policy=policy, method="summary", seed=seed)
    row = next(row for row in result.rows if row.attack == "rare features")
    assert row.leaks == (covariance_type == "full")


@pytest.mark.parametrize("data", DATA)
def test_under_the_private_policy_nothing_comes_back(data):
    X = DATA[data]()
    found = fedwad.audit((X, np.arange(len(X)) % 2), POLICIES / "private.toml", method="private")
    assert not any(row.leaks for row in found.rows)
