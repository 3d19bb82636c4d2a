"""The ledger in a file: nothing is lost, nothing is under-counted."""

import json
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    Client,
    Dataset,
    FileLedger,
    MomentsRequest,
    Policy,
    SummaryRequest,
    open_client,
    pack,
    read_ledger,
)
from fedwad.federation.codec import Envelope
from fedwad.ot import Measure

DATA = Dataset(Measure(np.random.default_rng(0).standard_normal((100, 3))))


def question(number):
    """One question, and then another, and another."""
    return SummaryRequest(1, "auto", 2.0, number)


def test_entries_survive_a_restart_and_count(tmp_path):
    path, policy = tmp_path / "paris.jsonl", Policy(("summary",), max_queries=3)
    for number in range(3):
        client = Client(
            DATA, policy, FileLedger(path)
        )  # a new process each time, as Flower makes one
        assert client.ledger.queries == number
        client.answer(question(number))
    with pytest.raises(PolicyError, match="all 3 queries"):
        Client(DATA, policy, FileLedger(path)).answer(question(3))
    Client(DATA, policy, FileLedger(path)).answer(question(1))
    entries = read_ledger(path)
    assert [entry.outcome for entry in entries] == ["answered"] * 3 + ["refused", "repeated"]
    assert "all 3 queries" in entries[3].reason
    assert all(
        len(entry.digest) == 64 and entry.bytes > 0 and entry.min_cell_size == 100
        for entry in entries[:3]
    )
    assert len({entry.data for entry in entries}) == 1


def test_a_ledger_of_an_earlier_version_is_refused_in_one_sentence(tmp_path):
    """Its lines have no seals, so nobody can say whether one is missing."""
    path = tmp_path / "ledger.jsonl"
    old = {"when": "2026-01-01T00:00:00+00:00", "kind": "summary", "outcome": "answered"}
    path.write_text(json.dumps(old) + "\n")
    for opened in (FileLedger, read_ledger):
        with pytest.raises(InputError, match="earlier version"):
            opened(path)
    assert json.loads(path.read_text()) == old


def test_two_clients_on_one_file_never_answer_more_than_the_cap(tmp_path):
    path, policy = tmp_path / "ledger.jsonl", Policy(("summary",), max_queries=20)
    clients = [Client(DATA, policy, FileLedger(path)) for _ in range(4)]

    def ask(number):
        try:
            clients[number % 4].answer(question(number))
        except PolicyError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(60))) == 20
    assert len(read_ledger(path)) == 60


def test_a_ledger_that_cannot_be_written_means_no_answer(tmp_path):
    path = tmp_path / "ledger.jsonl"
    client = Client(DATA, Policy(("moments",)), FileLedger(path))
    path.unlink()
    path.mkdir()
    with pytest.raises(
        FederationError, match=r"cannot be written .* nothing was answered"
    ) as caught:
        client.answer(MomentsRequest())
    assert str(tmp_path) not in str(caught.value)


def test_a_full_disk_means_no_answer(tmp_path):
    path = tmp_path / "ledger.jsonl"
    client = Client(DATA, Policy(("moments",)), FileLedger(path))
    client.answer(MomentsRequest())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:  # no file of this process may grow any more
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, before[1]))
        with pytest.raises(FederationError, match="nothing was answered"):
            client.answer(MomentsRequest())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert read_ledger(path)[0].outcome == "answered"


@pytest.mark.parametrize("name", ["missing/ledger.jsonl", "."])
def test_a_wrong_place_is_stated_at_the_start(tmp_path, name):
    with pytest.raises(InputError):
        FileLedger(tmp_path / name)


def test_reading_something_else_is_stated(tmp_path):
    (tmp_path / "other.txt").write_text("hello\nworld\n")
    with pytest.raises(InputError, match="not a ledger"):
        read_ledger(tmp_path / "other.txt")
    with pytest.raises(InputError, match="no readable ledger"):
        read_ledger(tmp_path / "none.jsonl")


@pytest.mark.slow
def test_a_node_killed_at_random_moments_never_answers_unrecorded(tmp_path):
    """Every reply that reached the outside is in the ledger, whenever the node was killed."""
    np.save(tmp_path / "data.npy", DATA.measure.points)
    (tmp_path / "node.toml").write_text('name = "paris"\nallow = ["moments"]\n')
    message = pack(Envelope(MomentsRequest())).hex()
    code = (
        "import sys; from fedwad.federation import open_client\n"
        f"client = open_client({str(tmp_path / 'data.npy')!r}, {str(tmp_path / 'node.toml')!r})\n"
        "print('ready', flush=True)\n"
        f"while True: client.respond(bytes.fromhex({message!r})); sys.stdout.write('x\\n'); sys.stdout.flush()\n"
    )
    replies, rng = 0, np.random.default_rng(0)
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert process.stdout.readline() == "x\n"
            replies += 1
            time.sleep(float(rng.uniform(0.0, 0.1)))
            process.send_signal(signal.SIGKILL)
            replies += process.stdout.read().count("x")
    ledger = tmp_path / "node.ledger.jsonl"
    client = open_client(tmp_path / "data.npy", tmp_path / "node.toml")
    assert replies > 0
    entries = read_ledger(ledger)
    assert sum(entry.outcome in ("answered", "repeated", "torn") for entry in entries) >= replies
    assert sum(entry.is_query for entry in entries) == client.ledger.queries
