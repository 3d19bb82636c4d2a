"""References and comparisons: what is kept, what leaves, what is found, and how often."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

import fedwad
from command_line import run
from failing import fails
from fedwad.compare.drift import History, compare_blocks, level_at, permutations_for
from fedwad.engines.job import Job
from fedwad.engines.job import run as run_job
from fedwad.errors import InputError, PolicyError
from fedwad.federation import (
    Client,
    Dataset,
    Ledger,
    LocalFederation,
    RemoteFederation,
    open_client,
)
from fedwad.statistics.blocking import block_means
from fedwad.transport import Measure

RNG = np.random.default_rng(0)
BEFORE = RNG.normal(size=(400, 4))
SAME = RNG.normal(size=(300, 4))
MOVED = RNG.normal(size=(300, 4)) + np.array([0.0, 1.0, 0.0, 0.0])
KEEPING = fedwad.Policy(["columns", "summary"], keep=True, max_distinct_replies=1)


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
    kinds = [(one.kind, one.outcome) for one in ledger.entries if one.is_query]
    assert kinds == [("columns", "answered"), ("summary", "answered")]
    sent = sum(one.bytes for one in ledger.entries)
    assert sent > 0
    assert made.site == "paris"


@pytest.mark.parametrize("policy", [fedwad.Policy(["columns", "summary"]), fedwad.Policy()])
def test_a_policy_that_does_not_allow_it_is_respected(policy):
    with pytest.raises((InputError, PolicyError)):
        fedwad.Reference.from_data(BEFORE, policy=policy)


def test_only_the_new_site_is_asked(reference):
    client = Client(Dataset(Measure(SAME)), KEEPING, ledger := Ledger())
    result = reference.compare(LocalFederation({"new": client})["new"])
    assert [one.kind for one in ledger.entries if one.is_query] == ["summary"]
    assert result.distance.traffic.messages == 1
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
    blocks = [block_means(points, None, rng) for points in (before, new)]
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
    with fails(InputError, "wrong-format"):
        reference.compare(SAME, history=tmp_path / "other.jsonl")


def test_pvalues_are_uniform_or_larger_where_nothing_drifts():
    """Both stages of the test together: few permutations first, many where it is doubtful."""
    found = []
    for seed in range(150):
        rng = np.random.default_rng([seed, 1])
        one, two = (block_means(rng.normal(size=(200, 3)), None, rng) for _ in range(2))
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
    with fails(InputError, "different-columns"):
        made.compare(SAME)


def test_damage_is_named(reference, tmp_path):
    reference.save(tmp_path / "ref.json")
    content = json.loads((tmp_path / "ref.json").read_text())
    content["summary"]["reply"]["summary"]["weights"]["array"][0] = -1.0
    (tmp_path / "ref.json").write_text(json.dumps(content))
    with fails(InputError, "damaged-content"):
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
    text = 'name = "paris"\nallow = ["describe", "columns", "summary"]\n'
    (tmp_path / "paris.toml").write_text(text)
    words = ("reference", tmp_path / "a.csv", "--out", tmp_path / "ref.json")
    refused = run(*words, "--policy", tmp_path / "paris.toml")
    assert refused.returncode == 2
    assert "keep = true" in refused.stderr
    (tmp_path / "paris.toml").write_text(text + "keep = true\n")
    assert run(*words, "--policy", tmp_path / "paris.toml").returncode == 0
    assert (tmp_path / "paris.ledger.sqlite").exists()
    assert fedwad.Reference.load(tmp_path / "ref.json").site == "paris"


def test_a_level_below_all_pvalues_is_not_blamed_on_the_rows(reference):
    result = reference.compare(SAME, alpha=1e-9)
    assert not result.judged
    assert result.sentence.startswith("The level is too small to judge drift of new from")


def test_without_a_drift_no_distance_between_populations_is_said(tmp_path):
    """The test of the distance has a level of its own, 5%; that of the fourth look is smaller."""
    rng = np.random.default_rng(0)
    reference = fedwad.Reference.from_data(rng.normal(size=(500, 3)), "ref")
    history = tmp_path / "log.jsonl"
    for shift in (0.0, 0.0, 0.0, 0.2):
        found = reference.compare(rng.normal([shift, 0, 0], 1, (300, 3)), history=history)
        assert not found.drift
        assert found.line()["population"] is None
        assert found.line()["population_interval"][0] == 0
    assert found.pvalue > found.level


class Carried(RemoteFederation):
    """Sites that are reached by messages, as on an engine."""

    def __init__(self, clients):
        super().__init__(tuple(clients))
        self.clients = clients

    def exchange(self, messages, timeout):  # noqa: ARG002
        return {name: self.clients[name].respond(message) for name, message in messages.items()}


def test_a_reference_of_a_site_of_an_engine_is_that_of_its_file(tmp_path):
    """On an engine rare levels stayed in the schema, and a later table lacked some of them."""
    path, policy = tmp_path / "now.csv", tmp_path / "now.toml"
    frequent_and_rare(np.random.default_rng(0), 300).to_csv(path, index=False)
    allowed = ["describe", "columns", "summary"]
    rules = {"keep": True, "min_cell_size": 1, "max_schemas": math.inf}
    fedwad.Policy(allowed, name="now", **rules).save(policy)
    made = fedwad.Reference.from_data(path, "now", policy=fedwad.Policy.load(policy))
    sites = Carried({"now": open_client(path, policy)})
    content = run_job(Job("reference", ("now",), {"seed": 0}), sites)
    content.pop("kind")
    content.pop("agreed_schema")
    assert fedwad.Reference.from_dict(content).digest == made.digest


def frequent_and_rare(rng, n):
    """A table of many rare levels."""
    p = 1 / np.arange(1, 41) ** 1.3
    codes = {f"c{j}": rng.choice(40, n, p=p / p.sum()).astype(str) for j in range(6)}
    return pd.DataFrame({name: np.char.add("K", of) for name, of in codes.items()})


@pytest.mark.filterwarnings("ignore::fedwad.errors.DataWarning")
def test_levels_that_the_reference_lacks_by_chance_are_no_drift():
    alarms = 0
    for seed in range(10):
        rng = np.random.default_rng([seed, 5, 7])
        table = frequent_and_rare(rng, 300)
        reference = fedwad.Reference.from_data(table)
        alarms += reference.compare(frequent_and_rare(rng, 300), 0.05).drift
        for name, column in table.items():
            counts = column.value_counts()
            listed = {*reference.schema[name].levels} - {"other"}
            assert listed == {*counts.index[counts >= 10]}
    assert alarms <= 2
    other = frequent_and_rare(rng, 300)
    other.loc[:100, "c0"] = "another"
    assert reference.compare(other, 0.05).drift


def test_the_distance_from_a_reference_says_what_the_drift_says(tmp_path):
    said = set()
    for seed in range(8):
        rng = np.random.default_rng([seed, 113])
        reference = fedwad.Reference.from_data(rng.normal(size=(300, 3)))
        found = reference.compare(rng.normal(0.15, 1, (300, 3)))
        found.save(tmp_path / "drift.json")
        for one in (found, fedwad.DriftResult.load(tmp_path / "drift.json")):
            d = one.distance
            assert (d.pvalue, d.differs) == (one.pvalue, one.drift)
            assert ("no evidence" in d.sentence) == (not one.drift)
        said.add(found.pvalue <= 0.05 and not found.drift)
    assert True in said  # else nothing could have contradicted
    few = reference.compare(rng.normal(size=(20, 3)), 0.001)
    assert "cannot be told" in few.distance.sentence


def test_fewer_rows_than_a_block_are_said_to_be_too_few():
    reference = fedwad.Reference.from_data(np.random.default_rng(0).normal(size=(200, 2)))
    with fails(fedwad.InputError, "too-few-rows"):
        reference.compare(np.random.default_rng(1).normal(size=(9, 2)))
