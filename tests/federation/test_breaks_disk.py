"""A disk that cannot be written, and clocks that jump: nothing is lost, nothing exceeds a limit."""

import errno
import os
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from fedwad.errors import FederationError, PolicyError
from fedwad.federation import (
    AdoptSchemaRequest,
    Client,
    Envelope,
    FileLedger,
    MomentsRequest,
    Policy,
    PrivateRequest,
    RawTable,
    SummaryRequest,
    pack,
    read,
    read_ledger,
    unpack,
)
from fedwad.federation import ledger as memory
from fedwad.federation.cache import RunCache
from fedwad.privacy import DP, mu_of
from fedwad.tables import agree, read_table

DATA = np.random.default_rng(0).standard_normal((60, 2))
PRIVATE = Policy(("private",), epsilon=3.0)
ASKED = PrivateRequest.of(DP(1.0, clip_norm=4.0))


def test_a_head_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "node.jsonl.head").mkdir()
    with pytest.raises(FederationError, match="ledger cannot be written"):
        FileLedger(tmp_path / "node.jsonl")


def test_where_a_release_cannot_be_kept_nothing_is_spent(tmp_path):
    """Whoever may ask could otherwise spend the whole budget on replies that never leave."""
    (tmp_path / "node.releases").touch()  # a file where the folder would be
    client = Client(read(DATA), PRIVATE, FileLedger(tmp_path / "node.jsonl"))
    for _ in range(3):
        said = unpack(client.respond(pack(Envelope(ASKED)))).content
        assert "nothing was spent" in said.sentence
    assert client.ledger.spent == 0.0
    (tmp_path / "node.releases").unlink()
    client.answer(ASKED)
    client.answer(ASKED)
    assert client.ledger.spent == mu_of(1.0, 1e-5)
    assert not list((tmp_path / "node.releases").glob("*.space"))


def test_room_is_made_for_the_whole_release(tmp_path, monkeypatch):
    kept = {}
    client = Client(read(DATA), PRIVATE, FileLedger(tmp_path / "node.jsonl"))
    ledger = client.ledger
    monkeypatch.setattr(ledger, "reserve", lambda key, size: kept.update({key: [size]}))
    monkeypatch.setattr(ledger, "store_release", lambda key, sent: kept[key].append(len(sent)))
    many = np.array([[float(k), 0.0] for k in range(200)])
    for cells in ("auto", 0, 30, many):
        client.answer(PrivateRequest.of(DP(0.1, clip_norm=4.0, cells=cells)))
    assert len(kept) == 4
    assert all(written <= room for room, written in kept.values())


class Clock(datetime):
    """A clock that somebody sets back by a century, forward by one, and so on."""

    turn = 0

    @classmethod
    def now(cls, tz=None):
        cls.turn += 1
        return datetime(2026 + 100 * (-1) ** cls.turn, 1, 1, tzinfo=tz or UTC)


def test_a_clock_that_jumps_changes_no_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "datetime", Clock)
    policy = Policy(("moments", "summary"), max_queries=3, max_distinct_replies=1)
    path = tmp_path / "node.jsonl"
    for _ in range(3):  # restarts
        client = Client(read(DATA), policy, FileLedger(path))
        client.answer(MomentsRequest())
        client.answer(SummaryRequest(2, "diag", 2.0, 0))
        with pytest.raises(PolicyError):
            client.answer(SummaryRequest(3, "diag", 2.0, 0))
        del client
    entries = read_ledger(path)
    assert sum(entry.is_query for entry in entries) == 3
    assert {entry.when[:4] for entry in entries} == {"1926", "2126"}
    spending = Client(read(DATA), PRIVATE, FileLedger(tmp_path / "private.jsonl"))
    spending.answer(PrivateRequest.of(DP(2.9, clip_norm=4.0)))
    with pytest.raises(PolicyError, match="budget"):
        spending.answer(ASKED)


def test_layers_of_the_run_under_way_outlive_those_from_the_future(tmp_path, monkeypatch):
    monkeypatch.setattr("fedwad.federation.cache._MAX_RUNS", 3)
    cache = RunCache(tmp_path / "layers")
    for number in range(3):
        cache.keep_layers(f"run {number}", 1, np.full(4, number, dtype=np.float32))
    for path in (tmp_path / "layers").glob("*.npz"):
        os.utime(path, (4e9, 4e9))  # written before the clock was set back
    cache.keep_layers("now", 1, np.ones(4, dtype=np.float32))
    again = RunCache(tmp_path / "layers")
    assert again.layers("now", 1) is not None
    assert len(list((tmp_path / "layers").glob("*.npz"))) == 3


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_folder_of_releases_on_a_full_disk_costs_no_budget_and_shows_no_path(
    tmp_path, monkeypatch
):
    client = Client(read(DATA), PRIVATE, FileLedger(tmp_path / "ledger.jsonl"))
    monkeypatch.setattr("fedwad._files._write_and_rename", full_disk)
    with pytest.raises(FederationError, match="No space left on device") as caught:
        client.answer(ASKED)
    assert str(tmp_path) not in str(caught.value)
    assert client.ledger.spent == 0
    with pytest.raises(FederationError, match="No space left on device"):
        client.ledger.store_release("key", b"release")


def test_a_schema_that_cannot_be_stored_shows_no_path(tmp_path, monkeypatch):
    table = RawTable(read_table(pd.DataFrame({"age": DATA[:, 0]})))
    client = Client(table, Policy.open(), FileLedger(tmp_path / "ledger.jsonl"))
    text = agree({"paris": table.profile(1)}).to_toml()
    monkeypatch.setattr("fedwad._files._write_and_rename", full_disk)
    with pytest.raises(FederationError, match="cannot write the agreed schema") as caught:
        client.answer(AdoptSchemaRequest(text))
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("size", [0, 3, 50, 200])
def test_layers_that_were_cut_short_are_no_layers(tmp_path, size):
    RunCache(tmp_path).keep_layers("run", 1, np.ones(5, dtype=np.float32))
    (path,) = tmp_path.glob("*.npz")
    path.write_bytes(path.read_bytes()[:size])
    assert RunCache(tmp_path).layers("run", 1) is None
