"""Block means cannot be solved for rows, and could be without the rules that prevent it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedwad
from fedwad._audit import ReconstructionScorer
from fedwad._audit import _blocks as attack
from fedwad._audit._session import AttackSession
from fedwad.federation import BlocksReply, BlocksRequest, Client, Dataset, Policy
from fedwad.ot import Measure, _blocks

FOLDER = Path(__file__).parents[2] / "docs" / "policies"


def solved(points, seed=0):
    blocks = _blocks.block_means(Measure(points), _blocks.MIN_BLOCK_ROWS)
    reply = BlocksReply(blocks.rows, blocks.counts, blocks.means, blocks.centre, blocks.scale)
    return ReconstructionScorer(points).score(attack._solve(reply, np.random.default_rng(seed)))


def test_without_both_rules_rows_come_back(monkeypatch):
    """Three rows have fewer numbers than are sent of them, and nothing is rounded."""
    points = np.random.default_rng(0).normal(size=(45, 2))
    monkeypatch.setattr(_blocks, "MIN_BLOCK_ROWS", 3)
    monkeypatch.setattr(_blocks, "GRID", dict.fromkeys(_blocks.GRID, 0.0))
    assert solved(points).exact >= 35


def test_ten_rows_in_a_block_are_enough(monkeypatch):
    points = np.random.default_rng(0).normal(size=(100, 2))
    monkeypatch.setattr(_blocks, "GRID", dict.fromkeys(_blocks.GRID, 0.0))
    assert solved(points).exact == 0


def test_rounding_alone_hides_rows(monkeypatch):
    points = np.random.default_rng(0).normal(size=(45, 2))
    monkeypatch.setattr(_blocks, "MIN_BLOCK_ROWS", 3)
    assert solved(points).exact == 0


@pytest.mark.parametrize("policy", ["summary", "hub", "rounds"])
def test_ready_policies_send_blocks_that_give_no_records_away(policy):
    points = np.random.default_rng(1).normal(size=(120, 2))
    result = fedwad.audit(points, FOLDER / f"{policy}.toml", "test")
    attacks = ["solving of block means", "averaging of repeats", "differences of versions"]
    assert [row.attack for row in result.rows] == attacks
    assert all(row.answered and not row.leaks for row in result.rows)


def test_repeats_are_the_same_to_the_last_bit():
    points = np.random.default_rng(2).normal(size=(60, 3))
    client = Client(Dataset(Measure(points)), Policy(["blocks"], max_queries=1))
    one, two = client.answer(BlocksRequest()), client.answer(BlocksRequest())
    np.testing.assert_array_equal(one.means, two.means)
    again = Client(Dataset(Measure(points[::-1].copy())), Policy.open()).answer(BlocksRequest())
    np.testing.assert_array_equal(one.means, again.means)


def test_nothing_without_blocks():
    session = AttackSession(
        Dataset(Measure(np.ones((20, 2)))), Policy(["summary"]), frozenset({"blocks"})
    )
    assert not attack.solve_blocks(session, np.random.default_rng(0)).size
    assert not attack.average_blocks(session, np.random.default_rng(0)).size
