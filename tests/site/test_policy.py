"""Policies in files, and what they hold back."""

import numpy as np
import pytest

from failing import fails
from fedwad.errors import InputError, PolicyError
from fedwad.federation import (
    CellsRequest,
    Client,
    ColumnsRequest,
    Dataset,
    DescribeRequest,
    Policy,
    SummaryRequest,
    open_client,
)
from fedwad.transport import Measure

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
    assert policy.supports == "equal"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name = ", ("bad-toml",)),
        ('name = "a"', ("bad-policy",)),
        ('allow = ["summary"]', ("bad-policy",)),
        ('name = "a"\nallow = ["everything"]', ("bad-policy",)),
        ('name = "a"\nallow = "summary"', ("bad-policy",)),
        ('name = "a"\nallow = []\nmin_cell_size = 0', ("bad-option",)),
        (
            'name = "a"\nallow = []\nmin_cell_siz = 20',
            ("unknown-key", "min_cell_siz"),
        ),
        ('name = "a\\nb"\nallow = []', ("bad-policy",)),
        ('name = "a"\nallow = []\nclasses = 1', ("bad-policy", "classes")),
        ('name = "a"\nallow = []\ncovariance_type = "auto"', ("bad-option",)),
        ('name = "a"\nallow = []\nmax_queries = -1', ("bad-option",)),
        ('name = "a"\nallow = []\nsupports = 3', ("bad-option", "p")),
    ],
)
def test_a_wrong_file_gets_one_sentence(tmp_path, text, problem):
    with fails(InputError, *problem) as caught:
        Policy.load(written(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy.open(),
        Policy(("summary",), max_queries=3, max_distinct_replies={"summary": 1}, contact='"a" é'),
        Policy(("private",), epsilon=0.3, delta=1e-7, max_support=7, supports="any"),
    ],
)
def test_a_policy_that_is_saved_and_loaded_is_the_same(tmp_path, policy):
    path = tmp_path / "policy.toml"
    policy.save(path)
    assert Policy.load(path) == policy
    assert Policy.load(path).digest() == policy.digest()


def test_a_policy_is_hashed_once_and_not_checked_again(monkeypatch):
    client = Client(LABELLED, Policy(("columns", "summary")))

    def never(*_):
        raise AssertionError("once more")

    monkeypatch.setattr(Policy, "__post_init__", never)
    monkeypatch.setattr(Policy, "digest", never)
    client.answer(ColumnsRequest())
    client.answer(SummaryRequest(2, "auto", 2.0, 0))


def test_the_digest_of_a_policy_is_about_what_can_change_a_reply():
    rules = Policy(("columns",))
    assert rules.digest() == Policy(("columns",), name="paris", max_queries=3).digest()
    for other in (Policy(("columns", "cells")), Policy(("columns",), min_cell_size=9)):
        assert rules.digest() != other.digest()


def test_a_missing_file_gets_one_sentence(tmp_path):
    with fails(InputError, "no-such-file"):
        Policy.load(tmp_path / "none.toml")
    with fails(InputError, "no-such-file"):
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
    with fails(PolicyError, "too-many-queries"):
        client.answer(SummaryRequest(2, "full", 2.0, 0))


@pytest.mark.parametrize(
    "request_",
    [
        SummaryRequest(2, "auto", 2.0, 0, "diag"),
        CellsRequest("run", Measure(np.zeros((1, 6))), 2.0, "auto", class_statistics="diag"),
    ],
)
def test_statistics_of_classes_are_stated_only_where_the_policy_says_so(request_):
    kinds = ("columns", "summary", "cells")
    with fails(PolicyError, "withheld"):
        Client(LABELLED, Policy(kinds)).answer(request_)
    Client(LABELLED, Policy(kinds, classes=True)).answer(request_)
    few = Dataset(LABELLED.measure, np.repeat(["a", "b"], [55, 5]))
    with fails(PolicyError, "small-cells"):
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


def test_classes_are_no_way_around_the_largest_number_of_cells():
    asked = SummaryRequest(1, "auto", 2.0, 0, "diag")
    many = Dataset(LABELLED.measure, np.repeat(["a", "b", "c"], 20))
    with fails(PolicyError, "support-refused"):
        Client(many, Policy(("summary",), classes=True, max_support=2)).answer(asked)
    Client(many, Policy(("summary",), classes=True, max_support=3)).answer(asked)


def test_classes_need_what_they_are_compared_by():
    client = Client(LABELLED, Policy(("summary",), classes=True, covariance_type="diag"))
    with fails(PolicyError, "withheld"):
        client.answer(SummaryRequest(2, "auto", 2.0, 0, "full"))
    assert (
        client.answer(SummaryRequest(2, "full", 2.0, 0, "diag")).summary.covariance_type == "diag"
    )


def test_opening_a_client_beside_its_data(tmp_path):
    (tmp_path / "data.csv").write_text("b,a,kind\n1,10,x\n2,20,y\n3,30,x\n")
    policy = written(tmp_path, 'name = "paris"\nallow = ["columns"]\nmin_cell_size = 1\n')
    client = open_client(tmp_path / "data.csv", policy, label_column="kind", schema="none")
    profile = client.answer(ColumnsRequest()).profile
    assert profile.names == ("a", "b")  # features in alphabetical order
    assert [one.mean for one in profile.columns] == [20.0, 2.0]
    assert (tmp_path / "policy.ledger.sqlite").is_file()
    with fails(InputError, "no-such-file"):
        open_client(tmp_path / "none.csv", policy)


@pytest.mark.parametrize("kind", ["describe", "schema", "private"])
def test_no_limit_is_accepted_for_kinds_that_it_would_not_limit(kind):
    with fails(InputError, "bad-policy"):
        Policy(max_distinct_replies={kind: 1})


def test_one_size_needs_a_size():
    with fails(InputError, "bad-policy"):
        Policy(("transport",), supports="one-size", max_support=None)
