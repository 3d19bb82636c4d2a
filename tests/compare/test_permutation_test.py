"""The permutation test between two sites, its request and its policy."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.federation import Client, Dataset, KeptReply, Policy, SummaryRequest
from fedwad.messages.codec import Envelope, check_reply, pack, unpack


def normal(seed, n, d, shift=0.0):
    return shift + np.random.default_rng(seed).normal(size=(n, d))


def client(policy, n=100, d=3):
    return Client(Dataset(fedwad.Measure(normal(0, n, d))), policy)


def test_finds_a_shift_and_not_chance(tmp_path):
    r = fedwad.permutation_test(normal(0, 200, 4), normal(1, 300, 4, shift=0.5))
    assert r.pvalue < 0.01
    assert fedwad.permutation_test(normal(0, 200, 4), normal(2, 300, 4)).pvalue > 0.05
    r.save(tmp_path / "test.json")
    assert fedwad.PermutationTestResult.load(tmp_path / "test.json") == r
    assert min(r.blocks) >= 5


def test_is_the_same_for_any_order_of_rows():
    x, y = normal(3, 100, 3), normal(4, 100, 3)
    one = fedwad.permutation_test(x, y)
    other = fedwad.permutation_test(x[::-1].copy(), y[np.random.default_rng(0).permutation(100)])
    assert (one.pvalue, one.statistic) == (other.pvalue, other.statistic)


def test_level_on_heavy_tails():
    rng = np.random.default_rng(5)
    pvalues = [
        fedwad.permutation_test(rng.standard_t(2, (40, 3)), rng.standard_t(2, (60, 3))).pvalue
        for _ in range(40)
    ]
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.15


def test_a_site_is_not_tested_against_itself():
    x = normal(0, 40, 2)
    with fails(fedwad.InputError, "nothing-to-compare"):
        fedwad.permutation_test(x, x)


def test_one_message_of_a_site_serves_all_pairs():
    fed = fedwad.local({name: normal(k, 120, 3) for k, name in enumerate("abc")})
    one = fedwad.permutation_test(fed["a"], fed["b"])
    two = fedwad.permutation_test(fed["a"], fed["c"])
    assert one.traffic.messages == two.traffic.messages == 3 + 2  # columns of all sites
    assert [e.kind for e in fed.ledgers["a"].entries if e.is_query] == ["columns", "summary"]
    fedwad.distance(fed["a"], fed["b"])  # the same message
    assert fed.ledgers["a"].queries == 2
    assert fedwad.permutation_test(fed["c"], fed["a"]).pvalue == pytest.approx(two.pvalue, abs=0.02)


ASKED = SummaryRequest(10, "auto", 2.0, 0, centre=np.zeros(3), scale=np.ones(3))


def test_the_docs_sequence_under_a_policy_with_one_reply():
    """A pair, a test, a matrix of all: one summary of each site."""
    policy = Policy(("columns", "summary"), max_distinct_replies=1, max_queries=2)
    fed = fedwad.local({name: normal(k, 120, 3) for k, name in enumerate("abc")}, policy)
    fedwad.distance(fed["a"], fed["b"])
    fedwad.permutation_test(fed["a"], fed["c"])
    assert np.isfinite(fedwad.matrix(fed).pvalue).all()


def test_policy_keeps_blocks_large():
    strict = client(Policy(("columns", "summary"), min_cell_size=25), n=200)
    assert strict.answer(ASKED).blocks.rows == 40
    few = client(Policy(("summary",), min_cell_size=90)).answer(replace(ASKED, cells=1))
    assert few.blocks is None
    none = client(Policy(("summary",), splits="noise")).answer(ASKED)
    assert none.blocks is None
    assert none.order is None


def test_without_blocks_nothing_is_tested():
    data = {"a": normal(0, 100, 3), "b": normal(1, 100, 3)}
    for policy in (Policy(("columns", "summary"), splits="noise"), Policy(("summary",))):
        fed = fedwad.local(data, policy)
        with fails(fedwad.InputError, "not-tested"):
            fedwad.permutation_test(fed["a"], fed["b"])
        assert fedwad.distance(fed["a"], fed["b"]).value > 0
        found = fedwad.matrix(fed)
        assert np.isnan(found.pvalue[0, 1])
        assert found.differs[0, 1] is None
        assert found.sentence.startswith("It was not tested whether a and b differ: ")


@pytest.mark.parametrize("scale", [1e-9, 1e-5])
def test_units_far_below_the_spread_give_no_blocks(scale):
    reply = client(Policy(("summary",))).answer(replace(ASKED, scale=np.full(3, scale)))
    assert reply.blocks is None


def test_units_count_like_schemas():
    site = client(Policy(("summary",)))
    assert site.answer(ASKED).blocks is not None
    assert site.answer(replace(ASKED, scale=np.full(3, 2.0))).blocks is None


@pytest.mark.parametrize(
    "units",
    [
        {"centre": np.zeros(2)},
        {"scale": np.zeros(3)},
        {"scale": np.full(3, np.nan)},
        {"centre": np.zeros((3, 1))},
        {"centre": [0.0, 0.0, 0.0]},
    ],
)
def test_units_that_are_none_are_refused(units):
    with pytest.raises(fedwad.InputError):
        client(Policy.open()).answer(replace(ASKED, **units))


def test_blocks_and_order_statistics_travel():
    request = replace(ASKED, centre=np.zeros(2), scale=np.ones(2))
    reply = client(Policy.open(), d=2).answer(request)
    arrived = unpack(pack(Envelope(reply))).content
    assert check_reply(request, arrived) is None
    np.testing.assert_array_equal(arrived.blocks.means, reply.blocks.means)
    np.testing.assert_array_equal(arrived.order.means[-1], reply.order.means[-1])
    kept = KeptReply.from_dict(json.loads(json.dumps(KeptReply(request, reply).to_dict())))
    assert pack(Envelope(kept.reply)) == pack(Envelope(reply))
    blocks, order = arrived.blocks, arrived.order
    for wrong in (
        replace(blocks, means=blocks.means[:-1]),
        replace(blocks, means=blocks.means[:, :-1]),
        replace(blocks, means=1e9 * blocks.means),
        replace(blocks, features=1),
        replace(blocks, features=5),
        replace(blocks, rows=7),
        replace(blocks, counts=(-1, 1 + len(blocks.means))),
        "blocks",
    ):
        assert check_reply(request, replace(arrived, blocks=wrong)).code == "invalid_reply"
    for wrong in (
        replace(order, means=order.means[1:]),
        replace(order, variances=tuple(-one for one in order.variances)),
        replace(order, means=tuple(-one for one in order.means)),
        replace(order, count=0),
    ):
        assert check_reply(request, replace(arrived, order=wrong)).code == "invalid_reply"
