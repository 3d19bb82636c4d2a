"""Messages: what goes in comes out bit for bit, and nothing else gets through."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwad.errors import FederationError, FedwadError
from fedwad.federation import (
    Bundle,
    BundleReply,
    CellsRequest,
    Client,
    Dataset,
    DescribeRequest,
    Envelope,
    Failure,
    MomentsRequest,
    Policy,
    SummaryRequest,
    TransportRequest,
    pack,
    unpack,
)
from fedwad.federation.codec import WIRE_VERSION, VersionError
from fedwad.ot import Measure
from parameters import mostly_slow

RNG = np.random.default_rng(0)
X, LABELS = RNG.standard_normal((120, 3)), RNG.integers(0, 2, 120)
SUPPORT, TALL = Measure(RNG.standard_normal((4, 3))), Measure(RNG.standard_normal((4, 9)))
REQUESTS = [
    DescribeRequest(),
    MomentsRequest(),
    MomentsRequest("diag"),
    SummaryRequest(5, "lowrank", 2.0, 0),
    SummaryRequest(5, "full", 2.0, 7, "full"),
    TransportRequest("run", SUPPORT, 0.3, 2.0, "barycentric", True),
    TransportRequest("run", TALL, 0.5, 2.0, "barycentric", False, "diag"),
    CellsRequest("run", SUPPORT, 1.5, "diag"),
    CellsRequest("other", TALL, 2.0, "spherical", "diag"),
]


def client(policy=None):
    return Client(Dataset(Measure(X), LABELS), Policy.open() if policy is None else policy)


def same(one, two):
    if dataclasses.is_dataclass(one):
        return type(one) is type(two) and all(
            same(getattr(one, field.name), getattr(two, field.name))
            for field in dataclasses.fields(one)
        )
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    if isinstance(one, tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and one == two


def everything_that_travels():
    replies = [client().answer(request) for request in REQUESTS]
    yield from REQUESTS
    yield from replies
    yield Bundle(tuple(REQUESTS))
    yield BundleReply((*replies, Failure("policy", "No.")))
    yield Failure("silent", "é \N{SNOWMAN}")


@pytest.mark.parametrize(
    "message", list(everything_that_travels()), ids=lambda message: type(message).__name__
)
def test_every_message_comes_back_bit_for_bit(message):
    envelope = unpack(pack(Envelope(message, "request_id", "names")))
    assert (envelope.request_id, envelope.features) == ("request_id", "names")
    assert same(envelope.content, message)


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100),
    st.floats(1e-300, 1e300),
)
def test_numbers_come_back_bit_for_bit(number, distance):
    from fedwad.federation import TransportReply

    reply = TransportReply(Measure([[number, -number]]), distance)
    assert same(unpack(pack(Envelope(reply))).content, reply)


def test_another_version_is_stated_apart():
    message = bytearray(pack(Envelope(MomentsRequest())))
    message[6] = 9
    with pytest.raises(VersionError, match=f"version 9 arrived where version {WIRE_VERSION} is"):
        unpack(bytes(message))
    answer = unpack(client().respond(bytes(message))).content
    assert answer.code == "version"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"fedwad",
        b"x" * 100,
        b"fedwad\x01\x00\xff\xff\xff\xff",
        "fedwad",
        None,
        b"fedwad\x01\x00\x02\0\0\0{}",
    ],
)
def test_other_bytes_are_refused(data):
    with pytest.raises(FederationError):
        unpack(data)


def test_too_large_a_message_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr("fedwad.federation.codec.MAX_MESSAGE_BYTES", 50)
    with pytest.raises(FederationError, match="up to 50 are read"):
        unpack(pack(Envelope(REQUESTS[5])))


def header(**changes):
    message = pack(Envelope(TransportRequest("run", SUPPORT, 0.5, 2.0, "barycentric", False)))
    size = int.from_bytes(message[8:12], "little")
    head = json.loads(message[12 : 12 + size]) | changes
    text = json.dumps(head).encode()
    return message[:8] + len(text).to_bytes(4, "little") + text + message[12 + size :]


@pytest.mark.parametrize(
    "message",
    [
        header(arrays=[["<f8", [4, 3]], ["<f8", [400000000, 3]]]),
        header(arrays=[["<f8", [4, 3]], ["<f8", [-4]]]),
        header(arrays=[["O", [4, 3]], ["<f8", [4]]]),
        header(arrays=[["<f8", [4, 3]]]),
        header(arrays=[["<f8", [2, 2, 3]], ["<f8", [4]]]),
        header(message={"type": "Client"}),
        header(message={"type": "Policy"}),
        header(message={"type": "MomentsRequest", "classes": "ignored", "more": 1}),
        header(message={"type": "MomentsRequest"}),
        header(message={"array": 0}),
        header(message={"array": 10}),
        header(message=[1, 2]),
        header(message=None),
        header(request_id=3),
        header(
            message={
                "type": "TransportRequest",
                "classes": "ignored",
                "run": "r",
                "support": {"array": 0},
            }
        ),
        header()[:-1],
        header() + b"\0",
        header(message=json.loads("[" * 900 + "]" * 900)),
    ],
)
def test_headers_that_lie_are_refused_in_one_sentence(message):
    with pytest.raises(FedwadError) as caught:
        unpack(message)
    assert "\n" not in str(caught.value)
    assert unpack(client().respond(message)).content.code in ("federation", "input")


def test_a_message_of_many_parts_is_refused_before_they_are_made():
    import tracemalloc

    for part in (b'["<f8",[0]]', b'{"type":"DescribeRequest"}'):
        start, text = header(arrays=[])[:8], b'{"arrays": [' + b",".join([part] * 200_000) + b"]}"
        message = start + len(text).to_bytes(4, "little") + text
        tracemalloc.start()
        with pytest.raises(FederationError, match="parts"):
            unpack(message)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(message)
        tracemalloc.stop()


def test_nan_in_numbers_and_arrays_is_refused():
    with pytest.raises(FederationError, match="NaN"):
        unpack(header().replace(b'"t": 0.5', b'"t": NaN'))
    points = np.array(SUPPORT.points).tobytes()
    message = header().replace(points, np.full(12, np.nan).tobytes())
    with pytest.raises(FedwadError, match="NaN"):
        unpack(message)


def mutated(message, rng):
    data = bytearray(message)
    for _ in range(rng.integers(1, 6)):
        how, place = rng.integers(0, 5), int(rng.integers(0, len(data)))
        if how == 0:
            data[place] ^= 1 << int(rng.integers(0, 8))
        elif how == 1:
            data[place] = int(rng.integers(0, 256))
        elif how == 2:
            del data[place : place + int(rng.integers(1, 20))]
        elif how == 3:
            data[place:place] = rng.bytes(int(rng.integers(1, 20)))
        else:
            other = int(rng.integers(0, len(data)))
            data[place : place + 8] = data[other : other + 8]
        if not data:
            break
    return bytes(data)


STRICT = Policy(("describe", "summary", "transport", "cells"), max_queries=None, max_support=5)


def permitted(reply):
    """Whether the strict policy above lets this reply leave."""
    if isinstance(reply, BundleReply):
        return all(map(permitted, reply.replies))
    kind = type(reply).__name__
    if kind == "SummaryReply":
        return (
            type(reply.summary).__name__ == "Summary"
            and reply.summary.min_cell_size >= 10
            and len(reply.summary.weights) <= 5
        )
    if kind == "TransportReply":
        return len(reply.interpolant) <= 5
    return kind in ("Failure", "Description")


@pytest.mark.parametrize("count", mostly_slow([2000, 10_000], 1))
def test_mutated_messages_crash_nothing_and_get_nothing_forbidden(count, caplog):
    rng = np.random.default_rng(2026)
    messages = [
        pack(Envelope(request, "request_id")) for request in (*REQUESTS, Bundle(tuple(REQUESTS)))
    ]
    guarded = client(STRICT)
    codes = set()
    for number in range(count):
        answer = unpack(guarded.respond(mutated(messages[number % len(messages)], rng))).content
        assert permitted(answer)
        codes.add(answer.code if isinstance(answer, Failure) else type(answer).__name__)
        assert not isinstance(answer, Failure) or (
            "\n" not in answer.sentence and len(answer.sentence) < 1000
        )
    assert {"federation", "input", "policy", "version"} <= codes
    assert "internal" not in codes
    assert not caplog.records
    listed = sum(entry.count for entry in guarded.ledger.entries)
    assert listed + sum(guarded.ledger._rate_limit.unlisted.values()) >= count
