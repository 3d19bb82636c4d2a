"""The permutation test between two sites, its request and its policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedwad
from fedwad.federation import BlocksRequest, Client, Dataset, Policy
from fedwad.federation.codec import Envelope, pack, unpack
from fedwad.federation.replies import check_reply


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
    assert r.blocks == (20, 30)


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


@pytest.mark.parametrize("blocks", [0, 1, "x", 2.5])
def test_wrong_numbers_of_blocks(blocks):
    with pytest.raises(fedwad.InputError):
        fedwad.permutation_test(normal(0, 40, 2), normal(1, 40, 2), blocks=blocks)
    x = normal(0, 40, 2)
    with pytest.raises(fedwad.InputError, match="same"):
        fedwad.permutation_test(x, x)


def test_one_message_of_a_site_serves_all_pairs():
    fed = fedwad.local({name: normal(k, 120, 3) for k, name in enumerate("abc")})
    one = fedwad.permutation_test(fed["a"], fed["b"])
    two = fedwad.permutation_test(fed["a"], fed["c"])
    assert one.traffic.messages == two.traffic.messages == 2
    assert fedwad.permutation_test(fed["c"], fed["a"]).pvalue == pytest.approx(two.pvalue, abs=0.02)


def test_pairs_are_tested_under_a_policy_with_one_reply():
    policy = Policy(allow=("blocks",), max_distinct_replies=1, max_queries=1)
    sites = [client(policy, n) for n in (100, 200, 900)]
    first = [site.answer(BlocksRequest()) for site in sites]
    again = [site.answer(BlocksRequest()) for site in sites]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.means, b.means)


def test_policy_keeps_blocks_large():
    strict = client(Policy(allow=("blocks",), min_cell_size=25), n=200)
    assert strict.answer(BlocksRequest()).rows == 40
    with pytest.raises(fedwad.InputError):
        client(Policy(allow=("blocks",), min_cell_size=101)).answer(BlocksRequest())
    with pytest.raises(fedwad.PolicyError, match="not allowed"):
        client(Policy(allow=("summary",))).answer(BlocksRequest())


def test_other_schemas_deal_the_same_rows_into_the_same_blocks(monkeypatch):
    """A server may propose any schema; block means of a column stay the same under all of them."""
    from fedwad.federation import AdoptSchemaRequest, read_raw
    from fedwad.ot import _blocks

    monkeypatch.setattr(_blocks, "GRID", dict.fromkeys(_blocks.GRID, 0.0))
    rng = np.random.default_rng(7)
    pandas = pytest.importorskip("pandas")
    numbers = {"age": rng.normal(50, 10, 90), "weight": rng.normal(70, 9, 90), "k": rng.random(90)}
    table = pandas.DataFrame(numbers)
    found = []
    for columns in (("age", "weight", "k"), ("age", "weight"), ("age",)):
        schema = fedwad.schema({"x": table[list(columns)]})
        site = Client(read_raw(table), Policy.open())
        site.answer(AdoptSchemaRequest(schema.to_toml()))
        reply = site.answer(BlocksRequest())
        column = list(schema.feature_names).index("age")
        found.append(reply.means[:, column])
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, atol=1e-9)


def test_blocks_hold_half_of_what_rows_hold_and_travel():
    reply = client(Policy.open(), d=2).answer(BlocksRequest())
    assert 2 * reply.means.shape[1] <= 10 * 2
    arrived = unpack(pack(Envelope(reply))).content
    assert check_reply(BlocksRequest(), arrived) is None
    assert arrived.blocks.segments == reply.blocks.segments
    for wrong in (
        replace(arrived, means=arrived.means[:-1]),
        replace(arrived, means=arrived.means[:, :-1]),
        replace(arrived, scale=0 * arrived.scale),
        replace(arrived, centre=arrived.centre[:1]),
        replace(arrived, rows=0),
    ):
        assert check_reply(BlocksRequest(), wrong).code == "invalid_reply"
