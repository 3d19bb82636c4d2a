"""Block means cannot be solved for rows, and could be without the rules that prevent it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedwad
from fedwad.audit import ReconstructionScorer
from fedwad.audit import blocks as attack
from fedwad.audit.session import AttackSession
from fedwad.federation import Client, Dataset, Policy, SummaryRequest
from fedwad.statistics import blocking
from fedwad.transport import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"


def solved(points, seed=0, **options):
    """Rows that the attack gets from blocks of three or ten rows, rounded or not."""
    rng = np.random.default_rng(seed)
    session = AttackSession(Dataset(Measure(points)), Policy.open(), frozenset({"summary"}))
    centre, scale = session.public_units
    blocks = blocking.block_means(points, None, rng, centre, scale, **options)
    return ReconstructionScorer(points).score(attack._solve(blocks, session, rng))


def test_without_both_rules_rows_come_back(monkeypatch):
    """Three rows have fewer numbers than are sent of them, and nothing is rounded."""
    points = np.random.default_rng(0).normal(size=(45, 2))
    monkeypatch.setattr(blocking, "SMALLEST", 3)
    assert solved(points, min_cell_size=3, grid=0.0).exact >= 35


def test_rounding_alone_hides_rows(monkeypatch):
    points = np.random.default_rng(0).normal(size=(45, 2))
    monkeypatch.setattr(blocking, "SMALLEST", 3)
    assert solved(points, min_cell_size=3).exact == 0


def test_blocks_as_they_are_sent_hide_rows():
    points = np.random.default_rng(0).normal(size=(100, 2))
    assert solved(points).exact == 0


@pytest.mark.parametrize("policy", ["summary"])
def test_ready_policies_send_blocks_that_give_no_records_away(policy):
    points = np.random.default_rng(1).normal(size=(120, 2))
    result = fedwad.audit(points, FOLDER / f"{policy}.toml", "test")
    attacks = ["solving of block means", "differences of versions", "membership"]
    assert [row.attack for row in result.rows] == attacks
    assert all(row.answered and not row.leaks for row in result.rows)


def test_repeats_are_the_same_to_the_last_bit():
    points = np.random.default_rng(2).normal(size=(60, 3))
    request = SummaryRequest(1, "diag", 2.0, 0, centre=np.zeros(3), scale=np.ones(3))
    client = Client(Dataset(Measure(points)), Policy(["summary"], max_queries=1))
    one, two = client.answer(request), client.answer(request)
    np.testing.assert_array_equal(one.blocks.means, two.blocks.means)
    again = Client(Dataset(Measure(points[::-1].copy())), Policy.open()).answer(request)
    np.testing.assert_array_equal(one.blocks.means, again.blocks.means)


def test_nothing_without_blocks():
    policy = Policy(["summary"], splits="noise")
    session = AttackSession(Dataset(Measure(np.ones((20, 2)))), policy, frozenset({"summary"}))
    assert not attack.solve_blocks(session, np.random.default_rng(0)).size
