"""Training shows records to a server that chooses the weights; the audit says so."""

import numpy as np
import pytest

import fedwad
from fedwad.federation import Policy

pytest.importorskip("torch")


def records(count=200, features=3):
    X = np.random.default_rng(0).standard_normal((count, features))
    return X, np.arange(count) % 2


def rows(policy):
    found = fedwad.audit(records(), policy, method="training").rows
    return {row.attack: row for row in found}


def test_the_audit_reads_records_from_one_update_and_by_counting():
    found = rows(Policy(("train", "evaluate")))
    assert found["inverted updates"].answered == 1
    assert found["inverted updates"].score.near > 50
    assert found["inverted updates"].leaks
    assert found["counting by tests"].score.near == 1


def test_a_cap_on_queries_ends_the_counting_and_not_the_update():
    found = rows(Policy(("train", "evaluate"), max_queries=20))
    assert found["counting by tests"].score.near == 0
    assert found["inverted updates"].score.near > 50


def test_without_train_nothing_comes_back():
    found = rows(Policy(("summary",)))
    assert all(row.answered == 0 and not row.leaks for row in found.values())


def test_data_without_labels_are_not_tried():
    X, _ = records(60)
    assert all(row.skipped_reason for row in fedwad.audit(X, method="training").rows)
