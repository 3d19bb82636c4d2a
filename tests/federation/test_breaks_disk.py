"""A disk that cannot be written, and clocks that jump: nothing is lost, nothing exceeds a limit."""

import errno
import os
import resource
import signal
from contextlib import contextmanager
from datetime import UTC, datetime

import numpy as np
import pytest

from failing import fails
from fedwad.errors import PolicyError
from fedwad.federation import (
    Client,
    ColumnsRequest,
    Envelope,
    FileLedger,
    Policy,
    PrivateRequest,
    SummaryRequest,
    open_view,
    pack,
    read,
    unpack,
)
from fedwad.privacy import DP, mu_of
from fedwad.site import store

DATA = np.random.default_rng(0).standard_normal((60, 2))
PRIVATE = Policy(("private",), epsilon=3.0)
ASKED = PrivateRequest.of(DP(1.0, clip_norm=4.0))


@contextmanager
def full_disk(size=0):
    """No file of this process may be written beyond this size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_where_a_release_cannot_be_kept_nothing_is_spent(tmp_path):
    """Whoever may ask could otherwise spend the whole budget on replies that never leave."""
    client = Client(read(DATA), PRIVATE, FileLedger(tmp_path / "node.sqlite"))
    with full_disk():
        for _ in range(3):
            said = unpack(client.respond(pack(Envelope(ASKED)))).content
            assert "cannot be written" in said.sentence
            assert str(tmp_path) not in said.sentence
    assert client.ledger.spent == 0.0
    client.answer(ASKED)
    client.answer(ASKED)
    assert client.ledger.spent == mu_of(1.0, 1e-5)


def test_room_is_made_for_the_whole_release(tmp_path, monkeypatch):
    kept = {}
    policy = Policy(("private",), epsilon=3.0, label_names=list(range(200)))
    client = Client(read((DATA, np.arange(60))), policy, FileLedger(tmp_path / "node.sqlite"))
    ledger = client.ledger
    monkeypatch.setattr(ledger, "reserve", lambda key, size: kept.update({key: [size]}))
    monkeypatch.setattr(ledger, "store_reply", lambda key, sent, **_: kept[key].append(len(sent)))
    for labels in (None, list(range(30)), list(range(200))):
        client.answer(PrivateRequest.of(DP(0.1, clip_norm=4.0, labels=labels)))
    assert len(kept) == 3
    assert all(written <= room for room, written in kept.values())


class Clock(datetime):
    """A clock that somebody sets back by a century, forward by one, and so on."""

    turn = 0

    @classmethod
    def now(cls, tz=None):
        cls.turn += 1
        return datetime(2026 + 100 * (-1) ** cls.turn, 1, 1, tzinfo=tz or UTC)


def test_a_clock_that_jumps_changes_no_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "datetime", Clock)
    policy = Policy(("columns", "summary"), max_queries=3, max_distinct_replies=1)
    path = tmp_path / "node.sqlite"
    for _ in range(3):  # restarts
        client = Client(read(DATA), policy, FileLedger(path))
        client.answer(ColumnsRequest())
        client.answer(SummaryRequest(2, "diag", 2.0, 0))
        with pytest.raises(PolicyError):
            client.answer(SummaryRequest(3, "diag", 2.0, 0))
        del client
    entries = open_view(path).entries
    assert sum(entry.is_query for entry in entries) == 3
    assert {entry.when[:4] for entry in entries} == {"1926", "2126"}
    spending = Client(read(DATA), PRIVATE, FileLedger(tmp_path / "private.sqlite"))
    spending.answer(PrivateRequest.of(DP(2.9, clip_norm=4.0)))
    with fails(PolicyError, "budget-spent"):
        spending.answer(ASKED)


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
