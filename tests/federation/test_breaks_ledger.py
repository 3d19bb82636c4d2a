"""Rows 8, 9, 10, 13 and 15: a ledger that is damaged, cut, rotated, full or shared never counts too
little.
"""

import gc
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from fedwad.errors import FedwadError
from fedwad.federation import (
    Client,
    Dataset,
    FileLedger,
    Policy,
    PrivateRequest,
    SummaryRequest,
)
from fedwad.privacy import DP
from fedwad.transport import Measure
from parameters import mostly_slow

DATA = Dataset(Measure(np.random.default_rng(0).standard_normal((300, 3))))
ONE = Policy(("summary",), max_distinct_replies=1)
PRIVATE = Policy(("private",), epsilon=3.0)


def asked(seed):
    return SummaryRequest(5, "diag", 2.0, seed)


def left(client, requests):
    """How many different replies left."""
    count = 0
    for request in requests:
        try:
            client.answer(request)
        except FedwadError:
            continue
        count += 1
    return count


def another(path, policy):
    """A client of another process on the same file, as far as files go: opened anew.

    Closed is as good as refusing.
    """
    try:
        return Client(DATA, policy, FileLedger(path))
    except FedwadError:
        return None


def more(path, policy, requests):
    client = another(path, policy)
    return 0 if client is None else left(client, requests)


def written(path):
    """The bytes of a ledger with one summary, which nobody has open."""
    Client(DATA, ONE, FileLedger(path)).answer(asked(0))
    gc.collect()  # the last connection moves its log into the file
    assert not path.with_name(path.name + "-wal").exists()
    return path.read_bytes()


@pytest.mark.parametrize("first", mostly_slow([0, 3, 6], 1))
def test_no_damaged_byte_lets_a_second_summary_out(first, tmp_path):
    """Row 8: bytes all over the file in turn, without the head that would show it."""
    whole = written(tmp_path / "first.sqlite")
    out = []
    for place in range(first, len(whole), 499):
        damaged = bytearray(whole)
        damaged[place] ^= 0x04
        path = tmp_path / f"{place}.sqlite"
        path.write_bytes(bytes(damaged))
        if more(path, ONE, [asked(1)]):
            out.append(place)
    assert not out, f"a second, different summary left after damage to the bytes {out}"


WRONG = {
    "kind": ["Summary", 5, "describe"],
    "outcome": ["refused", "repeated", "Answered"],
    "digest": [5, "", "0" * 64],
    "mu": ["none", True, -1.0],
    "min_cell_size": ["many", -5],
    "data": [3],
    "when": [3],
    "totals": ["{}", "", '{"queries":{}}', 5],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_no_field_of_another_type_or_value_lets_a_second_summary_out(tmp_path, name, value):
    """Row 8: an entry that was changed closes the door."""
    path = tmp_path / "ledger.sqlite"
    written(path)
    path.with_name(path.name + ".head").unlink()
    db = sqlite3.connect(path)
    db.execute(f'UPDATE entries SET "{name}" = ?', (value,))  # noqa: S608
    db.commit()
    db.close()
    assert more(path, ONE, [asked(1)]) == 0


def cut(path):
    path.write_bytes(b"")


def cut_in_half(path):
    os.truncate(path, path.stat().st_size // 2)


def rotate(path):
    path.rename(path.with_suffix(".1"))
    path.touch()


def rotate_without_a_new_one(path):
    path.rename(path.with_suffix(".1"))


def exchange(path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2] + b" " * len(content))


def without_its_log(path):
    path.with_name(path.name + "-wal").unlink()


@pytest.mark.parametrize(
    "harm",
    mostly_slow([cut_in_half, rotate, cut, rotate_without_a_new_one, exchange, without_its_log], 2),
)
def test_a_ledger_changed_under_running_nodes_closes_the_door(tmp_path, harm):
    """Row 9: two processes share a file of five queries; whatever happens to it, no sixth reply
    leaves.
    """
    path, policy = tmp_path / "ledger.sqlite", Policy(("summary",), max_queries=5)
    code = (
        "import sys; import numpy as np\n"
        "from fedwad.federation import *; from fedwad.transport import Measure\n"
        "data = Dataset(Measure(np.random.default_rng(0).standard_normal((300, 3))))\n"
        f"client = Client(data, Policy(('summary',), max_queries=5), FileLedger({str(path)!r}))\n"
        "print('ready', flush=True)\n"
        "for line in sys.stdin:\n"
        "    request = SummaryRequest(5, 'diag', 2.0, int(line))\n"
        "    try: client.answer(request); print('left', flush=True)\n"
        "    except Exception as error: print('refused', flush=True)\n"
    )
    total = 0
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"

        def ask_other(seed):
            other.stdin.write(f"{seed}\n")
            other.stdin.flush()
            return other.stdout.readline() == "left\n"

        client = Client(DATA, policy, FileLedger(path))
        total += left(client, [asked(seed) for seed in range(2)])
        total += sum(ask_other(seed) for seed in (2, 3))
        harm(path)
        for seed in range(10, 16):
            total += ask_other(seed) + left(client, [asked(20 + seed)])
        other.stdin.close()
    assert total <= 5, f"{total} replies left under a limit of 5"


@contextmanager
def full_disk(size):
    """No file of this process may grow beyond this size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def release(epsilon):
    return PrivateRequest.of(DP(epsilon, delta=1e-5, clip_norm=4.0))


@pytest.mark.parametrize("room", [0, 100, 5000, 9000])
def test_a_full_disk_costs_no_budget(tmp_path, room):
    """Row 10: a write that failed is rolled back; when there is room again, the rest of the budget
    is there.
    """
    path = tmp_path / "ledger.sqlite"
    client = Client(DATA, PRIVATE, FileLedger(path))
    client.answer(release(1.0))
    spent = client.ledger.spent
    with full_disk(room), pytest.raises(FedwadError):
        client.answer(release(0.9))
    assert client.ledger.spent == spent
    client.answer(release(0.8))  # the same process goes on
    del client
    Client(DATA, PRIVATE, FileLedger(path)).answer(release(0.7))  # and so does the next one


def test_whoever_sends_garbage_cannot_spend_the_budget(tmp_path):
    """Row 10: garbage on a full disk changes nothing."""
    path = tmp_path / "ledger.sqlite"
    client = Client(DATA, PRIVATE, FileLedger(path))
    client.answer(release(1.0))
    with full_disk(100):
        for _ in range(3):
            client.respond(b"garbage")
    client.answer(release(0.8))


@pytest.mark.slow  # starts interpreters
def test_two_clients_on_one_file_train_together(tmp_path):
    """Row 13: a process does not wait for itself."""
    pytest.importorskip("torch")
    code = (
        "import numpy as np\n"
        "import fedwad; from fedwad.federation import *; from fedwad.transport import Measure\n"
        "from fedwad import learning\n"
        "X = np.random.default_rng(0).standard_normal((40, 3))\n"
        "def client():\n"
        "    data = Dataset(Measure(X), np.arange(40) % 2)\n"
        f"    return Client(data, Policy.open(), FileLedger({str(tmp_path / 'one.sqlite')!r}))\n"
        "fed = LocalFederation({'a': client(), 'b': client()})\n"
        "learning.train(fed, rounds=1, fraction_train=1.0)\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=60, capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr[-2000:]


@pytest.mark.slow  # starts interpreters
def test_two_files_are_locked_in_one_order(tmp_path):
    """Row 13: clients of two processes that are named in opposite orders do not wait for each
    other.
    """
    pytest.importorskip("torch")
    code = (
        "import sys; import numpy as np\n"
        "from fedwad.federation import *; from fedwad.transport import Measure\n"
        "from fedwad import learning\n"
        "rng = np.random.default_rng(0)\n"
        "def client(k):\n"
        "    data = Dataset(Measure(rng.standard_normal((40, 3)) + k), np.arange(40) % 2)\n"
        f"    return Client(data, Policy.open(), FileLedger({str(tmp_path)!r} + f'/{{k}}.sqlite'))\n"
        "first, second = client(0), client(1)\n"
        "fed = {'a': first, 'b': second} if sys.argv[1] == '0' else {'a': second, 'b': first}\n"
        "for seed in range(3): \n"
        "    learning.train(LocalFederation(fed), rounds=2, fraction_train=1.0, seed=seed)\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, turn]) for turn in "01"]
    try:
        for one in both:
            assert one.wait(timeout=100) == 0
    finally:
        for one in both:
            one.kill()
            one.wait()
