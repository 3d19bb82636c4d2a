"""A client and its ledger in a file: what counts, what is refused, and what its operator decides."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from failing import fails
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    Client,
    ColumnsRequest,
    Dataset,
    FileLedger,
    Policy,
    SummaryRequest,
    open_client,
    open_view,
    pack,
)
from fedwad.messages.codec import Envelope
from fedwad.site import answers
from fedwad.transport import Measure

DATA = Dataset(Measure(np.random.default_rng(0).standard_normal((100, 3))))


def question(number):
    """One question, and then another, and another."""
    return SummaryRequest(1, "auto", 2.0, number)


def test_entries_survive_a_restart_and_count(tmp_path):
    path, policy = tmp_path / "paris.sqlite", Policy(("summary",), max_queries=3)
    for number in range(3):
        client = Client(
            DATA, policy, FileLedger(path)
        )  # a new process each time, as Flower makes one
        assert client.ledger.queries == number
        client.answer(question(number))
    with fails(PolicyError, "too-many-queries"):
        Client(DATA, policy, FileLedger(path)).answer(question(3))
    Client(DATA, policy, FileLedger(path)).answer(question(1))
    entries = open_view(path).entries
    assert [entry.outcome for entry in entries] == ["answered"] * 3 + ["refused", "repeated"]
    assert "all 3 queries" in entries[3].reason
    assert all(
        len(entry.digest) == 64 and entry.bytes > 0 and entry.min_cell_size == 100
        for entry in entries[:3]
    )
    assert len({entry.data for entry in entries}) == 1


def test_a_reply_is_sent_again_after_a_restart_without_work(tmp_path, monkeypatch):
    client = Client(DATA, Policy(("columns",)), FileLedger(tmp_path / "paris.sqlite"))
    first = client.answer(ColumnsRequest())
    del client

    def never(*_):
        raise AssertionError("worked on again")

    monkeypatch.setattr(answers, "execute", never)
    again = Client(DATA, Policy(("columns",)), FileLedger(tmp_path / "paris.sqlite"))
    assert pack(Envelope(again.answer(ColumnsRequest()))) == pack(Envelope(first))


def test_two_clients_on_one_file_never_answer_more_than_the_cap(tmp_path):
    path, policy = tmp_path / "ledger.sqlite", Policy(("summary",), max_queries=20)
    clients = [Client(DATA, policy, FileLedger(path)) for _ in range(4)]

    def ask(number):
        try:
            clients[number % 4].answer(question(number))
        except PolicyError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(60))) == 20
    assert len(open_view(path).entries) == 60


def test_a_ledger_that_cannot_be_written_means_no_answer(tmp_path):
    path = tmp_path / "ledger.sqlite"
    client = Client(DATA, Policy(("columns",)), FileLedger(path))
    path.unlink()
    path.mkdir()
    with fails(FederationError, "replaced-ledger") as caught:
        client.answer(ColumnsRequest())
    assert str(tmp_path) not in str(caught.value)


@pytest.fixture
def site(tmp_path):
    """A folder with data and a policy."""
    np.save(tmp_path / "data.npy", DATA.measure.points)
    (tmp_path / "node.toml").write_text('name = "paris"\nallow = ["columns"]\n')
    return tmp_path


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('name = "paris"\nallow = []\n', "kind-refused"),
        ('name = "paris"\nallow = ["columns"]\nmax_queries = 0\n', "too-many-queries"),
        ('name = "paris"\nallow = ["columns"]\nexpires = 2020-01-31\n', "expired"),
        ('name = "paris"\nallow = ["private"]\nepsilon = 1.0\n', "changed-policy"),
        ('name = "paris"\nallow = [', "changed-policy"),
        (None, "changed-policy"),
    ],
)
def test_a_changed_policy_file_holds_from_the_next_request_on(site, text, code):
    """Also for a reply that was sent before and would be sent again."""
    before = (site / "node.toml").read_text()
    client = open_client(site / "data.npy", site / "node.toml")
    client.answer(ColumnsRequest())
    client.answer(ColumnsRequest())
    if text is None:
        (site / "node.toml").unlink()
    else:
        (site / "node.toml").write_text(text)
    for _ in range(2):
        with fails(PolicyError, code) as caught:
            client.answer(ColumnsRequest())
        assert str(site) not in str(caught.value)
    (site / "node.toml").write_text(before)
    client.answer(ColumnsRequest())
    outcomes = [entry.outcome for entry in client.ledger.entries]
    assert outcomes == ["answered", "repeated", "refused", "refused", "repeated"]


def test_a_revocation_stops_a_node_that_runs(site):
    client = open_client(site / "data.npy", site / "node.toml")
    client.answer(ColumnsRequest())
    code = (
        "import sys; from fedwad.federation import FileLedger\n"
        "FileLedger(sys.argv[1]).revoke('the contract ended')\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(site / "node.ledger.sqlite")], check=True, timeout=60
    )
    for _ in range(2):  # repeats are refused too
        with fails(PolicyError, "revoked"):
            client.answer(ColumnsRequest())
    client.ledger.resume()
    client.answer(ColumnsRequest())


def test_a_policy_holds_through_its_last_day():
    assert Policy(expires="2027-12-31").expires == "2027-12-31"
    for wrong in ("tomorrow", 5, "2027-13-01", "2027-12-31T10:00"):
        with pytest.raises(InputError):
            Policy(expires=wrong)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    Client(DATA, Policy(("columns",), expires=today)).answer(ColumnsRequest())
    with fails(PolicyError, "expired"):
        Client(DATA, Policy(("columns",), expires="2026-01-01")).answer(ColumnsRequest())
    assert Policy(expires=today).digest() == Policy().digest()


def test_a_policy_with_an_end_is_saved_and_read(tmp_path):
    policy = Policy(("columns",), name="paris", expires="2027-12-31")
    policy.save(tmp_path / "policy.toml")
    assert Policy.load(tmp_path / "policy.toml") == policy
    Policy(("columns",), name="paris").save(tmp_path / "policy.toml")
    assert Policy.load(tmp_path / "policy.toml").expires is None


def test_a_message_is_recorded_with_who_sent_it_and_what_for(site):
    client = open_client(site / "data.npy", site / "node.toml")
    for message in (pack(Envelope(ColumnsRequest())), b"garbage"):
        client.respond(message, requester="run 7", purpose="heart study")
    for entry in client.ledger.entries:
        assert (entry.requester, entry.purpose) == ("run 7", "heart study")


@pytest.mark.slow
def test_a_node_killed_at_random_moments_never_answers_unrecorded(site):
    """Every reply that reached the outside is in the ledger, whenever the node was killed."""
    message = pack(Envelope(ColumnsRequest())).hex()
    code = (
        "import sys; from fedwad.federation import open_client\n"
        f"client = open_client({str(site / 'data.npy')!r}, {str(site / 'node.toml')!r})\n"
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
    client = open_client(site / "data.npy", site / "node.toml")
    assert replies > 0
    entries = open_view(site / "node.ledger.sqlite").entries
    assert sum(entry.outcome in ("answered", "repeated") for entry in entries) >= replies
    assert sum(entry.is_query for entry in entries) == client.ledger.queries
