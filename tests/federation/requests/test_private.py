"""Private releases through a client: policy, budget, ledger, and what is sent again."""

import math
import sqlite3
from dataclasses import fields, replace

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    Client,
    ColumnsRequest,
    Envelope,
    FileLedger,
    Policy,
    PrivateReply,
    PrivateRequest,
    accept_data,
    open_view,
    pack,
    read,
    unpack,
)
from fedwad.privacy import DP, compose, mu_of

DATA = np.random.default_rng(0).standard_normal((400, 3))


def asked(epsilon=1.0, clip_norm=5.0, **options):
    return PrivateRequest.of(DP(epsilon, clip_norm=clip_norm, **options))


def node(epsilon=3.0, ledger=None, data=DATA, **options):
    policy = Policy(allow=["describe", "private"], epsilon=epsilon, **options)
    return Client(read(data), policy, ledger)


def test_a_release_is_paid_for_before_it_is_answered():
    client = node()
    reply = client.answer(asked())
    spent, answered = client.ledger.entries
    assert (spent.kind, spent.outcome, spent.mu) == ("private", "spent", mu_of(1.0, 1e-5))
    assert (answered.outcome, answered.mu) == ("answered", 0.0)
    assert spent.data == answered.data != ""
    assert client.ledger.queries == 1
    assert isinstance(reply, PrivateReply)
    reply.check_values()


def test_asked_again_it_says_the_same_and_spends_nothing():
    client = node()
    first, second = client.answer(asked()), client.answer(asked())
    assert all(
        np.array_equal(getattr(first, f.name), getattr(second, f.name)) for f in fields(first)
    )
    assert client.ledger.spent == mu_of(1.0, 1e-5)
    other = client.answer(asked(clip_norm=5.5))
    assert not np.array_equal(first.mean, other.mean)
    assert client.ledger.spent == compose([mu_of(1.0, 1e-5)] * 2)


def test_beyond_the_budget_nothing_is_answered_and_nothing_spent():
    client = node(epsilon=1.5)
    client.answer(asked(1.0))
    client.answer(asked(0.8))
    with fails(PolicyError, "budget-spent"):
        client.answer(asked(1.0, clip_norm=6.0))
    assert client.ledger.entries[-1].outcome == "refused"
    assert client.ledger.spent <= mu_of(1.5, 1e-5)
    client.answer(asked(1.0))  # sent again, at no cost


def test_the_whole_budget_can_be_spent_at_once_and_in_parts():
    node(epsilon=1.0).answer(asked(1.0))
    client = node(epsilon=2.0)
    part = mu_of(2.0, 1e-5) / math.sqrt(10)
    epsilon = fedwad.privacy.epsilon_of(part, 1e-5)
    for k in range(10):
        client.answer(asked(epsilon * (1 - 1e-12), clip_norm=3.0 + k))
    with pytest.raises(PolicyError):
        client.answer(asked(0.01))


def test_the_budget_survives_restarts_and_changed_data(tmp_path):
    path = tmp_path / "node.sqlite"
    first = node(1.5, FileLedger(path)).answer(asked(1.2))
    again = node(1.5, FileLedger(path))
    assert np.array_equal(again.answer(asked(1.2)).mean, first.mean)  # kept beside the ledger
    with pytest.raises(PolicyError):
        again.answer(asked(1.2, clip_norm=6.0))
    new = np.vstack([DATA[1:], [[9.0, 9.0, 9.0]]])
    accept_data(read(new), again.policy, FileLedger(path))
    changed = node(1.5, FileLedger(path), data=new)
    with pytest.raises(PolicyError):  # the others are in both
        changed.answer(asked(1.2))
    assert sum(entry.mu > 0 for entry in open_view(path).entries) == 1
    assert {file.stat().st_mode & 0o077 for file in tmp_path.iterdir()} == {0}


@pytest.mark.parametrize("mu", [-1.0, 0.0, math.inf, "none", True])
def test_a_ledger_with_another_cost_is_not_believed(tmp_path, mu):
    path = tmp_path / "node.sqlite"
    node(3.0, FileLedger(path)).answer(asked(0.1))
    db = sqlite3.connect(path)
    db.execute("UPDATE entries SET mu = ?, totals = replace(totals, '0.', '0.0')", (mu,))
    db.commit()
    db.close()
    with pytest.raises(FederationError):
        node(3.0, FileLedger(path)).answer(asked(0.1, clip_norm=6.0))


def test_answers_without_privacy_end_the_guarantee():
    ledger = Client(read(DATA), Policy(allow=["columns"])).ledger
    Client(read(DATA), Policy(allow=["columns"]), ledger).answer(ColumnsRequest())
    with fails(PolicyError, "no-guarantee"):
        node(3.0, ledger).answer(asked())


def test_a_policy_that_guarantees_lets_nothing_else_out():
    with fails(InputError, "bad-policy", "summary"):
        Policy(allow=["private", "summary"], epsilon=1.0)
    with pytest.raises(PolicyError):
        node().answer(ColumnsRequest())
    for wrong in ({"epsilon": -1.0}, {"epsilon": 1.0, "delta": 0.0}, {"epsilon": "1"}):
        with pytest.raises(InputError):
            Policy(allow=["private"], **wrong)


def test_no_epsilon_no_release():
    with fails(PolicyError, "no-budget"):
        Client(read(DATA), Policy(allow=["private"])).answer(asked())


def test_noise_is_drawn_only_after_the_line_is_on_disk(tmp_path, monkeypatch):
    path = tmp_path / "node.sqlite"
    client = node(3.0, FileLedger(path))

    def interrupted(*_, **__):
        assert [entry.outcome for entry in open_view(path).entries] == ["spent"]
        raise KeyboardInterrupt

    monkeypatch.setattr("fedwad.site.answers.release", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.answer(asked())
    assert FileLedger(path).spent == mu_of(1.0, 1e-5)


def test_a_ledger_that_cannot_be_written_means_that_no_noise_is_drawn(monkeypatch):
    client = node()
    monkeypatch.setattr(
        client.ledger, "record", lambda *_, **__: (_ for _ in ()).throw(OSError("full"))
    )
    monkeypatch.setattr(
        "fedwad.site.answers.release",
        lambda *_, **__: pytest.fail("noise was drawn"),
    )
    with pytest.raises(OSError, match="full"):
        client.answer(asked())


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (asked(centre=[0.0, 0.0]), "different-columns"),
        (replace(asked(), epsilon="1"), "bad-request"),
        (replace(asked(), epsilon=-1.0), "bad-option"),
        (replace(asked(), clip_norm=math.inf), "bad-request"),
        (replace(asked(), centre=np.array([math.nan])), "bad-option"),
        (replace(asked(), centre=[0.0]), "bad-request"),
    ],
)
def test_requests_that_make_no_sense_are_refused_before_they_cost(request_, problem):
    client = node()
    with fails(InputError, problem):
        client.answer(request_)
    assert client.ledger.spent == 0


def test_too_many_features_are_refused_by_an_open_policy():
    client = Client(read(np.zeros((10, 300))), Policy.open())
    with fails(InputError, "too-many-features"):
        client.answer(asked())


def test_replies_travel_and_are_checked():
    labelled = node(data=(DATA, np.resize(["ill", "well"], 400)), label_names=("ill", "well"))
    reply = unpack(pack(Envelope(labelled.answer(asked(labels=("ill", "well")))))).content
    asked(labels=("ill", "well")).check(reply)
    reply.check_values()
    for change in (
        {"count": 0},
        {"mean": np.full(3, np.nan)},
        {"whitening": np.zeros((3, 3))},
        {"noise": np.array([1.0, -1.0, 1.0])},
        {"masses": np.zeros(3)},
        {"second": np.full((3, 3), 1e200)},
        {"clip_norm": math.inf},
    ):
        with pytest.raises(InputError):
            replace(reply, **change).check_values()
    with fails(InputError, "bad-reply"):
        asked(clip_norm=7.0, labels=("ill", "well")).check(reply)
    with fails(InputError, "bad-reply"):
        asked(labels=("ill",)).check(reply)


def test_a_stored_release_is_sent_again_when_all_queries_are_used():
    client = node(max_queries=1)
    first = client.answer(asked())
    np.testing.assert_array_equal(client.answer(asked()).mean, first.mean)
    with fails(PolicyError, "too-many-queries"):
        client.answer(asked(0.5))


def test_a_client_with_a_copied_ledger_has_the_same_public_classes():
    labels = np.array(["a", "b", "c", "a"] * 100)
    client = node(data=(DATA, labels), label_names=("b", "a"))
    copy = client.with_copied_ledger()
    assert copy.data.names == client.data.names
    np.testing.assert_array_equal(copy.data.labels, client.data.labels)
