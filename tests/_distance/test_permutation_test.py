"""The permutation test between two sites, its request and its policy."""

from __future__ import annotations

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


def request(rows=10, d=3, scale=1.0):
    return BlocksRequest(rows, np.zeros(d), np.full(d, scale))


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
    with pytest.raises(fedwad.InputError, match="rows"):
        fedwad.permutation_test(normal(0, 40, 2), normal(1, 40, 2), blocks=41)
    x = normal(0, 40, 2)
    with pytest.raises(fedwad.InputError, match="same"):
        fedwad.permutation_test(x, x)


def test_policy_keeps_blocks_large_and_one_set_of_them():
    strict = client(Policy(allow=("blocks",), min_cell_size=20))
    with pytest.raises(fedwad.PolicyError):
        strict.answer(request(10))
    first = strict.answer(request(20))
    again = strict.answer(request(20))
    np.testing.assert_array_equal(first.means, again.means)
    for other in (request(25), request(20, scale=2.0)):
        with pytest.raises(fedwad.PolicyError, match="different replies"):
            strict.answer(other)
    with pytest.raises(fedwad.PolicyError, match="not allowed"):
        client(Policy(allow=("summary",))).answer(request())
    for rows in (10, 20):
        client(Policy(allow=("blocks",), max_distinct_replies={"blocks": 2})).answer(request(rows))


def test_blocks_hold_half_of_what_rows_hold_and_travel():
    reply = client(Policy.open(), d=2).answer(request(10, d=2))
    assert 2 * reply.means.shape[1] <= 10 * 2
    arrived = unpack(pack(Envelope(reply))).content
    assert check_reply(request(10, d=2), arrived) is None
    assert arrived.blocks.segments == reply.blocks.segments
    assert check_reply(request(12, d=2), arrived).code == "garbage"
    assert check_reply(request(10, d=1), arrived).code == "garbage"


@pytest.mark.parametrize(
    "wrong",
    [
        BlocksRequest(0, np.zeros(3), np.ones(3)),
        BlocksRequest(10, np.zeros(2), np.ones(2)),
        BlocksRequest(10, np.zeros(3), np.zeros(3)),
        BlocksRequest(10, np.full(3, np.nan), np.ones(3)),
        BlocksRequest(1000, np.zeros(3), np.ones(3)),
        BlocksRequest("x", None, None),
    ],
)
def test_wrong_requests_are_refused(wrong):
    with pytest.raises(fedwad.InputError):
        client(Policy.open()).answer(wrong)
