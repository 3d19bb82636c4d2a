"""Commands for data holders: running a node, preparing a kit, reading a ledger."""

import json
import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from command_line import run
from failing import fails
from fedwad._words import format_bytes
from fedwad.errors import PolicyError
from fedwad.federation import (
    Client,
    ColumnsRequest,
    Dataset,
    FileLedger,
    Policy,
    SummaryRequest,
    TransportRequest,
    open_client,
    open_view,
)
from fedwad.tables import agree
from fedwad.transport import Measure


@pytest.fixture
def site(tmp_path):
    table = tmp_path / "paris.csv"
    table.write_text(
        "age,weight,diagnosis\n" + "".join(f"{30 + i},{60 + i % 7},flu\n" for i in range(60))
    )
    policy = tmp_path / "paris.toml"
    policy.write_text('name = "paris"\nallow = ["describe", "summary"]\n')
    return SimpleNamespace(folder=tmp_path, data=table, policy=policy)


def _kit(folder, name):
    kit = folder / name
    contents = {
        "startup/fed_client.json": {"client": {"fqsn": name}},
        "local/resources.json.default": {},
        "local/authorization.json.default": {},
        "local/log_config.json.default": {},
    }
    for place, content in contents.items():
        (kit / place).parent.mkdir(parents=True, exist_ok=True)
        (kit / place).write_text(json.dumps(content))
    return kit


@pytest.mark.parametrize(
    ("data", "label", "superlink", "sentence"),
    [
        ("none.csv", "diagnosis", "127.0.0.1:1", "There is no file at"),
        ("paris.csv", "diagnosi", "127.0.0.1:1", "has no column 'diagnosi'"),
        ("paris.csv", "diagnosis", "127.0.0.1", "give host:port"),
        ("paris.csv", "diagnosis", "127.0.0.1:1", "There is no readable key at"),
    ],
)
def test_a_flower_node_says_in_one_sentence_what_is_wrong(site, data, label, superlink, sentence):
    pytest.importorskip("flwr")
    files = ["--data", site.folder / data, "--policy", site.policy, "--label-column", label]
    done = run("node", "flower", "--superlink", superlink, "--key", site.folder / "key", *files)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("site", "sentence"),
    [
        ("paris", "check the path, or add --engine and --connect if it is a site."),
        ("sites/paris", "sites/paris; check the path."),
    ],
)
def test_a_site_without_a_deployment_is_taken_for_a_file(site, sentence):
    done = run("distance", site, "oslo", "--method", "summary", "--engine", "flower")
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_flower_node_opens_its_data_without_what_it_drops(site):
    """It gets as far as its key, which is not there."""
    pytest.importorskip("flwr")
    words = ["--data", site.data, "--policy", site.policy, "--drop", "diagnosis"]
    done = run("node", "flower", "--superlink", "127.0.0.1:1", "--key", site.folder / "key", *words)
    assert done.returncode == 2
    assert "There is no readable key at" in done.stderr
    done = run(
        "node",
        "flower",
        "--superlink",
        "127.0.0.1:1",
        "--key",
        site.folder / "key",
        *words,
        "--drop",
        "ward",
    )
    assert "has no column 'ward'; its columns are age, weight, diagnosis." in done.stderr


def test_a_kit_is_made_ready(site):
    kit = _kit(site.folder, "paris")
    files = ["--data", site.data, "--policy", site.policy]
    done = run(
        "node",
        "flare",
        kit,
        *files,
        "--label-column",
        "diagnosis",
        "--drop",
        "weight",
        "--drop",
        "weight",
    )
    assert done.returncode == 0, done.stderr
    assert f"start the node with {kit}/startup/start.sh" in done.stdout
    written = (kit / "local" / "fedwad.toml").read_text()
    assert 'label_column = "diagnosis"\ndrop = ["weight"]\n' in written


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("paris", {"data": "none.csv"}, "There is no file at"),
        ("paris", {"policy": "none.toml"}, "There is no readable policy at"),
        ("paris", {"label": "diagnosi"}, "has no column 'diagnosi'"),
        ("paris", {"ledger": "none/ledger.sqlite"}, "There is no folder"),
        ("oslo", {}, "is the policy of 'paris' and"),
    ],
)
def test_a_kit_with_which_a_node_could_not_start_is_not_made(site, name, options, sentence):
    """It once was, without a word, and the first who heard of it was the analyst: "could not open
    its data"."""
    kit = _kit(site.folder, name)
    words = ["--data", site.folder / options.get("data", "paris.csv")]
    words += ["--policy", site.folder / options.get("policy", "paris.toml")]
    words += ["--ledger", site.folder / options.get("ledger", "ledger.sqlite")]
    done = run("node", "flare", kit, *words, "--label-column", options.get("label", "diagnosis"))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not (kit / "local" / "fedwad.toml").exists()


def test_a_ledger_can_be_read_on_a_narrow_screen(tmp_path):
    """The bytes that left were once cut to "37…" on the 80 columns of a plain terminal."""
    path = tmp_path / "paris.ledger.sqlite"
    data = Dataset(Measure(np.random.default_rng(0).standard_normal((400, 3))))
    client = Client(
        data, Policy(["summary", "transport"], max_support=20, splits="noise"), FileLedger(path)
    )
    for _ in range(2):
        client.answer(SummaryRequest(10, "full", 2.0, 0))
    support = Measure(np.random.default_rng(1).standard_normal((30, 3)))
    with pytest.raises(PolicyError):
        client.answer(TransportRequest("run", support, 2.0, 0.5, "barycentric", False))
    done = run("ledger", "show", path, columns=80)
    lines = done.stdout.splitlines()
    assert max(map(len, lines[:4])) <= 80
    assert "…" not in done.stdout
    entry = client.ledger.entries[0]
    assert lines[1].split() == [
        *entry.when[:19].split("T"),
        "summary",
        "answered",
        *format_bytes(entry.bytes).split(),
        str(entry.min_cell_size),
    ]
    assert lines[2].split()[3] == "repeated"
    assert lines[4] == (
        "Refused 1 x transport: 30 points or cells were asked for; this site answers up to 20."
    )
    assert "1 answered, 1 repeated, 1 refused, 0 withheld" in done.stdout
    assert "1 query counted against the limit" in done.stdout


@pytest.fixture
def ledger(tmp_path):
    """A ledger with one reply to somebody, which was sent twice."""
    path = tmp_path / "paris.ledger.sqlite"
    data = Dataset(Measure(np.random.default_rng(0).standard_normal((400, 3))))
    client = Client(data, Policy(["summary"]), FileLedger(path))
    for _ in range(2):
        client.answer(SummaryRequest(10, "diag", 2.0, 0), "Flower run 7", "heart \x1b[31mstudy")
    return path


def test_a_receipt_says_what_left_to_whom_and_what_for(ledger):
    (first, again, *_) = run("ledger", "show", ledger, "--receipt", columns=1000).stdout.split("\n")
    for words in (
        "summary to Flower run 7 for heart",
        " values; ",
        "means, weights and spreads",
        "cells have at least",
    ):
        assert words in first
        assert words in again
    assert "as sent before" in again
    assert "\x1b" not in first
    assert "Flower run 7" in run("ledger", "show", ledger, columns=200).stdout


def test_a_receipt_says_how_few_records_a_block_has(tmp_path):
    path, points = tmp_path / "ledger.sqlite", np.random.default_rng(0).standard_normal((400, 3))
    client = Client(Dataset(Measure(points)), Policy(["summary"]), FileLedger(path))
    client.answer(SummaryRequest(10, "diag", 2.0, 0, centre=np.zeros(3), scale=np.ones(3)))
    shown = run("ledger", "show", path, "--receipt", columns=1000).stdout
    assert client.ledger.entries[-1].min_cell_size > 10
    assert "blocks at least 10" in shown


def test_a_ledger_is_exported_as_json_lines(ledger, tmp_path):
    printed = run("ledger", "export", ledger).stdout
    rows = [json.loads(line) for line in printed.splitlines()]
    assert [row["outcome"] for row in rows] == ["answered", "repeated"]
    assert all(len(row["seal"]) == 32 for row in rows)
    run("ledger", "export", ledger, "--out", tmp_path / "export.jsonl")
    assert (tmp_path / "export.jsonl").read_text() == printed


def test_a_ledger_is_verified(ledger):
    assert run("ledger", "verify", ledger).stdout == "2 entries, each as it was written.\n"
    assert json.loads(run("ledger", "verify", ledger, "--json").stdout)["intact"]
    db = sqlite3.connect(ledger)
    db.execute("UPDATE entries SET requester = '' WHERE number = 1")
    db.commit()
    db.close()
    done = run("ledger", "verify", ledger)
    assert done.returncode == 2
    assert "entry 1 is not as it was written" in done.stderr


def test_a_ledger_without_its_last_entries_is_not_verified(ledger):
    with sqlite3.connect(ledger) as db:
        db.execute("DELETE FROM entries WHERE number = 2")
    db.close()
    done = run("ledger", "verify", ledger)
    assert done.returncode == 2
    assert "was cut" in done.stderr


def test_a_node_is_revoked_and_goes_on(site):
    client = open_client(site.data, site.policy, label_column="diagnosis")
    client.answer(SummaryRequest(1, "diag", 2.0, 0))
    assert run("node", "revoke", site.policy, "--reason", "the contract ended").returncode == 0
    with fails(PolicyError, "revoked"):
        client.answer(SummaryRequest(1, "diag", 2.0, 0))
    checked = run("node", "check", site.data, site.policy, "--label-column", "diagnosis").stdout
    assert "The node answers nothing" in checked
    shown = run("ledger", "show", site.folder / "paris.ledger.sqlite").stdout
    assert "the contract ended" in shown
    assert "All answers are stopped" in shown
    assert run("node", "revoke", site.policy, "--undo").returncode == 0
    client.answer(SummaryRequest(1, "diag", 2.0, 0))


def test_what_does_not_exist_is_not_revoked(site):
    wrong = [["pariss.toml"], [site.policy, "--ledger", "pariss.ledger.sqlite"], [site.policy]]
    for words in wrong:
        done = run("node", "revoke", *words, cwd=site.folder)
        assert done.returncode == 2
        assert "nothing was stopped" in done.stderr
    assert not list(site.folder.glob("*.sqlite"))


def test_a_check_says_that_the_node_does_not_start_with_changed_data(site):
    client = open_client(site.data, site.policy, label_column="diagnosis")
    client.answer(SummaryRequest(1, "diag", 2.0, 0))
    site.data.write_text(site.data.read_text() + "99,66,flu\n")
    checked = run("node", "check", site.data, site.policy, "--label-column", "diagnosis").stdout
    assert "The node does not start" in checked
    words = "node", "check", site.data, site.policy, "--label-column", "diagnosis", "--json"
    requests = json.loads(run(*words).stdout)["requests"]
    assert {one["outcome"] for one in requests} <= {"refused", "withheld"}


def test_a_check_says_that_all_queries_are_used(site):
    client = open_client(site.data, site.policy, label_column="diagnosis")
    client.answer(SummaryRequest(1, "diag", 2.0, 0))
    site.policy.write_text(site.policy.read_text() + "max_queries = 1\n")
    words = "node", "check", site.data, site.policy, "--label-column", "diagnosis", "--json"
    requests = json.loads(run(*words).stdout)["requests"]
    assert [one["kind"] for one in requests if one["outcome"] == "answered"] == ["describe"]


def test_a_check_says_what_the_node_would_do_next(site):
    """It once listed as answered what the node withheld, because one reply had left already."""
    rules = 'allow = ["describe", "columns", "summary"]\nmax_distinct_replies = 1\n'
    site.policy.write_text(f'name = "paris"\n{rules}')
    asked = SummaryRequest(1, "diag", 2.0, 0)

    def node():
        return open_client(site.data, site.policy, label_column="diagnosis")

    def checked():
        words = "node", "check", site.data, site.policy, "--label-column", "diagnosis"
        requests = json.loads(run(*words, "--json").stdout)["requests"]
        return {one["request"]: (one["outcome"], one["reason"]) for one in requests}

    before = checked()
    assert before["columns"] == before["summary, 10 cells"] == ("answered", "")
    schema = agree({"paris": node().table.profile(10)}).edited({"age": {"scale": 7.0}}).to_toml()
    node().answer(ColumnsRequest())
    node().answer(replace(asked, schema=schema))
    ledger = site.folder / "paris.ledger.sqlite"
    entries = len(open_view(ledger).entries)
    after = checked()
    assert after["columns"] == ("repeated", "")
    with fails(PolicyError, "too-many-queries") as withheld:
        node().answer(replace(asked, cells=10, schema=schema))
    for cells in ("1 cell", "10 cells"):
        assert after[f"summary, {cells}"] == ("withheld", str(withheld.value))
    assert len(open_view(ledger).entries) == entries + 1  # only what the node itself withheld

    site.data.write_text(site.data.read_text() + "99,66,flu\n")
    words = "node", "accept-data", site.data, site.policy, "--label-column", "diagnosis"
    assert run(*words, "--yes").returncode == 0
    after = checked()
    with fails(PolicyError, "too-many-queries") as withheld:
        node().answer(ColumnsRequest())
    assert after["describe"] == ("answered", "")
    assert after["columns"] == after["summary, 10 cells"] == ("withheld", str(withheld.value))


def test_a_check_says_how_many_values_would_leave(site):
    words = "node", "check", site.data, site.policy, "--label-column", "diagnosis"
    printed = run(*words).stdout
    assert "Your data: 60 rows of 2 columns, 120 values." in printed
    tried = json.loads(run(*words, "--json").stdout)["requests"]
    client = open_client(site.data, site.policy, label_column="diagnosis")
    client.answer(SummaryRequest(10, "auto", 2.0, 0))
    entry = client.ledger.entries[-1]
    (trial,) = (one for one in tried if one["request"] == "summary, 10 cells")
    assert (trial["values"], trial["bytes"]) == (entry.values, entry.bytes)
    assert f" {entry.values:,} " in printed


def test_a_check_says_how_many_distinct_replies_are_sent(site):
    site.policy.write_text(site.policy.read_text() + "max_distinct_replies = 1\n")
    done = run("node", "check", site.data, site.policy, "--label-column", "diagnosis")
    assert (
        "Of each kind except describe and private at most 1 distinct reply will ever be sent"
        in done.stdout
    )
    site.policy.write_text(
        site.policy.read_text().replace(
            "max_distinct_replies = 1", "max_distinct_replies = {summary = 2}"
        )
    )
    done = run("node", "check", site.data, site.policy, "--label-column", "diagnosis")
    assert "Of kind 'summary' at most 2 distinct replies will ever be sent" in done.stdout


def test_a_check_says_what_it_does_not_try(site):
    site.policy.write_text(
        site.policy.read_text().replace("allow = [", 'allow = ["train", "evaluate", ')
    )
    done = run("node", "check", site.data, site.policy, "--label-column", "diagnosis")
    assert "Allowed and not tried: train, evaluate. What the weights" in " ".join(
        done.stdout.split()
    )
    done = run(
        "audit",
        site.data,
        "--policy",
        site.policy,
        "--label-column",
        "diagnosis",
        "--method",
        "summary",
    )
    assert "Warning: the policy allows train, evaluate." in " ".join(done.stdout.split())


def test_a_check_does_not_take_a_mistyped_ledger_for_an_empty_one(site):
    done = run(
        "node",
        "check",
        site.data,
        site.policy,
        "--label-column",
        "diagnosis",
        "--ledger",
        "nowhere/a.sqlite",
    )
    assert done.returncode == 2
    assert "There is no folder nowhere for the ledger a.sqlite" in done.stderr


def test_a_check_shows_the_budget_of_a_private_policy(site):
    site.policy.write_text('name = "paris"\nallow = ["describe", "private"]\nepsilon = 2.5\n')
    arguments = ["node", "check", site.data, site.policy, "--label-column", "diagnosis"]
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert "epsilon 2.5" in done.stdout
    assert "not a privacy guarantee" not in done.stdout
    assert json.loads(run(*arguments, "--json").stdout)["epsilon"] == 2.5
    site.policy.write_text('name = "paris"\nallow = ["describe", "summary"]\n')
    assert "not a privacy guarantee" in run(*arguments).stdout
