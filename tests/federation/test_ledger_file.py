"""The ledger: nothing is lost, nothing is under-counted, whatever happens to its file."""

import hashlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from threading import Thread

import pytest

from fedwad.errors import FederationError, InputError
from fedwad.federation import _ledger_counts
from fedwad.federation._ledger_file import FileLedger
from fedwad.federation._ledger_lines import FIRST_SEAL, Entry, _seal, read_lines, sealed_line
from fedwad.federation.ledger import Ledger, lock_all, read_ledger


def answer(ledger, number, kind="summary", outcome="answered", **fields):
    """Record one reply as a client does."""
    with ledger.lock():
        named = {"digest": f"{number:064x}", "request": f"r{number}"} | fields
        ledger.record(kind, outcome, 100, 20, **named)


def reopened(path):
    """The ledger as another process finds it."""
    from fedwad.federation import _ledger_file

    _ledger_file._ledgers.clear()
    return FileLedger(path)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return Ledger() if request.param == "memory" else FileLedger(tmp_path / "ledger.jsonl")


def test_it_counts_what_a_policy_asks(ledger):
    answer(ledger, 1)
    answer(ledger, 1, outcome="repeated")
    answer(ledger, 2, outcome="withheld", digest="", reason="a cell is too small")
    answer(ledger, 3, kind="describe")
    answer(ledger, 4, kind="moments")
    answer(ledger, 5, outcome="refused", request="", digest="")
    assert (len(ledger), ledger.queries) == (6, 3)
    assert ledger.sent_digests("summary") == {f"{1:064x}"}
    assert ledger.sent_digests("moments") == {f"{4:064x}"}
    assert ledger.sent_digests("atoms") == set()
    assert ledger.first_entry("r1").outcome == "answered"
    assert ledger.first_entry("r2").reason == "a cell is too small"
    assert ledger.first_entry("r5") is None
    assert ledger.first_entry("") is None
    assert ledger.spent == math.inf
    assert [entry.kind for entry in ledger.entries][3] == "describe"


def test_private_releases_add_up(ledger):
    answer(ledger, 1, "private", "spent", mu=0.3)
    answer(ledger, 1, "private", "answered")
    answer(ledger, 2, "private", "spent", mu=0.4)
    assert ledger.spent == pytest.approx(0.5, rel=1e-15)
    assert (ledger.queries, ledger.private_releases) == (2, 2)
    answer(ledger, 3)
    assert ledger.spent == math.inf


def test_a_version_of_the_data_is_that_of_the_first_query_or_the_one_accepted(ledger):
    assert ledger.data_version == ""
    answer(ledger, 0, "describe", data="first")
    assert ledger.data_version == ""
    answer(ledger, 1, data="first")
    answer(ledger, 2, data="second")  # a client does not let this happen
    assert ledger.data_version == "first"
    with ledger.lock():
        ledger.accept_data("second")
    assert ledger.data_version == "second"
    assert ledger.queries == 2


def test_everything_survives_a_restart(tmp_path):
    path = tmp_path / "ledger.jsonl"
    first = FileLedger(path)
    for number in range(5):
        answer(first, number, data="d", reason="é\n\x1b[31m")
    entries = first.entries
    again = reopened(path)
    assert again is not first
    assert again.queries == 5
    assert list(again.entries) == list(entries) == read_ledger(path)
    answer(again, 9)
    answer(first, 10)  # which takes in what the other wrote
    assert first.queries == 7
    assert all(entry.outcome != "torn" for entry in read_ledger(path))
    assert all(json.loads(line)["seal"] for line in path.read_text().splitlines())


def test_no_changed_byte_goes_unseen(tmp_path):
    """Row 8: whatever one byte becomes, its line counts as a reply of every kind."""
    path = tmp_path / "ledger.jsonl"
    for number in range(3):
        answer(FileLedger(path), number)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for flip in (0x01, 0x20):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            other = tmp_path / "other.jsonl"
            (tmp_path / "other.jsonl.head").unlink(missing_ok=True)
            other.write_bytes(bytes(damaged))
            found = reopened(other)
            assert found.unreadable >= 1
            assert found.queries >= 3  # also where two lines became one
            assert len(found.sent_digests("summary")) >= 3
            assert len(found.sent_digests("moments")) >= 1
            assert found.spent == math.inf


def test_a_line_left_out_shows(tmp_path):
    path = tmp_path / "ledger.jsonl"
    for number in range(6):
        answer(FileLedger(path), number)
    lines = path.read_bytes().splitlines(keepends=True)
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"".join(lines[:2] + lines[3:]))
    assert FileLedger(other).queries == 5
    assert FileLedger(other).unreadable == 1
    assert len(FileLedger(other).sent_digests("anything")) == 1


WRONG = [
    {"kind": 5},
    {"outcome": "Answered"},
    {"outcome": "torn"},
    {"digest": None},
    {"mu": "0"},
    {"mu": True},
    {"mu": -1.0},
    {"bytes": 1.5},
    {"bytes": -1},
    {"count": 0},
    {"min_cell_size": []},
    {"when": 3},
    {"request": {}},
]


def with_seal(body):
    """The first line of a file, sealed whatever it says."""
    return body + b',"seal":"' + _seal(FIRST_SEAL.encode(), body) + b'"}'


def found(line):
    (only,) = read_lines(line + b"\n", FIRST_SEAL)
    return only.content


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_fields_of_another_type_are_unreadable_even_with_a_seal(wrong):
    """Row 8: a seal says that a line is as it was written, not that it makes sense."""
    content = {"when": "now", "kind": "summary", "outcome": "answered"} | wrong
    body = json.dumps(content, separators=(",", ":")).encode()[:-1]
    assert found(with_seal(body))["outcome"] == "torn"


def test_a_field_of_a_later_version_is_passed_over():
    body = b'{"when":"now","kind":"summary","outcome":"answered","colour":"red"'
    assert Entry.of(found(with_seal(body))) == Entry("now", "summary", "answered")


@pytest.mark.parametrize(
    "line", [b"[" * 10_000, b'{"a":' * 3000, b"9" * 10_000, b"\xff\x00", b"x" * 10**6, b"", b"{}"]
)
def test_lines_of_any_kind_open(tmp_path, line):
    """Row 15: nothing in a file keeps a node from starting; each counts."""
    assert found(with_seal(line))["outcome"] == "torn"
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(line + b"\n")
    assert FileLedger(path).queries == 1
    answer(FileLedger(path), 1)
    assert reopened(path).queries == 2


def cut(path):
    path.write_bytes(b"")


def shorten(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def rotate(path):
    path.rename(path.with_suffix(".old"))
    path.touch()


def remove(path):
    path.unlink()


def exchange(path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content + content)


def other_lines(path):
    """As long as before, and sealed, but another ledger."""
    lines, seal, size = [], FIRST_SEAL, path.stat().st_size
    while sum(map(len, lines)) < size:
        line, seal = sealed_line(Entry("now", "summary", "refused"), seal)
        lines.append(line)
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("harm", [cut, shorten, rotate, remove, exchange])
def test_a_file_that_changed_under_a_running_node_closes_the_door(tmp_path, harm):
    """Row 9."""
    path = tmp_path / "ledger.jsonl"
    running = FileLedger(path)
    for number in range(4):
        answer(running, number)
    harm(path)
    for _ in range(2):
        with pytest.raises(FederationError, match="nothing is answered") as caught:
            answer(running, 9)
        assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("harm", [cut, shorten, rotate, remove, other_lines])
def test_a_file_that_changed_between_two_runs_keeps_the_door_closed(tmp_path, harm):
    """Row 9: the head beside it says how far the ledger was."""
    path = tmp_path / "ledger.jsonl"
    for number in range(4):
        answer(FileLedger(path), number)
    harm(path)
    with pytest.raises(FederationError, match="nothing is answered"):
        reopened(path)


def test_an_older_head_is_as_good(tmp_path):
    """A crash between a line and its head, or a power cut that loses the head's last version."""
    path = tmp_path / "ledger.jsonl"
    ledger = FileLedger(path)
    answer(ledger, 0)
    older = ledger.head_path.read_bytes()
    answer(ledger, 1)
    ledger.head_path.write_bytes(older)
    assert reopened(path).queries == 2


def test_a_head_that_cannot_be_written_is_said_in_one_sentence(tmp_path):
    """Once failed. Opening the ledger raised a bare IsADirectoryError."""
    (tmp_path / "ledger.jsonl.head").mkdir()
    with pytest.raises(FederationError, match="ledger cannot be written") as caught:
        FileLedger(tmp_path / "ledger.jsonl")
    assert str(tmp_path) not in str(caught.value)


def test_without_a_head_what_is_there_counts(tmp_path):
    """A ledger that was moved alone: a torn end counts, for nobody knows how it came about."""
    path = tmp_path / "ledger.jsonl"
    ledger = FileLedger(path)
    for number in range(3):
        answer(ledger, number)
    ledger.head_path.unlink()
    path.write_bytes(path.read_bytes()[:-10])
    again = reopened(path)
    assert (again.queries, again.unreadable) == (3, 1)
    answer(again, 5)
    assert reopened(path).queries == 4


@pytest.mark.parametrize(
    "torn", [b"{", b'{"when":"2026', b'{"when":"now","kind":"private","outcome":"spent"']
)
def test_a_write_that_a_crash_cut_is_taken_back(tmp_path, torn):
    """No reply left for it: a reply leaves after its line is whole. So it costs no budget."""
    path = tmp_path / "ledger.jsonl"
    ledger = FileLedger(path)
    answer(ledger, 0, "private", "spent", mu=0.5)
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(torn)
    again = reopened(path)
    assert again.spent == 0.5
    assert path.read_bytes() == whole
    answer(again, 1, "private", "spent", mu=0.5)
    answer(ledger, 2, "private", "spent", mu=0.5)
    assert ledger.spent == pytest.approx(math.sqrt(0.75))


@contextmanager
def full_disk(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("room", [0, 1, 50, 120])
def test_a_full_disk_costs_nothing(tmp_path, room):
    """Row 10."""
    path = tmp_path / "ledger.jsonl"
    ledger = FileLedger(path)
    answer(ledger, 0, "private", "spent", mu=0.5)
    whole = path.read_bytes()
    with full_disk(len(whole) + room):
        for _ in range(3):
            with pytest.raises(FederationError, match="cannot be written"):
                answer(ledger, 1, "private", "spent", mu=0.5)
        assert path.read_bytes() == whole
    assert ledger.spent == reopened(path).spent == 0.5
    answer(ledger, 2, "private", "spent", mu=0.5)
    assert reopened(path).spent == pytest.approx(math.sqrt(0.5))


def test_a_disk_that_cannot_be_written_is_stated_at_the_start(tmp_path):
    for name in ("missing/ledger.jsonl", "."):
        with pytest.raises(InputError):
            FileLedger(tmp_path / name)
    if os.geteuid():
        tmp_path.chmod(0o500)
        with pytest.raises(FederationError, match="cannot be written"):
            FileLedger(tmp_path / "ledger.jsonl")


def test_what_counts_for_no_limit_is_counted_and_not_listed(tmp_path, monkeypatch):
    """Row 10: a flood costs a few lines, and a later line says how many there were."""
    now = [1000.0]
    monkeypatch.setattr(_ledger_counts.time, "monotonic", lambda: now[0])
    path = tmp_path / "ledger.jsonl"
    ledger = FileLedger(path)
    for _ in range(5000):
        with ledger.lock():
            ledger.record("unreadable", "refused")
    assert path.stat().st_size < 3000
    assert ledger.queries == 0
    now[0] += 120
    with ledger.lock():
        ledger.record("unreadable", "refused")
    assert sum(entry.count for entry in ledger.entries) == 5001
    for number in range(300):
        answer(ledger, number)  # what counts is always listed
    assert ledger.queries == 300


def test_a_process_has_one_object_for_a_file(tmp_path):
    """Row 13: also by another name of it."""
    path = tmp_path / "ledger.jsonl"
    one = FileLedger(path)
    (tmp_path / "link.jsonl").symlink_to(path)
    (tmp_path / "hard.jsonl").hardlink_to(path)
    assert FileLedger(path) is one
    assert FileLedger(str(path)) is one
    assert FileLedger(tmp_path / "link.jsonl") is one
    assert FileLedger(tmp_path / "hard.jsonl") is one
    assert FileLedger(tmp_path / "other.jsonl") is not one


def test_turns_of_many_ledgers_wait_for_nobody(tmp_path):
    """Row 13: two threads that name the same ledgers in opposite orders, and one ledger twice."""
    ledgers = [FileLedger(tmp_path / f"{k}.jsonl") for k in range(3)] + [Ledger()]
    done = []

    def work(order):
        for number in range(30):
            with lock_all([*order, order[0]]):
                for ledger in order:
                    ledger.record("summary", "answered", digest=str(number))
        done.append(1)

    threads = [
        Thread(target=work, args=(order,), daemon=True) for order in (ledgers, ledgers[::-1])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(done) == 2
    assert [ledger.queries for ledger in ledgers] == [60] * 4


def test_it_is_written_only_during_its_turn(tmp_path):
    with pytest.raises(FederationError, match="locked"):
        FileLedger(tmp_path / "ledger.jsonl").record("summary", "answered")


def test_reading_something_else_is_stated(tmp_path):
    (tmp_path / "other.txt").write_text("hello\nworld\n")
    with pytest.raises(InputError, match="not a ledger"):
        read_ledger(tmp_path / "other.txt")
    with pytest.raises(InputError, match="no readable ledger"):
        read_ledger(tmp_path / "none.jsonl")


@pytest.mark.slow
def test_a_hundred_thousand_lines_cost_little(tmp_path):
    """Opening costs a small multiple of parsing and hashing the lines, and a query no more than one
    with an empty ledger: nothing is read twice.
    """
    path, seal = tmp_path / "ledger.jsonl", FIRST_SEAL
    with path.open("wb") as file:
        for number in range(100_000):
            outcome = "repeated" if number % 10 else "answered"
            digest = f"{number:064x}"
            entry = Entry(
                "2026-01-01T00:00:00+00:00",
                "summary",
                outcome,
                2000,
                20,
                digest,
                "d" * 64,
                0.0,
                digest,
            )
            line, seal = sealed_line(entry, seal)
            file.write(line)
    started = time.process_time()  # the processor's time: others may use this machine too
    for line in path.read_bytes().splitlines():
        json.loads(line)
        hashlib.sha256(line).hexdigest()
    plain = time.process_time() - started
    started = time.process_time()
    ledger = FileLedger(path)
    opening = time.process_time() - started
    assert ledger.queries == 10_000
    query, fresh = _query_seconds(ledger), _query_seconds(FileLedger(tmp_path / "fresh.jsonl"))
    print(f"opening {opening:.2f} s, plain reading {plain:.2f} s, a query {1e3 * query:.2f} ms")
    assert opening < 5 * plain
    assert query < 20 * fresh


def _query_seconds(ledger: FileLedger) -> float:
    """The median processor time of a query."""
    seconds = []
    for number in range(50):
        started = time.process_time()
        with ledger.lock():
            assert ledger.queries >= number
            assert ledger.first_entry("never asked") is None
            assert len(ledger.sent_digests("summary")) >= number
            ledger.record("summary", "answered", digest=str(number), request=f"n{number}")
        seconds.append(time.process_time() - started)
    return sorted(seconds)[25]


@pytest.mark.slow
def test_processes_killed_at_random_never_count_too_little(tmp_path):
    """Two processes write and are killed again and again: what left is counted, and no line is
    unreadable.
    """
    code = (
        "import sys; from fedwad.federation._ledger_file import FileLedger\n"
        f"ledger = FileLedger({str(tmp_path / 'ledger.jsonl')!r})\n"
        "number = 0\n"
        "while True:\n"
        "    with ledger.lock():\n"
        "        ledger.record('private', 'spent', mu=0.001, reason='x' * (number % 300))\n"
        "    sys.stdout.write('x'); sys.stdout.flush(); number += 1\n"
    )
    left = 0
    for turn in range(10):
        both = [
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)
        ]
        for one in both:
            assert one.stdout is not None
            left += len(one.stdout.read(1))
        time.sleep(0.01 * (turn % 5))
        for one in both:
            one.kill()
            assert one.stdout is not None
            left += len(one.stdout.read())
            one.stdout.close()
            one.wait()
    ledger = FileLedger(tmp_path / "ledger.jsonl")
    assert ledger.unreadable == 0
    assert left <= ledger.queries <= left + 20
    assert ledger.spent == pytest.approx(0.001 * math.sqrt(ledger.queries))
