"""Training shows records to a server that chooses the weights; the audit says so."""

import sqlite3

import numpy as np
import pytest

import fedwad
from fedwad.errors import PolicyError
from fedwad.federation import FileLedger, Policy

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


def test_a_cap_on_tests_ends_the_counting_and_is_in_the_ledger():
    found = rows(Policy(("evaluate",), max_distinct_replies=30))["counting by tests"]
    assert found.answered == 30
    assert found.score.near == 0
    assert "the 30 different replies" in found.refused
    assert rows(Policy(("evaluate",)))["counting by tests"].score.near == 1


def test_an_entry_that_was_changed_still_counts_as_a_test(tmp_path):
    path = tmp_path / "node.sqlite"
    ledger = FileLedger(path)
    with ledger.lock():
        ledger.record("evaluate", "answered", digest="a", data="d")
        ledger.record("evaluate", "refused", data="d")
        ledger.record("train", "answered", digest="b", data="d")
    assert ledger.totals.queries["evaluate"] == 1
    policy = Policy(("evaluate",), max_distinct_replies=1)
    del ledger
    db = sqlite3.connect(path)
    db.execute("UPDATE entries SET kind = 'evaluat' WHERE number = 1")
    db.commit()
    db.close()
    with pytest.raises(PolicyError):  # the totals are those of the last entry
        policy.check_distinct("evaluate", FileLedger(path).totals.queries["evaluate"])


def test_without_train_nothing_comes_back():
    found = rows(Policy(("summary",)))
    assert all(row.answered == 0 and not row.leaks for row in found.values())


def test_data_without_labels_are_not_tried():
    X, _ = records(60)
    assert all(row.skipped_reason for row in fedwad.audit(X, method="training").rows)
