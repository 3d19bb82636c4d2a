"""Training shows records to a server that chooses the weights; the audit says so."""

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
    found = rows(Policy(("evaluate",), max_evaluations=30))["counting by tests"]
    assert found.answered == 30
    assert found.score.near == 0
    assert "tested all 30 networks" in found.refused
    assert rows(Policy(("evaluate",)))["counting by tests"].score.near == 1


def test_a_line_that_cannot_be_read_may_have_been_a_test(tmp_path):
    path = tmp_path / "node.jsonl"
    ledger = FileLedger(path)
    with ledger.lock():
        ledger.record("evaluate", "answered", digest="a", data="d")
        ledger.record("evaluate", "refused", data="d")
        ledger.record("train", "answered", digest="b", data="d")
    assert ledger.queries_of("evaluate") == 1
    content = path.read_bytes().replace(b'"evaluate"', b'"evaluat"', 1)
    (tmp_path / "copy.jsonl").write_bytes(content)
    assert FileLedger(tmp_path / "copy.jsonl").queries_of("evaluate") == 1
    policy = Policy(("evaluate",), max_evaluations=1)
    with pytest.raises(PolicyError, match="tested all 1"):
        policy.check_evaluations(FileLedger(tmp_path / "copy.jsonl").queries_of("evaluate"))


def test_without_train_nothing_comes_back():
    found = rows(Policy(("summary",)))
    assert all(row.answered == 0 and not row.leaks for row in found.values())


def test_data_without_labels_are_not_tried():
    X, _ = records(60)
    assert all(row.skipped_reason for row in fedwad.audit(X, method="training").rows)
