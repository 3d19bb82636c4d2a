"""Rows 10, 11 and 12: what one sender of messages can cost a client."""

import json
import time
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest

from fedwad.errors import FederationError, FedwadError
from fedwad.federation import (
    Bundle,
    Client,
    ColumnsRequest,
    Dataset,
    DescribeRequest,
    Envelope,
    FileLedger,
    Policy,
    SummaryRequest,
    pack,
    unpack,
)
from fedwad.site import answers
from fedwad.transport import Measure

DATA = Dataset(Measure(np.random.default_rng(0).standard_normal((300, 4))))


def test_repeats_in_a_bundle_are_worked_on_once(monkeypatch):
    """Row 11: repeats resend what was sent, or the bundle is refused; nothing is computed again and
    again.
    """
    worked = []
    original = answers.execute

    def counting(self, context):
        worked.append(1)
        return original(self, context)

    monkeypatch.setattr(answers, "execute", counting)
    client = Client(DATA, Policy(("summary",), max_distinct_replies=1))
    with suppress(FedwadError):
        client.answer_all(Bundle((SummaryRequest(10, "diag", 2.0, 0),) * 200))
    assert len(worked) <= 2, f"the data were worked on {len(worked)} times for one question"


def test_the_same_request_again_does_no_work(monkeypatch):
    """Row 11: also one message after the other."""
    client = Client(DATA, Policy(("columns",)))
    first = client.respond(pack(Envelope(ColumnsRequest(), "one")))

    def never(*_):
        raise AssertionError("worked on again")

    monkeypatch.setattr(answers, "execute", never)
    again = client.respond(pack(Envelope(ColumnsRequest(), "one")))
    assert again == first


def test_a_large_bundle_is_small_or_bounded_in_time():
    """Row 11: thousands of different questions are not a message that a client works on for an
    hour.
    """
    requests = tuple(SummaryRequest(10, "diag", 2.0, seed) for seed in range(3000))
    client = Client(DATA, Policy(("summary",)))
    with pytest.raises(FederationError):
        client.answer_all(Bundle(requests))


def of_empty_arrays(count):
    """A message whose header lists so many empty arrays."""
    plain = pack(Envelope(DescribeRequest()))
    start = 6 + 2 + 4
    head = json.loads(plain[start:])
    head["arrays"] = []
    text = json.dumps(head, separators=(",", ":"))
    text = text.replace(
        '"arrays":[]', '"arrays":[' + ",".join(['["<f8",[0]]'] * count) + "]"
    ).encode()
    return plain[:8] + len(text).to_bytes(4, "little") + text


def test_a_message_of_many_empty_arrays_is_refused_before_they_are_made():
    """Row 12: arrays are limited before they are made."""
    message = of_empty_arrays(300_000)
    tracemalloc.start()
    started = time.monotonic()
    try:
        with pytest.raises(FederationError):
            unpack(message)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        seconds = time.monotonic() - started
    assert peak < 4 * len(message) + 1e6, (
        f"{peak / len(message):.0f} bytes for each byte, {seconds:.1f} s"
    )


def test_a_message_of_many_fields_is_refused():
    """Row 12: the same by words: lists in the message itself are as long as the header allows."""
    plain = pack(Envelope(Bundle((DescribeRequest(),))))
    start = 6 + 2 + 4
    head = json.loads(plain[start:])
    one = json.dumps(head["parts"][0])
    text = json.dumps(head).replace(
        json.dumps(head["parts"]), "[" + ",".join([one] * 200_000) + "]"
    )
    data = plain[:8] + len(text).to_bytes(4, "little") + text.encode()
    tracemalloc.start()
    try:
        with pytest.raises(FederationError):
            unpack(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(data) + 1e6, f"{peak / len(data):.0f} bytes for each byte"


def test_who_a_site_is_fills_no_ledger():
    client = Client(DATA, Policy(("describe",), max_queries=0))
    for _ in range(2000):
        client.answer(DescribeRequest())
    assert len(client.ledger) < 700
    assert client.ledger.queries == 0


@pytest.mark.parametrize(
    "message", [b"garbage", b"", b"fedwad" + bytes(40), pack(Envelope(ColumnsRequest()))]
)
def test_refused_messages_do_not_fill_the_disk(tmp_path, message):
    """Row 10: what is refused is counted, not listed."""
    path = tmp_path / "ledger.sqlite"
    client = Client(DATA, Policy(("summary",)), FileLedger(path))
    for _ in range(1000):
        client.respond(message)
    assert len(client.ledger) <= 110
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size < 1_000_000, f"{size / 1000:.0f} bytes a message"
