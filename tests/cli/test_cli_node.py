"""Commands for data holders: running a node, preparing a kit, reading a ledger."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from command_line import run
from fedwad.errors import PolicyError
from fedwad.federation import Client, Dataset, FileLedger, Policy, SummaryRequest, TransportRequest
from fedwad.ot import Measure


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
        ("paris", {"ledger": "none/ledger.jsonl"}, "There is no folder"),
        ("oslo", {}, "is the policy of 'paris' and"),
    ],
)
def test_a_kit_with_which_a_node_could_not_start_is_not_made(site, name, options, sentence):
    """It once was, without a word, and the first who heard of it was the analyst: "could not open
    its data"."""
    kit = _kit(site.folder, name)
    words = ["--data", site.folder / options.get("data", "paris.csv")]
    words += ["--policy", site.folder / options.get("policy", "paris.toml")]
    words += ["--ledger", site.folder / options.get("ledger", "ledger.jsonl")]
    done = run("node", "flare", kit, *words, "--label-column", options.get("label", "diagnosis"))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not (kit / "local" / "fedwad.toml").exists()


def test_a_ledger_can_be_read_on_a_narrow_screen(tmp_path):
    """The bytes that left were once cut to "37…" on the 80 columns of a plain terminal."""
    path = tmp_path / "paris.ledger.jsonl"
    data = Dataset(Measure(np.random.default_rng(0).standard_normal((400, 3))))
    client = Client(data, Policy(["summary", "transport"], max_support=20), FileLedger(path))
    for _ in range(2):
        client.answer(SummaryRequest(10, "full", 2.0, 0))
    support = Measure(np.random.default_rng(1).standard_normal((30, 3)))
    with pytest.raises(PolicyError):
        client.answer(TransportRequest("run", support, 0.5, 2.0, "barycentric", False))
    done = run("ledger", "show", path, columns=80)
    lines = done.stdout.splitlines()
    assert max(map(len, lines[:4])) <= 80
    assert "…" not in done.stdout
    entry = client.ledger.entries[0]
    assert lines[1].split() == [
        *entry.when[:19].split("T"),
        "summary",
        "answered",
        str(entry.bytes),
        "B",
        str(entry.min_cell_size),
        entry.digest[:10],
    ]
    assert lines[2].split()[3] == "repeated"
    assert lines[4] == (
        "Refused 1 x transport: 30 points or cells were asked for; this site answers up to 20."
    )
    assert "1 answered, 1 repeated, 1 refused, 0 withheld" in done.stdout
    assert "1 query counted against the limit" in done.stdout


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
        "nowhere/a.jsonl",
    )
    assert done.returncode == 2
    assert "There is no folder nowhere for the ledger a.jsonl" in done.stderr


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
