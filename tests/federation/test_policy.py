"""Policies in files, and what they hold back."""

import numpy as np
import pytest

from fedwad.errors import InputError, PolicyError
from fedwad.federation import (
    CellsRequest,
    Client,
    Dataset,
    DescribeRequest,
    MomentsRequest,
    Policy,
    SummaryRequest,
    open_client,
)
from fedwad.ot import Measure

RNG = np.random.default_rng(0)
LABELLED = Dataset(Measure(RNG.standard_normal((60, 2))), np.repeat(["a", "b"], 30))


def written(tmp_path, text):
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_what_is_answered(tmp_path):
    path = written(
        tmp_path,
        'name = "paris"\ncontact = "dpo@paris.example"\nallow = ["summary"]\nmax_queries = 4\n',
    )
    policy = Policy.load(path)
    assert policy == Policy(("summary",), max_queries=4, name="paris", contact="dpo@paris.example")
    assert policy.min_cell_size == 10
    assert not policy.exact_interpolant


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name = ", "not a TOML file"),
        ('name = "a"', "needs at least a name and what it allows"),
        ('allow = ["summary"]', "needs at least a name"),
        ('name = "a"\nallow = ["everything"]', "give a list with some of describe"),
        ('name = "a"\nallow = "summary"', "give a list with some of"),
        ('name = "a"\nallow = []\nmin_cell_size = 0', "integer of at least 1"),
        (
            'name = "a"\nallow = []\nmin_cell_siz = 20',
            "has the key 'min_cell_siz'; a policy has allow, min_cell_size",
        ),
        ('name = "a\\nb"\nallow = []', "a line of at most"),
        ('name = "a"\nallow = []\nclasses = 1', "classes is 1; give true or false"),
        ('name = "a"\nallow = []\ncovariance_type = "auto"', "choose 'full', 'lowrank'"),
        ('name = "a"\nallow = []\nmax_queries = -1', "max_queries"),
        ('name = "a"\nallow = []\norders = [0.5]', "p is 0.5"),
    ],
)
def test_a_wrong_file_gets_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        Policy.load(written(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy.open(),
        Policy(("summary",), max_queries=3, max_distinct_replies={"summary": 1}, contact='"a" é'),
        Policy(("private",), epsilon=0.3, delta=1e-7, max_support=7, orders=[2.5, 1]),
    ],
)
def test_a_policy_that_is_saved_and_loaded_is_the_same(tmp_path, policy):
    path = tmp_path / "policy.toml"
    policy.save(path)
    assert Policy.load(path) == policy
    assert Policy.load(path).digest() == policy.digest()


def test_a_policy_is_hashed_once_and_not_checked_again(monkeypatch):
    client = Client(LABELLED, Policy(("moments", "summary")))

    def never(*_):
        raise AssertionError("once more")

    monkeypatch.setattr(Policy, "__post_init__", never)
    monkeypatch.setattr(Policy, "digest", never)
    client.answer(MomentsRequest())
    client.answer(SummaryRequest(2, "auto", 2.0, 0))


def test_the_digest_of_a_policy_is_about_what_can_change_a_reply():
    rules = Policy(("moments",))
    assert rules.digest() == Policy(("moments",), name="paris", max_queries=3).digest()
    for other in (Policy(("moments", "cells")), Policy(("moments",), min_cell_size=9)):
        assert rules.digest() != other.digest()


def test_a_missing_file_gets_one_sentence(tmp_path):
    with pytest.raises(InputError, match="no readable policy"):
        Policy.load(tmp_path / "none.toml")
    with pytest.raises(InputError, match="no readable policy"):
        Policy.load(tmp_path)


def test_a_client_says_who_it_is_without_a_look_at_the_data():
    client = Client(
        LABELLED, Policy(("describe", "summary"), name="paris", contact="dpo", max_queries=0)
    )
    reply = client.answer(DescribeRequest())
    assert (reply.name, reply.contact, reply.allow, reply.features, reply.labelled) == (
        "paris",
        "dpo",
        ("describe", "summary"),
        2,
        True,
    )
    assert client.ledger.queries == 0
    with pytest.raises(PolicyError, match="all 0 queries"):
        client.answer(SummaryRequest(2, "full", 2.0, 0))


@pytest.mark.parametrize(
    "request_",
    [
        MomentsRequest("diag"),
        SummaryRequest(2, "auto", 2.0, 0, "diag"),
        CellsRequest("run", Measure(np.zeros((1, 6))), 2.0, "auto", "diag"),
    ],
)
def test_statistics_of_classes_are_stated_only_where_the_policy_says_so(request_):
    kinds = ("moments", "summary", "cells")
    with pytest.raises(PolicyError, match="statistics of classes"):
        Client(LABELLED, Policy(kinds)).answer(request_)
    Client(LABELLED, Policy(kinds, classes=True)).answer(request_)
    few = Dataset(LABELLED.measure, np.repeat(["a", "b"], [55, 5]))
    with pytest.raises(PolicyError, match="fewer than the 10 samples"):
        Client(few, Policy(kinds, classes=True)).answer(request_)


@pytest.mark.parametrize("covariance_type", ["full", "lowrank", "diag", "spherical"])
def test_no_more_of_a_covariance_is_stated_than_the_policy_says(covariance_type):
    order = ("full", "lowrank", "diag", "spherical")
    client = Client(LABELLED, Policy(("summary", "cells"), covariance_type=covariance_type))
    for asked in ("auto", *order):
        for request in (
            SummaryRequest(2, asked, 2.0, 0),
            CellsRequest("run", Measure([[0.0, 0.0]]), 2.0, asked),
        ):
            reply = client.answer(request).summary.covariance_type
            assert order.index(reply) >= order.index(covariance_type)
            assert asked == "auto" or order.index(reply) >= order.index(asked)


def test_classes_need_what_they_are_compared_by():
    client = Client(LABELLED, Policy(("summary",), classes=True, covariance_type="diag"))
    with pytest.raises(PolicyError, match="does not share the covariances"):
        client.answer(SummaryRequest(2, "auto", 2.0, 0, "full"))
    assert (
        client.answer(SummaryRequest(2, "full", 2.0, 0, "diag")).summary.covariance_type == "diag"
    )


def test_opening_a_client_beside_its_data(tmp_path):
    (tmp_path / "data.csv").write_text("b,a,kind\n1,10,x\n2,20,y\n3,30,x\n")
    policy = written(tmp_path, 'name = "paris"\nallow = ["moments"]\nmin_cell_size = 1\n')
    client = open_client(tmp_path / "data.csv", policy, label_column="kind")
    assert client.answer(MomentsRequest()).mean.tolist() == [
        20.0,
        2.0,
    ]  # features in alphabetical order
    assert (tmp_path / "policy.ledger.jsonl").is_file()
    with pytest.raises(InputError, match="no file at"):
        open_client(tmp_path / "none.csv", policy)


@pytest.mark.parametrize("kind", ["describe", "encode", "private"])
def test_no_limit_is_accepted_for_kinds_that_it_would_not_limit(kind):
    with pytest.raises(InputError, match="numbers for some of schema, moments, summary"):
        Policy(max_distinct_replies={kind: 1})
