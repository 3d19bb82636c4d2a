"""Row 6: an audit of many records misses no record that one message gives away."""

import numpy as np
import pytest

import fedwad
from fedwad import Policy

COUNT = 5000


@pytest.mark.parametrize("seed", range(5))
def test_one_rare_record_among_thousands_is_found(seed):
    """A full covariance gives the one flagged record away, so the audit must say so whatever its
    seed.
    """
    rng = np.random.default_rng(11)
    X = rng.standard_normal((COUNT, 6))
    X[:, 5] = 0.0
    X[4321, 5] = 1.0
    policy = Policy(("summary",), max_distinct_replies=1, covariance_type="full")
    result = fedwad.audit(X, policy=policy, method="summary", seed=seed)
    assert result.leaks
    assert result.recovered >= 1


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_found_where_the_covariance_stays_at_the_site(seed):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((COUNT, 6))
    X[:, 5] = 0.0
    X[4321, 5] = 1.0
    policy = Policy(("summary",), max_distinct_replies=1, covariance_type="diag")
    assert not fedwad.audit(X, policy=policy, method="summary", seed=seed).leaks
