"""The store: nothing is lost, nothing is under-counted, whatever happens to its file."""

import json
import math
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from failing import fails
from fedwad.errors import FederationError, FedwadError, InputError
from fedwad.site import store
from fedwad.site.store import (
    FileLedger,
    Ledger,
    describe_reply,
    open_view,
)


def answer(ledger, number, kind="summary", outcome="answered", **fields):
    """Record one reply as a client does."""
    with ledger.lock():
        named = {"digest": f"{number:064x}", "request": f"r{number}"} | fields
        ledger.record(kind, outcome, 100, 20, **named)


def reopened(path):
    """The ledger as another process finds it."""
    return FileLedger(path)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return Ledger() if request.param == "memory" else FileLedger(tmp_path / "ledger.sqlite")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


def test_it_counts_what_a_policy_asks(ledger):
    answer(ledger, 1)
    answer(ledger, 1, outcome="repeated")
    answer(ledger, 1, request="again")
    answer(ledger, 2, outcome="withheld", digest="", reason="a cell is too small")
    answer(ledger, 3, kind="describe")
    answer(ledger, 4, kind="moments")
    answer(ledger, 5, outcome="refused", request="", digest="")
    assert (len(ledger), ledger.queries) == (7, 4)
    assert ledger.totals.distinct == {"summary": 1, "describe": 1, "moments": 1}
    assert ledger.was_sent("summary", f"{1:064x}")
    assert not ledger.was_sent("moments", f"{1:064x}")
    assert ledger.totals.queries == {"summary": 3, "moments": 1}
    assert ledger.first_entry("r1").outcome == "answered"
    assert ledger.first_entry("r2").reason == "a cell is too small"
    assert ledger.first_entry("r5") is None
    assert ledger.first_entry("") is None
    assert ledger.spent == math.inf
    assert ledger.entries[4].kind == "describe"
    ledger.check_chain()


def test_private_releases_add_up(ledger):
    answer(ledger, 1, "private", "spent", mu=0.3)
    answer(ledger, 1, "private", "answered")
    answer(ledger, 2, "private", "spent", mu=0.4)
    assert ledger.spent == pytest.approx(0.5, rel=1e-15)
    assert (ledger.queries, ledger.totals.releases) == (2, 2)
    answer(ledger, 3)
    assert ledger.spent == math.inf


def test_a_version_of_the_data_is_that_of_the_first_query_or_the_one_accepted(ledger):
    assert ledger.totals.data_version == ""
    answer(ledger, 0, "describe", data="first")
    assert ledger.totals.data_version == ""
    answer(ledger, 1, data="first")
    answer(ledger, 2, data="second")  # a client does not let this happen
    assert ledger.totals.data_version == "first"
    with ledger.lock():
        ledger.record("data", "accepted", data="second")
    assert ledger.totals.data_version == "second"
    assert ledger.queries == 2


def test_replies_are_kept_and_the_oldest_forgotten(ledger):
    with ledger.lock():
        ledger.store_reply("release", bytes(99), is_release=True)
        for key, size in (("a", 4), ("b", 4), ("a", 5), ("c", 5), ("d", 11)):
            ledger.store_reply(key, bytes(size), is_release=False, most_bytes=10)
        ledger.reserve("reserved", 50)
    kept = [ledger.stored_reply(key) for key in ("a", "b", "c", "d", "release", "reserved")]
    assert kept == [bytes(5), None, bytes(5), None, bytes(99), None]


def test_layers_of_the_last_runs_are_kept(ledger):
    for number in range(5):
        with ledger.lock():
            layers = np.full(4, number, dtype=np.float32)
            ledger.keep_layers(f"run {number % 4}", number, layers, most_runs=3)
    assert ledger.layers("run 1", 1) is None
    assert ledger.layers("run 0", 0) is None
    assert ledger.layers("run 0", 4).tolist() == [4.0] * 4
    assert ledger.layers("run 2", 2).dtype == np.float32


def test_who_asked_and_what_for_is_in_the_entry(ledger):
    with ledger.lock("run 7", "heart study"):
        ledger.record("summary", "answered", values=12, content="means 4 x 3")
    answer(ledger, 1)
    first, second = ledger.entries
    assert (first.requester, first.purpose) == ("run 7", "heart study")
    assert (first.values, first.content) == (12, "means 4 x 3")
    assert (second.requester, second.purpose) == ("", "")


def test_a_text_of_any_characters_is_recorded(ledger):
    with ledger.lock("\ud800", "\x00\n"):
        ledger.record("summary", "refused", reason="\udfff" * 1000)
    (entry,) = ledger.entries
    assert (entry.requester, entry.purpose, entry.reason) == ("?", "\x00\n", "?" * 300)
    ledger.check_chain()


def test_a_revocation_lasts_until_it_is_undone(ledger):
    ledger.revoke("the contract ended")
    assert ledger.totals.revoked
    assert ledger.queries == 0
    assert ledger.entries[-1].reason == "the contract ended"
    ledger.resume()
    assert not ledger.totals.revoked


def test_everything_survives_a_restart(path):
    first = FileLedger(path)
    for number in range(5):
        answer(first, number, data="d", reason="é\n\x1b[31m\x00'")
    entries = first.entries
    again = reopened(path)
    assert again is not first
    assert again.queries == 5
    assert again.entries == entries == open_view(path).entries
    answer(again, 9)
    answer(first, 10)  # which takes in what the other wrote
    assert first.queries == 7
    open_view(path).check_chain()
    assert path.stat().st_mode & 0o077 == 0  # it holds what was sent
    assert [json.loads(row["totals"])["queries"]["summary"] for row in first.rows()][-1] == 7


def closed_copy(path, other):
    """A copy of a ledger that nobody has open, without its head."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    shutil.copy(path, other)


def test_no_changed_byte_makes_a_total_smaller(path, tmp_path):
    """Whatever one byte of the file becomes: the door is closed, or everything still counts."""
    for number in range(3):
        answer(FileLedger(path), number, mu=0.5 * (number == 2))
    other, closed = tmp_path / "other.sqlite", 0
    closed_copy(path, other)
    whole = other.read_bytes()
    rng = np.random.default_rng(0)
    for place in np.unique(np.concatenate([np.arange(100), rng.integers(0, len(whole), 400)])):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        for leftover in tmp_path.glob("other.sqlite*"):
            leftover.unlink()
        other.write_bytes(bytes(damaged))
        try:
            found = reopened(other)
            assert found.queries >= 3
            assert found.totals.distinct.get("summary", 0) >= 3
            assert found.spent == math.inf
            answer(found, 9)
            assert found.queries >= 4
        except FedwadError:
            closed += 1
    assert 0 < closed < 500


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE entries SET kind = 'describe' WHERE number = 3",
        "UPDATE entries SET totals = replace(totals, '3', '1') WHERE number = 3",
        "DELETE FROM entries WHERE number = 3",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM entries",
        "DROP TABLE entries",
    ],
)
def test_an_edited_entry_closes_the_door(path, edit):
    for number in range(3):
        answer(FileLedger(path), number)
    db = sqlite3.connect(path)
    db.execute(edit)
    db.commit()
    db.close()
    with pytest.raises(FederationError) as caught:
        reopened(path)
    assert caught.value.code in ("damaged-ledger", "replaced-ledger")


def test_an_earlier_entry_is_checked_when_it_decides_something_and_by_verify(path):
    for number in range(3):
        answer(FileLedger(path), number)
    db = sqlite3.connect(path)
    db.execute("UPDATE entries SET reason = 'other' WHERE number = 2")
    db.commit()
    db.close()
    found = reopened(path)
    assert found.queries == 3  # the totals are those of the last entry
    assert found.first_entry("r0").kind == "summary"
    with fails(FederationError, "damaged-ledger"):
        found.first_entry("r1")
    with fails(FederationError, "damaged-ledger"):
        found.check_chain()


def test_a_copy_to_be_read_finds_missing_last_entries_by_the_head(path):
    filled(path)
    open_view(path).check_chain()
    restore(path)
    path.with_name(path.name + "-wal").unlink(missing_ok=True)
    with fails(FederationError, "replaced-ledger"):
        open_view(path).check_chain()
    path.with_name(path.name + ".head").unlink()
    open_view(path).check_chain()


def cut(path):
    path.write_bytes(b"")


def restore(path):
    shutil.copy(path.with_suffix(".backup"), path)


def rotate(path):
    path.rename(path.with_suffix(".old"))
    path.touch()


def remove(path):
    path.unlink()


def exchange(path):
    shutil.copy(path.with_suffix(".backup"), path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def filled(path):
    """Two entries in a backup of the file, and four in the file, which nobody has open."""
    for number in range(2):
        answer(FileLedger(path), number)
    closed_copy(path, path.with_suffix(".backup"))
    for number in range(2, 4):
        answer(reopened(path), number)


@pytest.mark.parametrize("harm", [cut, rotate, remove, exchange])
def test_a_file_that_changed_under_a_running_node_closes_the_door(path, harm, tmp_path):
    filled(path)
    running = reopened(path)
    harm(path)
    for _ in range(2):
        with fails(FederationError, "replaced-ledger") as caught:
            answer(running, 9)
        assert str(tmp_path) not in str(caught.value)


def test_a_file_that_was_moved_and_put_back_goes_on(path):
    running = FileLedger(path)
    answer(running, 1)
    path.rename(path.with_suffix(".1"))
    with fails(FederationError, "replaced-ledger"):
        answer(running, 2)
    with fails(FederationError, "replaced-ledger"):  # and nobody starts a new one meanwhile
        reopened(path)
    assert not path.exists()
    path.with_suffix(".1").rename(path)
    answer(running, 3)
    assert reopened(path).queries == 2


@pytest.mark.parametrize("harm", [cut, restore, rotate, remove, exchange])
def test_a_file_that_changed_between_two_runs_keeps_the_door_closed(path, harm):
    """The head beside it says how far the ledger was."""
    filled(path)
    harm(path)
    with fails(FederationError, "replaced-ledger"):
        reopened(path)


def test_a_log_that_was_removed_after_a_kill_keeps_the_door_closed(path):
    code = (
        "import os, sys; from fedwad.federation import FileLedger\n"
        "ledger = FileLedger(sys.argv[1])\n"
        "with ledger.lock(): ledger.record('summary', 'answered')\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    log = path.with_name(path.name + "-wal")
    assert log.stat().st_size
    log.unlink()
    with fails(FederationError, "replaced-ledger"):
        FileLedger(path)


def test_an_older_head_is_as_good(path):
    """A crash between an entry and its head, or a power cut that loses the head's last version."""
    ledger = FileLedger(path)
    answer(ledger, 0)
    older = ledger.head_path.read_bytes()
    answer(ledger, 1)
    ledger.head_path.write_bytes(older)
    assert reopened(path).queries == 2
    for damaged in (b"", b"x", b"9 9 9"):
        ledger.head_path.write_bytes(damaged)
        assert reopened(path).queries == 2


def test_a_head_that_cannot_be_written_is_one_sentence(path, tmp_path):
    path.with_name(path.name + ".head").mkdir()
    with fails(FederationError, "cannot-write") as caught:
        FileLedger(path)
    assert str(tmp_path) not in str(caught.value)


@contextmanager
def full_disk(size):
    """No file of this process may be written beyond this size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("room", [0, 1, 50, 4000])
def test_a_full_disk_costs_nothing(path, room):
    ledger = FileLedger(path)
    answer(ledger, 0, "private", "spent", mu=0.5)
    answer(ledger, 0, "private", "answered")
    size = path.with_name(path.name + "-wal").stat().st_size
    with full_disk(0 if room == 0 else size + room):
        for _ in range(3):
            with pytest.raises(FederationError), ledger.lock():  # noqa: PT012
                ledger.store_reply("large", bytes(2 * size), is_release=True)
                ledger.record("private", "spent", mu=0.5)
        assert ledger.spent == 0.5
    assert ledger.spent == reopened(path).spent == 0.5
    assert ledger.stored_reply("large") is None
    answer(ledger, 2, "private", "spent", mu=0.5)
    assert reopened(path).spent == pytest.approx(math.sqrt(0.5))
    ledger.check_chain()


def test_a_lock_in_which_a_write_failed_ends_with_its_error(path):
    """Another reply under the same lock lost its entry too, so it must not leave."""
    ledger = FileLedger(path)
    with full_disk(0), pytest.raises(FederationError), ledger.lock():  # noqa: PT012
        ledger.record("summary", "answered", digest="a")
        with pytest.raises(FederationError):
            ledger.record("private", "spent", mu=0.5)
        with pytest.raises(FederationError):
            ledger.record("private", "withheld")
    assert len(ledger) == 0


def test_a_release_needs_no_more_room_than_was_reserved_for_it(path):
    ledger = FileLedger(path)
    log = path.with_name(path.name + "-wal")
    for number in range(5):
        with ledger.lock():
            ledger.reserve(f"release {number}", 50_000)
            with full_disk(max(path.stat().st_size, log.stat().st_size)):
                ledger.record("private", "spent", mu=0.1)
                ledger.store_reply(f"release {number}", bytes(49_000), is_release=True)
                ledger.record("private", "answered")
                ledger._commit()
                ledger._begin()
    assert ledger.stored_reply("release 4") == bytes(49_000)


def test_a_place_that_cannot_be_written_is_stated_at_the_start(tmp_path):
    with fails(InputError, "no-such-file"):
        FileLedger(tmp_path / "missing" / "ledger.sqlite")
    with fails(InputError, "is-a-folder"):
        FileLedger(tmp_path)
    if os.geteuid():
        answer(FileLedger(tmp_path / "file.sqlite"), 1)
        (tmp_path / "file.sqlite").chmod(0o400)
        with fails(FederationError, "cannot-write"):
            reopened(tmp_path / "file.sqlite")
        tmp_path.chmod(0o500)
        with fails(FederationError, "cannot-write"):
            FileLedger(tmp_path / "ledger.sqlite")


def test_a_ledger_in_a_folder_that_became_read_only_is_read_and_answers_nothing(path, tmp_path):
    if not os.geteuid():
        pytest.skip("root writes everywhere")
    answer(FileLedger(path), 1)
    closed_copy(path, path.with_suffix(".backup"))
    for leftover in (f"{path.name}-wal", f"{path.name}-shm"):
        (tmp_path / leftover).unlink(missing_ok=True)
    tmp_path.chmod(0o500)
    try:
        assert len(open_view(path).entries) == 1
        with fails(FederationError, "cannot-write"):
            reopened(path)
    finally:
        tmp_path.chmod(0o700)


def test_what_counts_for_no_limit_is_counted_and_not_listed(path, monkeypatch):
    """A flood costs a few entries, and a later entry says how many there were."""
    now = [1000.0]
    monkeypatch.setattr(store.time, "monotonic", lambda: now[0])
    ledger = FileLedger(path)
    for _ in range(3000):
        with ledger.lock():
            ledger.record("unreadable", "refused")
            ledger.record("describe", "answered")
    assert len(ledger) == 610
    assert ledger.queries == 0
    now[0] += 120
    with ledger.lock():
        ledger.record("unreadable", "refused")
        ledger.record("describe", "answered")
    assert sum(entry.count for entry in ledger.entries) == 6002
    with ledger.lock():
        for number in range(300):
            ledger.record("summary", "answered", digest=str(number))
    assert ledger.queries == 300  # what counts is always listed


def test_what_is_only_counted_is_put_down_to_who_asked_and_written_at_the_end(path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(store.time, "monotonic", lambda: now[0])
    ledger = FileLedger(path)
    asked = ["alice", *["mallory"] * 3000, "alice"]
    for requester in asked:
        with ledger.lock(requester):
            ledger.record("columns", "repeated")
    now[0] += 120
    with ledger.lock("alice"):
        ledger.record("columns", "repeated")
    assert ledger.entries[-1].requester == "alice"
    assert ledger.entries[-1].count == 2
    ledger.close()
    counts = Counter()
    for entry in open_view(path).entries:
        counts[entry.requester] += entry.count
    assert counts == {"alice": 3, "mallory": 3000}
    ledger.close()  # nothing is written twice
    assert sum(entry.count for entry in open_view(path).entries) == 3003


def test_names_that_never_come_again_fill_no_memory(ledger):
    for number in range(5000):
        with ledger.lock(f"analyst {number}"):
            ledger.record("unreadable", "refused")
    assert len(ledger._rate_limit.unlisted) <= 1001
    ledger.close()
    assert sum(entry.count for entry in ledger.entries) == 5000


def test_a_file_has_one_log_by_whatever_link_it_is_opened(path, tmp_path):
    one = FileLedger(path)
    (tmp_path / "link.sqlite").symlink_to(path)
    answer(one, 1)
    linked = FileLedger(tmp_path / "link.sqlite")
    answer(linked, 2)
    assert linked.head_path == one.head_path
    assert one.queries == linked.queries == 2
    (tmp_path / "hard.sqlite").hardlink_to(path)
    with fails(InputError, "hard-link"):  # its log would be another one
        FileLedger(tmp_path / "hard.sqlite")


def test_turns_of_several_objects_for_one_file_wait_for_nobody(path):
    done = []

    def work(ledger):
        for number in range(15):
            answer(ledger, number)
        done.append(1)

    threads = [Thread(target=work, args=(FileLedger(path),), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 4
    assert FileLedger(path).queries == 60
    FileLedger(path).check_chain()


def test_it_is_written_only_while_it_is_locked(ledger):
    with fails(FederationError, "not-locked"):
        ledger.record("summary", "answered")


def test_a_forked_process_has_a_connection_of_its_own(path):
    ledger = FileLedger(path)
    answer(ledger, 1)
    child = os.fork()
    if child == 0:
        try:
            answer(ledger, 2)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    answer(ledger, 3)
    assert ledger.queries == 3


@pytest.mark.parametrize("opened", [FileLedger, open_view])
@pytest.mark.parametrize("content", ['{"kind": "summary"}\n', "hello\nworld\n" * 100])
def test_a_file_of_another_form_is_refused_and_stays_as_it_is(tmp_path, opened, content):
    path = tmp_path / "ledger.jsonl"
    path.write_text(content)
    with fails(InputError, "wrong-format"):
        opened(path)
    assert path.read_text() == content


@pytest.mark.parametrize("opened", [FileLedger, open_view])
def test_another_database_is_refused(path, opened):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE other (x)")
    db.commit()
    db.close()
    with fails(InputError, "wrong-format"):
        opened(path)


def test_reading_nothing_is_stated_and_an_empty_file_is_an_empty_ledger(path):
    with fails(InputError, "no-such-file"):
        open_view(path)
    path.touch()
    assert open_view(path).entries == ()
    assert path.stat().st_size == 0
    answer(FileLedger(path), 1)
    assert open_view(path).queries == 1
    with fails(FederationError, "cannot-write"):
        answer(open_view(path), 1)


def test_what_left_is_in_words():
    from fedwad.federation import Client, Moments, Policy, SummaryRequest, read

    moments = Moments(40, np.zeros(3), np.ones(3))
    assert describe_reply(moments) == (7, "count 40; mean 3 values; scale 3 values")
    client = Client(read(np.random.default_rng(0).standard_normal((60, 2))), Policy(["summary"]))
    reply = client.answer(SummaryRequest(3, "diag", 2.0, 0))
    (entry,) = client.ledger.entries
    assert entry.values == describe_reply(reply)[0] > 10
    assert "blocks" not in entry.content  # no units came with the request
    assert [part.split()[0] for part in entry.content.split("; ")][:2] == ["summary", "calibration"]
    assert entry.min_cell_size >= 10


@pytest.mark.slow
def test_a_hundred_thousand_entries_cost_little(path):
    """Opening reads the last entry and counts; a query looks up by indexes."""
    ledger = FileLedger(path)
    with ledger.lock():
        for number in range(100_000):
            digest, outcome = f"{number:064x}", "withheld" if number % 10 else "answered"
            ledger.record("summary", outcome, 2000, 20, digest, "d" * 64, request=digest)
    del ledger
    started = time.process_time()  # the processor's time: others may use this machine too
    ledger = FileLedger(path)
    opening = time.process_time() - started
    assert (ledger.queries, ledger.totals.distinct["summary"]) == (100_000, 10_000)
    started = time.process_time()
    for number in range(50):
        with ledger.lock():
            assert ledger.queries >= number
            assert ledger.first_entry(f"n{number}") is None
            assert not ledger.was_sent("summary", str(number))
            ledger.record("summary", "answered", digest=str(number), request=f"n{number}")
    query = (time.process_time() - started) / 50
    print(f"opening {opening:.3f} s, a query {1e3 * query:.2f} ms")
    assert opening < 0.2
    assert query < 0.003


@pytest.mark.slow
def test_processes_killed_at_random_never_count_too_little(path):
    """Two processes write and are killed again and again: what left is counted."""
    code = (
        "import sys; from fedwad.site.store import FileLedger\n"
        f"ledger = FileLedger({str(path)!r})\n"
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
    ledger = FileLedger(Path(path))
    ledger.check_chain()
    assert left <= ledger.queries <= left + 20
    assert ledger.spent == pytest.approx(0.001 * math.sqrt(ledger.queries))
