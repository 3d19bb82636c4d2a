"""References and comparisons: what is kept, what leaves, what is found, and how often."""

import json

import numpy as np
import pytest
from scipy.stats import kstest

import fedwad
from command_line import run
from fedwad._drift.history import History
from fedwad._drift.sequential_test import compare_blocks, level_at, permutations_for
from fedwad.errors import InputError, PolicyError
from fedwad.federation import Client, Dataset, Ledger, LocalFederation
from fedwad.ot import Measure, block_means

RNG = np.random.default_rng(0)
BEFORE = RNG.normal(size=(400, 4))
SAME = RNG.normal(size=(300, 4))
MOVED = RNG.normal(size=(300, 4)) + np.array([0.0, 1.0, 0.0, 0.0])
KEEPING = fedwad.Policy(["summary", "blocks"], keep=True, max_distinct_replies=1)


@pytest.fixture(scope="module")
def reference():
    return fedwad.Reference.from_data(BEFORE, "before")


def test_a_reference_comes_back_bit_for_bit(reference, tmp_path):
    reference.save(tmp_path / "ref.json")
    again = fedwad.Reference.load(tmp_path / "ref.json")
    assert again == reference
    assert again.digest == reference.digest
    assert again.compare(SAME) == reference.compare(SAME)


def test_no_row_is_in_the_file(reference, tmp_path):
    reference.save(tmp_path / "ref.json")
    text = (tmp_path / "ref.json").read_text()
    assert not any(repr(float(x)) in text for x in BEFORE.ravel())


def test_drift_is_found_and_the_same_population_is_not(reference):
    same, moved = reference.compare(SAME), reference.compare(MOVED, name="may")
    assert not same.drift
    assert moved.drift
    assert moved.pvalue <= 0.01 < same.pvalue
    assert moved.distance.sites == ("before", "may")
    assert moved.distance.population == pytest.approx(1.0, abs=0.2)
    assert moved.sentence.startswith("Drift: may")
    assert moved.explain().order[0] == 1
    assert fedwad.DriftResult.from_dict(json.loads(json.dumps(moved.to_dict()))) == moved


def test_what_a_reference_holds_passes_policy_and_ledger():
    client = Client(Dataset(Measure(BEFORE)), KEEPING, ledger := Ledger())
    made = fedwad.Reference.from_data(LocalFederation({"paris": client})["paris"])
    assert [(one.kind, one.outcome) for one in ledger.entries] == [
        ("summary", "answered"),
        ("blocks", "answered"),
    ]
    sent = sum(one.bytes for one in ledger.entries)
    assert sent > 0
    assert made.site == "paris"


@pytest.mark.parametrize("policy", [fedwad.Policy(["summary", "blocks"]), fedwad.Policy()])
def test_a_policy_that_does_not_allow_it_is_respected(policy):
    with pytest.raises((InputError, PolicyError)):
        fedwad.Reference.from_data(BEFORE, policy=policy)


def test_only_the_new_site_is_asked(reference):
    client = Client(Dataset(Measure(SAME)), KEEPING, ledger := Ledger())
    result = reference.compare(LocalFederation({"new": client})["new"])
    assert [one.kind for one in ledger.entries] == ["summary", "blocks"]
    assert result.distance.traffic.messages == 2
    assert result.distance.traffic.up == sum(one.bytes for one in ledger.entries)


def test_levels_sum_to_alpha_and_half_is_spent_in_a_year():
    levels = np.array([level_at(0.01, k) for k in range(1, 100_001)])
    assert levels[:12].sum() == pytest.approx(0.005)
    assert levels.sum() < 0.01
    assert levels.sum() == pytest.approx(0.01, rel=2e-4)
    assert all(1 / (permutations_for(level) + 1) <= level for level in levels[:250])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", [1, 3, 12])
def test_one_column_far_off_is_drift_at_every_level(number, seed):
    rng = np.random.default_rng([seed, number])
    before, new = rng.normal(size=(150, 20)), rng.normal(size=(120, 20))
    new[:, 4] += 100.0
    level = level_at(0.01, number)
    blocks = [block_means(Measure(points)) for points in (before, new)]
    assert compare_blocks(*blocks, level, seed).pvalue <= level


def test_a_history_spends_the_level_once_for_the_same_data(reference, tmp_path):
    log = tmp_path / "log.jsonl"
    first = reference.compare(SAME, history=log)
    again = reference.compare(SAME, history=log)
    second = reference.compare(MOVED, history=log)
    assert (first.test, again.test, second.test) == (1, 1, 2)
    assert first.level == again.level == level_at(0.01, 1)
    assert len(log.read_text().splitlines()) == 2
    assert [entry["drift"] for entry in History(log, reference.digest).entries] == [False, True]


def test_a_line_that_was_cut_off_counts_and_the_next_is_whole(reference, tmp_path):
    log = tmp_path / "log.jsonl"
    reference.compare(SAME, history=log)
    log.write_bytes(log.read_bytes() + b'{"reference": "ab')
    assert reference.compare(MOVED, history=log).test == 3
    assert len(History(log, reference.digest).entries) == 2
    assert History(log, reference.digest).comparison_number("new data") == 4
    (tmp_path / "other.jsonl").write_text("no history\n\nof anything\n")
    with pytest.raises(InputError, match="not a history"):
        reference.compare(SAME, history=tmp_path / "other.jsonl")


def test_pvalues_are_uniform_or_larger_where_nothing_drifts():
    """Both stages of the test together: few permutations first, many where it is doubtful."""
    found = []
    for seed in range(150):
        rng = np.random.default_rng([seed, 1])
        one, two = (block_means(Measure(rng.normal(size=(200, 3)))) for _ in range(2))
        found.append(compare_blocks(one, two, 0.01, seed).pvalue)
    assert kstest(found, "uniform", alternative="greater").pvalue > 0.001


def test_a_table_is_encoded_as_the_reference_was(tmp_path):
    heart = fedwad.datasets.load("heart")
    made = fedwad.Reference.from_data(heart["cleveland"], "cleveland", label_column="num")
    assert made.schema is not None
    found = made.compare(heart["hungarian"], name="hungarian", label_column="num")
    assert found.drift
    made.save(tmp_path / "ref.json")
    assert fedwad.Reference.load(tmp_path / "ref.json") == made
    with pytest.raises(InputError, match="features"):
        made.compare(SAME)


def test_damage_is_named(reference, tmp_path):
    reference.save(tmp_path / "ref.json")
    content = json.loads((tmp_path / "ref.json").read_text())
    content["summary"]["reply"]["summary"]["weights"]["array"][0] = -1.0
    (tmp_path / "ref.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="damaged"):
        fedwad.Reference.load(tmp_path / "ref.json")


def test_the_command_line_watches(tmp_path):
    for name, points in (("before", BEFORE), ("same", SAME), ("moved", MOVED)):
        np.save(tmp_path / f"{name}.npy", points)
    log, prom, page = (tmp_path / name for name in ("log.jsonl", "fedwad.prom", "page.html"))
    made = run("reference", tmp_path / "before.npy", "--out", tmp_path / "ref.json")
    assert made.returncode == 0
    common = ("--reference", tmp_path / "ref.json", "--history", log)
    assert run("watch", tmp_path / "same.npy", *common).returncode == 0
    done = run(
        "watch", tmp_path / "moved.npy", *common, "--json", "--prometheus", prom, "--report", page
    )
    assert done.returncode == 3
    content = json.loads(done.stdout)
    assert content["drift"]
    assert content["test"] == 2
    assert content["columns"][0]["share"] > 0.5
    assert 'fedwad_drift{reference="before",site="moved"} 1' in prom.read_text()
    assert "Has moved drifted from before?" in page.read_text()
    assert run("watch", tmp_path / "same.npy", *common, "--alpha", "2").returncode == 2


def test_a_reference_from_the_command_line_passes_the_policy(tmp_path):
    np.savetxt(tmp_path / "a.csv", BEFORE, delimiter=",", header="a,b,c,d", comments="")
    text = 'name = "paris"\nallow = ["describe", "schema", "encode", "summary", "blocks"]\n'
    (tmp_path / "paris.toml").write_text(text)
    words = ("reference", tmp_path / "a.csv", "--out", tmp_path / "ref.json")
    refused = run(*words, "--policy", tmp_path / "paris.toml")
    assert refused.returncode == 2
    assert "keep = true" in refused.stderr
    (tmp_path / "paris.toml").write_text(text + "keep = true\n")
    assert run(*words, "--policy", tmp_path / "paris.toml").returncode == 0
    assert (tmp_path / "paris.ledger.jsonl").exists()
    assert fedwad.Reference.load(tmp_path / "ref.json").site == "paris"


def test_a_level_below_all_pvalues_is_not_blamed_on_the_rows(reference):
    result = reference.compare(SAME, alpha=1e-9)
    assert not result.judged
    assert result.sentence.startswith("The level is too small to judge drift of new from")
