"""Membership by block means: the attack sees what larger blocks and rounding hide."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedwad
from command_line import run
from failing import fails
from fedwad.audit.blocks import MOST, find_members, measure_membership
from fedwad.errors import PolicyError
from fedwad.federation import Columns, Dataset, Policy, read, read_raw
from fedwad.statistics.blocking import block_means
from fedwad.transport import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"
SUMMARY = Policy.load(FOLDER / "summary.toml")
POLICIES = sorted(path.stem for path in FOLDER.glob("*.toml"))


def correlated(seed=0, count=600, features=20):
    """Rows with a common factor."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, features)) + rng.normal(size=(count, 1))
    return Dataset(Measure(X))


def heart(site):
    columns = Columns.of("num", schema="auto")
    return read(read_raw(fedwad.datasets.load("heart")[site], columns=columns), columns=columns)


def small_exact_blocks(*args, **options):
    """The fix switched off: blocks of ten rows, hundreds of functions, nothing rounded."""
    return block_means(*args, **{**options, "grid": 0.0, "per_size": 1000})


@pytest.fixture
def without_fix(monkeypatch):
    monkeypatch.setattr("fedwad.site.context.block_means", small_exact_blocks)


@pytest.mark.usefixtures("without_fix")
def test_small_exact_blocks_tell_who_is_in_the_site():
    found = measure_membership(correlated(), SUMMARY, np.random.default_rng(0), 100, splits=4)
    assert found.auc > 0.75
    assert found.true_at_1 > 0.05
    assert abs(found.control - 0.5) < 3 * found.error
    assert found.pvalue < 0.01


@pytest.mark.usefixtures("without_fix")
@pytest.mark.parametrize("name", ["classes", "coreset", "training"])
def test_policies_that_withhold_block_means_would_tell_it_without(name):
    rules = replace(Policy.load(FOLDER / f"{name}.toml"), splits="blocks")
    found = measure_membership(correlated(), rules, np.random.default_rng(0), 100, splits=4)
    assert found.auc > 0.75


@pytest.mark.slow
def test_a_site_that_says_nothing_is_below_the_level_as_often_as_it_says(monkeypatch):
    """Block means of other rows of the same population."""

    def of_others(points, order, rng, *args, **options):
        other = rng.normal(size=points.shape)
        return block_means(other, order, rng, *args, **options)

    monkeypatch.setattr("fedwad.site.context.block_means", of_others)
    low = 0
    for seed in range(40):
        points = np.random.default_rng(seed).normal(size=(200, 5))
        found = measure_membership(
            Dataset(Measure(points)), SUMMARY, np.random.default_rng(seed), 100
        )
        low += found.pvalue <= 0.05
    assert low <= 6  # more have a chance of 1.4% at a level of 5%


@pytest.mark.usefixtures("without_fix")
def test_the_audit_finds_it():
    finding = find_members(correlated(1, 200, 60), SUMMARY, np.random.default_rng(0))
    assert finding.found
    result = fedwad.audit(correlated(1, 200, 60).measure.points, SUMMARY, "test")
    row = next(row for row in result.rows if row.attack == "membership")
    assert row.leaks
    assert row.numbers["auc"] > MOST
    assert fedwad.AuditResult.from_dict(result.to_dict()).to_dict() == result.to_dict()


def test_a_control_is_guessing():
    found = measure_membership(correlated(2), SUMMARY, np.random.default_rng(0), 300, splits=4)
    assert abs(found.control - 0.5) < 3 * found.error


@pytest.mark.parametrize("policy", POLICIES)
def test_ready_policies_hide_who_is_in_the_site(policy):
    rules = Policy.load(FOLDER / f"{policy}.toml")
    finding = find_members(heart("hungarian"), rules, np.random.default_rng(0))
    assert not finding.found
    if policy == "summary":
        worst = max(finding.numbers["auc"], finding.numbers["auc_in_chosen_scales"])
        assert worst <= MOST + 2 * finding.numbers["error"]
    else:
        assert not finding.numbers  # no block means leave


def test_a_small_site_is_played_in_the_encoding_that_it_sends():
    """It was once called refused: with columns that the site itself leaves out, because too few
    rows have a value, its halves send nothing."""
    path = fedwad.datasets.load("heart")["switzerland"]
    with fails(PolicyError, "small-cells"):
        measure_membership(heart("switzerland"), SUMMARY, np.random.default_rng(0), 61)
    result = fedwad.audit(path, SUMMARY, "test", label_column="num")
    row = next(row for row in result.rows if row.attack == "membership")
    assert not row.refused
    assert row.is_played
    assert 0.5 < row.numbers["auc"] < 0.8


def test_a_site_whose_parts_send_nothing_is_not_called_refused():
    """Its own reply holds block means, so that no refusal hides it."""
    rules = replace(SUMMARY, min_cell_size=25)
    found = find_members(correlated(4, 40, 3), rules, np.random.default_rng(0))
    assert not found.refused
    assert not found.words
    assert found.skipped_reason.startswith("Too few rows for membership: your replies hold 20")
    assert "docs/audit.md" in found.skipped_reason


def test_a_small_site_is_played_with_most_of_its_rows():
    small = correlated(4, 28, 3)
    with fails(PolicyError, "small-cells"):
        measure_membership(small, replace(SUMMARY, min_cell_size=15), np.random.default_rng(0), 14)
    found = find_members(small, replace(SUMMARY, min_cell_size=15), np.random.default_rng(0))
    assert "for sites of three quarters of the rows" in found.words
    assert found.numbers


def test_without_blocks_there_is_nothing_to_decide_from():
    rules = replace(SUMMARY, splits="noise")
    assert measure_membership(correlated(), rules, np.random.default_rng(0), 100) is None
    closed = replace(rules, allow=("columns",))
    assert find_members(correlated(), closed, np.random.default_rng(0)).refused


def test_the_command_prints_the_area(tmp_path):
    np.save(tmp_path / "site.npy", correlated(3, 120).measure.points)
    shown = run(
        "audit", tmp_path / "site.npy", "--policy", FOLDER / "summary.toml", "--method", "test"
    )
    assert "under the curve" in " ".join(shown.stdout.split())


def test_a_method_with_answers_is_not_called_refused():
    result = fedwad.audit(
        fedwad.datasets.load("heart")["va"], SUMMARY, "schema", label_column="num"
    )
    assert any(row.answered and not row.refused for row in result.rows)
    assert "refused" not in result.verdict("schema")
