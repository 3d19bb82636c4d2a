"""Messages: what goes in comes out bit for bit, and nothing else gets through."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from failing import fails
from fedwad.errors import FederationError, FedwadError, InputError, PolicyError
from fedwad.federation import (
    Bundle,
    BundleReply,
    CellsRequest,
    Client,
    ColumnsRequest,
    Dataset,
    DescribeRequest,
    DistanceRequest,
    Envelope,
    Failure,
    Policy,
    SummaryRequest,
    TransportRequest,
    error_of,
    failure_of,
    pack,
    unpack,
)
from fedwad.messages.codec import WIRE_VERSION
from fedwad.transport import Measure
from parameters import mostly_slow

RNG = np.random.default_rng(0)
X, LABELS = RNG.standard_normal((120, 3)), RNG.integers(0, 2, 120)
SUPPORT, TALL = Measure(RNG.standard_normal((4, 3))), Measure(RNG.standard_normal((4, 9)))
REQUESTS = [
    DescribeRequest(),
    ColumnsRequest(),
    ColumnsRequest(),
    SummaryRequest(5, "lowrank", 2.0, 0),
    SummaryRequest(5, "full", 2.0, 7, "full"),
    TransportRequest("run", SUPPORT, 2.0, 0.3, "barycentric", True),
    TransportRequest("run", TALL, 2.0, 0.5, "barycentric", False, class_statistics="diag"),
    TransportRequest("run", SUPPORT, 2.0, None, "barycentric", False, samples=20, draw=2**40),
    DistanceRequest("run", SUPPORT, 2.0),
    CellsRequest("run", SUPPORT, 1.5, "diag"),
    CellsRequest("other", TALL, 2.0, "spherical", class_statistics="diag"),
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
    st.floats(1e-300, 1e95),
)
def test_numbers_come_back_bit_for_bit(number, distance):
    from fedwad.federation import TransportReply

    reply = TransportReply(Measure([[number, -number]]), distance)
    assert same(unpack(pack(Envelope(reply))).content, reply)


def test_another_version_is_stated_apart():
    message = bytearray(pack(Envelope(ColumnsRequest())))
    message[6] = 9
    with fails(FederationError, "wrong-version", "9", str(WIRE_VERSION)):
        unpack(bytes(message))
    answer = unpack(client().respond(bytes(message))).content
    assert answer.error == "wrong-version"


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
    monkeypatch.setattr("fedwad.messages.codec.MAX_MESSAGE_BYTES", 50)
    with fails(FederationError, "too-large"):
        unpack(pack(Envelope(REQUESTS[5])))


def message(kind="TransportRequest", head=None, extra=b"", **changes):
    """A message about a support of four points, with changed fields or another header."""
    data = pack(Envelope(TransportRequest("run", SUPPORT, 2.0, 0.5, "barycentric", False)))
    size = int.from_bytes(data[8:12], "little")
    own = json.loads(data[12 : 12 + size])
    own["parts"][0]["type"] = kind
    own["parts"][0]["content"] |= changes
    text = json.dumps(own | (head or {})).encode()
    return data[:8] + len(text).to_bytes(4, "little") + text + data[12 + size :] + extra


def support(points=("<f8", [4, 3]), weights=("<f8", [4])):
    return {"points": points, "weights": weights}


@pytest.mark.parametrize(
    "data",
    [
        message(support=support(points=["<f8", [400000000, 3]])),
        message(support=support(weights=["<f8", [-4]])),
        message(support=support(points=["O", [4, 3]])),
        message(support=support(points=["<i8", [4, 3]])),
        message(support=support(points=["<f8", [2, 2, 3]])),
        message(support=support(points=["<f8", [1, 1, 1, 4, 3]])),
        message(support=support(points=["<f8", [4.0, 3]])),
        message(support=support(points=[])),
        message(support={"points": ["<f8", [4, 3]]}),
        message(support=3),
        message(support=json.loads("[" * 900 + "]" * 900)),
        message("Client"),
        message("Policy"),
        message("Measure"),
        message("SummaryRequest"),
        message("ColumnsRequest"),  # more bytes than it declares
        message(p="2"),
        message(p=None),
        message(t="half"),
        message(t=1.5),
        message(with_distance=1),
        message(run="x" * 65),
        message(interpolant="other"),
        message(class_statistics=["ignored"]),
        message(schema=7),
        message(head={"request_id": 3}),
        message(head={"form": "many"}),
        message(head={"parts": []}),
        message(head={"parts": {}}),
        message(head={"parts": [{"type": "DescribeRequest"}]}),
        message(head={"more": 1}),
        message()[:-1],
        message(extra=b"\0"),
    ],
)
def test_headers_that_lie_are_refused_in_one_sentence(data):
    with pytest.raises(FedwadError) as caught:
        unpack(data)
    assert "\n" not in str(caught.value)
    assert unpack(client().respond(data)).content.code in ("federation", "input")


def test_a_field_that_nobody_knows_is_dropped():
    assert same(unpack(message(more=1)).content, unpack(message()).content)


@pytest.mark.parametrize(
    "part",
    [b'["<f8",[0]]', b'{"type":"DescribeRequest","content":{}}', b"[]", b"[[],[]]"],
)
def test_a_message_of_many_parts_is_refused_before_they_are_made(part):
    import tracemalloc

    start, text = message()[:8], b'{"parts": [' + b",".join([part] * 200_000) + b"]}"
    data = start + len(text).to_bytes(4, "little") + text
    tracemalloc.start()
    with fails(FederationError, "too-large"):
        unpack(data)
    assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    tracemalloc.stop()


def test_objects_are_held_to_their_types_like_messages():
    wrong = [
        SummaryRequest("5", "diag", 2.0, 0),
        SummaryRequest(5, "diagonal", 2.0, 0),
        SummaryRequest(5, "diag", 2.0, True),
        SummaryRequest(5, "diag", 2.0, 0, calibration=1),
        SummaryRequest(5, "diag", 2.0, 0, centre=[1.0]),
        SummaryRequest(0, "diag", 2.0, 0),
        SummaryRequest(5, "diag", 2.0, -1),
        SummaryRequest(5, "diag", float("nan"), 0),
        TransportRequest("run", X, 2.0, 0.3, "barycentric", True),
    ]
    for request in wrong:
        with fails(InputError, "bad-request"):
            client().answer(request)


def test_nan_in_numbers_and_arrays_is_refused():
    with fails(FederationError, "bad-message"):
        unpack(message().replace(b'"t": 0.5', b'"t": NaN'))
    points = np.array(SUPPORT.points).tobytes()
    with fails(FederationError, "bad-message"):
        unpack(message().replace(points, np.full(12, np.nan).tobytes()))


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
    return kind in ("Failure", "Description", "DistanceReply")


@pytest.mark.parametrize("count", mostly_slow([2000, 10_000], 1))
def test_mutated_messages_crash_nothing_and_get_nothing_forbidden(count, caplog):
    rng = np.random.default_rng(2026)
    messages = [
        pack(Envelope(request, "request_id")) for request in (*REQUESTS, Bundle(tuple(REQUESTS)))
    ]
    guarded = client(STRICT)
    codes, errors = set(), set()
    for number in range(count):
        answer = unpack(guarded.respond(mutated(messages[number % len(messages)], rng))).content
        assert permitted(answer)
        codes.add(answer.code if isinstance(answer, Failure) else type(answer).__name__)
        errors.add(getattr(answer, "error", ""))
        assert not isinstance(answer, Failure) or (
            "\n" not in answer.sentence and len(answer.sentence) < 1000
        )
    assert {"federation", "input", "policy"} <= codes
    assert "wrong-version" in errors
    assert "internal" not in codes
    assert not caplog.records
    guarded.ledger.close()
    assert sum(entry.count for entry in guarded.ledger.entries) >= count


def test_an_error_keeps_its_code_on_the_way():
    error = PolicyError("No more.", "too-many-queries")
    arrived = unpack(pack(Envelope(failure_of(error)))).content
    assert error_of(arrived, "paris").code == "too-many-queries"
    assert error_of(Failure("silent", "gone."), "paris").code == "no-reply"
    for odd in ("\x1b[2J", "Two words", "x" * 300, "-"):
        assert error_of(Failure("policy", "No.", odd), "paris").code == "policy"
