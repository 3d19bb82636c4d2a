"""The audit plays what an attacker did: it says that records came back wherever they do."""

from pathlib import Path

import numpy as np
import pytest

import fedwad
from fedwad import Policy

FOLDER = Path(__file__).parents[2] / "docs" / "policies"


def flagged(count=500):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((count, 12))
    X[:, 11] = 0.0
    X[0, 11] = 1.0
    return X


@pytest.mark.parametrize("method", ["fedwad", "hub"])
def test_moments_by_distances_are_played(method):
    """Row 1: under a policy that answers p = 4 with its distance, the flagged record comes back."""
    policy = Policy(
        ("columns", "transport", "cells"),
        min_cell_size=20,
        max_support=10,
        max_queries=30,
        covariance_type="diag",
        supports="any",
        rounding=0.0,
    )
    assert fedwad.audit(flagged(), policy=policy, method=method).recovered >= 1


def test_tents_are_played():
    """Row 2: one feature and p = 1; tail records come back."""
    X = np.random.default_rng(0).lognormal(size=(300, 1))
    policy = Policy(
        ("columns", "cells"),
        min_cell_size=20,
        max_support=10,
        max_queries=30,
        supports="any",
        rounding=0.0,
    )
    assert fedwad.audit(X, policy=policy, method="hub").recovered >= 1


@pytest.mark.parametrize("method", ["fedwad", "hub"])
@pytest.mark.parametrize("policy", ["rounds", "hub"])
def test_ready_policies_refuse_both(method, policy):
    result = fedwad.audit(flagged(), policy=FOLDER / f"{policy}.toml", method=method)
    rows = [row for row in result.rows if row.attack in ("moments by distances", "sums of tails")]
    assert len(rows) == 2
    assert not any(row.leaks for row in rows)
